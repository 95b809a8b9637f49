//! The peers: each as its own documentation has it used, text appended as it comes. What a
//! conversation has said so far is in the peer's own types, made ahead.

#[cfg(feature = "genai")]
pub mod genai;
pub mod llm;
pub mod openai;
pub mod rig;
mod weather;
