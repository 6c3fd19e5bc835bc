//! Segments cut from the application's buffers: the frames are those of a copied payload, and the buffers
//! live until the last frame has left.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use tautline_base::{
    Deferred, Device, Frame, HeapFrame, Instant, Item, MAX_FRAGMENTS, Packet, Pool, SplitMix64, Tso,
};
use tautline_bql::{Dql, Port, Ring};
use tautline_offload::{Config, SoftwareOffload};
use tautline_qdisc::{Pfifo, pfifo};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace, TcpConfig};
use tautline_testkit::{ACK, Ip, MemoryDevice, PSH, Segment, TCP};

const NOW: Instant = Instant::ZERO;
/// Ethernet, IPv4 and TCP without options.
const HEADERS: usize = 54;

type Offloaded = SoftwareOffload<MemoryDevice>;

fn device(ring: usize) -> Offloaded {
    let inner = MemoryDevice {
        ring,
        ..MemoryDevice::default()
    };
    SoftwareOffload::new(inner, Pool::heap(ring, None), Config::default())
}

fn below(random: &mut SplitMix64, range: Range<usize>) -> usize {
    range.start + (random.next_u64() % range.len() as u64) as usize
}

/// The same packet with a copied payload and with one in fragments of any lengths.
fn packets(random: &mut SplitMix64) -> [Packet<HeapFrame>; 2] {
    let (size, count) = (below(random, 1..1461), below(random, 2..44));
    let len = (count - 1) * size + below(random, 1..size + 1);
    let segment = Segment {
        seq: random.next_u64() as u32,
        flags: ACK | PSH,
        payload: (0..len).map(|_| random.next_u64() as u8).collect(),
        ..Segment::default()
    };
    let ip = Ip::new([192, 0, 2, 1], [192, 0, 2, 2], TCP);
    let bytes = ip.frame([2; 6], [4; 6], &segment.to_bytes());
    let mut cuts: Vec<usize> = (0..below(random, 0..MAX_FRAGMENTS))
        .map(|_| below(random, 0..len + 1))
        .chain([0, len])
        .collect();
    cuts.sort_unstable();
    let payload = Bytes::from(segment.payload);
    [false, true].map(|is_gathered| {
        let mut frame = HeapFrame::with_len(Tso::MOST.frame_len());
        frame.bytes_mut()[..HEADERS].copy_from_slice(&bytes[..HEADERS]);
        let deferred = if is_gathered {
            let fragments = cuts.windows(2).map(|ends| payload.slice(ends[0]..ends[1]));
            frame.fragments_mut().expect("a list").extend(fragments);
            Deferred::Payload
        } else {
            frame.bytes_mut()[HEADERS..bytes.len()].copy_from_slice(&payload);
            Deferred::Nothing
        };
        Packet::new(frame, bytes.len() as u32)
            .with_segments(count as u16)
            .with_deferred(deferred)
    })
}

/// Sends `packets` through a ring of `ring` descriptors; returns the frames on the wire.
fn sent(ring: usize, packets: Vec<Packet<HeapFrame>>) -> Vec<Vec<u8>> {
    let (mut device, mut done) = (device(ring), Vec::new());
    let count = packets.len();
    let mut packets = packets.into_iter();
    for _ in 0..10_000 {
        while device.room() > 0
            && let Some(packet) = packets.next()
        {
            device.put(packet, NOW);
        }
        device.doorbell(NOW);
        device.reap(NOW, &mut done);
        if done.len() == count {
            return Vec::from(std::mem::take(&mut device.inner_mut().sent));
        }
    }
    panic!("it stands still")
}

#[test]
fn frames_cut_from_fragments_are_those_of_a_copy() {
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let ring = below(&mut random, 1..100);
        let count = below(&mut random, 1..6);
        let [copied, gathered] = (0..count).fold([vec![], vec![]], |mut both, _| {
            let packets = packets(&mut random);
            both.iter_mut()
                .zip(packets)
                .for_each(|(all, packet)| all.push(packet));
            both
        });
        let segments: usize = copied
            .iter()
            .map(|packet| usize::from(packet.segments()))
            .sum();
        let frames = sent(ring, copied);
        assert_eq!(frames.len(), segments, "seed {seed}");
        assert!(sent(ring, gathered) == frames, "seed {seed}");
    }
}

fn host<D: Device<Frame = HeapFrame>>(side: u8, device: D) -> Host<Pfifo<Packet<HeapFrame>>, D> {
    let config = HostConfig::new([2, 0, 0, 0, 0, side], u64::from(side))
        .address(Cidr::new(Ipv4Addr::new(10, 7, 0, side), 24));
    let pool = Pool::heap(64, device.tso());
    let qdisc = Pfifo::new(pfifo::Config::default());
    let port = Port::new(qdisc, Ring::new(device, Dql::default()));
    Host::new(config, port, pool, NoTrace)
}

/// The host lends its buffers to packets, whose frames are cut from them even after the connection has
/// gone: it needs no copy, and nobody frees what is to be sent.
#[test]
fn a_packet_holds_its_payload_until_its_last_frame_has_left() {
    let (mut one, mut other) = (host(1, device(3)), host(2, MemoryDevice::default()));
    let mut now = Instant::from_secs(1);
    other
        .listen(5001, TcpConfig::default())
        .expect("a free port");
    let remote = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), 5001);
    let client = one
        .connect(remote, TcpConfig::default(), now)
        .expect("an address");
    for _ in 0..10 {
        now += Duration::from_millis(1);
        let _ = (one.poll(now), other.poll(now));
        let near = one.device_mut().inner_mut();
        other.device_mut().arrived.append(&mut near.sent);
        near.arrived.append(&mut other.device_mut().sent);
        while one.receive(now) + other.receive(now) > 0 {}
    }
    one.device_mut().inner_mut().stuck = true;
    let data: Vec<u8> = (0..64 << 10)
        .map(|at: usize| ((at * at) >> 7) as u8)
        .collect();
    let mut owned = Bytes::from(data.clone());
    let kept = owned.clone();
    let taken = one.tcp(client).expect("open").send_owned(&mut owned);
    assert!(taken.is_ok_and(|count| count > 5 * 1448));
    drop(owned);
    let _ = one.poll(now);
    let wire = &mut one.device_mut().inner_mut().sent;
    assert_eq!(wire.len(), 3, "the ring is full before the packet is cut");
    one.abort(client).expect("open");
    let _ = one.poll(now);
    assert!(!kept.is_unique(), "the packet refers to the buffer");
    one.device_mut().inner_mut().stuck = false;
    for _ in 0..10 {
        now += Duration::from_millis(1);
        let _ = one.poll(now);
    }
    let segments = one.device_mut().inner_mut().sent.iter();
    // Ethernet, IPv4 and TCP with a timestamp. The reset has no payload.
    let stream: Vec<u8> = segments
        .flat_map(|frame| frame[66.min(frame.len())..].to_vec())
        .collect();
    assert!(stream.len() >= 5 * 1448, "{} bytes", stream.len());
    assert!(
        data.starts_with(&stream),
        "cut from the application's bytes"
    );
    assert_eq!(one.outstanding(), 0);
    assert!(kept.is_unique(), "nothing refers to the buffer any more");
}
