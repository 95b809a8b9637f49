//! One run, from a message of the user to its end.

pub(crate) mod call_contexts;
pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod early_calls;
pub(crate) mod input;
pub(crate) mod kept_places;
pub(crate) mod model_request;
pub(crate) mod options;
pub(crate) mod prefix;
pub(crate) mod progress;
pub(crate) mod provider_stream;
pub(crate) mod reply;
pub(crate) mod request_state;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
pub(crate) mod run;
pub(crate) mod run_loop;
pub(crate) mod sent_prefix;
pub(crate) mod steering;
pub(crate) mod step;
pub(crate) mod stop_signals;
pub(crate) mod tool_calls;
pub(crate) mod tool_search;
pub(crate) mod wake_flag;
pub(crate) mod writing;
