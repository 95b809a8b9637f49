//! Secret values that must not be shown, and the mark that replaces them. The provider and the
//! program supply the values; `trace` additionally recognizes secrets by their format.

mod cleaner;
mod forms;
mod growing_search;
mod names;
mod search;

use std::{
    borrow::Cow,
    fmt,
    ops::Range,
    sync::{Arc, OnceLock},
};

#[doc(hidden)]
pub use self::forms::forms;
use self::search::WordSearch;
#[cfg(test)]
#[doc(hidden)]
pub use self::search::work;
pub use self::{cleaner::SecretFilter, names::SecretNames};
pub(crate) use self::{growing_search::GrowingSearch, search::united};

pub use self::names::is_secret_name;

/// The text that replaces a secret.
pub const HIDDEN: &str = "[secret]";

/// The minimum length of a value in bytes. Shorter values would match parts of ordinary words.
const LEAST: usize = 4;

/// A set of secret values. In a text, `[secret]` replaces each value.
///
/// A provider supplies its own secret values
/// ([`Provider::secrets`](crate::provider::Provider::secrets)), and a program adds more with
/// `AgentBuilder::secret`. Secrets are removed from the results and error texts of tools before a
/// model reads them, from errors of providers, and from traces. Text that a user or a model wrote
/// is not changed: the arguments of a call and the text of an answer stay as they are.
///
/// A value is found in its original form, in JSON-escaped forms and in URL-encoded forms. Values of
/// fewer than four bytes are ignored, because they would match parts of ordinary words.
///
/// ```
/// use harness::secret::Secrets;
///
/// let secrets = Secrets::default().with("sk-live-0123/4567");
/// assert_eq!(secrets.hide("Bearer sk-live-0123/4567!"), "Bearer [secret]!");
/// assert_eq!(secrets.hide("?key=sk-live-0123%2F4567"), "?key=[secret]");
/// assert_eq!(secrets.hide("nothing to hide"), "nothing to hide");
/// ```
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<KnownForms>>);

#[derive(Clone, Default)]
struct KnownForms {
    /// All spellings of all values, sorted.
    forms: Vec<Arc<str>>,
    /// The search over all spellings except those in `fresh`.
    settled: GrowingSearch,
    /// The most recently added spellings, which `settled` does not contain yet.
    fresh: Vec<Arc<str>>,
    /// The search over all spellings, built at the first search.
    searches: OnceLock<GrowingSearch>,
}

impl Secrets {
    /// An empty set, for a provider without secrets.
    pub fn none() -> &'static Self {
        static NONE: Secrets = Secrets(None);
        &NONE
    }

    /// Adds a value. White space around the value is ignored.
    #[must_use]
    pub fn with(mut self, value: impl AsRef<str>) -> Self {
        let value = value.as_ref().trim();
        if is_findable(value) {
            self.add(forms(value).map(Arc::from).collect());
        }
        self
    }

    /// Adds all values of `others`.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        match (&self.0, &others.0) {
            (_, None) => {}
            (None, Some(_)) => self = others.clone(),
            (Some(_), Some(known)) => self.add(known.forms.clone()),
        }
        self
    }

    fn add(&mut self, forms: Vec<Arc<str>>) {
        let known = Arc::make_mut(self.0.get_or_insert_default());
        if let Some(all) = known.searches.take() {
            known.settled = all;
            known.fresh.clear();
        }
        for form in forms {
            if let Err(at) = known.forms.binary_search(&form) {
                known.forms.insert(at, Arc::clone(&form));
                known.fresh.push(form);
            }
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The length of the longest spelling, in bytes.
    #[doc(hidden)]
    pub fn longest(&self) -> usize {
        let forms = self.0.iter().flat_map(|known| &known.forms);
        forms.map(|form| form.len()).max().unwrap_or_default()
    }

    /// Returns the text with `[secret]` in place of every secret.
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.find(text);
        match found.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(without(text, &found)),
        }
    }

    /// The ranges of the text that contain secrets, in order. Ranges that overlap or touch are
    /// merged.
    #[doc(hidden)]
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let Some(known) = &self.0 else { return Vec::new() };
        let searches = known.searches.get_or_init(|| {
            let mut searches = known.settled.clone();
            searches.add(known.fresh.clone());
            searches
        });
        searches.find(text)
    }
}

/// Shows only the number of spellings, because the values are secret.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.0.as_ref().map_or(0, |known| known.forms.len());
        f.debug_struct("Secrets").field("forms", &forms).finish_non_exhaustive()
    }
}

/// Whether a value is long enough to be searched for in texts.
#[doc(hidden)]
pub fn is_findable(value: &str) -> bool {
    value.trim().len() >= LEAST && !HIDDEN.contains(value.trim())
}

/// Returns the text with `[secret]` in place of these ranges. The ranges must be in order and must not touch.
#[doc(hidden)]
pub fn without(text: &str, ranges: &[Range<usize>]) -> String {
    let mut left = String::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        left.push_str(text.get(from..range.start).unwrap_or_default());
        left.push_str(HIDDEN);
        from = range.end;
    }
    left.push_str(text.get(from..).unwrap_or_default());
    left
}

/// Whether a value is distinctive enough to search for in unrelated texts. A value needs at least eight bytes. If it
/// has fewer than sixteen bytes, it also needs a character other than lower-case letters, `-`, `_` and `.`: programs
/// use words such as `ollama`, `lm-studio` or `not-needed` as keys for servers without authentication, and `postgres`
/// is a common user name.
pub fn is_telling(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.');
    value.len() >= 16 || (value.len() >= 8 && !value.bytes().all(is_plain))
}

/// The mark at the end of a cut text. The beginning of a secret directly before this mark is replaced too, because most
/// of a key is as dangerous as the whole key.
pub const CUT: &str = "…";

/// The beginning of a text from outside, at most `most` bytes, for an error message that quotes the
/// text.
pub fn beginning(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{}{CUT} ({} bytes)", text.get(..end).unwrap_or_default(), text.len()))
}
