//! How much of a conversation is sent: how full the model's window is, and what is cleared and
//! summarized when it gets full.
//!
#![doc = include_str!("../../guide/context.md")]

mod clear;
mod compact;
mod files;
mod overflow;
mod vendor;
mod window;

#[cfg(feature = "testing")]
pub(crate) use self::compact::{form, is_asked};
pub use self::window::{ContextUse, Window};
pub(crate) use self::{
    clear::{CopiedLine, LONG, clear, clear_arguments, copied_line, has_line, kept_as, tail},
    compact::{
        OpenCalls, SummaryCut, TAILS, cost_of_form, cut, fault, in_short, is_form, of_answer,
        schema, stand_in, summary_request,
    },
    files::{FileLimits, TooMuch, too_much},
    overflow::{StatedSizes, sizes},
    vendor::why,
    window::percent,
};
