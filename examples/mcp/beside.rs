//! A handler of the program for everything except tools: resources, prompts and completions of their arguments.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, Prompt,
        PromptArgument, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, Reference, Resource, ResourceContents, ResourceTemplate, Role,
        ServerCapabilities, ServerConfig, SubscribeRequestParams, UnsubscribeRequestParams,
    },
    service::RequestContext,
};
use serde_json::json;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";

/// The handler that the conformance suite uses.
pub(crate) struct Beside {
    /// A picture in base64.
    pub(crate) png: String,
}

fn says(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new_text(Role::User, text)
}

/// The text of a required argument.
fn argument<'r>(request: &'r GetPromptRequestParams, name: &str) -> Result<&'r str, ErrorData> {
    let given = request.arguments.as_ref().and_then(|given| given.get(name)?.as_str());
    given
        .ok_or_else(|| ErrorData::invalid_params(format!("the argument `{name}` is missing"), None))
}

/// A prompt with these arguments.
fn prompt(name: &str, description: &str, arguments: &[&str]) -> Prompt {
    let argument = |name: &&str| PromptArgument::new(*name).with_required(true);
    let arguments: Vec<_> = arguments.iter().map(argument).collect();
    Prompt::new(name, Some(description), (!arguments.is_empty()).then_some(arguments))
}

impl ServerHandler for Beside {
    fn get_info(&self) -> ServerConfig {
        let able = ServerCapabilities::builder();
        ServerConfig::new(
            able.enable_resources()
                .enable_resources_subscribe()
                .enable_prompts()
                .enable_completions()
                .build(),
        )
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let text = Resource::new(TEXT, "text").with_description("A text.");
        let binary = Resource::new(BINARY, "binary").with_description("A picture.");
        Ok(ListResourcesResult::with_all_items(vec![
            text.with_mime_type("text/plain"),
            binary.with_mime_type("image/png"),
        ]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let data = ResourceTemplate::new("test://template/{id}/data", "data");
        let data =
            data.with_description("What belongs to an id.").with_mime_type("application/json");
        Ok(ListResourceTemplatesResult::with_all_items(vec![data]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, id) {
            (TEXT, _) => {
                ResourceContents::text("This is the content of the static text resource.", uri)
                    .with_mime_type("text/plain")
            }
            (BINARY, _) => {
                ResourceContents::blob(self.png.as_str(), uri).with_mime_type("image/png")
            }
            (_, Some(id)) => {
                let data = format!("Data for ID: {id}");
                let data = json!({"id": id, "templateTest": true, "data": data});
                ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
            }
            _ => {
                let data = json!({"uri": uri});
                return Err(ErrorData::resource_not_found("there is no such resource", Some(data)));
            }
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    // The resources never change, so there are no notifications.
    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![
            prompt("test_simple_prompt", "Says a text.", &[]),
            prompt("test_prompt_with_arguments", "Says what it is given.", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", "Has a resource.", &["resourceUri"]),
            prompt("test_prompt_with_image", "Has a picture.", &[]),
        ]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let messages = match request.name.as_str() {
            "test_simple_prompt" => vec![says("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => {
                let (one, two) = (argument(&request, "arg1")?, argument(&request, "arg2")?);
                vec![says(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
            }
            "test_prompt_with_embedded_resource" => {
                let uri = argument(&request, "resourceUri")?;
                let text = "Embedded resource content for testing.";
                let resource = ResourceContents::text(text, uri).with_mime_type("text/plain");
                let resource = PromptMessage::new(Role::User, ContentBlock::resource(resource));
                vec![resource, says("Please process the embedded resource above.")]
            }
            "test_prompt_with_image" => {
                let picture = ContentBlock::image(self.png.as_str(), "image/png");
                let picture = PromptMessage::new(Role::User, picture);
                vec![picture, says("Please analyze the image above.")]
            }
            other => {
                let why = format!("there is no prompt `{other}`");
                return Err(ErrorData::invalid_params(why, None));
            }
        };
        Ok(GetPromptResult::new(messages).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let words = match (&request.r#ref, request.argument.name.as_str()) {
            (Reference::Prompt(prompt), "arg1") if prompt.name == "test_prompt_with_arguments" => {
                ["paris", "park", "party", "test"].as_slice()
            }
            _ => &[],
        };
        let given = request.argument.value.as_str();
        let begun = words.iter().filter(|word| word.starts_with(given));
        let values = begun.map(|word| (*word).to_owned()).collect();
        let values = CompletionInfo::with_all_values(values)
            .map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(CompleteResult::new(values))
    }
}
