//! AG-UI 1.0 (npm packages `@ag-ui/core` and `@ag-ui/client`), which `HttpAgent` speaks.
//!
//! The client sends a `RunAgentInput` by POST. Read it by [`decode_request`]: a
//! [message](crate::ClientInput::Message) is sent; [answers](crate::ClientInput::Answers) are recorded, and the run is resumed,
//! by [`resume_answered`](crate::resume_answered). Answer with [`HEADERS`] and the run, encoded by [`AgUiStream`].
//!
//! A client that has no message to send, for example after a reload, gets the conversation so far and the run by
//! [`AgUiStream::with_history`].
//!
//! A client that aborts its run closes the connection, and the run goes on: let the page ask for
//! [`Chats::stop`](harness_agent::Chats::stop). The run then ends with the outcome `cancelled`, for each client that reads it.
//!
//! A run that waits ends with the outcome `interrupt`. An interrupt with the reason `tool_call` asks for a decision, and is resolved
//! with `{"approved": true}` or `{"approved": false, "reason": ".."}`; `cancelled` is a denial, too. One with the reason
//! `input_required` is the question of a call's tool, and is resolved with the answer; `cancelled`, or `null` as the answer,
//! declines it. The `metadata` of both has the `tool` and
//! the `arguments` of the call. If the user says something new instead, the next run begins with the `TOOL_CALL_RESULT` of the call.
//!
//! What has no event of its own is a `CUSTOM` event with the name of the event, such as `retrying`, and has what
//! [`public_event`](crate::public_event) leaves of it. AG-UI cannot take words back: if an answer breaks off and starts again,
//! `CUSTOM` with the name `discarded` names the `messages` and `calls` that are void.

mod decode;
mod encode;
mod history;

pub use self::{
    decode::decode_request,
    encode::{AgUiStream, HEADERS},
};
