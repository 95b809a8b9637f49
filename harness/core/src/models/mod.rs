//! Data about models: token prices, context window, maximum answer, thinking, and accepted files. All parts of the
//! library use this one table, so that all parts use the same values.
//!
//! Prices and windows are generated from the list [`SOURCE`], as of [`DATE`]. Data that the list
//! lacks is maintained by hand. Entries of the program have precedence over the table:
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
//! `find` always returns a [`Model`]. Unknown values are `None`, which does not mean *no*:
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
//! With this data, an agent can enforce a cost limit: see `AgentBuilder::models`.

mod abilities;
mod default;
mod find;
mod model;
mod price;
mod table;

pub(crate) use self::price::Money;
pub use self::{
    default::{ANTHROPIC, ANY, OPENAI},
    find::{ModelMaker, is_of_cloud, maker},
};
pub use self::{
    model::{CacheLife, Model, Models, SchemaAnswers, Thinking},
    price::{LongPrompt, Price},
};

/// The date of the table's prices, such as `2026-01-31`. Later price changes are not included.
pub const DATE: &str = table::DATE;

/// The list from which the prices and windows are generated, with its version.
pub const SOURCE: &str = table::SOURCE;
