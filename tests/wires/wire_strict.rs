//! Each request says whether the vendor has to hold the model to a tool's schema, and says so only
//! for a schema in the form that the vendor requires.

use harness::{
    Agent, ChatCompletionsProvider, Message, Provider, SideEffects, Tool, Transcript,
    provider::{EventStream, Request, Settings},
    testing::LoopbackServer,
    tool::{StrictForm, ToolSchema},
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

/// A tool with a parameter that may be left out.
fn list(number: usize) -> ToolSchema {
    ToolSchema {
        name: format!("list_{number}"),
        description: "Lists.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"limit": {"type": "integer", "default": 10}},
            "required": [],
            "additionalProperties": false,
        }),
    }
}

/// A tool that takes any key, which no vendor can hold a model to.
fn open_map() -> ToolSchema {
    ToolSchema {
        name: "set".to_owned(),
        description: "Sets.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"all": {"type": "object", "additionalProperties": {"type": "string"}}},
            "required": ["all"],
            "additionalProperties": false,
        }),
    }
}

/// Of each tool on each wire: whether it is strict, and its schema.
fn sent(tools: &[ToolSchema], strict_tools: Option<bool>) -> [Vec<(Value, Value)>; 3] {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("?")).expect("lawful");
    let request = Request::new(&transcript).expect("it can be sent").with_tools(tools);
    let settings = Settings { strict_tools, ..Settings::default() };
    let model = "m".to_owned();
    let body = |bytes: Result<Vec<u8>, harness::Error>| -> Vec<Value> {
        let body: Value = serde_json::from_slice(&bytes.expect("a body")).expect("JSON");
        body["tools"].as_array().expect("tools").clone()
    };
    let of = |tools: Vec<Value>, at: &str, schema: &str| {
        let part = |tool: &Value, name: &str| tool.pointer(&format!("{at}/{name}")).cloned();
        tools
            .iter()
            .map(|tool| {
                // Only Responses is strict unless the request says otherwise.
                let strict = part(tool, "strict")
                    .or((at, schema).ne(&("", "parameters")).then(|| json!(false)));
                (strict.expect("said"), part(tool, schema).expect("there"))
            })
            .collect()
    };
    let anthropic =
        anthropic::Options { settings: settings.clone(), ..anthropic::Options::new(&*model) };
    let mut chat_options = chat::Options::new(model.clone());
    chat_options.settings = settings.clone();
    let responses_options = responses::Options { settings, ..responses::Options::new(model) };
    [
        of(body(anthropic::encode(&request, &anthropic)), "", "input_schema"),
        of(body(responses::encode(&request, &responses_options)), "", "parameters"),
        of(body(chat::encode(&request, &chat_options)), "/function", "parameters"),
    ]
}

#[test]
fn unless_asked_for_no_tool_is_strict_and_its_schema_goes_as_it_is() {
    for wire in sent(&[list(1), open_map()], None) {
        assert_eq!(wire[0], (json!(false), list(1).input_schema));
        assert_eq!(wire[1], (json!(false), open_map().input_schema));
    }
}

#[test]
fn asked_for_a_tool_is_strict_if_its_schema_can_be() {
    let forms = [
        (json!([]), json!("integer")),
        (json!(["limit"]), json!(["integer", "null"])),
        (json!(["limit"]), json!(["integer", "null"])),
    ];
    for (wire, (required, kind)) in sent(&[list(1), open_map()], Some(true)).iter().zip(forms) {
        let (strict, schema) = &wire[0];
        assert_eq!(strict, true);
        assert_eq!(schema["required"], required);
        assert_eq!(schema["properties"]["limit"]["type"], kind);
        assert_eq!(schema["properties"]["limit"]["description"], "Default: 10.");
        assert_eq!(wire[1], (json!(false), open_map().input_schema));
    }
}

#[test]
fn no_more_tools_are_strict_than_the_vendor_takes() {
    let tools: Vec<ToolSchema> = (0..30).map(list).collect();
    let strict =
        |wire: &[(Value, Value)]| wire.iter().filter(|(strict, _)| *strict == true).count();
    let [anthropic, responses, chat] = sent(&tools, Some(true));
    assert_eq!((strict(&anthropic), strict(&responses), strict(&chat)), (20, 30, 30));
    assert!(anthropic.iter().take(20).all(|(strict, _)| *strict == true));
}

/// Google's endpoint refuses a request with a word that it does not know, strict or not.
#[test]
fn gemini_is_sent_what_it_takes_and_is_never_asked_to_be_strict() {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("?")).expect("lawful");
    let tools = [list(1), open_map()];
    let request = Request::new(&transcript).expect("it can be sent").with_tools(&tools);
    for strict_tools in [None, Some(true)] {
        let mut options = chat::Options::new("gemini-3-flash");
        options.strict_form = StrictForm::Gemini;
        options.settings.strict_tools = strict_tools;
        let body: Value =
            serde_json::from_slice(&chat::encode(&request, &options).expect("a body"))
                .expect("JSON");
        let function = &body["tools"][0]["function"];
        assert_eq!(function.get("strict"), None);
        let limit = json!({"type": "integer", "description": "Default: 10."});
        let expected = json!({"type": "object", "properties": {"limit": limit}, "required": []});
        assert_eq!(function["parameters"], expected);
        // What has no such form is told in short, in words that are taken.
        let short = "What this schema describes: {\"type\":\"object\",\"additionalProperties\":\
                     {\"type\":\"string\"}}.";
        let all = json!({"type": "object", "description": short});
        let expected = json!({"type": "object", "properties": {"all": all}, "required": ["all"]});
        assert_eq!(body["tools"][1]["function"]["parameters"], expected);
    }
}

/// Shows the model only the last tool in its second answer.
struct LastOnly(ChatCompletionsProvider);

impl Provider for LastOnly {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn model(&self) -> &str {
        self.0.model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let tools = request.tools();
        match request.messages().len() {
            3 => self.0.stream(request.with_tools(&tools[1..])),
            _ => self.0.stream(request),
        }
    }
}

#[tokio::test]
async fn what_is_kept_of_the_tools_is_of_the_tools_that_are_told() {
    let answers = [(); 3].map(|()| harness::testing::chat::body().text("Fine.").answer());
    let server = LoopbackServer::start(answers).await.unwrap();
    let strict = Settings { strict_tools: Some(true), ..Settings::default() };
    let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
    let provider = provider.settings(strict).build().unwrap();
    let tools = [list(1), open_map()].map(|schema| {
        let ToolSchema { name, description, input_schema } = schema;
        Tool::new(name, description, input_schema, SideEffects::of(&[]), |_, _| {
            Box::pin(async { Ok("done".into()) })
        })
    });
    let agent = Agent::builder(LastOnly(provider)).tools(tools).build().unwrap();
    let mut chat = agent.chat();
    for _ in 0..3 {
        chat.send("Go on.").await.unwrap();
    }
    let told: Vec<Value> = server.requests().iter().map(|it| it.json()["tools"].clone()).collect();
    let strict = |tools: &Value| -> Vec<Value> {
        let tools = tools.as_array().unwrap();
        tools.iter().map(|tool| json!(tool["function"]["strict"] == true)).collect()
    };
    assert_eq!(strict(&told[0]), [true, false]);
    assert_eq!(told[1], json!([told[0][1]]));
    assert_eq!(told[2], told[0]);
}
