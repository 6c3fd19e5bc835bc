//! [`QueuedDevice`]: smoltcp's `Device` trait over a frame pool, a discipline, a limit and the
//! device beneath.

use alloc::vec::Vec;

use smoltcp::phy::{self, Device, DeviceCapabilities, Medium, PacketMeta, TxToken as _};
use smoltcp::time::Instant as SmolInstant;
use tautline_base::{Frame, HeapFrame, Instant, Item, Packet, Pool, Reason, Wake};
use tautline_bql::{Limit, Unlimited};
use tautline_qdisc::{Drops, FlowKey, Qdisc};

/// Length of the Ethernet header; frames of an IP medium are kept behind an invented one, so that
/// everything above reads them alike.
const ETHERNET: usize = 14;

/// Parameters of [`QueuedDevice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames that may wait, each 2 KiB of memory, allocated at once. When all wait, the interface
    /// is told that the device is busy: a local sender then holds its data instead of losing it.
    /// Default 1024.
    pub frames: usize,
    /// Secret that keys the flow hashes: a random number, so that nobody can choose flows that
    /// share a queue. Default 0.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            frames: 1024,
            seed: 0,
        }
    }
}

/// A device of smoltcp with a queueing discipline in front of its ring.
#[derive(Debug)]
pub struct QueuedDevice<D, Q, L = Unlimited> {
    device: D,
    path: Path<Q, L>,
}

/// All but the device: what a transmit token needs while a receive token borrows the device.
#[derive(Debug)]
struct Path<Q, L> {
    queue: Q,
    limit: L,
    pool: Pool<HeapFrame>,
    drops: Drops<Packet<HeapFrame>>,
    key: FlowKey,
    medium: Medium,
    /// Frames handed to the device so far.
    sent: u64,
    dropped: u64,
}

impl<D: Device, Q: Qdisc<Packet<HeapFrame>>> QueuedDevice<D, Q> {
    /// `queue` in front of `device`, whose ring is the only limit.
    pub fn new(device: D, queue: Q, config: Config) -> Self {
        Self::with_limit(device, queue, Unlimited::default(), config)
    }
}

impl<D: Device, Q: Qdisc<Packet<HeapFrame>>, L: Limit> QueuedDevice<D, Q, L> {
    /// `queue` in front of `device`, with a limit on the bytes in its ring; report completions to
    /// [`completed`](Self::completed).
    pub fn with_limit(device: D, queue: Q, limit: L, config: Config) -> Self {
        let medium = device.capabilities().medium;
        let pool = Pool::new(
            (0..config.frames)
                .map(|_| HeapFrame::new())
                .collect::<Vec<_>>(),
        );
        let key = FlowKey::from_seed(config.seed);
        Self {
            device,
            path: Path {
                queue,
                limit,
                pool,
                drops: Drops::new(),
                key,
                medium,
                sent: 0,
                dropped: 0,
            },
        }
    }

    /// Moves frames from the discipline to the device, while the discipline lets them go, the limit
    /// allows it and the device has room. When to call again at the latest: `None` when nothing
    /// waits; at once when the device or the limit is full, which only the device can change, so
    /// wait for its interrupt, or a little.
    pub fn poll(&mut self, now: SmolInstant) -> Option<Wake> {
        let (Self { device, path }, now) = (self, instant(now));
        while path.limit.available(now)
            && path.queue.ready_at().is_some_and(|at| at <= now)
            && let Some(token) = device.transmit(smol_instant(now))
        {
            let Some(mut packet) = path.queue.dequeue(now, &mut path.drops) else {
                break;
            };
            packet.finish();
            path.limit.queued(packet.len(), now);
            let bytes = path.on_the_wire(packet.bytes());
            token.consume(bytes.len(), |buffer| buffer.copy_from_slice(bytes));
            path.sent += 1;
            path.settle(packet);
        }
        path.settle_drops();
        let opens = path.limit.opens_at().unwrap_or(now);
        path.queue
            .ready_at()
            .map(|at| Wake::new(at.max(opens), Reason::Qdisc))
    }

    /// The device has transmitted `bytes` bytes in one batch.
    pub fn completed(&mut self, bytes: tautline_base::Bytes, now: SmolInstant) {
        self.path.limit.completed(bytes, instant(now));
    }

    /// The discipline: its backlog, its report.
    pub fn queue(&self) -> &Q {
        &self.path.queue
    }

    /// The discipline, to change it.
    pub fn queue_mut(&mut self) -> &mut Q {
        &mut self.path.queue
    }

    /// The limit.
    pub fn limit(&self) -> &L {
        &self.path.limit
    }

    /// The device beneath.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device beneath, for its own settings.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Frames handed to the device so far.
    pub fn sent(&self) -> u64 {
        self.path.sent
    }

    /// Frames that the discipline dropped so far.
    pub fn dropped(&self) -> u64 {
        self.path.dropped
    }
}

impl<Q: Qdisc<Packet<HeapFrame>>, L> Path<Q, L> {
    /// Bytes of link header that were invented.
    fn invented(&self) -> usize {
        match self.medium {
            Medium::Ip => ETHERNET,
            _ => 0,
        }
    }

    fn on_the_wire<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.invented()..).unwrap_or_default()
    }

    fn enqueue(&mut self, mut frame: HeapFrame, len: usize, now: Instant) {
        if self.medium == Medium::Ip {
            let ethertype = if frame.bytes()[ETHERNET] >> 4 == 6 {
                [0x86, 0xdd]
            } else {
                [0x08, 0x00]
            };
            frame.bytes_mut()[..ETHERNET].fill(0);
            frame.bytes_mut()[ETHERNET - 2..ETHERNET].copy_from_slice(&ethertype);
        }
        let known = self.key.look(&frame.bytes()[..len]);
        let packet = Packet::new(frame, u32::try_from(len).expect("a frame of 2 KiB"))
            .with_hashes(known.flow, known.source, known.destination)
            .with_tos(known.tos, known.priority);
        self.queue.enqueue(packet, now, &mut self.drops);
        self.settle_drops();
    }

    fn settle(&mut self, packet: Packet<HeapFrame>) {
        let _nobody_waits = self.pool.settle(packet);
    }

    fn settle_drops(&mut self) {
        for (packet, _) in self.drops.drain() {
            self.dropped += 1;
            let _nobody_waits = self.pool.settle(packet);
        }
    }
}

impl<D: Device, Q: Qdisc<Packet<HeapFrame>>, L: Limit> Device for QueuedDevice<D, Q, L> {
    type RxToken<'a>
        = RxToken<D::RxToken<'a>>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a, Q, L>
    where
        Self: 'a;

    fn receive(
        &mut self,
        timestamp: SmolInstant,
    ) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        if self.path.pool.free() == 0 {
            self.poll(timestamp);
        }
        let frame = self.path.pool.take()?;
        let Some((token, _answered_through_the_queue)) = self.device.receive(timestamp) else {
            self.path.pool.put_back(frame);
            return None;
        };
        Some((
            RxToken(token),
            TxToken {
                path: &mut self.path,
                frame: Some(frame),
                now: instant(timestamp),
            },
        ))
    }

    fn transmit(&mut self, timestamp: SmolInstant) -> Option<Self::TxToken<'_>> {
        if self.path.pool.free() == 0 {
            self.poll(timestamp);
        }
        let frame = self.path.pool.take()?;
        Some(TxToken {
            path: &mut self.path,
            frame: Some(frame),
            now: instant(timestamp),
        })
    }

    /// The device's, but for a maximum that a frame of the pool holds.
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.device.capabilities();
        let largest = HeapFrame::LEN - self.path.invented();
        capabilities.max_transmission_unit = capabilities.max_transmission_unit.min(largest);
        capabilities.max_burst_size = None;
        capabilities
    }
}

/// A received frame: the device's own.
#[derive(Debug)]
pub struct RxToken<T>(T);

impl<T: phy::RxToken> phy::RxToken for RxToken<T> {
    fn consume<R, F>(self, f: F) -> R
    where
        F: FnOnce(&[u8]) -> R,
    {
        self.0.consume(f)
    }

    fn meta(&self) -> PacketMeta {
        self.0.meta()
    }
}

/// The permission to queue one frame.
pub struct TxToken<'a, Q: Qdisc<Packet<HeapFrame>>, L> {
    path: &'a mut Path<Q, L>,
    /// `None` once the token is consumed.
    frame: Option<HeapFrame>,
    now: Instant,
}

impl<Q: Qdisc<Packet<HeapFrame>>, L> phy::TxToken for TxToken<'_, Q, L> {
    fn consume<R, F>(mut self, len: usize, f: F) -> R
    where
        F: FnOnce(&mut [u8]) -> R,
    {
        let mut frame = self.frame.take().expect("a token is consumed once");
        let start = self.path.invented();
        let end = start + len;
        assert!(
            end <= HeapFrame::LEN,
            "smoltcp writes {len} bytes, more than the device's capabilities allow"
        );
        let result = f(&mut frame.bytes_mut()[start..end]);
        self.path.enqueue(frame, end, self.now);
        result
    }
}

impl<Q: Qdisc<Packet<HeapFrame>>, L> Drop for TxToken<'_, Q, L> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.path.pool.put_back(frame);
        }
    }
}

/// smoltcp's time as ours; before its epoch is the epoch.
fn instant(at: SmolInstant) -> Instant {
    Instant::from_micros(u64::try_from(at.total_micros()).unwrap_or(0))
}

fn smol_instant(at: Instant) -> SmolInstant {
    SmolInstant::from_micros(i64::try_from(at.as_nanos() / 1000).unwrap_or(i64::MAX))
}
