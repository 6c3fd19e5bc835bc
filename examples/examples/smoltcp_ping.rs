//! smoltcp with and without a qdisc beneath it: `cargo run --release -p tautline-examples
//! --example smoltcp_ping`.
//!
//! A smoltcp host uploads as fast as it can over a link of 10 Mbit/s and 20 ms, whose transmit ring
//! holds 256 frames, and pings the other end meanwhile. Everything happens in virtual time. Printed
//! for each way: goodput and round trips of the pings.
//!
//! * *ring alone*: smoltcp as it is. Pings wait behind whatever fills the ring.
//! * *fq_codel under a rate*: the device reports no completions, so a token bucket slightly below
//!   the link keeps the ring empty.
//! * *fq_codel and DQL*: the device reports its completions, so the dynamic queue limit keeps the
//!   ring short, without any setting.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketSet};
use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant as SmolInstant;
use smoltcp::wire::{EthernetAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr};
use tautline_base::{Bytes, HashKey, HeapFrame, Instant, Packet, Rate};
use tautline_bql::Dql;
use tautline_smoltcp::{Config, QueuedDevice};
use tautline_tc::DynQdisc;

const RATE: Rate = Rate::mbit(10);
const ONE_WAY: Duration = Duration::from_millis(10);
const RING: usize = 256;
const MTU: usize = 1514;
const RUN: Duration = Duration::from_secs(20);
const PING_EVERY: Duration = Duration::from_millis(100);
const CLIENT: IpAddress = IpAddress::v4(192, 0, 2, 1);
const SERVER: IpAddress = IpAddress::v4(192, 0, 2, 2);

/// One direction of the link: a ring that is served at the link's rate, then the way.
#[derive(Default)]
struct Direction {
    ring: VecDeque<Vec<u8>>,
    /// When the frame at the head of the ring will have been sent.
    sent_at: Option<Instant>,
    on_the_way: VecDeque<(Instant, Vec<u8>)>,
    completed: u64,
}

impl Direction {
    fn put(&mut self, frame: Vec<u8>, now: Instant) {
        if self.sent_at.is_none() {
            self.sent_at = Some(now + Bytes::new(frame.len() as u64) / RATE);
        }
        self.ring.push_back(frame);
    }

    fn advance(&mut self, now: Instant) {
        while let Some(at) = self.sent_at.filter(|&at| at <= now) {
            let frame = self.ring.pop_front().expect("a frame is being sent");
            self.completed += frame.len() as u64;
            self.on_the_way.push_back((at + ONE_WAY, frame));
            self.sent_at = self
                .ring
                .front()
                .map(|next| at + Bytes::new(next.len() as u64) / RATE);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.sent_at
            .into_iter()
            .chain(self.on_the_way.front().map(|&(at, _)| at))
            .min()
    }
}

/// One end of the link, as smoltcp sees it.
struct End {
    out: Rc<RefCell<Direction>>,
    into: Rc<RefCell<Direction>>,
}

struct Arrived(Vec<u8>);
struct Room<'a>(&'a RefCell<Direction>, Instant);

impl smoltcp::phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl smoltcp::phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.borrow_mut().put(frame, self.1);
        result
    }
}

impl Device for End {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, at: SmolInstant) -> Option<(Arrived, Room<'_>)> {
        let now = Instant::from_micros(at.total_micros() as u64);
        let mut way = self.into.borrow_mut();
        way.on_the_way.front().filter(|(at, _)| *at <= now)?;
        let (_, frame) = way.on_the_way.pop_front()?;
        Some((Arrived(frame), Room(&self.out, now)))
    }

    fn transmit(&mut self, at: SmolInstant) -> Option<Room<'_>> {
        let now = Instant::from_micros(at.total_micros() as u64);
        (self.out.borrow().ring.len() < RING).then_some(Room(&self.out, now))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = MTU;
        capabilities.medium = Medium::Ethernet;
        // Nothing is corrupted here.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities.checksum.icmpv4 = Checksum::Both;
        capabilities
    }
}

/// The client's device: the link's end, bare or behind a qdisc.
trait Client: Device {
    fn drive(&mut self, now: SmolInstant) -> Option<Instant>;
}

impl Client for End {
    fn drive(&mut self, _now: SmolInstant) -> Option<Instant> {
        None
    }
}

type Queue = Box<dyn DynQdisc<Packet<HeapFrame>>>;

impl Client for QueuedDevice<End, Queue> {
    fn drive(&mut self, now: SmolInstant) -> Option<Instant> {
        self.poll(now).map(|wake| wake.at)
    }
}

impl Client for QueuedDevice<End, Queue, Dql> {
    fn drive(&mut self, now: SmolInstant) -> Option<Instant> {
        let completed = std::mem::take(&mut self.device_mut().out.borrow_mut().completed);
        if completed > 0 {
            self.completed(Bytes::new(completed), now);
        }
        self.poll(now).map(|wake| wake.at)
    }
}

fn interface(device: &mut impl Device, address: IpAddress, station: u8) -> Interface {
    let hardware = EthernetAddress([2, 0, 0, 0, 0, station]);
    let mut interface = Interface::new(
        InterfaceConfig::new(hardware.into()),
        device,
        SmolInstant::ZERO,
    );
    interface.update_ip_addrs(|all| all.push(IpCidr::new(address, 24)).expect("room for one"));
    interface
}

/// Uploads and pings for a while; bytes that arrived, and round trips in microseconds.
fn run(
    out: &Rc<RefCell<Direction>>,
    back: &Rc<RefCell<Direction>>,
    mut client: impl Client,
) -> (u64, Vec<u64>) {
    let mut server = End {
        out: back.clone(),
        into: out.clone(),
    };
    let (mut near, mut far) = (
        interface(&mut client, CLIENT, 1),
        interface(&mut server, SERVER, 2),
    );
    let buffer = |bytes: usize| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut upload = tcp::Socket::new(buffer(1 << 16), buffer(1 << 20));
    upload.set_congestion_control(tcp::CongestionControl::Cubic);
    upload
        .connect(near.context(), (SERVER, 80), 49_152)
        .expect("a free port");
    // The window is smaller than the ring: smoltcp serves its sockets in order, and a ring that is
    // full shuts out all but the first.
    let mut sink = tcp::Socket::new(buffer(1 << 18), buffer(1 << 16));
    sink.listen(80).expect("a free port");
    let packets =
        || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 64], vec![0; 64 * 64]);
    let mut ping = icmp::Socket::new(packets(), packets());
    ping.bind(icmp::Endpoint::Ident(7)).expect("bound once");
    let (mut here, mut there) = (SocketSet::new(vec![]), SocketSet::new(vec![]));
    let (upload, ping, sink) = (here.add(upload), here.add(ping), there.add(sink));

    let (mut now, end) = (Instant::ZERO, Instant::ZERO + RUN);
    let (mut arrived, mut round_trips, mut next_ping) = (0, Vec::new(), Instant::from_secs(2));
    while now < end {
        let smol = SmolInstant::from_micros((now.as_nanos() / 1000) as i64);
        out.borrow_mut().advance(now);
        back.borrow_mut().advance(now);
        near.poll(smol, &mut client, &mut here);
        let wake = client.drive(smol);
        far.poll(smol, &mut server, &mut there);
        let upload = here.get_mut::<tcp::Socket<'_>>(upload);
        while upload.can_send() && upload.send(|room| (room.len(), room.len())).expect("open") > 0 {
        }
        let sink = there.get_mut::<tcp::Socket<'_>>(sink);
        while sink.can_recv() {
            arrived += sink.recv(|data| (data.len(), data.len())).expect("open") as u64;
        }
        let ping = here.get_mut::<icmp::Socket<'_>>(ping);
        while let Ok((reply, _)) = ping.recv() {
            let packet = Icmpv4Packet::new_checked(reply).expect("an echo reply");
            if let Ok(Icmpv4Repr::EchoReply { data, .. }) =
                Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default())
            {
                let sent = u64::from_be_bytes(data.try_into().expect("eight bytes"));
                round_trips.push(now.as_nanos() / 1000 - sent);
            }
        }
        if now >= next_ping && ping.can_send() {
            let data = (now.as_nanos() / 1000).to_be_bytes();
            let request = Icmpv4Repr::EchoRequest {
                ident: 7,
                seq_no: round_trips.len() as u16,
                data: &data,
            };
            let buffer = ping.send(request.buffer_len(), SERVER).expect("room");
            request.emit(
                &mut Icmpv4Packet::new_unchecked(buffer),
                &ChecksumCapabilities::default(),
            );
            next_ping += PING_EVERY;
        }
        let delay =
            |delay: Option<smoltcp::time::Duration>| delay.map(|delay| now + Duration::from(delay));
        let times = [
            out.borrow().next_event(),
            back.borrow().next_event(),
            delay(near.poll_delay(smol, &here)),
            delay(far.poll_delay(smol, &there)),
            wake,
            Some(next_ping),
        ];
        // Whole microseconds, as smoltcp counts, and never the same moment forever.
        let next = times
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(end)
            .as_nanos()
            .div_ceil(1000);
        now = Instant::from_micros(next.max(now.as_nanos() / 1000 + 10));
    }
    (arrived, round_trips)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:28} {:>14} {:>12} {:>12} {:>12}",
        "way", "goodput Mbit/s", "ping p50 ms", "p95 ms", "max ms"
    );
    let frames = Config {
        frames: 2048,
        key: HashKey::from_seed(1),
    };
    for way in ["ring alone", "fq_codel under a rate", "fq_codel and DQL"] {
        let (out, back) = (
            Rc::<RefCell<Direction>>::default(),
            Rc::<RefCell<Direction>>::default(),
        );
        let end = End {
            out: out.clone(),
            into: back.clone(),
        };
        let (arrived, mut times) = match way {
            "ring alone" => run(&out, &back, end),
            "fq_codel under a rate" => {
                let queue: Queue =
                    tautline_tc::build("tbf rate 9.7mbit burst 3kb latency 1s; fq_codel")?;
                run(&out, &back, QueuedDevice::new(end, queue, frames.clone()))
            }
            _ => {
                let queue: Queue = tautline_tc::build("fq_codel")?;
                run(
                    &out,
                    &back,
                    QueuedDevice::with_limit(end, queue, Dql::default(), frames.clone()),
                )
            }
        };
        times.sort_unstable();
        let at = |percent: usize| {
            times
                .get((times.len() * percent / 100).min(times.len() - 1))
                .map_or(0.0, |&t| t as f64 / 1e3)
        };
        let goodput = arrived as f64 * 8.0 / RUN.as_secs_f64() / 1e6;
        println!(
            "{way:28} {goodput:14.2} {:12.1} {:12.1} {:12.1}",
            at(50),
            at(95),
            at(100)
        );
    }
    Ok(())
}
