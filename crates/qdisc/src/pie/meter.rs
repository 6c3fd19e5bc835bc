//! [`Meter`]: PIE's measurements at dequeue: how long ago the last one was, or how fast the queue
//! drains (RFC 8033 §5.3).

use super::params::Law;

/// Observes the dequeues of one queue; times in the law's ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Meter {
    watch: Watch,
    /// Average departure rate: bytes per second, or 256ths of a byte per tick of Linux. 0: not
    /// known.
    rate: u64,
}

/// The measurement in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Watch {
    #[default]
    Nothing,
    /// The last dequeue.
    Dequeue { at: u64 },
    /// A measurement of the rate.
    Cycle { start: u64, bytes: u64 },
}

/// The unit of rates: how much a byte per tick is worth.
fn scale(law: Law) -> u64 {
    match law {
        Law::Rfc8033 | Law::Rfc8034 => 1_000_000_000,
        Law::Linux => 1 << 8,
    }
}

impl Meter {
    /// Notes a dequeue; ticks since the one before, 0 if that is forgotten.
    pub(crate) fn gap(&mut self, now: u64) -> u64 {
        let before = core::mem::replace(&mut self.watch, Watch::Dequeue { at: now });
        if let Watch::Dequeue { at } = before {
            now.saturating_sub(at)
        } else {
            0
        }
    }

    /// Counts a packet of `len` that leaves `backlog` bytes behind; how long the measurement took
    /// that it ends, else 0. Measured is from a backlog of `threshold` bytes on, and over at least
    /// as many.
    ///
    /// DIVERGES: rates and times are 64 bits wide; Linux's 32 overflow at a backlog of 16 MiB.
    pub(crate) fn measure(
        &mut self,
        law: Law,
        threshold: u64,
        len: u64,
        backlog: u64,
        now: u64,
    ) -> u64 {
        let (start, bytes) = match self.watch {
            Watch::Cycle { start, bytes } => (start, bytes),
            Watch::Nothing | Watch::Dequeue { .. } if backlog >= threshold => (now, 0),
            Watch::Nothing | Watch::Dequeue { .. } => return 0,
        };
        let (bytes, took) = (bytes.saturating_add(len), now.saturating_sub(start));
        if bytes < threshold || took == 0 {
            self.watch = Watch::Cycle { start, bytes };
            return 0;
        }
        let sample = bytes.saturating_mul(scale(law)) / took;
        self.rate = if self.rate == 0 {
            sample
        } else {
            self.rate - self.rate / 8 + sample / 8
        };
        self.watch = if backlog < threshold {
            Watch::Nothing
        } else {
            Watch::Cycle {
                start: now,
                bytes: 0,
            }
        };
        took
    }

    /// Time that `backlog` bytes take at the measured rate; 0 if none is known.
    pub(crate) fn delay(&self, law: Law, backlog: u64) -> u64 {
        let ticks = (u128::from(backlog) * u128::from(scale(law)))
            .checked_div(self.rate.into())
            .unwrap_or(0);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Whether a rate is known.
    pub(crate) fn knows(&self) -> bool {
        self.rate > 0
    }

    /// The measured rate in bytes per second.
    pub(crate) fn rate(&self, law: Law) -> u64 {
        match law {
            Law::Rfc8033 | Law::Rfc8034 => self.rate,
            Law::Linux => self.rate.saturating_mul(15_625_000) >> 8,
        }
    }

    /// The measured rate as the law counts it.
    #[cfg(test)]
    pub(crate) fn raw(&self) -> u64 {
        self.rate
    }
}
