//! [`Bridge`]: a bump in the wire. What arrives at one device leaves at the other through a
//! discipline, a limit and a ring.
//!
//! It has no clock and does no I/O of its own: [`Bridge::turn`] moves what can be moved,
//! [`Bridge::wake`] says when to come again. The devices have memory of their own, so each frame is
//! copied once.
//!
//! A side takes in a [`Tracer`] as a host does, and tells it of the packets on their way out of it;
//! without one nothing is looked up.

use tautline_base::{Device, Ecn, Frame, Instant, Item, Packet, Pool, Reason, Wake};
use tautline_bql::{Limit, Port, Ring};
use tautline_qdisc::{Drops, FlowKey, Stats};
use tautline_stack::{NoTrace, PacketEvent, Tracer, What};
use tautline_tc::DynQdisc;

use std::time::Duration;

/// The discipline of one way.
pub type Queue<F> = Stats<Box<dyn DynQdisc<Packet<F>>>>;

/// Frames taken from a device in one turn.
const BATCH: usize = 64;
/// How soon to look for completions while frames are in a ring that does not announce them.
const REAP: Duration = Duration::from_micros(50);

/// One side: a device, and the way out of it.
pub struct Side<D: Device, T: Tracer = NoTrace> {
    tracer: T,
    port: Port<Queue<D::Frame>, D, Box<dyn Limit>>,
    pool: Pool<D::Frame>,
    drops: Drops<Packet<D::Frame>>,
    done: Vec<Packet<D::Frame>>,
    /// What came in here and what of it could not be taken over.
    received: Received,
}

/// What a side received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames lost because the other side had no memory left: a discipline holds more than there
    /// are frames.
    pub no_memory: u64,
    /// Frames lost because the other side's memory cannot hold them.
    pub too_long: u64,
}

impl<D: Device> Side<D> {
    /// `device` and what may leave by it: `queue`, `limit`, and `frames` of the device's memory.
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
            drops: Drops::new(),
            done: Vec::new(),
            received: Received::default(),
        }
    }
}

impl<D: Device, T: Tracer> Side<D, T> {
    /// The same with `tracer`, which hears of every packet on its way out here: born and queued,
    /// dropped, or marked, placed in the ring and completed; and of every frame that came in:
    /// received. A packet that came in with CE is told as marked too.
    pub fn traced<U: Tracer>(self, tracer: U) -> Side<D, U> {
        let Self {
            tracer: _,
            port,
            pool,
            drops,
            done,
            received,
        } = self;
        Side {
            tracer,
            port,
            pool,
            drops,
            done,
            received,
        }
    }

    /// Who hears of the packets.
    pub fn tracer_mut(&mut self) -> &mut T {
        &mut self.tracer
    }

    /// The way out: discipline, limit, ring.
    pub fn port(&self) -> &Port<Queue<D::Frame>, D, Box<dyn Limit>> {
        &self.port
    }

    /// The way out, to change it.
    pub fn port_mut(&mut self) -> &mut Port<Queue<D::Frame>, D, Box<dyn Limit>> {
        &mut self.port
    }

    /// What came in.
    pub fn received(&self) -> Received {
        self.received
    }

    /// Frames that are on their way out.
    pub fn outstanding(&self) -> usize {
        self.pool.outstanding()
    }

    /// Takes completed frames back, then sends what may leave.
    fn send(&mut self, now: Instant) {
        self.port.reap(now, &mut self.done);
        for packet in self.done.drain(..) {
            trace(&mut self.tracer, now, What::Completed, packet.bytes());
            let _nobody_waits = self.pool.settle(packet);
        }
        let tracer = &mut self.tracer;
        let mut on_ring = |packet: &Packet<D::Frame>| {
            if T::ENABLED {
                if Ecn::of_tos(packet.tos()) == Ecn::Ce {
                    trace(tracer, now, What::Marked, packet.bytes());
                }
                trace(tracer, now, What::Ringed, packet.bytes());
            }
        };
        while self
            .port
            .transmit(now, BATCH, &mut self.drops, &mut on_ring)
            == BATCH
        {}
        for (packet, reason) in self.drops.drain() {
            trace(&mut self.tracer, now, What::Dropped(reason), packet.bytes());
            let _nobody_waits = self.pool.settle(packet);
        }
    }

    /// When to come again for this side.
    fn wake(&self, now: Instant) -> Option<Wake> {
        let ring = self.port.ring();
        let unannounced = ring.in_flight() > 0 && !ring.device().announces_completions();
        let reap = unannounced.then(|| Wake::new(now + REAP, Reason::Reap));
        self.port
            .ready_at()
            .map(|at| Wake::new(at, Reason::Qdisc))
            .into_iter()
            .chain(reap)
            .min()
    }
}

fn trace<T: Tracer>(tracer: &mut T, at: Instant, what: What, frame: &[u8]) {
    if T::ENABLED {
        tracer.record(
            &PacketEvent {
                at,
                what,
                socket: None,
                seq: 0,
                len: frame.len() as u32,
            },
            frame,
        );
    }
}

/// Moves up to a batch of frames from what `from` received into the discipline of `to`.
fn carry<A, B, T, U>(
    from: &mut Side<A, T>,
    to: &mut Side<B, U>,
    key: &FlowKey,
    now: Instant,
) -> usize
where
    A: Device,
    B: Device,
    T: Tracer,
    U: Tracer,
{
    let device = from.port.ring_mut().device_mut();
    for carried in 0..BATCH {
        let Some(received) = device.receive(now) else {
            return carried;
        };
        let bytes = received.bytes();
        from.received.frames += 1;
        from.received.bytes += bytes.len() as u64;
        trace(&mut from.tracer, now, What::Received, bytes);
        match to.pool.take() {
            None => from.received.no_memory += 1,
            Some(mut frame) => match frame.bytes_mut().get_mut(..bytes.len()) {
                None => {
                    from.received.too_long += 1;
                    to.pool.put_back(frame);
                }
                Some(room) => {
                    room.copy_from_slice(bytes);
                    let known = key.parse(bytes);
                    let packet = Packet::new(frame, u32::try_from(bytes.len()).unwrap_or(u32::MAX))
                        .with_hashes(known.flow, known.source, known.destination)
                        .with_tos(known.tos, known.priority);
                    trace(&mut to.tracer, now, What::Born, packet.bytes());
                    trace(&mut to.tracer, now, What::Queued, packet.bytes());
                    to.port.enqueue(packet, now, &mut to.drops);
                }
            },
        }
        device.recycle(received.frame);
    }
    BATCH
}

/// Two sides, joined.
pub struct Bridge<A: Device, B: Device, T: Tracer = NoTrace> {
    /// One end.
    pub left: Side<A, T>,
    /// The other.
    pub right: Side<B, T>,
    key: FlowKey,
}

impl<A: Device, B: Device, T: Tracer> Bridge<A, B, T> {
    /// Joins two sides; `seed` keys the flow hashes.
    pub fn new(left: Side<A, T>, right: Side<B, T>, seed: u64) -> Self {
        Self {
            left,
            right,
            key: FlowKey::from_seed(seed),
        }
    }

    /// Moves what can be moved. True if a device may have received more than was taken.
    pub fn turn(&mut self, now: Instant) -> bool {
        let Self { left, right, key } = self;
        let (there, back) = (carry(left, right, key, now), carry(right, left, key, now));
        right.send(now);
        left.send(now);
        there == BATCH || back == BATCH
    }

    /// When to call [`turn`](Self::turn) again at the latest, if nothing is received before.
    pub fn wake(&self, now: Instant) -> Option<Wake> {
        self.left
            .wake(now)
            .into_iter()
            .chain(self.right.wake(now))
            .min()
    }
}
