//! The sources of content that the model has read: the tools that returned the content, with their declared side
//! effects.

use serde::{Deserialize, Serialize};

use crate::tool::SideEffects;

/// The maximum nesting of sources. JSON readers refuse deeply nested values.
const DEEPEST: usize = 8;

/// A source of content that the model has read. The [`DataFlowPolicy`](crate::policy::DataFlowPolicy) of each agent
/// that reads the content decides whether the content is private or untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Source {
    /// The name of the tool, or a name for other content, such as `web_search` for a search by the vendor. Empty if
    /// unknown.
    pub tool: String,
    /// The side effects that the tool declared. All side effects if the declaration is unknown.
    pub effects: SideEffects,
    /// The sources of the content that the agents inside the tool have read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Self>,
}

impl Source {
    /// The tool of this name with these declared side effects.
    pub fn new(tool: impl Into<String>, effects: SideEffects) -> Self {
        Self { tool: tool.into(), effects, inside: Vec::new() }
    }

    /// Sets the sources of the content that the agents inside the tool have read.
    #[must_use]
    #[doc(hidden)]
    pub fn around(mut self, inside: &Sources) -> Self {
        self.inside = match inside.depth() < DEEPEST {
            true => inside.0.clone(),
            false => inside.flat().0,
        };
        self
    }

    fn is_like(&self, other: &Self) -> bool {
        self.tool == other.tool && self.effects == other.effects
    }
}

/// A set of sources without duplicates.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct Sources(Vec<Source>);

impl Sources {
    pub fn all(&self) -> &[Source] {
        &self.0
    }

    /// Adds a source with its nested sources. Returns whether the source or a nested source is new.
    pub fn add(&mut self, new: &Source) -> bool {
        if let Some(known) = self.0.iter_mut().find(|known| known.is_like(new)) {
            let mut inside = Self(std::mem::take(&mut known.inside));
            let mut is_new = false;
            for source in &new.inside {
                is_new |= inside.add(source);
            }
            known.inside = inside.0;
            return is_new;
        }
        self.0.push(new.clone());
        true
    }

    /// Adds sources. Returns whether a source or a nested source is new.
    pub fn add_all<'s>(&mut self, new: impl IntoIterator<Item = &'s Source>) -> bool {
        new.into_iter().fold(false, |is_new, source| self.add(source) | is_new)
    }

    /// The sources that `known` does not contain.
    pub fn beyond(&self, known: &Self) -> Self {
        Self(rest(&self.0, &known.0))
    }

    fn depth(&self) -> usize {
        depth(&self.0)
    }

    /// All sources of any depth as a flat list.
    fn flat(&self) -> Self {
        let mut flat = Self::default();
        flatten(&self.0, &mut flat);
        flat
    }
}

fn rest(new: &[Source], known: &[Source]) -> Vec<Source> {
    let rest = new.iter().filter_map(|source| {
        let Some(known) = known.iter().find(|known| known.is_like(source)) else {
            return Some(source.clone());
        };
        let inside = rest(&source.inside, &known.inside);
        (!inside.is_empty()).then(|| Source { inside, ..source.clone() })
    });
    rest.collect()
}

fn depth(sources: &[Source]) -> usize {
    sources.iter().map(|source| depth(&source.inside).saturating_add(1)).max().unwrap_or(0)
}

fn flatten(sources: &[Source], flat: &mut Sources) {
    for source in sources {
        flat.add(&Source::new(source.tool.clone(), source.effects));
        flatten(&source.inside, flat);
    }
}

#[cfg(test)]
mod tests {
    use super::{DEEPEST, Source, Sources};
    use crate::tool::{SideEffect::Read, SideEffects};

    fn read(tool: &str) -> Source {
        Source::new(tool, SideEffects::from(Read))
    }

    #[test]
    fn a_source_is_kept_once_and_what_is_new_inside_of_it_is_added() {
        let mut all = Sources::default();
        let agent = |tool: &str| Source { inside: vec![read(tool)], ..read("agent") };
        assert!(all.add(&agent("a")) && !all.add(&agent("a")));
        assert!(all.add(&agent("b")) && !all.add(&agent("b")) && !all.add(&read("agent")));
        assert_eq!(all.all(), [Source { inside: vec![read("a"), read("b")], ..read("agent") }]);
        let mut known = Sources::default();
        known.add(&agent("a"));
        assert_eq!(all.beyond(&known).all(), [agent("b")]);
        assert!(all.beyond(&all).all().is_empty());
    }

    #[test]
    fn nesting_has_an_end_at_which_no_source_is_lost() {
        let mut inside = Sources::default();
        for number in 0..1000 {
            let mut outer = Sources::default();
            outer.add(&read(&format!("a{number}")).around(&inside));
            inside = outer;
        }
        assert!(inside.depth() <= DEEPEST + 1);
        assert_eq!(inside.flat().all().len(), 1000);
    }
}
