//! The findings of a crash test.

use std::{collections::BTreeMap, fmt};

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Harm {
    /// A written fact is missing.
    Lost,
    /// An effect that may happen only once has happened twice, or may have happened twice.
    Repeated,
    /// The model was told something false about a call.
    Untrue,
    /// A tool that declares only `read` has changed something.
    Undeclared,
    /// The conversation cannot continue.
    Stuck,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::Repeated => "repeated",
            Self::Untrue => "untrue",
            Self::Undeclared => "undeclared",
            Self::Stuck => "stuck",
        })
    }
}

/// One finding about one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashFinding {
    /// The kind of harm.
    pub harm: Harm,
    /// A description of the finding.
    pub what: String,
    /// The places where the processes of this conversation were killed, in order. Empty if no process was killed.
    pub kills: Vec<String>,
    /// The names of the conversation's facts at its end.
    pub facts: Vec<String>,
    /// The events of the tools and of the processes, in order.
    pub story: Vec<String>,
    /// The effects that [`observe`](super::Crashtest::observe) returned at the end.
    pub world: Vec<String>,
}

impl fmt::Display for CrashFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.harm, self.what)?;
        for (title, lines) in [
            ("killed", &self.kills),
            ("what happened", &self.story),
            ("facts at the end", &self.facts),
            ("the world at the end", &self.world),
        ] {
            if lines.is_empty() {
                continue;
            }
            writeln!(f, "  {title}:")?;
            for line in lines {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

/// The result of a [`Crashtest`](super::Crashtest). Its text shows the findings with their history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// The number of processes that killed themselves at a point.
    pub kills_at_points: u32,
    /// The number of processes that were killed from outside.
    pub kills_from_outside: u32,
    /// The number of conversations, each from its first message to its end.
    pub conversations: u32,
    /// The number of different points at which the first process of a conversation was killed.
    pub points_reached: u32,
    /// The number of points in a run without kills.
    pub points: u32,
    /// The number of calls that were reported to the model as in doubt. This is no fault.
    pub in_doubt: u32,
    /// How often a process waited because a process that had just ended still held the conversation.
    pub busy: u32,
    /// How often a process opened the conversation again because another process had continued it.
    pub conflicts: u32,
    /// How often a process failed and the next process continued the conversation.
    pub failures: u32,
    /// The seed of the plan.
    pub seed: u64,
    /// The findings.
    pub findings: Vec<CrashFinding>,
}

/// The number of findings of each kind that are shown completely.
const IN_FULL: usize = 2;

impl CrashReport {
    /// The number of processes that were killed.
    pub fn kills(&self) -> u32 {
        self.kills_at_points.saturating_add(self.kills_from_outside)
    }

    /// The number of findings of this kind.
    pub fn count(&self, harm: Harm) -> usize {
        self.findings.iter().filter(|finding| finding.harm == harm).count()
    }

    /// Checks that there is no finding.
    ///
    /// # Panics
    /// Panics with the text of the report if there is a finding, or if no process was killed.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion fails by panicking")]
    pub fn assert_clean(&self) {
        if !self.findings.is_empty() || self.kills() == 0 {
            panic!("{self}");
        }
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |harm| self.count(harm);
        writeln!(
            f,
            "{} kills in {} conversations ({} at {} of {} points and after them, {} from outside), \
             seed {}: {} lost, {} repeated, {} untrue, {} undeclared, {} stuck; {} calls in doubt, {} \
             times busy, {} conflicts, {} failures that the next process went on from",
            self.kills(),
            self.conversations,
            self.kills_at_points,
            self.points_reached,
            self.points,
            self.kills_from_outside,
            self.seed,
            count(Harm::Lost),
            count(Harm::Repeated),
            count(Harm::Untrue),
            count(Harm::Undeclared),
            count(Harm::Stuck),
            self.in_doubt,
            self.busy,
            self.conflicts,
            self.failures,
        )?;
        let mut kinds: BTreeMap<Harm, Vec<&CrashFinding>> = BTreeMap::new();
        for finding in &self.findings {
            kinds.entry(finding.harm).or_default().push(finding);
        }
        for (harm, findings) in kinds {
            for finding in findings.iter().take(IN_FULL) {
                write!(f, "\n{finding}")?;
            }
            let others = findings.get(IN_FULL..).unwrap_or_default();
            if !others.is_empty() {
                writeln!(f, "\n{harm}, {} more:", others.len())?;
            }
            for other in others {
                writeln!(f, "  {} (killed {})", other.what, other.kills.join(", then "))?;
            }
        }
        Ok(())
    }
}
