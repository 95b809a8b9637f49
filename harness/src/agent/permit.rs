//! Whether a call may run: the permissions decide, and ask who is to be asked.

use std::collections::HashSet;

use super::Agent;
use crate::{
    message::ToolCall,
    policy::{Approval, ApprovalQuestion, Verdict},
    tool::SideEffects,
};

/// Why this call may not run, if it may not. `always` holds the tools that a person has allowed
/// for the rest of the conversation.
pub(super) async fn denial(
    agent: &Agent,
    always: &mut HashSet<String>,
    call: &ToolCall,
    effects: SideEffects,
) -> Option<String> {
    if always.contains(call.name()) {
        return None;
    }
    match agent.permissions().decide(call, effects) {
        Verdict::Allow => None,
        Verdict::Deny(reason) => Some(reason),
        Verdict::Ask => {
            let Some(approver) = agent.approver() else { return Some(nobody(call, effects)) };
            match approver.ask(ApprovalQuestion { call, effects }).await {
                Approval::Yes => None,
                Approval::Always => {
                    always.insert(call.name().to_owned());
                    None
                }
                Approval::No(reason) => Some(reason),
            }
        }
    }
}

fn nobody(call: &ToolCall, effects: SideEffects) -> String {
    let name = call.name();
    format!(
        "`{name}` declares `{effects}`, so a person must approve it, and there is nobody to ask. \
         The program can allow it with `Permissions::default().allow(\"{name}\")` or give an \
         approver."
    )
}
