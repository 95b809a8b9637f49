//! The schemas of one agent's tools as they are sent: serialized once for each form, and used by
//! all later requests.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{StrictForm, ToolSchema};

/// The form in which schemas are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Unchanged.
    AsIs,
    /// In the form to which the vendor holds the model, for the tools that have such a form.
    Held(StrictForm),
    /// With only the keywords that the vendor can read, because it refuses all others.
    Readable(StrictForm),
}

/// A schema in the form in which it is sent.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) json: String,
    /// Whether the vendor holds the model to it.
    pub(crate) strict: bool,
}

/// The schemas of all tools.
type All = Arc<[Parameters]>;

impl Told {
    /// The schemas of these tools in this form.
    pub(crate) fn of(self, tools: &[ToolSchema]) -> All {
        let forms: Vec<_> = match self {
            Self::AsIs => Vec::new(),
            Self::Held(form) => form.of_all(tools).into_iter().map(Result::ok).collect(),
            Self::Readable(form) => tools.iter().map(|tool| form.readable(tool)).collect(),
        };
        let is_held = matches!(self, Self::Held(_));
        let parameters = tools.iter().enumerate().map(|(at, tool)| {
            let form = forms.get(at).and_then(Option::as_ref);
            let json = form.unwrap_or(&tool.input_schema).to_string();
            Parameters { json, strict: is_held && form.is_some() }
        });
        parameters.collect()
    }
}

/// The schemas of one agent's tools, in each form in which they have been sent. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Forms(Arc<Mutex<Vec<(Told, All)>>>);

impl Forms {
    /// The schemas in this form. `tools` must always be the same.
    pub(crate) fn get(&self, told: Told, tools: &[ToolSchema]) -> All {
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = forms.iter().find(|(of, _)| *of == told) {
            return Arc::clone(known);
        }
        let new = told.of(tools);
        forms.push((told, Arc::clone(&new)));
        new
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forms").finish_non_exhaustive()
    }
}
