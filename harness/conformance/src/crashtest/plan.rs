//! Decides at which points and times the processes of one conversation are killed. The same seed gives the same plan.

use std::time::Duration;

/// How one process is killed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlannedKill {
    /// The process kills itself at this point. If the point has a duration, the process kills itself `delay`
    /// microseconds later.
    At { point: u32, delay: u64 },
    /// The parent kills the process, this long after its start.
    After(Duration),
}

/// The measurements of a process without kills, from which kills are planned.
#[derive(Clone, Debug, Default)]
pub(super) struct KillPlan {
    pub(super) seed: u64,
    /// When the process reached each point, in microseconds after its start.
    pub(super) points: Vec<u64>,
    /// How long the process took, in microseconds.
    pub(super) took: u64,
}

impl KillPlan {
    /// The kills for the conversation with this number, one for each process. In every third conversation, the first
    /// process is killed from outside. In the other conversations, the first process is killed at a point, and each
    /// conversation takes the next point. After each kill, another kill follows with a probability of one half, up to
    /// four kills.
    pub(super) fn kills(&self, number: u32) -> Vec<PlannedKill> {
        let mut random = fastrand::Rng::with_seed(self.seed ^ (u64::from(number) << 32));
        let others = number / 3;
        let mut kills = match number % 3 {
            2 => vec![self.outside(&mut random)],
            rest => vec![self.at(self.order(others * 2 + rest), &mut random)],
        };
        while kills.len() < 4 && random.bool() {
            let next = match random.u8(..3) {
                0 => self.outside(&mut random),
                // A resumed run has fewer points than a whole run, so it may end before the planned point without a
                // kill.
                _ => self.at(random.u32(..self.count()), &mut random),
            };
            kills.push(next);
        }
        kills
    }

    fn count(&self) -> u32 {
        u32::try_from(self.points.len()).unwrap_or(u32::MAX).max(1)
    }

    /// The points in random order, so that even few kills are spread over the run.
    fn order(&self, number: u32) -> u32 {
        let mut order: Vec<u32> = (0..self.count()).collect();
        fastrand::Rng::with_seed(self.seed).shuffle(&mut order);
        order.iter().cycle().nth(number as usize % order.len().max(1)).copied().unwrap_or(0)
    }

    fn at(&self, point: u32, random: &mut fastrand::Rng) -> PlannedKill {
        let begins = |point: usize| self.points.get(point).copied();
        let lasts = match (begins(point as usize), begins(point as usize + 1)) {
            (Some(from), Some(to)) => to.saturating_sub(from),
            _ => 0,
        };
        PlannedKill::At { point, delay: random.u64(..=lasts.max(200)) }
    }

    fn outside(&self, random: &mut fastrand::Rng) -> PlannedKill {
        PlannedKill::After(Duration::from_micros(random.u64(..=self.took.max(1000))))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{KillPlan, PlannedKill};

    #[test]
    fn each_point_has_its_turn_and_a_seed_says_all() {
        let plan = KillPlan { seed: 7, points: (0..40).map(|at| at * 100).collect(), took: 4000 };
        let first = |number| plan.kills(number).swap_remove(0);
        let at: BTreeSet<u32> = (0..60)
            .filter_map(|number| match first(number) {
                PlannedKill::At { point, .. } => Some(point),
                PlannedKill::After(_) => None,
            })
            .collect();
        assert_eq!(at, (0..40).collect());
        let outside =
            (0..60).filter(|number| matches!(first(*number), PlannedKill::After(_))).count();
        assert_eq!(outside, 20);
        assert!((0..60).any(|number| plan.kills(number).len() > 2));
        assert_eq!(plan.kills(17), plan.clone().kills(17));
    }
}
