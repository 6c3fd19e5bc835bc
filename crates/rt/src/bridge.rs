//! [`Bridge`]: a bump in the wire. What arrives at one device leaves at the other through a discipline, a limit and a ring.
//!
//! It has no clock and does no I/O of its own: [`Bridge::turn`] moves what can be moved, [`Bridge::wake`] says when to come again. The
//! devices have memory of their own, so each frame is copied once.

use tautline_base::{Device, Frame, Instant, Packet, Pool, Reason, Wake};
use tautline_bql::{Limit, Port, Ring};
use tautline_qdisc::{Drops, DynQdisc, FlowKey, Stats};

use std::time::Duration;

/// The discipline of one way.
pub type Queue<F> = Stats<Box<dyn DynQdisc<Packet<F>>>>;

/// Frames taken from a device in one turn.
const BATCH: usize = 64;
/// How soon to look for completions while frames are in a ring that does not announce them.
const REAP: Duration = Duration::from_micros(50);

/// One side: a device, and the way out of it.
pub struct Side<D: Device> {
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
    /// Frames lost because the other side had no memory left: a discipline holds more than there are frames.
    pub no_memory: u64,
    /// Frames lost because the other side's memory cannot hold them.
    pub too_long: u64,
}

impl<D: Device> Side<D> {
    /// `device` and what may leave by it: `queue`, `limit`, and `frames` of the device's memory.
    pub fn new(device: D, frames: Vec<D::Frame>, queue: Queue<D::Frame>, limit: Box<dyn Limit>) -> Self {
        Self {
            port: Port::new(queue, Ring::new(device, limit)),
            pool: Pool::new(frames),
            drops: Drops::new(),
            done: Vec::new(),
            received: Received::default(),
        }
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
            let _nobody_waits = self.pool.settle(packet);
        }
        while self.port.transmit(now, BATCH, &mut self.drops, |_| {}) == BATCH {}
        for (packet, _) in self.drops.drain() {
            let _nobody_waits = self.pool.settle(packet);
        }
    }

    /// When to come again for this side.
    fn wake(&self, now: Instant) -> Option<Wake> {
        let ring = self.port.ring();
        let unannounced = ring.in_flight() > 0 && !ring.device().announces_completions();
        let reap = unannounced.then(|| Wake::new(now + REAP, Reason::Reap));
        self.port.ready_at().map(|at| Wake::new(at, Reason::Qdisc)).into_iter().chain(reap).min()
    }
}

/// Moves up to a batch of frames from what `from` received into the discipline of `to`.
fn carry<A: Device, B: Device>(from: &mut Side<A>, to: &mut Side<B>, key: &FlowKey, now: Instant) -> usize {
    let device = from.port.ring_mut().device_mut();
    for carried in 0..BATCH {
        let Some(received) = device.receive(now) else { return carried };
        let bytes = received.bytes();
        from.received.frames += 1;
        from.received.bytes += bytes.len() as u64;
        match to.pool.take() {
            None => from.received.no_memory += 1,
            Some(mut frame) => match frame.bytes_mut().get_mut(..bytes.len()) {
                None => {
                    from.received.too_long += 1;
                    to.pool.put_back(frame);
                }
                Some(room) => {
                    room.copy_from_slice(bytes);
                    let known = key.look(bytes);
                    let packet = Packet::new(frame, u32::try_from(bytes.len()).unwrap_or(u32::MAX))
                        .with_hashes(known.flow, known.source, known.destination)
                        .with_tos(known.tos, known.priority);
                    to.port.enqueue(packet, now, &mut to.drops);
                }
            },
        }
        device.recycle(received.frame);
    }
    BATCH
}

/// Two sides, joined.
pub struct Bridge<A: Device, B: Device> {
    /// One end.
    pub left: Side<A>,
    /// The other.
    pub right: Side<B>,
    key: FlowKey,
}

impl<A: Device, B: Device> Bridge<A, B> {
    /// Joins two sides; `seed` keys the flow hashes.
    pub fn new(left: Side<A>, right: Side<B>, seed: u64) -> Self {
        Self { left, right, key: FlowKey::from_seed(seed) }
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
        self.left.wake(now).into_iter().chain(self.right.wake(now)).min()
    }
}
