//! [`SimNic`]: a NIC in virtual time. It serializes packets at a line rate, completes them in
//! batches, and holds received frames until the host takes them.
//!
//! Transmit: `put` fills the ring, `doorbell` starts transmission, the last bit of a packet leaves
//! at its departure; the engine then calls [`SimNic::advance`], which passes the bytes to the wire.
//! The packet returns to the host at the next interrupt, which is moderated ([`Coalesce`]).
//!
//! With [`NicConfig::tso`] a packet may have several segments. It takes one descriptor and
//! completes once, with its last segment; each segment is a frame of its own on the wire.
//!
//! A NIC on a shared medium ([`SimNic::attach_to_medium`]) has no line rate: its frames leave when
//! the [`medium`](crate::medium) takes them, and depart when they are acknowledged.

mod config;
mod receive;
mod shared;

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Bytes, Device, Frame, HeapFrame, Instant, Item, Packet, Received, Tso};

use crate::config_error::ConfigError;
use crate::link::earliest;
use crate::schedule::LineRate;

pub use config::{Coalesce, NicConfig};
use receive::RxRing;
use shared::SharedQueue;
pub use shared::{DriverQueue, TxStatus};

/// Counters of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicStats {
    /// Frames sent: every segment counts.
    pub tx_frames: u64,
    /// Packets sent: fewer than frames with TSO.
    pub tx_packets: u64,
    /// Bytes sent, framing not counted.
    pub tx_bytes: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// Frames dropped on arrival: the receive ring was full, or they were too long.
    pub rx_dropped: u64,
    /// Completion interrupts.
    pub interrupts: u64,
    /// Peak occupancy of the transmit ring in packets.
    pub tx_ring_peak: usize,
    /// Peak occupancy of the transmit ring in bytes.
    pub tx_bytes_peak: Bytes,
}

/// A simulated NIC.
#[derive(Debug)]
pub struct SimNic {
    config: NicConfig,
    /// Set on a shared medium.
    shared: Option<Box<SharedQueue>>,
    /// The ring was full and has fewer than `restart` free descriptors since.
    stopped: bool,
    /// Packets put and not yet reaped, those that wait for a shared medium included.
    in_flight: usize,
    /// The others, the oldest first: as on a NIC, they stay in their place until they are reaped. The
    /// first `sent` have left, the next are `sending`, and the rest was put since the last doorbell.
    ring: VecDeque<Packet<HeapFrame>>,
    sent: usize,
    /// The first of `sent` that may be reaped.
    announced: usize,
    sending: usize,
    /// Segments that have left of the first packet that is being sent.
    departed: u16,
    /// Departure times of the segments that have not left.
    departures: VecDeque<Instant>,
    moderation: Moderation,
    interrupt: bool,
    line: LineRate,
    /// When the wire is free again.
    wire_free_at: Instant,
    ring_bytes: Bytes,
    /// The segment on the wire of a TSO packet.
    scratch: HeapFrame,
    /// No recorder reads frames in flight: their deferred parts are never written.
    unread: bool,
    rx: RxRing,
    stats: NicStats,
}

/// State of interrupt moderation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moderation {
    Quiet,
    Gathering { frames: u32, until: Instant },
}

impl SimNic {
    /// A NIC with empty rings.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(config: NicConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            shared: None,
            stopped: false,
            in_flight: 0,
            ring: VecDeque::with_capacity(config.tx_ring),
            sent: 0,
            announced: 0,
            sending: 0,
            departed: 0,
            departures: VecDeque::with_capacity(config.tx_ring),
            moderation: Moderation::Quiet,
            interrupt: false,
            line: LineRate::new(config.rate, config.framing, config.schedule.clone()),
            wire_free_at: Instant::ZERO,
            ring_bytes: Bytes::ZERO,
            scratch: HeapFrame::new(),
            unread: false,
            rx: RxRing::new(&config),
            stats: NicStats::default(),
            config,
        })
    }

    /// Leaves deferred parts of frames unwritten ([`Device::completes`]) from now on: only hosts
    /// with such NICs read them.
    pub(crate) fn leave_unwritten(&mut self) {
        self.unread = true;
    }

    /// Passes every frame that has left by `now` to `wire`, with the time of its last bit, and
    /// interrupts for completions that are due.
    pub fn advance(&mut self, now: Instant, mut wire: impl FnMut(&[u8], Instant)) {
        self.send_off(now, |mut frame, at| wire(frame.complete(), at));
    }

    /// [`advance`](Self::advance) that lets `wire` take the buffers of frames.
    pub(crate) fn send_off(&mut self, now: Instant, mut wire: impl FnMut(Departing<'_>, Instant)) {
        while let Some(departs) = self
            .departures
            .front()
            .copied()
            .filter(|departs| *departs <= now)
            && self.sending > 0
            && let Some(packet) = self.ring.get_mut(self.sent)
        {
            self.departures.pop_front();
            let segments = packet.segments();
            let frame = match segments {
                1 => Departing::Packet(packet),
                _ => Departing::Segment(segment(packet, self.departed, &mut self.scratch)),
            };
            self.stats.tx_frames += 1;
            self.stats.tx_bytes += match &frame {
                Departing::Packet(packet) => packet.len().get(),
                Departing::Segment(bytes) => bytes.len() as u64,
            };
            wire(frame, departs);
            self.departed += 1;
            if self.departed < segments {
                continue;
            }
            self.departed = 0;
            self.stats.tx_packets += 1;
            self.sent += 1;
            self.sending -= 1;
            self.gather(departs);
        }
        self.announce_due(now);
    }

    /// Interrupts if the oldest completion has reached [`Coalesce::time`].
    pub(crate) fn announce_due(&mut self, now: Instant) {
        if self.announces_at().is_some_and(|until| until <= now) {
            self.announce();
        }
    }

    /// Free descriptors, those of a stopped ring included.
    fn free(&self) -> usize {
        let free = self.config.tx_ring - self.in_flight;
        if self.config.ring_bytes == Bytes::MAX {
            return free;
        }
        let bytes = self.config.ring_bytes.saturating_sub(self.ring_bytes);
        free.min((bytes.get() / self.config.largest_frame().get()) as usize)
    }

    /// When [`advance`](Self::advance) next has something to do.
    pub fn next_event(&self) -> Option<Instant> {
        earliest(self.departs_at(), self.announces_at())
    }

    /// When the next frame leaves.
    pub(crate) fn departs_at(&self) -> Option<Instant> {
        self.departures.front().copied()
    }

    /// Deadline of the next interrupt.
    pub(crate) fn announces_at(&self) -> Option<Instant> {
        match self.moderation {
            Moderation::Quiet => None,
            Moderation::Gathering { until, .. } => Some(until),
        }
    }

    /// Returns and clears the pending completion interrupt, on which a driver polls its host.
    pub fn take_interrupt(&mut self) -> bool {
        std::mem::take(&mut self.interrupt)
    }

    /// Receives a frame from the wire. Drops it if no receive descriptor is free or it exceeds the
    /// MTU.
    pub fn arrive(&mut self, bytes: &[u8]) {
        let kept = self.rx.copy(bytes);
        self.count_received(kept);
    }

    /// [`arrive`](Self::arrive) for a packet of a link, which receives an empty frame in exchange.
    /// Packets that are put from now on leave [`NicConfig::rx_frame_time`] later.
    pub(crate) fn receive_frame(&mut self, packet: &mut Packet<HeapFrame>, now: Instant) {
        self.occupy(self.config.rx_frame_time, now);
        let kept = self.rx.exchange(packet, now);
        self.count_received(kept);
    }

    /// Sends nothing for `time`.
    fn occupy(&mut self, time: Duration, now: Instant) {
        self.wire_free_at = self.wire_free_at.max(now) + time;
    }

    fn count_received(&mut self, kept: bool) {
        self.stats.rx_frames += u64::from(kept);
        self.stats.rx_dropped += u64::from(!kept);
    }

    /// True while a completion interrupt is pending.
    pub(crate) fn interrupting(&self) -> bool {
        self.interrupt
    }

    /// When the host is to take the received frames that wait.
    pub(crate) fn receives_at(&self) -> Option<Instant> {
        self.rx.interrupts_at()
    }

    /// Packets in the transmit ring, and received frames that are waiting or lent to the host.
    pub fn outstanding(&self) -> usize {
        self.in_flight() + self.rx.outstanding()
    }

    /// Occupancy of the transmit ring in bytes.
    pub fn ring_bytes(&self) -> Bytes {
        self.ring_bytes
    }

    /// Counters.
    pub fn stats(&self) -> &NicStats {
        &self.stats
    }

    /// The parameters.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// A transmission completed at `at`: interrupts at once or after moderation.
    fn gather(&mut self, at: Instant) {
        let (frames, until) = match self.moderation {
            Moderation::Quiet => (1, at + self.config.coalesce.time),
            Moderation::Gathering { frames, until } => (frames + 1, until),
        };
        self.moderation = Moderation::Gathering { frames, until };
        if frames >= self.config.coalesce.frames || until <= at {
            self.announce();
        }
    }

    fn announce(&mut self) {
        self.announced = self.sent;
        self.moderation = Moderation::Quiet;
        self.interrupt = true;
        self.stats.interrupts += 1;
    }
}

/// Segment `index` of `packet` as it is on the wire, written into `scratch` if there are several.
fn segment<'a>(packet: &'a Packet<HeapFrame>, index: u16, scratch: &'a mut HeapFrame) -> &'a [u8] {
    if packet.segments() == 1 {
        return packet.bytes();
    }
    let whole = packet.segmentation();
    let len = whole.and_then(|whole| whole.write(index.into(), scratch.bytes_mut()));
    len.map_or_else(|| packet.bytes(), |len| &scratch.bytes()[..len])
}

/// A frame that leaves a NIC.
pub(crate) enum Departing<'a> {
    /// A packet, whose buffer may be exchanged before it completes.
    Packet(&'a mut Packet<HeapFrame>),
    /// A segment of a TSO packet.
    Segment(&'a [u8]),
}

impl Departing<'_> {
    /// The bytes on the wire.
    pub(crate) fn complete(&mut self) -> &[u8] {
        match self {
            Self::Packet(packet) => {
                packet.complete();
                packet.bytes()
            }
            Self::Segment(bytes) => bytes,
        }
    }
}

impl Device for SimNic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.config.mtu
    }

    /// Not supported on a shared medium, which carries frames.
    fn tso(&self) -> Option<Tso> {
        self.config.tso.filter(|_| self.shared.is_none())
    }

    /// As between the ends of a veth pair: a frame that cannot be corrupted needs no checksum.
    fn completes(&self) -> bool {
        self.unread
    }

    fn room(&self) -> usize {
        if self.stopped { 0 } else { self.free() }
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        assert!(
            self.room() > 0,
            "put without room violates the contract of Device"
        );
        self.ring_bytes += packet.len();
        self.in_flight += 1;
        self.ring.push_back(packet);
        self.stats.tx_ring_peak = self.stats.tx_ring_peak.max(self.in_flight);
        self.stats.tx_bytes_peak = self.stats.tx_bytes_peak.max(self.ring_bytes);
        self.stopped = self.free() == 0;
    }

    fn doorbell(&mut self, now: Instant) {
        if let Some(shared) = &mut self.shared {
            for packet in self.ring.drain(self.sent + self.sending..) {
                shared.enqueue(packet, now);
            }
            return self.settle_shared(now);
        }
        while let Some(packet) = self.ring.get(self.sent + self.sending) {
            let segments = packet.segments();
            // All segments have the same length.
            let len = if segments == 1 {
                packet.len()
            } else {
                packet.len() / u64::from(segments)
            };
            self.occupy(self.config.tx_packet_time, now);
            for _ in 0..segments {
                self.wire_free_at = self.line.departure(self.wire_free_at, len);
                self.departures.push_back(self.wire_free_at);
            }
            self.sending += 1;
        }
    }

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        if self.announced == 0 {
            return;
        }
        for _ in 0..std::mem::take(&mut self.announced) {
            let Some(packet) = self.ring.pop_front() else {
                break;
            };
            self.sent -= 1;
            self.ring_bytes -= packet.len();
            self.in_flight -= 1;
            done.push(packet);
        }
        self.stopped &= self.free() < self.config.restart;
    }

    fn announces_completions(&self) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        self.rx.receive()
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.rx.recycle(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.extend(self.ring.drain(..self.sent + self.sending));
        (self.sent, self.sending, self.departed) = (0, 0, 0);
        self.departures.clear();
        if let Some(shared) = &mut self.shared {
            shared.reset(lost);
        }
        lost.extend(self.ring.drain(..));
        (self.stopped, self.in_flight) = (false, 0);
        self.announced = 0;
        self.moderation = Moderation::Quiet;
        self.ring_bytes = Bytes::ZERO;
        // Discarded frames keep the wire no longer.
        self.wire_free_at = Instant::ZERO;
        self.line.reset();
    }
}

#[cfg(test)]
mod tests;
