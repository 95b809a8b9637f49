//! The length limits of a text or a list, and the pattern of a text: `#[param(length(1..=64))]` and
//! `#[param(pattern = "^[a-z]+$")]`.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};

/// A type for which `#[param(length(..))]` is allowed: a text, a list, or an `Option` of a text or
/// a list.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no length",
    label = "only texts and lists have a length",
    note = "`#[param(length(..))]` is for strings, paths and lists, and for `Option` of one; on a field of a type of your own write `#[schemars(length(min = 1, max = 64))]`"
)]
pub trait Lengthy {
    /// The unit in which the length is counted.
    const UNIT: Unit;
}

/// A type for which `#[param(pattern = ..)]` is allowed: a text, or an `Option` of a text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no pattern",
    label = "only texts have a pattern",
    note = "`#[param(pattern = ..)]` is for strings and paths, and for `Option` of one; on a field of a type of your own write `#[schemars(regex(pattern = \"^[a-z]+$\"))]`"
)]
pub trait Textual {}

/// The unit in which a length is counted.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// The characters of a text.
    Characters,
    /// The items of a list.
    Items,
}

macro_rules! texts {
    ($($ty:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Lengthy for $ty {
            const UNIT: Unit = Unit::Characters;
        }

        #[diagnostic::do_not_recommend]
        impl Textual for $ty {}
    )*};
}
texts!(String, Box<str>, Arc<str>, Cow<'_, str>, PathBuf, Box<Path>, Arc<Path>, Cow<'_, Path>);

macro_rules! lists {
    ($($ty:ty, <$($other:ident),*>;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T, $($other),*> Lengthy for $ty {
            const UNIT: Unit = Unit::Items;
        }
    )*};
}
lists! {
    Vec<T>, <>;
    Box<[T]>, <>;
    Arc<[T]>, <>;
    VecDeque<T>, <>;
    HashSet<T, S>, <S>;
    BTreeSet<T>, <>;
}

#[diagnostic::do_not_recommend]
impl<T: Lengthy> Lengthy for Option<T> {
    const UNIT: Unit = T::UNIT;
}

#[diagnostic::do_not_recommend]
impl<T: Textual> Textual for Option<T> {}

/// The minimum and the maximum length.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    unit: Unit,
    least: Option<usize>,
    most: Option<usize>,
}

impl Length {
    /// The limits of a `T`'s length. `None` means that there is no minimum or no maximum.
    pub const fn of<T: Lengthy>(
        least: Option<usize>,
        most: Option<usize>,
        inclusive: bool,
    ) -> Self {
        // `..10` equals `..=9`. The macro has already refused the empty `..0`.
        let most = match most {
            Some(most) if !inclusive => Some(most.saturating_sub(1)),
            _ => most,
        };
        Self { unit: T::UNIT, least, most }
    }

    /// Adds the limits to a schema.
    pub(super) fn describe(&self, schema: &mut Map<String, Value>) {
        let [least, most] = match self.unit {
            Unit::Characters => ["minLength", "maxLength"],
            Unit::Items => ["minItems", "maxItems"],
        };
        if let Some(length) = self.least.filter(|length| *length > 0) {
            schema.insert(least.to_owned(), length.into());
        }
        if let Some(length) = self.most {
            schema.insert(most.to_owned(), length.into());
        }
    }
}

/// Returns the pattern. The macro calls this function so that the compiler checks that `T` is a
/// text.
pub const fn pattern<T: Textual>(pattern: &'static str) -> &'static str {
    pattern
}
