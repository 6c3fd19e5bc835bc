//! Loss recovery above software offload, on the paths of the simulator's recovery grid: packets that
//! are cut and segments that are merged beside single segments over plain devices.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use tautline_base::{Bytes, Device, HeapFrame, Instant, Packet, Pool, SocketId, SplitMix64};
use tautline_bql::{Dql, Port, Ring};
use tautline_offload::{Config, SoftwareOffload};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{Cidr, Event, Host, HostConfig, NoTrace, Recv, TcpConfig, TcpInfo};
use tautline_testkit::{MemoryDevice, frame};

/// Transferred in each cell.
const BYTES: usize = 400_000;
/// Rate of the path.
const NANOS_PER_BYTE: u64 = 8 * 1000 / 50;
/// A NIC interrupts once a millisecond: four full frames arrive in that time, and merge.
const INTERRUPT: u64 = 1_000_000;

/// One path and one receiver: loss and reordering each way in percent, RTT in milliseconds, receive
/// buffer in KiB.
#[derive(Clone, Copy, Debug)]
struct Cell {
    loss: u64,
    reorder: u64,
    rtt: u64,
    buffer: u64,
}

/// One direction of the path: a queue that holds everything, then delay, loss and reordering.
struct Wire {
    cell: Cell,
    nanos_per_byte: u64,
    free_at: Instant,
    rng: SplitMix64,
    /// By arrival and number.
    frames: BTreeMap<(Instant, u64), Vec<u8>>,
    entered: u64,
    lost: u64,
}

impl Wire {
    fn new(cell: Cell, seed: u64, nanos_per_byte: u64) -> Self {
        Self {
            cell,
            nanos_per_byte,
            free_at: Instant::ZERO,
            rng: SplitMix64::new(seed),
            frames: BTreeMap::new(),
            entered: 0,
            lost: 0,
        }
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.rng.next_u64() % 100 < percent
    }

    /// Neighbor discovery is spared: three lost ARP requests would end the transfer.
    fn send(&mut self, bytes: Vec<u8>, now: Instant) {
        let is_arp = bytes[12..14] == frame::ARP.to_be_bytes();
        let len = bytes.len() as u64;
        self.free_at = self.free_at.max(now) + Duration::from_nanos(len * self.nanos_per_byte);
        self.entered += 1;
        if self.happens(self.cell.loss) && !is_arp {
            self.lost += 1;
            return;
        }
        let rtt = Duration::from_millis(self.cell.rtt);
        let late = self.happens(self.cell.reorder);
        let delay = rtt / 2 + if late { rtt / 4 } else { Duration::ZERO };
        self.frames
            .insert((self.free_at + delay, self.entered), bytes);
    }

    /// The interrupt for the frame that arrives first.
    fn next_interrupt(&self) -> Option<Instant> {
        let ((at, _), _) = self.frames.first_key_value()?;
        let nanos = (*at - Instant::ZERO).as_nanos() as u64;
        Some(Instant::ZERO + Duration::from_nanos(nanos.next_multiple_of(INTERRUPT)))
    }

    /// Moves the frames that arrive until `now` to `device`.
    fn deliver(&mut self, now: Instant, device: &mut MemoryDevice) {
        while let Some(entry) = self
            .frames
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            device.arrived.push_back(entry.remove());
        }
    }
}

/// Results of a transfer.
#[derive(Debug)]
struct Outcome {
    duration: Duration,
    sender: TcpInfo,
    births: u64,
    received_packets: u64,
    sent_frames: u64,
    lost: u64,
}

type Hosts<D> = [Host<FqCodel<Packet<HeapFrame>>, D>; 2];

fn host<D: Device<Frame = HeapFrame>>(side: u8, device: D) -> Host<FqCodel<Packet<HeapFrame>>, D> {
    let config = HostConfig::new([2, 0, 0, 0, 0, side], u64::from(side))
        .address(Cidr::new(Ipv4Addr::new(10, 7, 0, side), 24));
    let qdisc = FqCodel::new(fq_codel::Config::default()).expect("the default is valid");
    let pool = Pool::heap(4096, device.tso());
    let port = Port::new(qdisc, Ring::new(device, Dql::default()));
    Host::new(config, port, pool, NoTrace)
}

/// The transfer of random bytes from host 0 to host 1.
struct Stream {
    data: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    client: SocketId,
    server: Option<SocketId>,
}

impl Stream {
    fn open<D: Device<Frame = HeapFrame>>(hosts: &mut Hosts<D>, cell: Cell, now: Instant) -> Self {
        let receiver = TcpConfig {
            receive_buffer: Bytes::kib(cell.buffer),
            ..TcpConfig::default()
        };
        hosts[1].listen(5001, receiver).expect("a free port");
        let remote = std::net::SocketAddr::from((Ipv4Addr::new(10, 7, 0, 2), 5001));
        let client = hosts[0].connect(remote, TcpConfig::default(), now);
        let mut rng = SplitMix64::new(5);
        Self {
            data: (0..BYTES).map(|_| rng.next_u64() as u8).collect(),
            sent: 0,
            received: Vec::new(),
            client: client.expect("an address"),
            server: None,
        }
    }

    fn service<D: Device<Frame = HeapFrame>>(&mut self, hosts: &mut Hosts<D>) {
        while hosts[0].next_event().is_some() {}
        while let Some(event) = hosts[1].next_event() {
            if let Event::Accepted { socket, .. } = event {
                self.server = Some(socket);
            }
        }
        self.sent += hosts[0]
            .send(self.client, &self.data[self.sent..])
            .unwrap_or(0);
        let mut buffer = [0; 16 << 10];
        while let Some(server) = self.server
            && let Ok(Recv::Data(count)) = hosts[1].recv(server, &mut buffer)
        {
            self.received.extend_from_slice(&buffer[..count]);
        }
    }
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        let losses = [0, 1, 5].into_iter();
        let paths = losses.flat_map(|loss| [0, 5].map(|reorder| (loss, reorder)));
        let times = paths.flat_map(|(loss, reorder)| [1, 40, 200].map(|rtt| (loss, reorder, rtt)));
        times.flat_map(|(loss, reorder, rtt)| {
            [64, 4096].map(|buffer| Self {
                loss,
                reorder,
                rtt,
                buffer,
            })
        })
    }

    /// Transfers every byte from one of two hosts over `device` to the other.
    fn run<D: Device<Frame = HeapFrame>>(
        self,
        device: impl Fn() -> D,
        inner: impl Fn(&mut D) -> &mut MemoryDevice,
    ) -> Outcome {
        let mut now = Instant::from_secs(1);
        let mut hosts = [1, 2].map(|side| host(side, device()));
        let mut wires =
            [(5, NANOS_PER_BYTE), (6, 0)].map(|(seed, cost)| Wire::new(self, seed, cost));
        let mut stream = Stream::open(&mut hosts, self, now);
        while stream.received.len() < BYTES {
            let mut next: Vec<Instant> = Vec::new();
            for (side, wire) in wires.iter_mut().enumerate() {
                wire.deliver(now, inner(hosts[1 - side].device_mut()));
            }
            for host in &mut hosts {
                while host.receive(now) == 64 {}
            }
            stream.service(&mut hosts);
            for (host, wire) in hosts.iter_mut().zip(&mut wires) {
                next.extend(host.poll(now).map(|wake| wake.at));
                for bytes in inner(host.device_mut()).sent.drain(..) {
                    wire.send(bytes, now);
                }
            }
            next.extend(wires.iter().filter_map(Wire::next_interrupt));
            now = next
                .into_iter()
                .min()
                .expect("something is to come")
                .max(now);
            assert!(now < Instant::from_secs(120), "{self:?} stalls");
        }
        assert!(
            stream.received == stream.data,
            "{self:?}: other bytes arrive"
        );
        Outcome {
            duration: now - Instant::from_secs(1),
            sender: hosts[0].info(stream.client).expect("open"),
            births: hosts[0].stats().births,
            received_packets: hosts[1].stats().frames_in,
            sent_frames: wires[0].entered,
            lost: wires[0].lost,
        }
    }
}

impl Cell {
    /// Panics unless `large` is as good a transfer as `single`.
    fn assert_sound(self, single: &Outcome, large: &Outcome) {
        let Outcome {
            sender,
            sent_frames,
            lost,
            ..
        } = large;
        let line = format!("{self:?}\n{single:?}\n{large:?}");
        assert!(
            large.births < sent_frames * 4 / 5,
            "packets have several segments: {line}"
        );
        let arrived = sent_frames - lost;
        assert!(
            large.received_packets < arrived * 4 / 5,
            "segments are merged: {line}"
        );
        // Reordering provokes some needless retransmissions; a timeout or a tail loss probe is one.
        let needless = if self.reorder > 0 {
            6
        } else {
            self.loss.min(1)
        };
        assert!(sender.retransmits <= lost + needless, "{line}");
        assert!(sender.timeouts <= self.loss, "{line}");
        assert!(
            self.loss > 0 || sender.fast_recoveries == sender.spurious,
            "{line}"
        );
        let spare = Duration::from_millis(if self.loss > 0 { 500 } else { 0 });
        assert!(large.duration <= single.duration * 5 / 4 + spare, "{line}");
    }
}

/// Cut and merged, the sender is as sound as with single segments: it retransmits the lost segments and not the
/// packets that they left in, has few timeouts, and takes as long but for one timeout.
#[test]
fn cut_and_merged_packets_recover_like_single_segments() {
    for cell in Cell::all() {
        let single = cell.run(MemoryDevice::default, |device| device);
        let offload = || {
            let frames = Pool::heap(256, None);
            SoftwareOffload::new(MemoryDevice::default(), frames, Config::default())
        };
        let large = cell.run(offload, |device| device.inner_mut());
        cell.assert_sound(&single, &large);
    }
}
