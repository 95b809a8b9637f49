//! The serialized schemas of one agent's tools, cached in each form for later requests.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{StrictForm, ToolSchema};

/// The form in which schemas are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaForm {
    /// The form that the vendor accepts without strict mode. This form leaves most schemas unchanged.
    Plain(StrictForm),
    /// The strict form for each tool that has one, and the plain form for other tools. The vendor enforces the strict
    /// form.
    Held(StrictForm),
    /// The plain form with only the keywords that the vendor supports, because the vendor refuses
    /// all other keywords.
    Readable(StrictForm),
}

/// A schema in the form in which it is sent.
#[derive(Debug)]
pub struct EncodedSchema {
    /// The schema as JSON.
    pub json: String,
    /// Whether the vendor enforces the schema.
    pub strict: bool,
}

/// The schemas of all tools.
type EncodedSchemas = Arc<[EncodedSchema]>;

impl SchemaForm {
    /// The schemas of these tools in this form, in order.
    pub fn of(self, tools: &[ToolSchema]) -> EncodedSchemas {
        let (Self::Plain(form) | Self::Held(form) | Self::Readable(form)) = self;
        let mut held = match self {
            Self::Held(form) => form.of_all(tools),
            Self::Plain(_) | Self::Readable(_) => Vec::new(),
        }
        .into_iter();
        let parameters = tools.iter().map(|tool| {
            if let Some(Ok(strict)) = held.next() {
                return EncodedSchema { json: strict.to_string(), strict: true };
            }
            let plain = form.portable(&tool.input_schema);
            let readable = match self {
                Self::Readable(form) => form.readable(&plain),
                Self::Plain(_) | Self::Held(_) => None,
            };
            EncodedSchema { json: readable.unwrap_or(plain).to_string(), strict: false }
        });
        parameters.collect()
    }
}

/// The schemas of one agent's tools, in each form that has been sent so far. Clones share the
/// cache.
#[derive(Clone, Default)]
pub struct SchemaCache(Arc<Mutex<Vec<(SchemaForm, EncodedSchemas)>>>);

impl SchemaCache {
    /// The schemas in this form. `tools` must be the same in every call, because the cache has only
    /// the form as its key.
    pub fn get(&self, told: SchemaForm, tools: &[ToolSchema]) -> EncodedSchemas {
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = forms.iter().find(|(of, _)| *of == told) {
            return Arc::clone(known);
        }
        let new = told.of(tools);
        forms.push((told, Arc::clone(&new)));
        new
    }
}

impl fmt::Debug for SchemaCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forms").finish_non_exhaustive()
    }
}
