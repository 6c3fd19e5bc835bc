//! [`Policer`]: detects a token-bucket policer, which passes bursts and then drops packets above its
//! rate.
//!
//! Behind a policer the bandwidth filter measures the bursts, and every flight loses heavily. Two
//! consecutive intervals between losses with heavy loss and the same delivery rate identify the
//! bucket; the controller then keeps to its rate for a while without probing.

use tautline_base::{Bytes, Instant, Rate};

use super::params::PolicerParams;

/// Totals at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) at: Instant,
    pub(super) delivered: Bytes,
    pub(super) lost: Bytes,
}

/// Facts about a policer from a delivery or a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub(super) totals: Totals,
    /// Data was just found lost.
    pub(super) losing: bool,
    pub(super) app_limited: bool,
    /// A round trip began.
    pub(super) round_start: bool,
    /// The controller is in PROBE_BW.
    pub(super) probing_bw: bool,
}

/// Long-term bandwidth sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policer {
    /// Nothing was lost lately.
    Unsuspected,
    /// Measuring an interval.
    Sampling {
        since: Totals,
        rounds: u32,
        /// Rate of the previous interval.
        previous: Option<Rate>,
    },
    /// Detected; the controller keeps to its rate.
    Obeyed {
        rate: Rate,
        /// Round trips of PROBE_BW since its detection.
        rounds: u32,
    },
}

impl Policer {
    /// Rate of the detected policer.
    pub(super) fn rate(self) -> Option<Rate> {
        match self {
            Self::Obeyed { rate, .. } => Some(rate),
            _ => None,
        }
    }

    /// Evaluates the evidence. True when the detected rate has expired: probe again.
    pub(super) fn on_evidence(&mut self, evidence: &Evidence, params: &PolicerParams) -> bool {
        match *self {
            Self::Obeyed { rate, rounds } => {
                let rounds =
                    rounds.saturating_add(u32::from(evidence.probing_bw && evidence.round_start));
                let over = rounds >= params.hold_rounds;
                *self = if over {
                    Self::Unsuspected
                } else {
                    Self::Obeyed { rate, rounds }
                };
                over
            }
            Self::Unsuspected if !evidence.losing => false,
            Self::Unsuspected => {
                self.sample(evidence, evidence.totals, 0, None, params);
                false
            }
            Self::Sampling {
                since,
                rounds,
                previous,
            } => {
                self.sample(evidence, since, rounds, previous, params);
                false
            }
        }
    }

    fn sample(
        &mut self,
        evidence: &Evidence,
        since: Totals,
        rounds: u32,
        previous: Option<Rate>,
        params: &PolicerParams,
    ) {
        let rounds = rounds.saturating_add(u32::from(evidence.round_start));
        if evidence.app_limited || rounds > params.max_rounds {
            *self = Self::Unsuspected;
            return;
        }
        *self = match measure(since, evidence.totals, params) {
            // An interval ends with a loss, which proves that the bucket is empty.
            Some(rate) if evidence.losing && rounds >= params.min_rounds => {
                conclude(rate, previous, evidence.totals, params)
            }
            _ => Self::Sampling {
                since,
                rounds,
                previous,
            },
        };
    }
}

/// Rate of an interval whose share of losses indicates a policer.
fn measure(since: Totals, until: Totals, params: &PolicerParams) -> Option<Rate> {
    let delivered = until.delivered.saturating_sub(since.delivered);
    let lost = until.lost.saturating_sub(since.lost);
    let time = until.at - since.at;
    let threshold = u128::from(params.loss_threshold.as_256ths()) * u128::from(delivered.get());
    let heavy = u128::from(lost.get()) * 256 >= threshold;
    (heavy && delivered > Bytes::ZERO && time.as_millis() >= 1)
        .then(|| Rate::from_amount(delivered, time))
}

fn conclude(rate: Rate, previous: Option<Rate>, totals: Totals, params: &PolicerParams) -> Policer {
    match previous {
        Some(before) if similar(rate, before, params) => {
            let (rate, before) = (rate.as_bytes_per_sec(), before.as_bytes_per_sec());
            Policer::Obeyed {
                rate: Rate::bytes_per_sec(rate.midpoint(before)),
                rounds: 0,
            }
        }
        _ => Policer::Sampling {
            since: totals,
            rounds: 0,
            previous: Some(rate),
        },
    }
}

fn similar(rate: Rate, before: Rate, params: &PolicerParams) -> bool {
    let difference =
        Rate::bytes_per_sec(rate.as_bytes_per_sec().abs_diff(before.as_bytes_per_sec()));
    difference <= params.similar.of(before) || difference <= params.similar_rate
}

#[cfg(test)]
mod tests;
