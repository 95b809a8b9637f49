//! The nodes of a compiled schema.

use std::collections::{HashMap, HashSet};

use serde_json::{Number, Value};

use super::{number::is_whole, pattern::CompiledPattern};

/// The index of a node in the compiled schema.
pub(super) type NodeId = usize;

/// One part of a compiled schema. Rules that are absent take no memory.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// Whether no value is allowed.
    pub(super) never: bool,
    pub(super) kinds: Option<TypeSet>,
    pub(super) values: Option<Box<AllowedValues>>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) string: Option<Box<StringRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    /// The nodes that also apply to the same value: `allOf`, and the target of `$ref`.
    pub(super) all: Vec<NodeId>,
    pub(super) choices: Vec<ChoiceRules>,
    pub(super) not: Option<NodeId>,
    pub(super) condition: Option<Box<ConditionRules>>,
    /// The first line of the description.
    pub(super) about: Option<Box<str>>,
    pub(super) format: Option<Box<str>>,
    /// Whether several places of the schema refer to this node, so that its results are worth
    /// caching.
    pub(super) shared: bool,
    /// Whether some keywords of this part are not checked.
    pub(super) unread: bool,
    /// The JSON pointer to this part, for nodes that can invert a result.
    pub(super) at: Option<Box<str>>,
}

/// A set of JSON Schema's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    pub(super) const NONE: Self = Self(0);

    pub(super) const NAMES: [&'static str; 7] =
        ["null", "boolean", "integer", "number", "string", "array", "object"];

    pub(super) fn one(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|at| Self(1 << at))
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, name: &str) -> bool {
        Self::one(name).is_some_and(|kind| self.0 & kind.0 != 0)
    }

    pub(super) fn type_names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |name| self.has(name))
    }

    #[inline]
    pub(super) fn is_type_of(self, value: &Value) -> bool {
        let bit = match value {
            Value::Null => 1,
            Value::Bool(_) => 2,
            Value::Number(number) => {
                return self.0 & 8 != 0 || self.0 & 4 != 0 && is_whole(number);
            }
            Value::String(_) => 16,
            Value::Array(_) => 32,
            Value::Object(_) => 64,
        };
        self.0 & bit != 0
    }
}

/// The values of `enum`, or the single value of `const`.
#[derive(Debug)]
pub(super) struct AllowedValues {
    pub(super) list: Vec<Value>,
    /// The texts in `list`, if the list has at least [`MANY`] values.
    pub(super) texts: HashSet<String>,
}

/// Lists with at least this number of values use a hash set for their texts.
pub(super) const MANY: usize = 16;

impl AllowedValues {
    pub(super) fn new(list: Vec<Value>) -> Box<Self> {
        let texts = if list.len() < MANY {
            HashSet::new()
        } else {
            list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
        };
        Box::new(Self { list, texts })
    }
}

#[derive(Debug, Default)]
pub(super) struct NumberRules {
    pub(super) least: Option<Number>,
    pub(super) most: Option<Number>,
    pub(super) above: Option<Number>,
    pub(super) below: Option<Number>,
    pub(super) multiple: Option<Number>,
}

#[derive(Debug, Default)]
pub(super) struct StringRules {
    pub(super) shortest: Option<u64>,
    pub(super) longest: Option<u64>,
    pub(super) pattern: Option<(String, CompiledPattern)>,
}

#[derive(Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) first: Vec<NodeId>,
    pub(super) items: Option<NodeId>,
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
    pub(super) unique: bool,
    /// The node that some items must fit, and the minimum and the maximum number of these items.
    pub(super) contains: Option<(NodeId, u64, Option<u64>)>,
    pub(super) unevaluated: Option<NodeId>,
}

#[derive(Debug, Default)]
pub(super) struct ObjectRules {
    /// The listed members, in the order of the schema.
    pub(super) properties: Vec<ObjectMember>,
    /// The position of each member in `properties`, if there are many members.
    pub(super) index: HashMap<String, usize>,
    /// The required members that `properties` does not list.
    pub(super) required: Vec<String>,
    /// Whether the schema has the keyword `properties`, even with no members.
    pub(super) lists: bool,
    pub(super) patterns: Vec<(CompiledPattern, NodeId)>,
    /// Whether some pattern could not be compiled. A name that matches none of the compiled patterns may match a
    /// pattern that was not compiled.
    pub(super) unread_patterns: bool,
    pub(super) others: Option<NodeId>,
    pub(super) names: Option<NodeId>,
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
    pub(super) with: Vec<(String, Vec<String>)>,
    pub(super) with_schema: Vec<(String, NodeId)>,
    pub(super) unevaluated: Option<NodeId>,
}

/// A listed member of an object.
#[derive(Debug)]
pub(super) struct ObjectMember {
    pub(super) name: String,
    pub(super) id: NodeId,
    pub(super) required: bool,
}

impl ObjectRules {
    #[inline]
    pub(super) fn property(&self, name: &str) -> Option<&ObjectMember> {
        if self.index.is_empty() {
            return self.properties.iter().find(|property| property.name == name);
        }
        self.properties.get(*self.index.get(name)?)
    }
}

#[derive(Debug)]
pub(super) struct ChoiceRules {
    pub(super) ids: Vec<NodeId>,
    /// Whether exactly one of the choices must fit (`oneOf`) rather than at least one (`anyOf`).
    pub(super) one: bool,
}

#[derive(Debug)]
pub(super) struct ConditionRules {
    pub(super) test: NodeId,
    /// Whether the test is fully checked. If not, either branch may apply.
    pub(super) is_sure: bool,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}

impl SchemaNode {
    /// The other nodes that apply to the same value.
    pub(super) fn in_place(&self) -> impl Iterator<Item = NodeId> {
        let condition = self.condition.as_deref();
        let condition = condition
            .into_iter()
            .flat_map(|it| std::iter::once(it.test).chain(it.then).chain(it.otherwise));
        let dependent = self.object.as_deref().into_iter().flat_map(|rules| &rules.with_schema);
        self.all
            .iter()
            .chain(self.choices.iter().flat_map(|choice| &choice.ids))
            .copied()
            .chain(self.not)
            .chain(condition)
            .chain(dependent.map(|(_, id)| *id))
    }

    /// All nodes to which this node refers.
    pub(super) fn all_below(&self) -> impl Iterator<Item = NodeId> {
        let array = self.array.as_deref().into_iter().flat_map(|rules| {
            let contained = rules.contains.map(|(id, ..)| id);
            let others = rules.items.into_iter().chain(rules.unevaluated).chain(contained);
            rules.first.iter().copied().chain(others)
        });
        let object = self.object.as_deref().into_iter().flat_map(|rules| {
            let listed = rules.properties.iter().map(|property| property.id);
            let matching = rules.patterns.iter().map(|(_, id)| *id);
            let others = rules.others.into_iter().chain(rules.names).chain(rules.unevaluated);
            listed.chain(matching).chain(others)
        });
        self.in_place().chain(array).chain(object)
    }

    /// Whether the node accepts every value.
    pub(super) fn is_silent(&self) -> bool {
        let Self {
            never,
            kinds,
            values,
            number,
            string,
            array,
            object,
            all,
            choices,
            not,
            condition,
            about: _,
            format: _,
            shared: _,
            unread,
            at: _,
        } = self;
        !never
            && !unread
            && kinds.is_none()
            && values.is_none()
            && number.is_none()
            && string.is_none()
            && array.is_none()
            && object.is_none()
            && all.is_empty()
            && choices.is_empty()
            && not.is_none()
            && condition.is_none()
    }
}
