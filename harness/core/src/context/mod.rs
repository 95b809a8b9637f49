//! How much of a conversation is sent: how full the model's window is, and what is cleared and
//! summarized when the window gets full.

mod clear;
mod compact;
mod files;
mod overflow;
mod vendor;
mod window;

pub use self::compact::{form, is_asked};
pub use self::window::{ContextUse, Window};
#[doc(hidden)]
pub use self::{
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
