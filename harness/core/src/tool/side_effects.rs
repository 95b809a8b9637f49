//! The side effects that a tool declares. From these side effects, the library decides whether a call needs an
//! approval, and whether a call may be repeated.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares the side effects in one place, so that [`SideEffect::ALL`] is always complete.
macro_rules! side_effects {
    ($($(#[doc = $about:literal])* $effect:ident = $word:literal,)*) => {
        /// One kind of effect that a tool may have on the world.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SideEffect {
            $($(#[doc = $about])* $effect,)*
        }

        impl SideEffect {
            /// Every side effect, in the order of the declaration.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$effect),*];

            /// The name of the effect in `side_effects = ".."`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$effect => $word,)*
                }
            }
        }
    };
}

side_effects! {
    /// The tool reads something outside of itself: a file, a clock, a database.
    Read = "read",
    /// The tool changes something in a way that can be undone: a file, a row.
    Write = "write",
    /// The tool communicates with another machine.
    Network = "network",
    /// The tool does something that cannot be undone: it pays, sends, deletes, or runs any command.
    Mutate = "mutate",
}

impl SideEffect {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The set of all side effects that a tool declares. Empty for a tool without side effects. Can be used in `const`
/// context.
///
/// ```
/// use harness::{SideEffect, SideEffects};
///
/// const LOOKS_UP: SideEffects = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
/// const _: () = assert!(LOOKS_UP.is_read_only());
/// assert!(!SideEffects::of(&[SideEffect::Network]).is_read_only());
/// assert_eq!(LOOKS_UP.to_string(), "read, network");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct SideEffects(u8);

impl SideEffects {
    /// No side effect: the result depends on the arguments alone.
    pub const NONE: Self = Self(0);

    /// Creates the set of these side effects.
    pub const fn of(effects: &[SideEffect]) -> Self {
        let mut bits = 0;
        let mut rest = effects;
        while let [first, tail @ ..] = rest {
            bits |= first.bit();
            rest = tail;
        }
        Self(bits)
    }

    /// All side effects: the assumption about an unknown tool.
    pub const ALL: Self = Self::of(&SideEffect::ALL);

    /// Whether the set contains this side effect.
    pub const fn has(self, effect: SideEffect) -> bool {
        self.0 & effect.bit() != 0
    }

    /// Whether the set contains only side effects of `effects`. List the harmless side effects in `effects`, so that a
    /// side effect of a later version counts as harmful.
    #[doc(hidden)]
    pub const fn is_within(self, effects: &[SideEffect]) -> bool {
        self.0 & !Self::of(effects).0 == 0
    }

    /// Whether the set contains all side effects of `others`.
    pub const fn has_all(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether a call changes nothing, here or elsewhere: the tool declares nothing, `read`, or `read` and `network`.
    /// `network` alone is not read-only, because a request may change something on the other machine.
    pub const fn is_read_only(self) -> bool {
        let reads_over_network =
            self.is_within(&[SideEffect::Read, SideEffect::Network]) && self.has(SideEffect::Read);
        self.is_within(&[SideEffect::Read]) || reads_over_network
    }

    /// Whether a call may be repeated without an approval. This holds for calls that only read on this machine, and for
    /// idempotent calls whose effects can be undone.
    #[doc(hidden)]
    pub const fn may_repeat(self, idempotent: bool) -> bool {
        let can_be_taken_back =
            self.is_within(&[SideEffect::Read, SideEffect::Write, SideEffect::Network]);
        self.is_within(&[SideEffect::Read]) || (idempotent && can_be_taken_back)
    }

    /// Whether these side effects alone require no approval by a person.
    pub(crate) const fn needs_nobody(self) -> bool {
        self.is_read_only() || self.is_within(&[SideEffect::Read, SideEffect::Write])
    }

    /// The side effects of the set, in the order of [`SideEffect::ALL`].
    pub fn iter(self) -> impl Iterator<Item = SideEffect> {
        SideEffect::ALL.into_iter().filter(move |effect| self.has(*effect))
    }
}

impl fmt::Display for SideEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(SideEffect::name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(", ") }.as_str())
    }
}

impl fmt::Debug for SideEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SideEffects({self})")
    }
}

impl From<SideEffect> for SideEffects {
    fn from(effect: SideEffect) -> Self {
        Self::of(&[effect])
    }
}

impl<const N: usize> From<[SideEffect; N]> for SideEffects {
    fn from(effects: [SideEffect; N]) -> Self {
        Self::of(&effects)
    }
}

impl From<SideEffects> for Vec<String> {
    fn from(effects: SideEffects) -> Self {
        effects.iter().map(|effect| effect.name().to_owned()).collect()
    }
}

impl TryFrom<Vec<String>> for SideEffects {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let mut all = Self::NONE;
        for name in names {
            let effect = SideEffect::ALL
                .into_iter()
                .find(|effect| effect.name() == name)
                .ok_or_else(|| format!("unknown side effect `{name}`"))?;
            all.0 |= effect.bit();
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::{SideEffect, SideEffects};

    /// Stands for a side effect that a later version declares.
    const UNKNOWN: u8 = 1 << SideEffect::ALL.len();

    #[test]
    fn a_printed_set_names_its_side_effects() {
        let reads = SideEffects::from([SideEffect::Read, SideEffect::Network]);
        assert_eq!(format!("{reads:?}"), "SideEffects(read, network)");
        assert_eq!(format!("{:?}", SideEffects::NONE), "SideEffects(none)");
        assert_eq!(SideEffects::from(SideEffect::Write), SideEffects::of(&[SideEffect::Write]));
    }

    #[test]
    fn what_is_not_known_to_be_harmless_is_harmful() {
        for known in 0..UNKNOWN {
            let effects = SideEffects(known | UNKNOWN);
            assert!(!effects.is_read_only(), "{known:b}");
            assert!(!effects.may_repeat(false) && !effects.may_repeat(true), "{known:b}");
            assert!(!effects.needs_nobody(), "{known:b}");
        }
    }
}
