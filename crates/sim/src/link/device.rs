//! [`EgressNic`]: the port through which a router feeds a link: the queue, a ring of descriptors
//! behind a limit, and a driver that services completions late.
//!
//! A link without one dequeues whenever the wire is free: a ring of one packet, which no real
//! router has.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg32;
use tautline_base::headers::ETHERNET_HEADER;
use tautline_base::{HeapFrame, Instant, Packet, Qdisc};
use tautline_bql::{Limit, Port, Ring};
use tautline_stack::Tracer;

use super::channel::Channel;
use super::config::{LinkConfig, LinkNicConfig};
use super::frames::Frames;
use super::{LinkEvent, LinkQdisc, earliest};
use crate::config_error::ConfigError;
use crate::nic::{Departing, NicConfig, SimNic};

/// The port of a link: its qdisc, its NIC and the limit between them.
type LinkPort = Port<LinkQdisc, SimNic, Box<dyn Limit>>;

pub(super) struct EgressNic {
    port: LinkPort,
    /// Cost of moving a packet from the queue to the ring.
    copy: Duration,
    driver: Driver,
    done: Vec<Packet<HeapFrame>>,
}

/// The NIC of a link that `config` describes.
pub(super) fn nic_config(config: &LinkNicConfig, link: &LinkConfig) -> NicConfig {
    NicConfig {
        mtu: HeapFrame::LEN - ETHERNET_HEADER,
        tx_ring: config.ring,
        restart: config.restart,
        ring_bytes: config.ring_bytes,
        // It never receives.
        rx_ring: 1,
        rx_delay: Duration::ZERO,
        rate: link.rate,
        schedule: link.schedule.clone(),
        tx_packet_time: Duration::ZERO,
        rx_frame_time: Duration::ZERO,
        framing: link.framing,
        coalesce: config.coalesce,
        tso: None,
    }
}

/// The driver of a link's NIC, which answers interrupts late.
pub(super) struct Driver {
    /// Maximum latency.
    late: Duration,
    /// Draws latencies.
    rng: Pcg32,
    serviced_at: Option<Instant>,
}

impl Driver {
    pub(super) fn new(late: Duration, rng: Pcg32) -> Self {
        Self {
            late,
            rng,
            serviced_at: None,
        }
    }

    /// An interrupt at `now`, which the next service answers.
    pub(super) fn interrupt(&mut self, now: Instant) {
        if self.serviced_at.is_none() {
            self.serviced_at = Some(now + draw_latency(self.late, &mut self.rng));
        }
    }

    /// When the driver services the pending interrupt.
    pub(super) fn serviced_at(&self) -> Option<Instant> {
        self.serviced_at
    }

    /// True once the driver services the pending interrupt.
    pub(super) fn services(&mut self, now: Instant) -> bool {
        self.serviced_at.take_if(|at| *at <= now).is_some()
    }
}

impl EgressNic {
    pub(super) fn new(
        config: &LinkNicConfig,
        link: &LinkConfig,
        qdisc: LinkQdisc,
        rng: Pcg32,
    ) -> Result<Self, ConfigError> {
        let nic = SimNic::new(nic_config(config, link))?;
        Ok(Self {
            port: Port::new(qdisc, Ring::new(nic, config.limit.build()?)),
            copy: config.copy,
            driver: Driver::new(config.late, rng),
            done: Vec::new(),
        })
    }

    pub(super) fn port(&self) -> &LinkPort {
        &self.port
    }

    pub(super) fn port_mut(&mut self) -> &mut LinkPort {
        &mut self.port
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        let nic = self.port.ring().device();
        // Frames that a medium drops or loses interrupt between two events.
        let interrupt = nic.interrupting().then_some(Instant::ZERO);
        let nic = earliest(
            earliest(nic.next_event(), self.driver.serviced_at()),
            interrupt,
        );
        earliest(nic, self.port.ready_at())
    }

    /// Sends what has left the NIC, settles completions that the driver has found, and refills the
    /// ring.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        channel: &mut Channel,
        frames: &mut Frames,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        let nic = self.port.ring_mut().device_mut();
        nic.send_off(now, |frame, at| {
            let packet = match frame {
                Departing::Packet(packet) => frames.exchange(packet),
                Departing::Segment(bytes) => frames.copy(bytes),
            };
            channel.depart(packet, at, frames, tracer);
        });
        if nic.take_interrupt() {
            self.driver.interrupt(now);
        }
        if self.driver.services(now) {
            self.port.reap(now, &mut self.done);
            self.done.drain(..).for_each(|packet| frames.settle(packet));
        }
        let mut clock = now;
        let dequeue = |qdisc: &mut LinkQdisc| {
            let packet = frames.dequeue(clock, tracer, |drops| qdisc.dequeue(clock, drops))?;
            clock += self.copy;
            Some(packet)
        };
        self.port.transmit_with(now, usize::MAX, dequeue, |_| {});
    }
}

/// A latency drawn uniformly from zero to `max`. Draws nothing if `max` is zero.
fn draw_latency(max: Duration, rng: &mut Pcg32) -> Duration {
    if max.is_zero() {
        return Duration::ZERO;
    }
    let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(((u128::from(nanos) * u128::from(rng.next_u32())) >> 32) as u64)
}
