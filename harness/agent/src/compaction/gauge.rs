//! The size of what is sent: what the vendor has counted last, and an estimate of what has come since.

use crate::machine::{ContextView, MeasuredRequest};
use harness_core::provider::{ContextMeter, ContextTokens};

/// From this many tokens on, the factor for old messages also holds for new ones.
const MANY: u64 = 2_000;

/// About how many tokens the frame of a message costs.
const FRAME: u64 = 10;

/// With fewer tokens than this, the error of an estimate cannot be measured.
const FEW: u64 = 200;

/// Estimates the size of what is sent, and corrects the estimate by what the vendor has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContextGauge {
    meter: ContextMeter,
    /// The last request that was estimated: the number of its messages, and its tokens.
    asked: (usize, u64),
    /// From how many tokens on it is checked again whether something can be moved.
    pub(crate) look_at: u64,
}

impl ContextGauge {
    pub(crate) fn new(meter: ContextMeter) -> Self {
        Self { meter, ..Self::default() }
    }

    /// The estimate for the next request.
    pub(crate) fn count(&mut self, seen: ContextView<'_>) -> ContextTokens {
        self.meter.count(seen.messages(), seen.thinking_from)
    }

    /// The estimate for a request that is sent now.
    pub(crate) fn estimate_request(&mut self, seen: ContextView<'_>) -> ContextTokens {
        let tokens = self.count(seen);
        self.asked = (seen.messages().len(), tokens.total());
        tokens
    }

    /// How many tokens the next request has. `empty` is a meter that has counted no message.
    pub(crate) fn context_usage(
        &mut self,
        seen: ContextView<'_>,
        known: Option<MeasuredRequest>,
        empty: ContextMeter,
    ) -> ContextUsage {
        let estimated = self.count(seen).total();
        let Some(known) = known else {
            return ContextUsage { tokens: estimated, scale: (1, 1) };
        };
        let sent = seen.messages();
        if self.asked.0 != known.messages {
            let mut meter = empty;
            let then = meter.count(&sent.range(..known.messages), seen.thinking_from);
            self.asked = (known.messages, then.total());
        }
        let then = self.asked.1;
        let scale = scale(known.tokens, then);
        // What the vendor adds to a small request is a large part of it, and says nothing about
        // later growth.
        let growth = if then < MANY { (1, 1) } else { scale };
        let more = scaled(estimated.saturating_sub(then), growth);
        let frames = u64::try_from(sent.len().saturating_sub(known.messages)).unwrap_or(0);
        let more = more.saturating_add(frames.saturating_mul(FRAME));
        ContextUsage { tokens: known.tokens.saturating_add(more), scale }
    }
}

/// A number of tokens, and the factor for estimates as a fraction.
#[derive(Clone, Copy)]
pub(crate) struct ContextUsage {
    pub(crate) tokens: u64,
    scale: (u64, u64),
}

impl ContextUsage {
    /// The estimate that corresponds to this number of tokens.
    pub(crate) fn estimate_of(&self, tokens: u64) -> u64 {
        let (by, of) = self.scale;
        scaled(tokens, (of, by))
    }

    pub(crate) fn scaled(&self, estimated: u64) -> u64 {
        scaled(estimated, self.scale)
    }
}

/// How many tokens an answer may have after a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReducedMaxTokens {
    pub(crate) tokens: u32,
    /// Whether the vendor has counted the request.
    pub(crate) is_counted: bool,
}

fn scale(counted: u64, estimated: u64) -> (u64, u64) {
    if estimated < FEW || counted == 0 {
        return (1, 1);
    }
    // A server may count something else than what was sent, such as only what was not in its cache.
    let (least, most) = (estimated / 3, estimated.saturating_mul(3));
    (counted.clamp(least, most), estimated)
}

pub(crate) fn scaled(tokens: u64, (by, of): (u64, u64)) -> u64 {
    let scaled = u128::from(tokens) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
