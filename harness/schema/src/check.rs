//! Checks a value against a [compiled schema](SchemaChecker) and lists the faults of the value.
//!
//! One code path answers whether a value fits and lists its faults. The first pass only looks for a fault: it writes no
//! texts and stops at the first fault. If there is a fault, a second pass lists all faults with their places.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Number, Value};

use super::{
    compile::SchemaChecker,
    fault::{ValueFault, ValuePlace},
    node::{
        AllowedValues, ArrayRules, ChoiceRules, MANY, NodeId, NumberRules, ObjectRules, SchemaNode,
        StringRules,
    },
    number::{canonical, compare, equal, is_multiple},
    pattern::CompiledPattern,
    words,
};

/// The maximum number of faults listed for one argument. If there are more faults, the model has to rewrite the
/// argument anyway.
const MOST: usize = 16;

/// The maximum number of faults listed in total.
const MOST_IN_ALL: usize = 100;

/// The maximum depth of a check. A value parsed from JSON has at most 127 levels, and two schemas may apply to each
/// level, so this depth suffices. Without optimization, a level takes 3.5 KiB of stack, so a check takes less than half
/// of a runtime thread's stack.
const DEEPEST: usize = 256;

/// The maximum number of steps of a check. A check with this number of steps takes about a second. A schema and a value
/// of ordinary size need some hundred steps.
const STEPS: usize = 20_000_000;

/// The maximum work of pattern searches, in bytes of text times KiB of compiled pattern. For the worst patterns, this
/// work takes some seconds. With an ordinary pattern, a check can search 16 MiB of text.
const SEARCHED: usize = 16 * 1024 * 1024;

/// The maximum number of cached results. A check that needs more results computes them repeatedly, and may run out of
/// steps.
const KEPT: usize = 500_000;

const DEEP: &str = "nested too deeply";

const TOO_LARGE: &str = "too large to be checked against the schema; write less at once";

impl SchemaChecker {
    /// Whether the value fits the schema.
    pub fn fits(&self, value: &Value) -> bool {
        let mut check = ValueCheck::new(self, true);
        check.node(self.root, value, &ValuePlace::Root, 0) && check.is_answered()
    }

    /// The faults of the value. The number of listed faults is limited.
    pub fn faults(&self, value: &Value) -> Vec<ValueFault> {
        let mut check = ValueCheck::new(self, false);
        check.node(self.root, value, &ValuePlace::Root, 0);
        if check.overrun {
            check.faults.push(ValueFault::new(TOO_LARGE));
        } else if check.too_deep {
            // If a part of the value was skipped, the faults of other parts may be wrong. So only the faults about
            // depth are kept.
            check.faults.retain(|fault| fault.reason.starts_with(DEEP));
            if check.faults.is_empty() {
                let text = format!("{DEEP} to be checked against the schema; write it flatter");
                check.faults.push(ValueFault::new(text));
            }
        } else if check.faults.is_empty() && !self.fits(value) {
            check.faults.push(ValueFault::new("is not what the schema says"));
        }
        check.faults
    }

    /// The faults that `value` would have as the member `name` of the object that the schema describes.
    pub fn faults_of(&self, name: &str, value: &Value) -> Vec<ValueFault> {
        let rules = self.node(self.root).object.as_deref();
        let Some(property) = rules.and_then(|rules| rules.property(name)) else {
            return Vec::new();
        };
        let mut check = ValueCheck::new(self, false);
        check.node(property.id, value, &ValuePlace::Root, 0);
        check.faults
    }

    /// Whether the value fits this part of the schema. `null` is accepted for optional members. Adds the work to
    /// `spent`.
    pub(super) fn nearly_fits(&self, id: NodeId, value: &Value, spent: &mut CheckCost) -> bool {
        let mut check = ValueCheck { lenient: true, spent: *spent, ..ValueCheck::new(self, true) };
        let fits = check.node(id, value, &ValuePlace::Root, 0) && check.is_answered();
        *spent = check.spent;
        fits
    }
}

/// The total work of several passes over one value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckCost {
    steps: usize,
    /// The work of pattern searches so far, in bytes of text times KiB of compiled pattern.
    searched: usize,
}

impl CheckCost {
    /// Counts a step. Returns `false` if the maximum number of steps is exceeded.
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= STEPS
    }

    /// Whether the pattern matches the text. `None` if the search would exceed the maximum work.
    pub(super) fn matches(&mut self, pattern: &CompiledPattern, text: &str) -> Option<bool> {
        // The added byte counts the search of an empty text.
        let size = (text.len() + 1).saturating_mul(pattern.size);
        self.searched = self.searched.saturating_add(size);
        (self.searched <= SEARCHED).then(|| pattern.is_match(text))
    }
}

/// One pass over a value.
struct ValueCheck<'a> {
    checker: &'a SchemaChecker,
    /// If `true`, the pass records no faults and ends at the first fault.
    quiet: bool,
    /// Whether `null` is accepted for optional members.
    lenient: bool,
    faults: Vec<ValueFault>,
    /// The maximum number of faults to record.
    most: usize,
    spent: CheckCost,
    /// Whether a part of the value was skipped because the check took too long. Then the pass has no result: a `not`
    /// could invert the result of the skipped part.
    overrun: bool,
    /// Whether a part of the value was skipped because it is nested too deeply.
    too_deep: bool,
    /// Cached results of shared nodes. The value is identified by its address, which is unique because the value is
    /// borrowed during the pass.
    known: HashMap<(NodeId, usize), bool>,
    /// The pairs of shared node and value whose faults are already listed.
    told: HashSet<(NodeId, usize)>,
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

impl<'a> ValueCheck<'a> {
    fn new(checker: &'a SchemaChecker, quiet: bool) -> Self {
        Self {
            checker,
            quiet,
            lenient: false,
            faults: Vec::new(),
            most: MOST,
            spent: CheckCost::default(),
            overrun: false,
            too_deep: false,
            known: HashMap::new(),
            told: HashSet::new(),
        }
    }

    /// Whether the whole value was checked, so that the result is valid.
    fn is_answered(&self) -> bool {
        !self.overrun && !self.too_deep
    }

    /// Records a fault and returns `false`, because the value does not fit. If the check took too long and skipped a
    /// part, later faults are not recorded: the skipped part may be their cause.
    fn fault(&mut self, place: &ValuePlace<'_>, reason: &dyn Fn() -> String) -> bool {
        if !self.quiet && !self.overrun && self.faults.len() < self.most.min(MOST_IN_ALL) {
            let fault = ValueFault { at: place.pointer(), reason: reason() };
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
        }
        false
    }

    /// Counts a quarter step for each item or member, because a check does not always visit all of them.
    fn count_parts(&mut self, parts: usize) {
        self.spent.steps += parts / 4;
    }

    /// Whether the pattern matches the text. A search that would exceed the maximum work counts as a match and sets
    /// `overrun`.
    fn matches(&mut self, pattern: &CompiledPattern, text: &str) -> bool {
        let found = self.spent.matches(pattern, text);
        self.overrun |= found.is_none();
        found.unwrap_or(true)
    }

    /// Whether a value is one of the allowed values.
    fn is_among(&mut self, values: &AllowedValues, value: &Value) -> bool {
        match value {
            Value::String(text) if values.list.len() >= MANY => values.texts.contains(text),
            value => {
                self.spent.steps += values.list.len() / 8;
                values.list.iter().any(|allowed| equal(allowed, value))
            }
        }
    }

    /// Whether the value fits this part of the schema. Records no faults.
    fn fits(&mut self, id: NodeId, value: &Value, depth: usize) -> bool {
        let told = std::mem::replace(&mut self.quiet, true);
        let fits = self.node(id, value, &ValuePlace::Root, depth);
        self.quiet = told;
        fits
    }

    /// Whether the value fits this part of the schema. Records its faults.
    fn node(&mut self, id: NodeId, value: &Value, place: &ValuePlace<'_>, depth: usize) -> bool {
        let checker = self.checker;
        let node = checker.node(id);
        self.spent.steps += 1;
        if depth > DEEPEST || self.spent.steps > STEPS {
            return self.too_much(place, depth);
        }
        if !self.quiet && self.faults.len() >= self.most.min(MOST_IN_ALL) {
            return false;
        }
        if !node.shared {
            return self.rules(node, value, place, depth);
        }
        let key = (id, address(value));
        if self.quiet {
            if let Some(known) = self.known.get(&key) {
                return *known;
            }
        } else if self.told.len() >= KEPT || !self.told.insert(key) {
            // The faults of this node and value, if any, are already listed.
            return true;
        }
        let fits = self.rules(node, value, place, depth);
        if self.quiet && self.known.len() < KEPT {
            self.known.insert(key, fits);
        }
        fits
    }

    #[cold]
    fn too_much(&mut self, place: &ValuePlace<'_>, depth: usize) -> bool {
        if depth <= DEEPEST {
            self.overrun = true;
            return false;
        }
        self.too_deep = true;
        self.fault(place, &|| format!("{DEEP}: more than {DEEPEST} steps of the schema lead here"))
    }

    fn rules(
        &mut self,
        node: &'a SchemaNode,
        value: &Value,
        place: &ValuePlace<'_>,
        depth: usize,
    ) -> bool {
        if node.never {
            return self.fault(place, &|| "nothing is allowed here".to_owned());
        }
        // If the type is wrong, faults of the other rules would not help the model.
        if node.kinds.is_some_and(|kinds| !kinds.is_type_of(value)) {
            return self.fault(place, &|| words::expected(words::of_node(node), value));
        }
        if node.values.as_deref().is_some_and(|values| !self.is_among(values, value)) {
            return self.fault(place, &|| words::expected(words::of_node(node), value));
        }
        let mut fits = match value {
            Value::Number(number) => {
                node.number.as_deref().is_none_or(|rules| self.number(rules, number, place))
            }
            Value::String(text) => {
                node.string.as_deref().is_none_or(|rules| self.string(rules, text, place))
            }
            Value::Array(items) => match node.array.as_deref() {
                Some(rules) => self.array(node, rules, value, items, place, depth),
                None => true,
            },
            Value::Object(members) => match node.object.as_deref() {
                Some(rules) => self.object(node, rules, value, members, place, depth),
                None => true,
            },
            Value::Null | Value::Bool(_) => true,
        };
        if self.quiet && !fits {
            return false;
        }
        for id in &node.all {
            if !self.node(*id, value, place, depth + 1) {
                fits = false;
                if self.quiet {
                    return false;
                }
            }
        }
        if !node.choices.is_empty() || node.not.is_some() || node.condition.is_some() {
            fits &= self.applied(node, value, place, depth + 1);
        }
        fits
    }

    /// Checks `anyOf`, `oneOf`, `not` and `if`.
    fn applied(
        &mut self,
        node: &'a SchemaNode,
        value: &Value,
        place: &ValuePlace<'_>,
        depth: usize,
    ) -> bool {
        let mut fits = true;
        for choice in &node.choices {
            if !self.choice(choice, value, place, depth) {
                fits = false;
                if self.quiet {
                    return false;
                }
            }
        }
        if let Some(not) = node.not
            && self.fits(not, value, depth)
        {
            let checker = self.checker;
            fits = self.fault(place, &|| words::excluded(checker, not, value));
        }
        if let Some(condition) = node.condition.as_deref().filter(|it| it.is_sure) {
            let branch = match self.fits(condition.test, value, depth) {
                true => condition.then,
                false => condition.otherwise,
            };
            fits &= branch.is_none_or(|branch| self.node(branch, value, place, depth));
        }
        fits
    }

    fn choice(
        &mut self,
        choice: &ChoiceRules,
        value: &Value,
        place: &ValuePlace<'_>,
        depth: usize,
    ) -> bool {
        let mut fitting = 0;
        for id in &choice.ids {
            if self.fits(*id, value, depth) {
                fitting += 1;
                if !choice.one || fitting > 1 {
                    break;
                }
            }
        }
        match (fitting, choice.one) {
            (1, _) | (2.., false) => true,
            (2.., true) => self.fault(place, &|| {
                format!(
                    "fits more than one of the choices, and exactly one is meant: {}",
                    words::found(value)
                )
            }),
            _ if self.quiet => false,
            _ => self.none_fits(choice, value, place, depth),
        }
    }

    /// Lists the faults of a value that fits no choice: the faults for the choice that the model probably meant.
    #[cold]
    fn none_fits(
        &mut self,
        choice: &ChoiceRules,
        value: &Value,
        place: &ValuePlace<'_>,
        depth: usize,
    ) -> bool {
        let checker = self.checker;
        if let Some(meant) = words::meant(checker, &choice.ids, value) {
            let before = self.faults.len();
            self.node(meant, value, place, depth);
            if self.faults.len() > before {
                return false;
            }
        }
        if let Some((tag, tags)) = words::tag(checker, &choice.ids).filter(|_| value.is_object()) {
            let expected = words::one_of(&tags);
            return self.fault(&ValuePlace::Name(place, tag), &|| match value.get(tag) {
                Some(other) => format!("expected {expected}, found {}", words::found(other)),
                None => format!("is required: {expected}"),
            });
        }
        self.fault(place, &|| {
            let mut all: Vec<String> = Vec::new();
            for id in &choice.ids {
                let expected = words::expectation(checker, *id);
                let expected = expected.unwrap_or_else(|| "another value".to_owned());
                if !all.contains(&expected) {
                    all.push(expected);
                }
            }
            let all = if all.is_empty() { words::NOTHING.to_owned() } else { all.join(" or ") };
            words::expected(Some(all), value)
        })
    }

    fn number(&mut self, rules: &NumberRules, number: &Number, place: &ValuePlace<'_>) -> bool {
        let NumberRules { least, most, above, below, multiple } = rules;
        let is = |limit: &Option<Number>, wrong: &[Ordering]| {
            limit.as_ref().is_some_and(|limit| wrong.contains(&compare(number, limit)))
        };
        let fits = !is(least, &[Ordering::Less])
            && !is(most, &[Ordering::Greater])
            && !is(above, &[Ordering::Less, Ordering::Equal])
            && !is(below, &[Ordering::Greater, Ordering::Equal]);
        if !fits {
            return self.fault(place, &|| words::range(rules, number));
        }
        match multiple.as_ref().filter(|of| !is_multiple(number, of)) {
            Some(of) => self.fault(place, &|| format!("must be a multiple of {of}, not {number}")),
            None => true,
        }
    }

    fn string(&mut self, rules: &StringRules, text: &str, place: &ValuePlace<'_>) -> bool {
        let StringRules { shortest, longest, pattern } = rules;
        let mut fits = true;
        if shortest.is_some() || longest.is_some() {
            // Characters are counted only if the number of bytes is not sufficient to decide. A text has at most as
            // many characters as bytes, and at least a quarter as many.
            let bytes = text.len() as u64;
            let is_sure = shortest.is_none_or(|shortest| bytes / 4 >= shortest)
                && longest.is_none_or(|longest| bytes <= longest);
            let length = if is_sure { bytes } else { text.chars().count() as u64 };
            let is_right = is_sure
                || shortest.is_none_or(|shortest| length >= shortest)
                    && longest.is_none_or(|longest| length <= longest);
            if !is_right {
                fits = self.fault(place, &|| {
                    words::count([*shortest, *longest], length, ["character", "characters"])
                });
            }
        }
        match pattern.as_ref().filter(|(_, pattern)| !self.matches(pattern, text)) {
            Some((pattern, _)) => self.fault(place, &|| {
                format!("must match the pattern `{pattern}`, not {}", words::text(text))
            }),
            None => fits,
        }
    }

    fn array(
        &mut self,
        node: &'a SchemaNode,
        rules: &'a ArrayRules,
        whole: &Value,
        items: &[Value],
        place: &ValuePlace<'_>,
        depth: usize,
    ) -> bool {
        let mut fits = true;
        self.count_parts(items.len());
        let count = items.len() as u64;
        if rules.least.is_some_and(|least| count < least)
            || rules.most.is_some_and(|most| count > most)
        {
            fits = self.fault(place, &|| {
                words::count([rules.least, rules.most], count, ["item", "items"])
            });
        }
        if rules.unique
            && let Some((first, second)) = self.twice(items)
        {
            fits = self.fault(place, &|| {
                format!("the items must differ, and those at {first} and {second} are equal")
            });
        }
        if self.quiet && !fits {
            return false;
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(id) = rules.first.get(index).copied().or(rules.items)
                && !self.node(id, item, &ValuePlace::Index(place, index), depth + 1)
            {
                fits = false;
                if self.quiet {
                    return false;
                }
            }
        }
        if let Some((id, least, most)) = rules.contains {
            let mut found = 0;
            for item in items {
                found += u64::from(self.fits(id, item, depth + 1));
            }
            if found < least || most.is_some_and(|most| found > most) {
                let checker = self.checker;
                fits =
                    self.fault(place, &|| words::contains(checker, id, [Some(least), most], found));
            }
        }
        if let Some(others) = rules.unevaluated {
            for (index, item) in items.iter().enumerate() {
                let place = ValuePlace::Index(place, index);
                if !self.covers_item(node, whole, index, depth + 1, &mut HashSet::new())
                    && !self.node(others, item, &place, depth + 1)
                {
                    fits = false;
                }
            }
        }
        fits
    }

    /// The indexes of two equal items.
    fn twice(&mut self, items: &[Value]) -> Option<(usize, usize)> {
        let mut seen = HashMap::with_capacity(items.len());
        items.iter().enumerate().find_map(|(index, item)| {
            let mut text = String::new();
            canonical(item, &mut text);
            self.spent.steps += 1 + text.len() / 8;
            seen.insert(text, index).map(|first| (first, index))
        })
    }

    fn object(
        &mut self,
        node: &'a SchemaNode,
        rules: &'a ObjectRules,
        whole: &Value,
        members: &Map<String, Value>,
        place: &ValuePlace<'_>,
        depth: usize,
    ) -> bool {
        let is_root = matches!(place, ValuePlace::Root) && !self.quiet;
        let mut fits = true;
        let names = rules.properties.len() + rules.required.len() + rules.with.len();
        self.count_parts(members.len() + names);
        for property in rules.properties.iter().filter(|it| it.required) {
            if !members.contains_key(&property.name) {
                fits = self.missing(property.id, &property.name, place);
                if self.quiet {
                    return false;
                }
            }
        }
        let mut absent = 0;
        for (name, value) in members {
            if is_root {
                self.most = self.faults.len() + MOST;
            }
            if !self.member(rules, (name, value), place, depth, &mut absent) {
                fits = false;
                if self.quiet {
                    return false;
                }
            }
        }
        if is_root {
            self.most = self.faults.len() + MOST;
        }
        fits & self.whole_object(node, rules, whole, members, place, (depth, absent))
    }

    #[cold]
    fn missing(&mut self, id: NodeId, name: &str, place: &ValuePlace<'_>) -> bool {
        let checker = self.checker;
        self.fault(&ValuePlace::Name(place, name), &|| words::required(checker, Some(id)))
    }

    /// Checks one member of an object. A `null` that counts as a missing member is added to `absent`.
    fn member(
        &mut self,
        rules: &'a ObjectRules,
        (name, value): (&str, &Value),
        place: &ValuePlace<'_>,
        depth: usize,
        absent: &mut u64,
    ) -> bool {
        let below = ValuePlace::Name(place, name);
        let mut fits = true;
        let listed = rules.property(name);
        if let Some(property) = listed {
            if value.is_null() && (self.lenient && !property.required || !self.quiet) {
                if self.fits(property.id, value, depth + 1) {
                    return true;
                }
                if self.lenient && !property.required {
                    *absent += 1;
                    return true;
                }
                if property.required {
                    return self.missing(property.id, name, place);
                }
            }
            fits = self.node(property.id, value, &below, depth + 1);
            if rules.patterns.is_empty() {
                return fits;
            }
        }
        let mut is_matched = false;
        for (regex, id) in &rules.patterns {
            if self.matches(regex, name) {
                is_matched = true;
                fits &= self.node(*id, value, &below, depth + 1);
            }
        }
        if listed.is_some() || is_matched || rules.unread_patterns {
            return fits;
        }
        let Some(others) = rules.others else { return fits };
        if self.checker.node(others).never {
            let is_argument = matches!(place, ValuePlace::Root) && !self.checker.of_answer;
            return self.fault(&below, &|| words::unknown(name, rules, is_argument));
        }
        self.node(others, value, &below, depth + 1) && fits
    }

    /// Checks the rules about an object as a whole.
    fn whole_object(
        &mut self,
        node: &'a SchemaNode,
        rules: &'a ObjectRules,
        whole: &Value,
        members: &Map<String, Value>,
        place: &ValuePlace<'_>,
        (depth, absent): (usize, u64),
    ) -> bool {
        let mut fits = true;
        let checker = self.checker;
        for name in rules.required.iter().filter(|name| !members.contains_key(*name)) {
            fits = self.fault(&ValuePlace::Name(place, name), &|| words::required(checker, None));
        }
        let count = (members.len() as u64).saturating_sub(absent);
        if rules.least.is_some_and(|least| count < least)
            || rules.most.is_some_and(|most| count > most)
        {
            let what = ["member", "members"];
            fits = self.fault(place, &|| words::count([rules.least, rules.most], count, what));
        }
        if let Some(names) = rules.names {
            for name in members.keys() {
                fits &= self.name(names, name, place, depth);
            }
        }
        let is_there =
            |name: &str| members.get(name).is_some_and(|value| !(absent > 0 && value.is_null()));
        for (name, needed) in rules.with.iter().filter(|(name, _)| is_there(name)) {
            for needed in needed.iter().filter(|needed| !members.contains_key(*needed)) {
                fits = self.fault(&ValuePlace::Name(place, needed), &|| {
                    format!("is required, because `{name}` is there")
                });
            }
        }
        for (name, id) in &rules.with_schema {
            if is_there(name) {
                fits &= self.node(*id, whole, place, depth + 1);
            }
        }
        if self.quiet && !fits {
            return false;
        }
        if let Some(others) = rules.unevaluated {
            for (name, value) in members {
                if self.covers_member(node, whole, name, depth + 1, &mut HashSet::new()) {
                    continue;
                }
                let below = ValuePlace::Name(place, name);
                fits &= if self.checker.node(others).never {
                    self.fault(&below, &|| words::unknown_among(checker, node, name))
                } else {
                    self.node(others, value, &below, depth + 1)
                };
            }
        }
        fits
    }

    /// Whether the name of a member fits `propertyNames`.
    fn name(&mut self, names: NodeId, name: &str, place: &ValuePlace<'_>, depth: usize) -> bool {
        let text = Value::from(name);
        // The name gets its own check, because the cache identifies values by address. The address of this temporary
        // value may be used again.
        let mut check = ValueCheck {
            lenient: self.lenient,
            spent: self.spent,
            ..ValueCheck::new(self.checker, self.quiet)
        };
        let fits = check.node(names, &text, &ValuePlace::Root, depth + 1);
        self.spent = check.spent;
        self.overrun |= check.overrun;
        self.too_deep |= check.too_deep;
        if fits {
            return true;
        }
        self.fault(&ValuePlace::Name(place, name), &|| match check.faults.first() {
            Some(fault) => format!("this name is not allowed: {}", fault.reason),
            None => "this name is not allowed".to_owned(),
        })
    }

    /// Whether this part of the schema evaluates a member (`unevaluatedProperties`). Other parts that apply to the
    /// object and accept it are searched too. `seen` contains the parts that were already searched.
    fn covers_member(
        &mut self,
        node: &'a SchemaNode,
        whole: &Value,
        name: &str,
        depth: usize,
        seen: &mut HashSet<NodeId>,
    ) -> bool {
        self.spent.steps += 1;
        if depth > DEEPEST || self.spent.steps > STEPS {
            return self.too_much(&ValuePlace::Root, depth);
        }
        if let Some(rules) = node.object.as_deref() {
            let is_named = rules.property(name).is_some()
                || rules.patterns.iter().any(|(pattern, _)| self.matches(pattern, name))
                || rules.others.is_some()
                || rules.unread_patterns;
            if is_named {
                return true;
            }
        }
        self.applied_somewhere(node, whole, depth, &mut |check, id| {
            let node = check.checker.node(id);
            let says = node.object.as_deref().is_some_and(|rules| rules.unevaluated.is_some());
            says || seen.insert(id) && check.covers_member(node, whole, name, depth + 1, seen)
        })
    }

    fn covers_item(
        &mut self,
        node: &'a SchemaNode,
        whole: &Value,
        index: usize,
        depth: usize,
        seen: &mut HashSet<NodeId>,
    ) -> bool {
        self.spent.steps += 1;
        if depth > DEEPEST || self.spent.steps > STEPS {
            return self.too_much(&ValuePlace::Root, depth);
        }
        if let Some(rules) = node.array.as_deref() {
            let contained = rules.contains.and_then(|(id, ..)| {
                let item = whole.get(index)?;
                self.fits(id, item, depth + 1).then_some(())
            });
            if index < rules.first.len() || rules.items.is_some() || contained.is_some() {
                return true;
            }
        }
        self.applied_somewhere(node, whole, depth, &mut |check, id| {
            let node = check.checker.node(id);
            let says = node.array.as_deref().is_some_and(|rules| rules.unevaluated.is_some());
            says || seen.insert(id) && check.covers_item(node, whole, index, depth + 1, seen)
        })
    }

    /// Whether `holds` is true for any part of the schema that applies to the same value and accepts it.
    fn applied_somewhere(
        &mut self,
        node: &'a SchemaNode,
        whole: &Value,
        depth: usize,
        holds: &mut dyn FnMut(&mut Self, NodeId) -> bool,
    ) -> bool {
        let choices = node.choices.iter().flat_map(|choice| &choice.ids);
        let dependent = node.object.as_deref().into_iter().flat_map(|rules| &rules.with_schema);
        let dependent = dependent.filter(|(name, _)| whole.get(name).is_some()).map(|(_, id)| id);
        for id in node.all.iter().chain(choices).chain(dependent) {
            if self.fits(*id, whole, depth + 1) && holds(self, *id) {
                return true;
            }
        }
        let Some(condition) = node.condition.as_deref() else { return false };
        if !condition.is_sure {
            // The test is not fully checked, so either branch may apply.
            let mut branches = condition.then.into_iter().chain(condition.otherwise);
            return holds(self, condition.test) || branches.any(|branch| holds(self, branch));
        }
        if self.fits(condition.test, whole, depth + 1) {
            holds(self, condition.test) || condition.then.is_some_and(|then| holds(self, then))
        } else {
            condition.otherwise.is_some_and(|otherwise| holds(self, otherwise))
        }
    }
}
