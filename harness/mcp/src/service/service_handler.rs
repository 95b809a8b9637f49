//! Handles the protocol's requests for a service.
#![expect(deprecated, reason = "clients of older versions of the protocol still ask for these")]

use std::{borrow::Cow, sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        CancelledNotificationParam, CompleteRequestParams, CompleteResult, ContentBlock,
        CustomNotification, CustomRequest, CustomResult, GetPromptRequestParams, GetPromptResponse,
        GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
        ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ReadResourceRequestParams,
        ReadResourceResponse, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use tokio::sync::Semaphore;

use super::{calls::is_new, tool_questions::StateSeal};
use harness_core::tool::{SharedValues, ToolRegistry};

/// The handler of a service that only has tools. A program adds another handler with
/// [`beside`](super::McpService::beside).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NoHandler;

impl ServerHandler for NoHandler {
    fn get_info(&self) -> ServerConfig {
        let this = rmcp::model::Implementation::new("harness", env!("CARGO_PKG_VERSION"));
        ServerConfig::default().with_server_info(this)
    }
}

/// A started service. All sessions share it.
pub(super) struct ServiceHandler<H>(pub(super) Arc<ServiceState<H>>);

impl<H> Clone for ServiceHandler<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The state that all sessions share.
pub(super) struct ServiceState<H> {
    pub(super) registry: ToolRegistry,
    /// The tools in the registry's order, in the form in which clients get them.
    pub(super) tools: Vec<Tool>,
    pub(super) values: SharedValues,
    /// Limits the number of concurrent calls.
    pub(super) calls: Semaphore,
    pub(super) at_once: usize,
    /// The maximum size of a result, in bytes.
    pub(super) result: usize,
    /// How long a person may take to answer a question in a session.
    pub(super) asking: Duration,
    /// How long a call continues while its client is disconnected.
    pub(super) resuming: Duration,
    pub(super) seal: StateSeal,
    pub(super) info: ServerConfig,
    pub(super) beside: H,
}

impl<H: ServerHandler> ServiceState<H> {
    /// Whether the handler of the program has tools of its own.
    fn has_others(&self) -> bool {
        self.beside.get_info().capabilities.tools.is_some()
    }
}

impl<H> ServiceState<H> {
    /// The answer to a request with wrong parameters. The SDK parses such a request as a request with an unknown
    /// method.
    ///
    /// If the arguments of a tool are wrong, the answer is a result and no error, because the model reads only results
    /// (<https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling>).
    fn misread(
        &self,
        request: &CustomRequest,
        is_new: bool,
    ) -> Option<Result<CustomResult, ErrorData>> {
        let able = &self.info.capabilities;
        let is_served = match request.method.as_str() {
            "tools/call" => true,
            "prompts/get" => able.prompts.is_some(),
            "resources/read" => able.resources.is_some(),
            "completion/complete" => able.completions.is_some(),
            _ => false,
        };
        if !is_served {
            return None;
        }
        let params = request.params.as_ref();
        let tool = params.and_then(|params| self.registry.get(params.get("name")?.as_str()?));
        let arguments = params.and_then(|params| params.get("arguments"));
        if let (Some(tool), Some(arguments)) = (tool, arguments)
            && !arguments.is_object()
            && request.method == "tools/call"
        {
            return Some(no_arguments(tool, is_new));
        }
        let why = format!("nothing was run: the parameters of `{}` are not valid", request.method);
        Some(Err(ErrorData::invalid_params(why, None)))
    }
}

/// The answer to a call whose arguments are no object.
fn no_arguments(tool: &harness_core::tool::Tool, is_new: bool) -> Result<CustomResult, ErrorData> {
    let mut why = "the call did not run: `arguments` must be an object".to_owned();
    for fault in tool.check(&serde_json::Map::new()).err().unwrap_or_default() {
        why.push('\n');
        why.push_str(&fault);
    }
    let mut answer = serde_json::to_value(CallToolResult::error(vec![ContentBlock::text(why)]))
        .map_err(|err| ErrorData::internal_error(err.to_string(), None))?;
    // Older versions of the protocol do not have `resultType`.
    if let Some(answer) = answer.as_object_mut().filter(|_| !is_new) {
        answer.remove("resultType");
    }
    Ok(CustomResult::new(answer))
}

/// Passes these requests to the program's handler.
macro_rules! others {
    ($($method:ident($request:ty) -> $answer:ty;)*) => {$(
        async fn $method(
            &self,
            request: $request,
            context: RequestContext<RoleServer>,
        ) -> Result<$answer, ErrorData> {
            self.0.beside.$method(request, context).await
        }
    )*};
}

/// Passes these notifications to the program's handler.
macro_rules! other_notifications {
    ($($method:ident($notification:ty);)*) => {$(
        async fn $method(
            &self,
            notification: $notification,
            context: NotificationContext<RoleServer>,
        ) {
            self.0.beside.$method(notification, context).await;
        }
    )*};
}

impl<H: ServerHandler> ServerHandler for ServiceHandler<H> {
    fn get_info(&self) -> ServerConfig {
        self.0.info.clone()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let is_first = request.as_ref().is_none_or(|request| request.cursor.is_none());
        if !self.0.has_others() {
            return match is_first {
                true => Ok(ListToolsResult::with_all_items(self.0.tools.clone())),
                false => Err(ErrorData::invalid_params("there is no such page", None)),
            };
        }
        let mut listed = self.0.beside.list_tools(request, context).await?;
        listed.tools.retain(|tool| self.0.registry.get(&tool.name).is_none());
        if is_first {
            listed.tools.splice(..0, self.0.tools.iter().cloned());
        }
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let own = self.0.tools.iter().find(|tool| tool.name == name);
        own.cloned().or_else(|| self.0.beside.get_tool(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.0.registry.get(&request.name).is_some() {
            return self.0.call(request, context).await;
        }
        if self.0.has_others() {
            return self.0.beside.call_tool(request, context).await;
        }
        Err(ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        match self.0.misread(&request, is_new(&context)) {
            Some(answer) => answer,
            None => self.0.beside.on_custom_request(request, context).await,
        }
    }

    others! {
        complete(CompleteRequestParams) -> CompleteResult;
        set_level(SetLevelRequestParams) -> ();
        get_prompt(GetPromptRequestParams) -> GetPromptResponse;
        list_prompts(Option<PaginatedRequestParams>) -> ListPromptsResult;
        list_resources(Option<PaginatedRequestParams>) -> ListResourcesResult;
        list_resource_templates(Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        read_resource(ReadResourceRequestParams) -> ReadResourceResponse;
        subscribe(SubscribeRequestParams) -> ();
        unsubscribe(UnsubscribeRequestParams) -> ();
        get_task(GetTaskParams) -> GetTaskResult;
        update_task(UpdateTaskParams) -> ();
        cancel_task(CancelTaskParams) -> ();
        list_skills(Option<PaginatedRequestParams>) -> ListSkillsResult;
        get_skill(GetSkillRequestParams) -> GetSkillResult;
        read_resource_directory(ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult;
    }

    other_notifications! {
        on_cancelled(CancelledNotificationParam);
        on_progress(ProgressNotificationParam);
        on_custom_notification(CustomNotification);
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.0.beside.on_initialized(context).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.0.beside.on_roots_list_changed(context).await;
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.beside.supported_protocol_versions()
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.0.beside.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.0.beside.listen(context).await
    }
}
