//! [`MinRtt`]: the round trip without queues.

use core::time::Duration;

use tautline_base::Instant;

use crate::controller::Ack;

/// The lowest round trip time, until it is too old to be believed.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    window: Duration,
    /// And when it was measured.
    lowest: Option<(Duration, Instant)>,
}

impl MinRtt {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            lowest: None,
        }
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.lowest.map(|(rtt, _)| rtt)
    }

    /// Takes a sample in. True if the one it had was too old: time to look at the path with the
    /// queue drained.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        let expired = self
            .lowest
            .is_some_and(|(_, at)| ack.now - at > self.window);
        let Some(rtt) = ack.rtt else { return expired };
        match self.lowest {
            // What the connection has seen before counts for a controller that takes it over.
            None if ack.min_rtt.is_zero() => self.lowest = Some((rtt, ack.now)),
            None => self.lowest = Some((rtt.min(ack.min_rtt), ack.now)),
            Some((lowest, _)) if rtt < lowest || (expired && !ack.delayed) => {
                self.lowest = Some((rtt, ack.now))
            }
            Some(_) => {}
        }
        expired
    }

    /// The path has been looked at with the queue drained.
    pub(super) fn renew(&mut self, now: Instant) {
        if let Some((_, at)) = &mut self.lowest {
            *at = now;
        }
    }
}
