//! The size of the next request: the vendor's last count, and an estimate of what was added since.

use crate::machine::{ContextView, MeasuredRequest};
use harness_core::{
    message::Messages,
    provider::{ContextMeter, ContextTokens},
};

/// If a request had at least this many tokens, the correction factor of the estimate is also used for new
/// messages.
const MANY: u64 = 2_000;

/// The approximate number of tokens that a message costs besides its content.
const FRAME: u64 = 10;

/// With fewer tokens than this, the error of an estimate cannot be measured.
const FEW: u64 = 200;

/// Estimates the size of the next request, and corrects the estimate by the vendor's last count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContextGauge {
    meter: ContextMeter,
    /// The number of messages and the estimated tokens of the last estimated request.
    asked: (usize, u64),
    /// When a request has this many tokens, the library checks again whether results can be cleared.
    pub(crate) look_at: u64,
}

impl ContextGauge {
    pub(crate) fn new(meter: ContextMeter) -> Self {
        Self { meter, ..Self::default() }
    }

    /// Corrects the estimate after old results were cleared. `past`: the sent messages before.
    pub(crate) fn replace(&mut self, past: &Messages, seen: ContextView<'_>) {
        let (counted, tokens) = self.meter.replace(past, seen.messages());
        (self.asked, self.look_at) = ((counted, tokens.total()), 0);
    }

    /// The estimate for the next request.
    pub(crate) fn count(&mut self, seen: ContextView<'_>) -> ContextTokens {
        self.meter.count(seen.messages(), seen.thinking_from)
    }

    /// Estimates a request that is sent now, and keeps the estimate to compare it with the vendor's count
    /// later.
    pub(crate) fn estimate_request(&mut self, seen: ContextView<'_>) -> ContextTokens {
        let tokens = self.count(seen);
        self.asked = (seen.messages().len(), tokens.total());
        tokens
    }

    /// How many tokens the next request has. `known` is the vendor's last count, `empty` a meter that has
    /// counted no message.
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
        // In a small request, a large part of the count is text that the vendor adds. So the ratio of the count
        // to the estimate does not apply to new messages.
        let growth = if then < MANY { (1, 1) } else { scale };
        let more = scaled(estimated.saturating_sub(then), growth);
        let frames = u64::try_from(sent.len().saturating_sub(known.messages)).unwrap_or(0);
        let more = more.saturating_add(frames.saturating_mul(FRAME));
        ContextUsage { tokens: known.tokens.saturating_add(more), scale }
    }
}

/// A number of tokens, and the correction factor for estimates as a fraction.
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

/// The limit on the tokens of an answer, lowered after a refused request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReducedMaxTokens {
    pub(crate) tokens: u32,
    /// Whether the vendor has stated the exact size of the request.
    pub(crate) is_counted: bool,
}

fn scale(counted: u64, estimated: u64) -> (u64, u64) {
    if estimated < FEW || counted == 0 {
        return (1, 1);
    }
    // A server may count only a part of the request, such as the part outside of its cache. So the factor is
    // limited to between one third and three.
    let (least, most) = (estimated / 3, estimated.saturating_mul(3));
    (counted.clamp(least, most), estimated)
}

pub(crate) fn scaled(tokens: u64, (by, of): (u64, u64)) -> u64 {
    let scaled = u128::from(tokens) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
