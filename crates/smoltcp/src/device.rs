//! [`QueuedDevice`]: smoltcp's `Device` trait over a frame pool, a queueing discipline, a queue
//! limit and the actual device.

use alloc::vec::Vec;

use smoltcp::phy::{self, Device, DeviceCapabilities, Medium, PacketMeta, TxToken as _};
use smoltcp::time::Instant as SmolInstant;
use tautline_base::headers::{ETHERNET_HEADER, IPV4, IPV6};
use tautline_base::{
    Bytes, Drops, Frame, HashKey, HeapFrame, Instant, Item, Packet, Pool, Qdisc, Reason, Wake,
};
use tautline_bql::{Limit, Unlimited};
use tautline_qdisc::FlowKey;

/// Parameters of [`QueuedDevice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of frames of 2 KiB, allocated at construction. While all are queued, the device
    /// reports itself busy, so a local sender keeps its data. Default 1024.
    pub frames: usize,
    /// Secret key of the flow hashes, so that a peer cannot choose flows that share a queue. Default
    /// (feature `std`): random for each instance.
    pub key: HashKey,
}

impl Config {
    /// The defaults with `key` for the flow hashes. Without `std`, take it from the hardware's
    /// random number generator.
    pub const fn new(key: HashKey) -> Self {
        Self { frames: 1024, key }
    }
}

#[cfg(feature = "std")]
impl Default for Config {
    fn default() -> Self {
        Self::new(HashKey::random())
    }
}

/// A smoltcp device with a queueing discipline in front of its ring.
#[derive(Debug)]
pub struct QueuedDevice<D, Q, L = Unlimited> {
    device: D,
    path: Path<Q, L>,
}

/// The transmit path without the device, which a receive token borrows at the same time.
#[derive(Debug)]
struct Path<Q, L> {
    queue: Q,
    limit: L,
    pool: Pool<HeapFrame>,
    drops: Drops<Packet<HeapFrame>>,
    key: FlowKey,
    medium: Medium,
    sent: u64,
    dropped: u64,
}

impl<D: Device, Q: Qdisc<Packet<HeapFrame>>> QueuedDevice<D, Q> {
    /// Puts `queue` in front of `device`, whose ring is the only limit.
    pub fn new(device: D, queue: Q, config: Config) -> Self {
        Self::with_limit(device, queue, Unlimited::default(), config)
    }
}

impl<D: Device, Q: Qdisc<Packet<HeapFrame>>, L: Limit> QueuedDevice<D, Q, L> {
    /// Puts `queue` in front of `device` and limits the bytes in its ring; report completions to
    /// [`completed`](Self::completed).
    pub fn with_limit(device: D, queue: Q, limit: L, config: Config) -> Self {
        let medium = device.capabilities().medium;
        let pool = Pool::new(
            (0..config.frames)
                .map(|_| HeapFrame::new())
                .collect::<Vec<_>>(),
        );
        let key = FlowKey::new(config.key);
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

    /// Moves frames from the qdisc to the device until the qdisc may send nothing more now, the
    /// limit is reached or the device is full. Returns when to poll again at the latest: `None` if
    /// the qdisc is empty, `now` if the device or the limit is full; then wait for the device's
    /// interrupt or for a short time.
    #[must_use = "poll again at the wake"]
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

    /// Polls if no frame is free.
    fn make_room(&mut self, now: SmolInstant) {
        if self.path.pool.free() == 0 {
            let _called_again_by_the_owner = self.poll(now);
        }
    }

    /// Reports `bytes` transmitted by the device in one batch.
    pub fn completed(&mut self, bytes: Bytes, now: SmolInstant) {
        self.path.limit.completed(bytes, instant(now));
    }

    /// The queueing discipline, for its backlog and statistics.
    pub fn queue(&self) -> &Q {
        &self.path.queue
    }

    /// The queueing discipline, for changing its parameters.
    pub fn queue_mut(&mut self) -> &mut Q {
        &mut self.path.queue
    }

    /// The limit on the bytes in the ring.
    pub fn limit(&self) -> &L {
        &self.path.limit
    }

    /// The device beneath, for its state.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device beneath, for its own settings.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Frames handed to the device since creation.
    pub fn sent(&self) -> u64 {
        self.path.sent
    }

    /// Frames dropped by the qdisc since creation.
    pub fn dropped(&self) -> u64 {
        self.path.dropped
    }
}

impl<Q: Qdisc<Packet<HeapFrame>>, L> Path<Q, L> {
    /// Length of the pseudo Ethernet header in front of packets of an IP medium, which gives all
    /// frames the same layout.
    fn pseudo_header(&self) -> usize {
        match self.medium {
            Medium::Ip => ETHERNET_HEADER,
            _ => 0,
        }
    }

    fn on_the_wire<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.pseudo_header()..).unwrap_or_default()
    }

    fn enqueue(&mut self, mut frame: HeapFrame, len: usize, now: Instant) {
        if self.medium == Medium::Ip {
            let is_ipv6 = frame.bytes()[ETHERNET_HEADER] >> 4 == 6;
            let ethertype = if is_ipv6 { IPV6 } else { IPV4 };
            let header = &mut frame.bytes_mut()[..ETHERNET_HEADER];
            header.fill(0);
            header[ETHERNET_HEADER - 2..].copy_from_slice(&ethertype.to_be_bytes());
        }
        let known = self.key.parse(&frame.bytes()[..len]);
        let packet = Packet::new(frame, u32::try_from(len).expect("a frame of 2 KiB"))
            .with_hashes(known.flow, known.source, known.destination)
            .with_tos(known.tos, known.priority);
        self.queue.enqueue(packet, now, &mut self.drops);
        self.settle_drops();
    }

    fn settle(&mut self, packet: Packet<HeapFrame>) {
        let _settled = self.pool.settle(packet);
    }

    fn settle_drops(&mut self) {
        for (packet, _) in self.drops.drain() {
            self.dropped += 1;
            let _settled = self.pool.settle(packet);
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
        self.make_room(timestamp);
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
        self.make_room(timestamp);
        let frame = self.path.pool.take()?;
        Some(TxToken {
            path: &mut self.path,
            frame: Some(frame),
            now: instant(timestamp),
        })
    }

    /// The capabilities of the device, with the MTU reduced to the size of a pool frame.
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.device.capabilities();
        let largest = HeapFrame::LEN - self.path.pseudo_header();
        capabilities.max_transmission_unit = capabilities.max_transmission_unit.min(largest);
        capabilities.max_burst_size = None;
        capabilities
    }
}

/// The device's own token of a received frame.
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
#[derive(Debug)]
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
        let start = self.path.pseudo_header();
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

/// Converts smoltcp's time; times before its epoch become the epoch.
fn instant(at: SmolInstant) -> Instant {
    Instant::from_micros(u64::try_from(at.total_micros()).unwrap_or(0))
}

fn smol_instant(at: Instant) -> SmolInstant {
    SmolInstant::from_micros(i64::try_from(at.as_nanos() / 1000).unwrap_or(i64::MAX))
}
