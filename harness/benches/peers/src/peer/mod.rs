//! The peers. Each peer is used as its documentation recommends, and the text is appended as it
//! arrives. The earlier messages of a conversation are prepared in the peer's own types.

#[cfg(feature = "genai")]
pub mod genai;
pub mod llm;
pub mod openai;
pub mod rig;
pub mod weather;
