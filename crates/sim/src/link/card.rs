//! [`Card`]: the card through which a router feeds a link: a ring of descriptors behind a limit,
//! and a driver that hears of completions late.
//!
//! Without one a link takes a packet from its queue whenever the wire is free: a ring of one
//! packet, which no real router has.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg32;
use tautline_base::{HeapFrame, Instant, Packet};
use tautline_bql::{Limit, Ring};

use super::config::{CardConfig, LinkConfig};
use super::earliest;
use crate::config_error::ConfigError;
use crate::nic::{Departing, NicConfig, SimNic};

/// The card of a link.
pub(super) struct Card {
    ring: Ring<SimNic, Box<dyn Limit>>,
    /// What taking a packet from the queue takes.
    pub(super) copy: Duration,
    late: Duration,
    /// What lateness is drawn from.
    rng: Pcg32,
    /// When the driver answers the interrupt.
    answers_at: Option<Instant>,
    pub(super) done: Vec<Packet<HeapFrame>>,
}

impl Card {
    /// The card that sends onto `link`.
    pub(super) fn new(
        config: &CardConfig,
        link: &LinkConfig,
        rng: Pcg32,
    ) -> Result<Self, ConfigError> {
        let CardConfig {
            ring,
            restart,
            ring_bytes,
            copy,
            coalesce,
            late,
            limit,
        } = *config;
        let (mtu, rate, schedule) = (HeapFrame::LEN - super::IP, link.rate, link.schedule.clone());
        // It never receives.
        let (tx_ring, rx_ring, framing) = (ring, 1, link.framing);
        let nic = NicConfig {
            mtu,
            tx_ring,
            restart,
            ring_bytes,
            rx_ring,
            rate,
            schedule,
            framing,
            coalesce,
            tso: None,
        };
        Ok(Self {
            ring: Ring::new(SimNic::new(nic)?, limit.build()?),
            copy,
            late,
            rng,
            answers_at: None,
            done: Vec::new(),
        })
    }

    /// Lets time pass until `now`: gives `wire` what has left; `done` then holds what the driver
    /// found completed.
    pub(super) fn advance(&mut self, now: Instant, wire: impl FnMut(Departing<'_>, Instant)) {
        let nic = self.ring.device_mut();
        nic.send_off(now, wire);
        if nic.take_interrupt() && self.answers_at.is_none() {
            self.answers_at = Some(now + lateness(self.late, &mut self.rng));
        }
        if self.answers_at.is_some_and(|at| at <= now) {
            self.answers_at = None;
            self.ring.reap(now, &mut self.done);
        }
    }

    /// When [`advance`](Self::advance) has something to do.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let nic = self.ring.device();
        // What a granted card drops or gives up interrupts while nobody looks.
        let interrupt = nic.interrupting().then_some(Instant::ZERO);
        earliest(earliest(nic.next_event(), self.answers_at), interrupt)
    }

    pub(super) fn ring(&self) -> &Ring<SimNic, Box<dyn Limit>> {
        &self.ring
    }

    pub(super) fn ring_mut(&mut self) -> &mut Ring<SimNic, Box<dyn Limit>> {
        &mut self.ring
    }
}

/// Evenly from nothing to `most`; draws nothing when there is nothing to draw.
fn lateness(most: Duration, rng: &mut Pcg32) -> Duration {
    if most.is_zero() {
        return Duration::ZERO;
    }
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(((u128::from(nanos) * u128::from(rng.next_u32())) >> 32) as u64)
}
