//! Handles parts of a schema that cannot be checked. The check treats an unchecked part as if it accepted every value.
//! This is safe if the part only restricts values. Under a `not`, however, the check would refuse every value. So rules
//! that would invert the result of an unchecked part are not checked either, and are reported.

use super::{
    compile::{SchemaChecker, Unchecked},
    node::NodeId,
};

const REASON: &str = "a part of it is not checked";

impl SchemaChecker {
    /// Removes the rules that would invert the result of a part that is not checked.
    pub(super) fn leave_open(&mut self) {
        if self.unchecked.is_empty() {
            return;
        }
        let is_unsure = self.unsure();
        let is_unsure = |id: NodeId| is_unsure.get(id).copied().unwrap_or_default();
        let mut told = Vec::new();
        for node in &mut self.nodes {
            let at = node.at.as_deref().unwrap_or_default();
            let mut tell = |word: &str| told.push(Unchecked::new(at, word, REASON));
            if node.not.is_some_and(is_unsure) {
                node.not = None;
                tell("not");
            }
            for choice in node.choices.iter_mut().filter(|it| it.one && it.ids.len() > 1) {
                if choice.ids.iter().any(|id| is_unsure(*id)) {
                    choice.one = false;
                    tell("oneOf");
                }
            }
            if let Some(condition) = node.condition.as_deref_mut()
                && is_unsure(condition.test)
            {
                condition.is_sure = false;
                tell("if");
            }
            if let Some(rules) = node.array.as_deref_mut()
                && let Some((id, _, most)) = &mut rules.contains
                && most.is_some()
                && is_unsure(*id)
            {
                *most = None;
                tell("maxContains");
            }
        }
        self.unchecked.append(&mut told);
    }

    /// For each node, whether any part below it, at any depth, is not checked.
    fn unsure(&self) -> Vec<bool> {
        let mut is_unsure: Vec<bool> = self.nodes.iter().map(|node| node.unread).collect();
        let mut above: Vec<Vec<NodeId>> = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            for below in node.all_below() {
                if let Some(above) = above.get_mut(below) {
                    above.push(id);
                }
            }
        }
        let mut open: Vec<NodeId> =
            (0..self.nodes.len()).filter(|id| is_unsure.get(*id) == Some(&true)).collect();
        while let Some(id) = open.pop() {
            for above in above.get(id).into_iter().flatten() {
                if let Some(known @ false) = is_unsure.get_mut(*above) {
                    *known = true;
                    open.push(*above);
                }
            }
        }
        is_unsure
    }
}
