//! [`Bridge`]: a bump in the wire. Frames received on one device leave on the other through a qdisc,
//! a limit and a ring.
//!
//! It has no clock and does no I/O of its own: [`Bridge::turn`] forwards frames, [`Bridge::wake`] is
//! the next deadline.
//!
//! Each device has a frame pool of its own. If both devices accept each other's frames
//! ([`Device::accepts`]: frames on the heap, one UMEM), a packet moves on in the frame that it was
//! received in, and the device that received it gets a free frame of the other side's pool instead. One
//! for one: each side keeps its number of frames, so neither starves the other. Otherwise the packet is
//! copied once.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use tautline_base::headers::Headers;
use tautline_base::{
    Deferred, Device, Ecn, Frame, Instant, Item, Medium, Offload, Packet, Pool, Qdisc, Reason,
    Segmentation, Wake,
};
use tautline_bql::{Limit, Port, Ring};
use tautline_qdisc::{Drops, FlowKey, Stats, replace};
use tautline_stack::{NoTrace, PacketEvent, Tracer, What};
use tautline_tc::{DynQdisc, ParseError, change_tree};

/// The qdisc of one direction.
pub type Queue<F> = Stats<Box<dyn DynQdisc<Packet<F>>>>;

/// Most frames taken from a device in one turn.
const BATCH: usize = 64;
/// Shortest and longest interval between polls for completions while frames are in a ring that does not
/// announce them. It grows with the time since the last completion: a link that is down completes none.
const REAP: Duration = Duration::from_micros(50);
const LONGEST_REAP: Duration = Duration::from_millis(10);

/// One side: a device and its transmit path.
pub struct Side<D: Device, T: Tracer = NoTrace> {
    tracer: T,
    port: Port<Queue<D::Frame>, D, Box<dyn Limit>>,
    pool: Pool<D::Frame>,
    growth: Option<Growth<D::Frame>>,
    drops: Drops<Packet<D::Frame>>,
    done: Vec<Packet<D::Frame>>,
    /// The last completion, or the last turn with an empty ring.
    progress_at: Instant,
    received: Received,
}

/// Frames that a pool may still allocate.
struct Growth<F> {
    /// Allocates them.
    model: F,
    len: usize,
    left: usize,
}

/// Receive counters of a side. A frame that is cut counts as its segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames received.
    pub frames: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Frames dropped because the other side's pool was empty: its qdisc may hold more packets than
    /// the pool has frames.
    pub no_memory: u64,
    /// Frames dropped because they exceed the other side's frame size.
    pub too_long: u64,
}

impl<D: Device> Side<D> {
    /// A side that sends through `queue` and `limit`, from `frames` of the device's memory.
    pub fn new(
        device: D,
        frames: Vec<D::Frame>,
        queue: Queue<D::Frame>,
        limit: Box<dyn Limit>,
    ) -> Self {
        Self {
            tracer: NoTrace,
            port: Port::new(queue, Ring::new(device, limit)),
            pool: Pool::new(frames),
            growth: None,
            drops: Drops::new(),
            done: Vec::new(),
            progress_at: Instant::ZERO,
            received: Received::default(),
        }
    }
}

impl<D: Device> Side<D> {
    /// Lets the pool grow to `frames` of the present length as packets need them, where frames can be
    /// [allocated](Frame::allocate).
    #[must_use]
    pub fn growing_to(mut self, frames: usize) -> Self {
        let left = frames.saturating_sub(self.pool.capacity());
        let model = self.pool.take().and_then(|frame| {
            let len = frame.bytes().len();
            let model = frame.allocate(len);
            self.pool.put_back(frame);
            model.map(|model| Growth { model, len, left })
        });
        self.growth = model;
        self
    }
}

impl<D: Device, T: Tracer> Side<D, T> {
    /// Records the packet events of this side in `tracer`: received frames, and the born, queued,
    /// dropped, marked, ringed and completed packets of its transmit path.
    #[must_use]
    pub fn traced<U: Tracer>(self, tracer: U) -> Side<D, U> {
        let Self {
            tracer: _,
            port,
            pool,
            growth,
            drops,
            done,
            progress_at,
            received,
        } = self;
        Side {
            tracer,
            port,
            pool,
            growth,
            drops,
            done,
            progress_at,
            received,
        }
    }

    /// The recorder of packet events.
    pub fn tracer(&self) -> &T {
        &self.tracer
    }

    /// The recorder of packet events.
    pub fn tracer_mut(&mut self) -> &mut T {
        &mut self.tracer
    }

    /// Qdisc, limit and ring.
    pub fn port(&self) -> &Port<Queue<D::Frame>, D, Box<dyn Limit>> {
        &self.port
    }

    /// Qdisc, limit and ring.
    pub fn port_mut(&mut self) -> &mut Port<Queue<D::Frame>, D, Box<dyn Limit>> {
        &mut self.port
    }

    /// Receive counters.
    pub fn received(&self) -> Received {
        self.received
    }

    /// Changes parameters of the qdisc, in the words of [`change_tree`].
    ///
    /// # Errors
    /// If the words are not understood or a value is refused.
    pub fn change(&mut self, words: &str, now: Instant) -> Result<(), ParseError> {
        change_tree(self.port.qdisc_mut(), words, now, &mut self.drops)
    }

    /// Puts another qdisc in the place of the present one; queued packets move over ([`replace`]),
    /// counters continue.
    ///
    /// # Errors
    /// The number of packets that the present qdisc does not release; it stays.
    pub fn replace(
        &mut self,
        qdisc: Box<dyn DynQdisc<Packet<D::Frame>>>,
        now: Instant,
    ) -> Result<(), usize> {
        let port = self.port.qdisc_mut();
        port.with_inner(&mut self.drops, |inner, drops| {
            replace(inner, qdisc, now, drops)
        })
    }

    /// Resets the device if it needs that to work again, and drops the packets in it.
    pub fn reset_if_needed(&mut self, now: Instant) {
        if self.port.ring_mut().device_mut().needs_reset(now) {
            self.port.reset(&mut self.drops);
        }
    }

    /// Frames in the qdisc or the device.
    pub fn outstanding(&self) -> usize {
        self.pool.outstanding()
    }

    /// Reaps completed frames, then transmits.
    fn transmit(&mut self, now: Instant) {
        self.port.reap(now, &mut self.done);
        if !self.done.is_empty() || self.port.ring().in_flight() == 0 {
            self.progress_at = now;
        }
        for packet in self.done.drain(..) {
            trace(&mut self.tracer, now, What::Completed, &packet);
            let _no_owner = self.pool.settle(packet);
        }
        while self.transmit_batch(now) == BATCH {}
        for (packet, reason) in self.drops.drain() {
            trace(&mut self.tracer, now, What::Dropped(reason), &packet);
            let _no_owner = self.pool.settle(packet);
        }
    }

    /// Moves a batch of packets from the qdisc into the ring. Returns their number.
    fn transmit_batch(&mut self, now: Instant) -> usize {
        let (tracer, drops) = (&mut self.tracer, &mut self.drops);
        // Between qdisc and ring the bytes are still those received: a mark shows as a difference.
        let is_marked = Cell::new(false);
        let dequeue = |qdisc: &mut Queue<D::Frame>| {
            let packet = qdisc.dequeue(now, drops)?;
            if T::ENABLED {
                let is_ce = |tos| Ecn::of_tos(tos) == Ecn::Ce;
                let came = || {
                    Headers::of(&packet)
                        .ip
                        .map_or(0, |ip| ip.tos(packet.bytes()))
                };
                is_marked.set(is_ce(packet.tos()) && !is_ce(came()));
            }
            Some(packet)
        };
        self.port.transmit_with(now, BATCH, dequeue, |packet| {
            if is_marked.get() {
                trace(tracer, now, What::Marked, packet);
            }
            trace(tracer, now, What::Ringed, packet);
        })
    }

    /// Queues what `arrived` at the device `from` and is counted in `received`. Returns the frame that the
    /// device gets back. A frame of several segments is cut into those that were merged, unless our device
    /// cuts it. One of whose segments only the first has CWR is cut in any case: all segments of a packet have
    /// the same flags.
    fn accept<A: Device<Frame = D::Frame>>(
        &mut self,
        arrived: tautline_base::Received<D::Frame>,
        (from, key): (&A, &FlowKey),
        received: &mut Received,
        now: Instant,
    ) -> D::Frame {
        let medium = from.medium();
        let known = key.parse_on(medium, arrived.bytes());
        let with_metadata = |packet: Packet<D::Frame>| {
            packet
                .with_medium(medium)
                .with_hashes(known.flow, known.source, known.destination)
                .with_tos(known.tos, known.priority)
        };
        let is_cut = self.port.ring().device().tso().is_none() || arrived.offload.cwr_once;
        let whole = segments(arrived.bytes(), medium, arrived.offload);
        let Some(cut) = whole.filter(|_| is_cut) else {
            let (packet, frame) = passed(arrived, from, received, self);
            if let Some(packet) = packet {
                self.enqueue(with_metadata(packet), now);
            }
            return frame;
        };
        received.frames += cut.count() as u64;
        for index in 0..cut.count() {
            let write = |out: &mut [u8]| cut.write(index, out);
            if let Some(packet) = copied(self.frames(), received, write) {
                self.enqueue(with_metadata(packet), now);
            }
        }
        arrived.frame
    }

    /// Its free frames.
    fn frames(&mut self) -> Frames<'_, D::Frame> {
        (&mut self.pool, &mut self.growth)
    }

    /// Queues a packet, with its checksums unless the device writes them.
    fn enqueue(&mut self, mut packet: Packet<D::Frame>, now: Instant) {
        trace(&mut self.tracer, now, What::Born, &packet);
        trace(&mut self.tracer, now, What::Queued, &packet);
        // A qdisc that drops it at once does not stamp it.
        packet.set_enqueued(now);
        if packet.segments() == 1 && !self.port.ring().device().completes() {
            packet.complete();
        }
        self.port.enqueue(packet, now, &mut self.drops);
    }

    /// The next deadline of this side.
    fn wake(&self, now: Instant) -> Option<Wake> {
        let ring = self.port.ring();
        let unannounced = ring.in_flight() > 0 && !ring.device().announces_completions();
        let pause = ((now - self.progress_at) / 2).clamp(REAP, LONGEST_REAP);
        let reap = unannounced.then(|| Wake::new(now + pause, Reason::Reap));
        self.port
            .ready_at()
            .map(|at| Wake::new(at, Reason::Qdisc))
            .into_iter()
            .chain(reap)
            .min()
    }
}

impl<D: Device, T: Tracer> fmt::Debug for Side<D, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Side")
            .field("received", &self.received)
            .field("backlog", &self.port.backlog())
            .field("outstanding", &self.outstanding())
            .finish_non_exhaustive()
    }
}

/// Records an event of an outgoing packet.
fn trace<F: Frame, T: Tracer>(tracer: &mut T, at: Instant, what: What, packet: &Packet<F>) {
    let sojourn = match what {
        What::Ringed | What::Dropped(_) => at - packet.enqueued(),
        _ => Duration::ZERO,
    };
    record(tracer, at, what, (packet.bytes(), sojourn));
}

fn record<T: Tracer>(tracer: &mut T, at: Instant, what: What, (frame, sojourn): (&[u8], Duration)) {
    if T::ENABLED {
        let event = PacketEvent {
            at,
            what,
            socket: None,
            seq: 0,
            len: frame.len() as u32,
            sojourn,
        };
        tracer.record(&event, frame);
    }
}

/// The segments of a received frame; `None` if it is a single one.
fn segments(bytes: &[u8], medium: Medium, offload: Offload) -> Option<Segmentation<'_>> {
    let size = usize::from(offload.segment_size?.get());
    let whole = Segmentation::of_size(bytes, medium.network_offset(bytes), size)
        .filter(|whole| (2..=usize::from(u16::MAX)).contains(&whole.count()))?;
    Some(if offload.cwr_once {
        whole.with_cwr_once()
    } else {
        whole
    })
}

/// Free frames of a side.
type Frames<'a, F> = (&'a mut Pool<F>, &'a mut Option<Growth<F>>);

/// A packet in a frame of `frames`, filled by `write`, which returns its length if it fits.
fn copied<F: Frame>(
    (pool, growth): Frames<'_, F>,
    received: &mut Received,
    write: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<Packet<F>> {
    let Some(mut frame) = pool.take().or_else(|| grown(pool, growth.as_mut()?)) else {
        received.no_memory += 1;
        return None;
    };
    let Some(len) = write(frame.bytes_mut()) else {
        received.too_long += 1;
        pool.put_back(frame);
        return None;
    };
    Some(Packet::new(frame, u32::try_from(len).unwrap_or(u32::MAX)))
}

/// A packet for `to` with the bytes of `arrived`, and the frame that its device `from` gets back: a free
/// one of `to` if the packet is in the very frame, which both devices must accept, else the same.
fn passed<A, B, U>(
    arrived: tautline_base::Received<A::Frame>,
    from: &A,
    received: &mut Received,
    to: &mut Side<B, U>,
) -> (Option<Packet<A::Frame>>, A::Frame)
where
    A: Device,
    B: Device<Frame = A::Frame>,
    U: Tracer,
{
    received.frames += 1;
    let bytes = arrived.bytes();
    let deferred = if arrived.offload.checksum_known {
        // It may not be written yet.
        Deferred::Checksum
    } else {
        Deferred::Nothing
    };
    let size = arrived.offload.segment_size;
    let with_segments = |packet: Packet<A::Frame>| {
        let packet = match size {
            Some(size) => packet.with_segment_size(size),
            None => packet,
        };
        packet.with_deferred(deferred)
    };
    let (pool, growth) = (&mut to.pool, &mut to.growth);
    let is_whole = arrived.start == 0 && bytes.len() == arrived.len as usize;
    if is_whole
        && to.port.ring().device().accepts(&arrived.frame)
        && let Some(frame) = pool.take().or_else(|| grown(pool, growth.as_mut()?))
    {
        if frame.bytes().len() == arrived.frame.bytes().len() && from.accepts(&frame) {
            let packet = Packet::new(arrived.frame, arrived.len);
            return (Some(with_segments(packet)), frame);
        }
        pool.put_back(frame);
    }
    let packet = copied((pool, growth), received, |out| {
        out.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(bytes.len())
    });
    (packet.map(with_segments), arrived.frame)
}

/// A new frame of `pool`, if it may grow.
fn grown<F: Frame>(pool: &mut Pool<F>, growth: &mut Growth<F>) -> Option<F> {
    growth.left = growth.left.checked_sub(1)?;
    pool.add(growth.model.allocate(growth.len)?);
    pool.take()
}

/// Forwards up to a batch of received frames of `from` to the qdisc of `to`.
fn forward<A, B, T, U>(
    from: &mut Side<A, T>,
    to: &mut Side<B, U>,
    key: &FlowKey,
    now: Instant,
) -> usize
where
    A: Device,
    B: Device<Frame = A::Frame>,
    T: Tracer,
    U: Tracer,
{
    let device = from.port.ring_mut().device_mut();
    for forwarded in 0..BATCH {
        let Some(arrived) = device.receive(now) else {
            return forwarded;
        };
        let bytes = arrived.bytes();
        from.received.bytes += bytes.len() as u64;
        let received_now = (bytes, Duration::ZERO);
        record(&mut from.tracer, now, What::Received, received_now);
        let frame = to.accept(arrived, (&*device, key), &mut from.received, now);
        device.recycle(frame);
    }
    BATCH
}

/// Two sides that forward to each other; their frames are of one type.
pub struct Bridge<A: Device, B: Device, T: Tracer = NoTrace> {
    /// One side.
    pub left: Side<A, T>,
    /// The other side.
    pub right: Side<B, T>,
    key: FlowKey,
}

impl<A: Device, B: Device<Frame = A::Frame>, T: Tracer> Bridge<A, B, T> {
    /// Joins two sides; `seed` keys the flow hashes.
    pub fn new(left: Side<A, T>, right: Side<B, T>, seed: u64) -> Self {
        Self {
            left,
            right,
            key: FlowKey::from_seed(seed),
        }
    }

    /// Forwards and transmits. Returns true if a device may have more received frames.
    #[must_use]
    pub fn turn(&mut self, now: Instant) -> bool {
        let Self { left, right, key } = self;
        let (to_right, to_left) = (
            forward(left, right, key, now),
            forward(right, left, key, now),
        );
        right.transmit(now);
        left.transmit(now);
        to_right == BATCH || to_left == BATCH
    }

    /// Deadline of the next [`turn`](Self::turn), if no frame is received before.
    #[must_use]
    pub fn wake(&self, now: Instant) -> Option<Wake> {
        self.left
            .wake(now)
            .into_iter()
            .chain(self.right.wake(now))
            .min()
    }
}

impl<A: Device, B: Device, T: Tracer> fmt::Debug for Bridge<A, B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge")
            .field("left", &self.left)
            .field("right", &self.right)
            .finish_non_exhaustive()
    }
}
