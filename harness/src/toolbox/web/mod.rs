//! The tool `web_fetch`: one page of the public web as text.

mod address;
mod fetch;
mod html;

pub use self::fetch::WebFetch;
