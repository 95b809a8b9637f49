//! What is known of models: what their tokens cost, how much they read and say, how they think and
//! what they take. One table, so that the parts of the library that need it cannot disagree.
//!
//! Prices and windows are made from a list that its authors keep up to date: [`SOURCE`], as of
//! [`DATE`]; what the list lacks is kept by hand beside it. A program puts its own entries before
//! those of the table:
//!
//! ```
//! use harness::models::{Models, Price};
//!
//! let models = Models::default()
//!     .with("my-model", Price::new(0.5, 2.0))
//!     .with("local-*", Price::new(0.0, 0.0));
//! let known = models.find("ollama", "my-model-2026-01-31");
//! assert_eq!(known.price, Some(Price::new(0.5, 2.0)));
//!
//! let listed = models.find("anthropic", "claude-sonnet-5");
//! assert!(listed.price.is_some() && listed.window == Some(1_000_000));
//! assert_eq!(models.find("ollama", "nobody-knows").price, None);
//! ```
//!
//! `find` always returns a [`Model`]. What nobody knows of it is `None`, which is not the same as *no*:
//!
//! ```
//! use harness::models::{Models, Thinking};
//!
//! let model = Models::default().find("anthropic", "claude-sonnet-5");
//! assert_eq!(model.images, Some(true), "it takes pictures");
//! assert_eq!(model.thinking, Some(Thinking::Effort));
//!
//! let unknown = Models::default().find("ollama", "nobody-knows");
//! assert_eq!(unknown.images, None, "it may take pictures or not");
//! assert!(!unknown.images.unwrap_or(false), "so a program assumes that it does not");
//! ```
//!
//! An agent that knows them can hold limits of money: see
//! [`AgentBuilder::models`](crate::agent::AgentBuilder::models).

mod abilities;
mod default;
mod find;
mod model;
mod price;
mod table;

pub(crate) use self::{
    default::{ANTHROPIC, ANY, OPENAI},
    price::Money,
};
pub use self::{
    model::{CacheLife, Model, Models, SchemaAnswers, Thinking},
    price::{LongPrompt, Price},
};

/// The day of the table's prices, such as `2026-01-31`. What a vendor changed later is not in it.
pub const DATE: &str = table::DATE;

/// The list that the prices and windows are made from, with its version.
pub const SOURCE: &str = table::SOURCE;
