//! [`SimNic`]: a network card in virtual time. It serialises packets at a line rate, announces
//! completions in batches, and holds received frames until the host takes them.
//!
//! Transmit: `put` fills the ring, `doorbell` starts transmission, the last bit of a packet leaves
//! at its departure; the engine then calls [`SimNic::advance`], which shows the bytes to the wire.
//! The packet itself completes here: it returns to the host at the next interrupt, which is
//! moderated as `ethtool -C tx-frames/tx-usecs` would.
//!
//! With [`NicConfig::tso`] a packet may stand for several segments. It takes one descriptor and
//! completes once, with its last segment; the wire sees each as a frame of its own, one after the
//! other at the line rate.
//!
//! A card on shared air ([`SimNic::await_grants`]) has no line rate: its frames leave when the
//! [`medium`](crate::medium) takes them, and depart when they were acknowledged. The rest is the
//! same.

mod granted;

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::headers::ETHERNET_HEADER;
use tautline_base::{
    Bytes, Deferred, Device, Frame, HeapFrame, Instant, Item, Offload, Packet, Rate, Received,
    Segmentation, Tso,
};

use crate::config_error::ConfigError;
use crate::link::earliest;
use crate::schedule::{Line, Schedule};

use granted::Granted;
pub use granted::{Discipline, Verdict};

/// Parameters of a [`SimNic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Largest IP packet in bytes, 68 to 2034. Default 1500 (Ethernet).
    pub mtu: usize,
    /// Descriptors of the transmit ring, at least 1. Default 256 (Linux e1000e, igb).
    pub tx_ring: usize,
    /// Free descriptors, from 1 to `tx_ring`, at which a ring that was full takes packets again.
    /// Default 1. More makes a device that stops and starts: it calls for packets in bursts of so
    /// many, as e1000e and tg3 do in different ways.
    pub restart: usize,
    /// Bytes that the transmit ring holds, at least one full frame, whatever their number. Default
    /// [`Bytes::MAX`]: descriptors alone count. The buffer of an LTE bearer counts bytes.
    pub ring_bytes: Bytes,
    /// Frames that may wait for the host, at least 1; more are dropped. Default 256 (Linux e1000e,
    /// igb).
    pub rx_ring: usize,
    /// Line rate. Default 1 Gbit/s.
    pub rate: Rate,
    /// How it changes. Default not at all.
    pub schedule: Schedule,
    /// What each frame takes on the wire beyond its bytes. Default 24: preamble, FCS and gap (IEEE
    /// 802.3).
    pub framing: Bytes,
    /// When completions are announced.
    pub coalesce: Coalesce,
    /// Packets of several segments that the card cuts itself (`ethtool -K tso`); [`Tso::MOST`] is
    /// what Linux cards take. Each takes one descriptor, and the last may exceed `ring_bytes`.
    /// Default none.
    pub tso: Option<Tso>,
}

impl Default for NicConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            tx_ring: 256,
            restart: 1,
            ring_bytes: Bytes::MAX,
            rx_ring: 256,
            rate: Rate::gbit(1),
            schedule: Schedule::Constant,
            framing: Bytes::new(24),
            coalesce: Coalesce::default(),
            tso: None,
        }
    }
}

impl NicConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let largest = HeapFrame::LEN - ETHERNET_HEADER;
        ConfigError::check(
            (68..=largest).contains(&self.mtu),
            "mtu",
            self.mtu,
            "from 68 to 2034 bytes",
        )?;
        ConfigError::check(self.tx_ring > 0, "tx_ring", self.tx_ring, "at least 1")?;
        ConfigError::check(
            (1..=self.tx_ring).contains(&self.restart),
            "restart",
            self.restart,
            "from 1 to tx_ring",
        )?;
        ConfigError::check(
            self.ring_bytes >= self.largest_frame(),
            "ring_bytes",
            self.ring_bytes,
            "at least one full frame",
        )?;
        ConfigError::check(self.rx_ring > 0, "rx_ring", self.rx_ring, "at least 1")?;
        ConfigError::check(self.rate > Rate::ZERO, "rate", self.rate, "above 0")?;
        self.schedule.check()?;
        ConfigError::check(
            self.coalesce.frames > 0,
            "coalesce.frames",
            self.coalesce.frames,
            "at least 1",
        )
    }

    fn largest_frame(&self) -> Bytes {
        Bytes::new((self.mtu + ETHERNET_HEADER) as u64)
    }
}

/// Interrupt moderation: completions are announced when enough have gathered, or when the oldest
/// has waited long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// Completions that cause an interrupt at once, at least 1.
    pub frames: u32,
    /// Longest a completion waits for more.
    pub time: Duration,
}

impl Coalesce {
    /// Every completion interrupts at once.
    pub const OFF: Self = Self {
        frames: 1,
        time: Duration::ZERO,
    };
}

impl Default for Coalesce {
    /// 8 frames or 20 µs: our choice, about what moderated cards do at 1 Gbit/s.
    fn default() -> Self {
        Self {
            frames: 8,
            time: Duration::from_micros(20),
        }
    }
}

/// What a NIC counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicStats {
    /// Frames sent, each segment of a packet of several counted.
    pub tx_frames: u64,
    /// Packets sent: fewer than frames where packets stand for several segments.
    pub tx_packets: u64,
    /// Bytes sent, framing not counted.
    pub tx_bytes: u64,
    /// Frames received and kept for the host.
    pub rx_frames: u64,
    /// Frames that found the receive ring full, or were too long.
    pub rx_dropped: u64,
    /// Completion interrupts.
    pub interrupts: u64,
    /// The most packets that were in the transmit ring at once.
    pub tx_ring_peak: usize,
    /// The most bytes that were in the transmit ring at once.
    pub tx_bytes_peak: Bytes,
}

/// A simulated network card.
#[derive(Debug)]
pub struct SimNic {
    config: NicConfig,
    /// Set where a medium says when frames leave.
    granted: Option<Box<Granted>>,
    /// The ring was full and has not been emptied far enough since.
    stopped: bool,
    /// Packets put and not yet reaped, wherever they are.
    in_flight: usize,
    /// Put, not yet started by a doorbell.
    waiting: VecDeque<Packet<HeapFrame>>,
    /// Started; `left` segments of the first of them have left.
    sending: VecDeque<Packet<HeapFrame>>,
    left: u16,
    /// When the last bit of each of their segments leaves that has not left.
    departures: VecDeque<Instant>,
    /// Sent; the first `announced` of them may be reaped.
    sent: VecDeque<Packet<HeapFrame>>,
    announced: usize,
    moderation: Moderation,
    interrupt: bool,
    line: Line,
    /// When the wire is free again.
    wire_free_at: Instant,
    ring_bytes: Bytes,
    /// The segment on the wire of a packet of several.
    scratch: HeapFrame,
    /// Nobody reads frames on their way: what is due in them is never written.
    unread: bool,
    received: VecDeque<(HeapFrame, u32, Deferred)>,
    free: Vec<HeapFrame>,
    stats: NicStats,
}

/// Completions on their way to an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moderation {
    Quiet,
    Gathering { frames: u32, until: Instant },
}

impl SimNic {
    /// A card with empty rings.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(config: NicConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            granted: None,
            stopped: false,
            in_flight: 0,
            waiting: VecDeque::with_capacity(config.tx_ring),
            sending: VecDeque::with_capacity(config.tx_ring),
            left: 0,
            departures: VecDeque::with_capacity(config.tx_ring),
            sent: VecDeque::with_capacity(config.tx_ring),
            announced: 0,
            moderation: Moderation::Quiet,
            interrupt: false,
            line: Line::new(config.rate, config.framing, config.schedule.clone()),
            wire_free_at: Instant::ZERO,
            ring_bytes: Bytes::ZERO,
            scratch: HeapFrame::new(),
            unread: false,
            received: VecDeque::with_capacity(config.rx_ring),
            free: (0..config.rx_ring).map(|_| HeapFrame::new()).collect(),
            stats: NicStats::default(),
            config,
        })
    }

    /// From now on what is [due](Device::completes) in frames stays unwritten, for nobody reads
    /// them but hosts with such cards.
    pub(crate) fn leave_unwritten(&mut self) {
        self.unread = true;
    }

    /// Lets time pass until `now`: shows every frame that has left to `wire`, with the time its
    /// last bit left, and announces completions that are due.
    pub fn advance(&mut self, now: Instant, mut wire: impl FnMut(&[u8], Instant)) {
        self.send_off(now, |mut frame, at| wire(frame.complete(), at));
    }

    /// [`advance`](Self::advance), with frames that `wire` may take the memory of.
    pub(crate) fn send_off(&mut self, now: Instant, mut wire: impl FnMut(Departing<'_>, Instant)) {
        while let Some(departs) = self
            .departures
            .front()
            .copied()
            .filter(|departs| *departs <= now)
            && let Some(packet) = self.sending.front_mut()
        {
            self.departures.pop_front();
            let segments = packet.segments();
            let frame = match segments {
                1 => Departing::Packet(packet),
                _ => Departing::Segment(segment(packet, self.left, &mut self.scratch)),
            };
            self.stats.tx_frames += 1;
            self.stats.tx_bytes += match &frame {
                Departing::Packet(packet) => packet.len().get(),
                Departing::Segment(bytes) => bytes.len() as u64,
            };
            wire(frame, departs);
            self.left += 1;
            if self.left < segments {
                continue;
            }
            self.left = 0;
            self.stats.tx_packets += 1;
            self.sent.extend(self.sending.pop_front());
            self.gather(departs);
        }
        self.announce_due(now);
    }

    /// Announces completions that have waited for long enough.
    pub(crate) fn announce_due(&mut self, now: Instant) {
        if self.announces_at().is_some_and(|until| until <= now) {
            self.announce();
        }
    }

    /// Descriptors that may be filled, were it not for a stop.
    fn free(&self) -> usize {
        let free = self.config.tx_ring - self.in_flight;
        if self.config.ring_bytes == Bytes::MAX {
            return free;
        }
        let bytes = self.config.ring_bytes.saturating_sub(self.ring_bytes);
        free.min((bytes.get() / self.config.largest_frame().get()) as usize)
    }

    /// When [`advance`](Self::advance) has something to do.
    pub fn next_event(&self) -> Option<Instant> {
        earliest(self.departs_at(), self.announces_at())
    }

    /// When the next frame has left.
    pub(crate) fn departs_at(&self) -> Option<Instant> {
        self.departures.front().copied()
    }

    /// When completions are announced at the latest.
    pub(crate) fn announces_at(&self) -> Option<Instant> {
        match self.moderation {
            Moderation::Quiet => None,
            Moderation::Gathering { until, .. } => Some(until),
        }
    }

    /// True once per completion interrupt: the driver should poll its host.
    pub fn take_interrupt(&mut self) -> bool {
        std::mem::take(&mut self.interrupt)
    }

    /// A frame arrives from the wire. It is dropped when no receive frame is free, or when it is
    /// longer than the MTU allows.
    pub fn arrive(&mut self, bytes: &[u8]) {
        if bytes.len() > self.config.mtu + ETHERNET_HEADER {
            self.stats.rx_dropped += 1;
            return;
        }
        let Some(mut frame) = self.free.pop() else {
            self.stats.rx_dropped += 1;
            return;
        };
        frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.received
            .push_back((frame, bytes.len() as u32, Deferred::Nothing));
        self.stats.rx_frames += 1;
    }

    /// [`arrive`](Self::arrive) for a packet of a link, which gets a free frame in exchange for the
    /// one that was received.
    pub(crate) fn take_in(&mut self, packet: &mut Packet<HeapFrame>) {
        let len = packet.len().as_usize();
        if len > self.config.mtu + ETHERNET_HEADER {
            self.stats.rx_dropped += 1;
            return;
        }
        let Some(free) = self.free.pop() else {
            self.stats.rx_dropped += 1;
            return;
        };
        self.received
            .push_back((packet.replace_frame(free), len as u32, packet.deferred()));
        self.stats.rx_frames += 1;
    }

    /// True while a completion interrupt waits to be [taken](Self::take_interrupt).
    pub(crate) fn interrupting(&self) -> bool {
        self.interrupt
    }

    /// Received frames that wait for the host.
    pub fn rx_waiting(&self) -> usize {
        self.received.len()
    }

    /// Frames that are not at rest: packets in the transmit ring, received frames waiting or lent.
    /// Zero when all is quiet.
    pub fn outstanding(&self) -> usize {
        self.in_flight() + self.config.rx_ring - self.free.len()
    }

    /// Bytes in the transmit ring, put and not yet reaped.
    pub fn ring_bytes(&self) -> Bytes {
        self.ring_bytes
    }

    /// What was counted so far.
    pub fn stats(&self) -> &NicStats {
        &self.stats
    }

    /// The parameters.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// A transmission completed at `at`: waits for more or interrupts.
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
        self.announced = self.sent.len();
        self.moderation = Moderation::Quiet;
        self.interrupt = true;
        self.stats.interrupts += 1;
    }
}

/// Segment `index` of `packet` as the wire sees it, written into `scratch` if there are several.
fn segment<'a>(packet: &'a Packet<HeapFrame>, index: u16, scratch: &'a mut HeapFrame) -> &'a [u8] {
    if packet.segments() == 1 {
        return packet.bytes();
    }
    let whole = Segmentation::new(packet.bytes(), packet.segments());
    let len = whole.and_then(|whole| whole.write(index.into(), scratch.bytes_mut()));
    len.map_or_else(|| packet.bytes(), |len| &scratch.bytes()[..len])
}

/// A frame that leaves a card.
pub(crate) enum Departing<'a> {
    /// A packet, which completes with whatever memory is under it then.
    Packet(&'a mut Packet<HeapFrame>),
    /// A part of a packet.
    Segment(&'a [u8]),
}

impl Departing<'_> {
    /// What is on the wire.
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

    /// None on shared air: there the medium takes frames.
    fn tso(&self) -> Option<Tso> {
        self.config.tso.filter(|_| self.granted.is_none())
    }

    /// As between the ends of a veth pair: a frame that is not damaged on its way needs no
    /// checksum.
    fn completes(&self) -> bool {
        self.unread
    }

    fn room(&self) -> usize {
        if self.stopped { 0 } else { self.free() }
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        assert!(
            self.room() > 0,
            "put without room: the caller broke the contract of Device"
        );
        self.ring_bytes += packet.len();
        self.in_flight += 1;
        self.waiting.push_back(packet);
        self.stats.tx_ring_peak = self.stats.tx_ring_peak.max(self.in_flight);
        self.stats.tx_bytes_peak = self.stats.tx_bytes_peak.max(self.ring_bytes);
        self.stopped = self.free() == 0;
    }

    fn doorbell(&mut self, now: Instant) {
        if let Some(granted) = &mut self.granted {
            for packet in self.waiting.drain(..) {
                granted.enqueue(packet, now);
            }
            return self.settle_granted(now);
        }
        while let Some(packet) = self.waiting.pop_front() {
            // All of one length: a packet of several is whole.
            let len = if packet.segments() == 1 {
                packet.len()
            } else {
                packet.len() / u64::from(packet.segments())
            };
            for _ in 0..packet.segments() {
                self.wire_free_at = self.line.departure(self.wire_free_at.max(now), len);
                self.departures.push_back(self.wire_free_at);
            }
            self.sending.push_back(packet);
        }
    }

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        if self.announced == 0 {
            return;
        }
        for _ in 0..std::mem::take(&mut self.announced) {
            let Some(packet) = self.sent.pop_front() else {
                break;
            };
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
        let (frame, len, due) = self.received.pop_front()?;
        let offload = Offload {
            checksum_known: due > Deferred::Nothing,
            zeros: due == Deferred::Zeros,
            segment_size: None,
        };
        Some(Received {
            offload,
            ..Received::new(frame, 0, len)
        })
    }

    fn recycle(&mut self, frame: HeapFrame) {
        debug_assert!(
            self.free.len() < self.config.rx_ring,
            "a frame came back that this card never lent"
        );
        self.free.push(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.extend(self.sent.drain(..));
        lost.extend(self.sending.drain(..));
        self.departures.clear();
        self.left = 0;
        if let Some(granted) = &mut self.granted {
            granted.reset(lost);
        }
        lost.extend(self.waiting.drain(..));
        (self.stopped, self.in_flight) = (false, 0);
        self.announced = 0;
        self.moderation = Moderation::Quiet;
        self.ring_bytes = Bytes::ZERO;
    }
}

#[cfg(test)]
mod tests;
