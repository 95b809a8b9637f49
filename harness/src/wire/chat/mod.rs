//! The Chat Completions protocol, as OpenAI wrote it down and as others speak it.
//!
//! See the vendor's reference of chat completion chunks. Hardly any server keeps to it in full,
//! so the decoder takes what has been seen: each deviation has a test that names it.

mod calls;
mod chunk;
mod decode;
mod encode;
mod extra;
mod media;
mod thought;
mod turns;
mod walked;

pub(crate) use self::turns::{needs_bridge, wants_turns};
pub use self::{
    decode::{Answer, Reading, decoder},
    encode::{CallIds, Options, ThoughtReplay, encode, encode_pieces},
    extra::Origin,
    thought::ThinkTags,
};

/// The name under which vendor data of this wire is kept.
pub(crate) const WIRE: &str = "chat";
