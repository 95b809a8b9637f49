//! The Chat Completions protocol, as OpenAI specified it and as other servers implement it.
//!
//! See the vendor's reference of chat completion chunks. Few servers follow the reference completely, so the decoder
//! accepts all known deviations. Each deviation has a test.

mod calls;
mod chunk;
mod common_event;
mod decode;
mod encode;
mod extra;
mod media;
mod thought;
mod turns;

pub(crate) use self::encode::check;
pub(crate) use self::turns::{is_alternation_required, needs_bridge};
pub use self::{
    decode::{ChatAnswer, DecodeOptions, decoder},
    encode::{CallIds, Options, ThoughtReplay, encode, encode_pieces},
    extra::Origin,
    thought::ThinkTags,
};

/// The name under which vendor data of this protocol is stored.
pub(crate) const WIRE: &str = "chat";
