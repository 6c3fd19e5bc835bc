//! Packets whose payload is in the application's buffers, through qdiscs that cut, damage, duplicate and mark:
//! what leaves is, byte by byte, what leaves if the payload was copied.

use std::time::Duration;

use bytes::Bytes;
use tautline_base::{
    Deferred, Device, DropReason, Frame, HeapFrame, Instant, Item, Packet, Pool, Qdisc, SplitMix64,
    Tso,
};
use tautline_qdisc::Drops;
use tautline_tc::build;
use tautline_testkit::{ACK, Ip, MemoryDevice, PSH, Segment, TCP};

/// Segments of a packet, payload of each but the last, and headers before it.
const SEGMENTS: u16 = 5;
const SIZE: usize = 1449;
const HEADERS: usize = 54;

/// Packet `number` with a copied payload, or one in fragments of `payload`.
fn packet(number: u32, payload: &Bytes, is_gathered: bool) -> Packet<HeapFrame> {
    let segment = Segment {
        seq: number * 100_000,
        flags: ACK | PSH,
        payload: payload.to_vec(),
        ..Segment::default()
    };
    let ip = Ip {
        tos: 0b10,
        ..Ip::new([192, 0, 2, 1], [192, 0, 2, 2], TCP)
    };
    let bytes = ip.frame([2; 6], [4; 6], &segment.to_bytes());
    let mut frame = HeapFrame::with_len(Tso::MOST.frame_len());
    let deferred = if is_gathered {
        frame.bytes_mut()[..HEADERS].copy_from_slice(&bytes[..HEADERS]);
        let starts = (0..payload.len()).step_by(577);
        let parts = starts.map(|at| payload.slice(at..payload.len().min(at + 577)));
        frame.fragments_mut().expect("a list").extend(parts);
        Deferred::Payload
    } else {
        frame.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        Deferred::Nothing
    };
    Packet::new(frame, bytes.len() as u32)
        .with_segments(SEGMENTS)
        .with_hashes(7, 1, 2)
        .with_tos(0b10, 0)
        .with_deferred(deferred)
}

/// The frames that leave through the qdisc of these `words`, and the drops.
fn run(
    words: &str,
    payloads: &[Bytes],
    is_gathered: bool,
) -> (Vec<Vec<u8>>, Vec<(DropReason, u64)>) {
    let mut queue = build::<Packet<HeapFrame>>(words).expect("tc's words");
    let mut device = MemoryDevice {
        tso: Some(Tso::MOST),
        gathers: true,
        ring: usize::MAX,
        ..MemoryDevice::default()
    };
    let (mut drops, mut dropped, mut now) = (Drops::new(), Vec::new(), Instant::from_secs(1));
    let mut pool = Pool::new(Vec::new());
    for step in 0..2000 {
        if let Some(payload) = payloads.get(step) {
            queue.enqueue(packet(step as u32, payload, is_gathered), now, &mut drops);
        }
        // Later than they come, so that a queue stands.
        if step % 2 == 1
            && let Some(mut packet) = queue.dequeue(now, &mut drops)
        {
            packet.finish();
            device.put(packet, now);
        }
        for (packet, reason) in drops.drain() {
            dropped.push((reason, packet.len().get()));
            let _nobody_waits = pool.settle(packet);
        }
        now += Duration::from_millis(1);
    }
    assert_eq!(queue.backlog().packets, 0, "{words}");
    for packet in device.done.drain(..) {
        let _nobody_waits = pool.settle(packet);
    }
    (device.sent.into(), dropped)
}

#[test]
fn qdiscs_send_the_same_bytes() {
    let mut random = SplitMix64::new(7);
    let len = usize::from(SEGMENTS) * SIZE - 3;
    let payloads: Vec<Bytes> = (0..100)
        .map(|_| {
            (0..len)
                .map(|_| random.next_u64() as u8)
                .collect::<Vec<u8>>()
                .into()
        })
        .collect();
    let before: Vec<Vec<u8>> = payloads.iter().map(|payload| payload.to_vec()).collect();
    for words in [
        "pfifo",
        "pfifo limit 3",
        "netem corrupt 60% seed 1",
        "netem duplicate 60% seed 2",
        "netem corrupt 60% duplicate 60% loss 20% seed 3",
        "netem delay 3ms 2ms reorder 20% seed 4",
        "tbf rate 100mbit burst 3kb limit 1mb",
        "cake bandwidth 100mbit",
        "cake bandwidth 100mbit no-split-gso",
        "dualpi2 split_gso",
        "fq_codel ce_threshold 0ms",
        "red limit 1mb min 10kb max 20kb avpkt 1000 burst 20 ecn probability 1",
    ] {
        let (copied, gathered) = (run(words, &payloads, false), run(words, &payloads, true));
        assert!(!copied.0.is_empty(), "{words}");
        assert_eq!(copied.1, gathered.1, "drops of {words}");
        assert!(copied.0 == gathered.0, "frames of {words}");
        let is_kept =
            |(payload, before): (&Bytes, &Vec<u8>)| payload == before && payload.is_unique();
        assert!(payloads.iter().zip(&before).all(is_kept), "{words}");
    }
}
