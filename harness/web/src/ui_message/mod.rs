//! The UI message stream `v1` of the AI SDK (npm package `ai`, versions 6 and 7), which `useChat` and its
//! `DefaultChatTransport` speak.
//!
//! | the client | the server |
//! |---|---|
//! | `POST {api}` | reads the body by [`decode_request`]. A [message](crate::ClientInput::Message) is sent; [answers](crate::ClientInput::Answers) are recorded, and the run is resumed, by [`resume_answered`](crate::resume_answered). It answers with [`HEADERS`] and the run, encoded by [`UiMessageStream`] |
//! | a `GET` of the program's own, for `useChat({messages})` | answers with the messages of the conversation: [`UiMessageStream::messages`] |
//! | `GET {api}/{id}/stream`, after a reload | answers with the run that goes on, from its beginning, or with 204 if none does: [`UiMessageStream::with_beginning`] |
//!
//! A call that needs an approval is shown with `tool-approval-request`, and `addToolApprovalResponse` of the page answers it. A call
//! whose tool asks a question is shown with the part `data-waiting`, which has its `id`, the `question` and the `form`; the page
//! answers it with `addToolOutput({tool, toolCallId, output: {form: ID, answer: VALUE}})`, and declines it with `null` as the
//! answer. The guide has the `sendAutomaticallyWhen` that sends the answers.
//!
//! A new message of the user withdraws the calls that wait. The client cannot change an earlier message, so the new answer has a
//! part `data-withdrawn` for each such call, with its id as `call` and the `text` of its result: the page asks for this call, and for
//! those whose ids begin with `CALL/`, no more. [`UiMessageStream::messages`] shows them as `output-error`, or as `output-available` if
//! the data has the `output` of a call that was in doubt and has succeeded.
//!
//! What has no part of its own is a part `data-` with the name of the event, such as `data-retrying`, and has what
//! [`public_event`](crate::public_event) leaves of it. Most are transient: the page gets them by `onData`. The calls of an agent
//! in a call are calls of the message, with the ids of both; its words are in `data-of-agent`. `data-run-started` has what the user has
//! said, for pages that have not sent it. The metadata of a message is `outcome`, `usage`
//! (the tokens of the run's own turns), `spent` (those of the whole run, with agents in calls) and [`cost`](UiMessageStream::with_cost).
//!
//! ```
//! use futures_util::StreamExt as _;
//! use harness::{
//!     Agent,
//!     agent::Chats,
//!     journal::MemoryJournal,
//!     testing::{ScriptedProvider, reply},
//!     web::{ClientInput, ui_message::{UiMessageStream, decode_request}},
//! };
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let agent = Agent::builder(ScriptedProvider::new([reply().text_in(["Hello."])])).build()?;
//! let chats = Chats::new(&agent, &MemoryJournal::new());
//!
//! let body = r#"{"id": "chat-17", "trigger": "submit-message",
//!     "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello?"}]}]}"#;
//! let request = decode_request(body.as_bytes())?;
//! let ClientInput::Message(message) = request.input else { panic!() };
//! let mut run = chats.send(request.conversation, message).await?;
//! let (mut stream, mut bytes) = (UiMessageStream::new(), String::new());
//! while let Some(event) = run.next().await {
//!     bytes += &stream.encode(&event);
//! }
//! assert!(bytes.contains(r#"data: {"type":"text-delta","id":"text-1","delta":"Hello."}"#));
//! assert!(bytes.ends_with("data: [DONE]\n\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decode;
mod encode;
mod history;

pub use self::{
    decode::decode_request,
    encode::{HEADERS, UiMessageStream},
};
