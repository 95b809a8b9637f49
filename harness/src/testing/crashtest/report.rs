//! What a crash test has found.

use std::{collections::BTreeMap, fmt};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Harm {
    /// A fact that was there is not there any more.
    Lost,
    /// An effect that may happen once happened twice, or may have.
    Repeated,
    /// What the model was told of a call is not so.
    Untrue,
    /// A tool that declares to read changes something.
    Undeclared,
    /// The conversation cannot go on.
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

/// One thing that went wrong, in one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashFinding {
    /// Of which kind it is.
    pub harm: Harm,
    /// What went wrong, in words.
    pub what: String,
    /// Where the processes of this conversation were killed, in order. Empty if none was.
    pub kills: Vec<String>,
    /// The facts of the conversation at its end, each in a word.
    pub facts: Vec<String>,
    /// What the tools and the processes did, in order.
    pub story: Vec<String>,
    /// What [`observe`](super::Crashtest::observe) saw at the end.
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

/// What a [`Crashtest`](super::Crashtest) has found. Its text says all that is needed to see why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// How many processes killed themselves at a point.
    pub kills_at_points: u32,
    /// How many were killed from outside.
    pub kills_from_outside: u32,
    /// How many conversations the test has run, each from its first message to its end.
    pub conversations: u32,
    /// At how many different points of an undisturbed run the first process of a conversation was
    /// killed.
    pub points_reached: u32,
    /// How many points an undisturbed run has.
    pub points: u32,
    /// How many calls the model was told to be in doubt, which is no harm.
    pub in_doubt: u32,
    /// How often a process found the conversation held by one that had just ended, and waited.
    pub busy: u32,
    /// How often a process found that somebody else had gone on with the conversation, and opened it
    /// again.
    pub conflicts: u32,
    /// How often a process failed, and the next one went on.
    pub failures: u32,
    /// What chance began with.
    pub seed: u64,
    /// What went wrong.
    pub findings: Vec<CrashFinding>,
}

/// So many findings of a kind are told in full.
const IN_FULL: usize = 2;

impl CrashReport {
    /// How many processes were killed.
    pub fn kills(&self) -> u32 {
        self.kills_at_points.saturating_add(self.kills_from_outside)
    }

    /// How many findings of this kind there are.
    pub fn count(&self, harm: Harm) -> usize {
        self.findings.iter().filter(|finding| finding.harm == harm).count()
    }

    /// Checks that nothing went wrong.
    ///
    /// # Panics
    /// Panics with the text of the report if something did, and if no process was killed.
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
