//! A packet whose payload is in fragments is, byte by byte, the packet whose payload is in its buffer: when it
//! is read, cut, split, completed, duplicated, damaged and marked. Its fragments never change.

use std::ops::Range;

use bytes::Bytes;
use tautline_base::{
    Deferred, Frame, HeapFrame, Item, MAX_FRAGMENTS, Medium, Packet, Pool, SplitMix64, Tso,
};

const CASES: u64 = 400;

/// Random numbers of a case.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, range: Range<usize>) -> usize {
        range.start + (self.0.next_u64() % range.len() as u64) as usize
    }

    fn flips(&mut self) -> bool {
        self.0.next_u64() & 1 == 1
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.0.next_u64() as u8).collect()
    }
}

/// A packet of TCP or UDP, and how its payload lies in memory.
struct Case {
    medium: Medium,
    headers: Vec<u8>,
    payload: Vec<u8>,
    segments: u16,
    fragments: Vec<Bytes>,
}

impl Case {
    fn new(random: &mut Random) -> Self {
        let (medium, ipv6) = if random.flips() {
            (Medium::Ethernet, random.flips())
        } else {
            (Medium::Ip, random.flips())
        };
        let size = random.below(1..1449);
        let most = (65_000 / size).min(64);
        let count = random.below(2..most.max(3));
        let last = random.below(1..size + 1);
        let payload = random.bytes((count - 1) * size + last);
        let mut headers = Vec::new();
        if medium == Medium::Ethernet {
            headers.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            if random.flips() {
                headers.extend([0x81, 0, 0, 42]);
            }
            headers.extend(if ipv6 { [0x86, 0xdd] } else { [8, 0] });
        }
        let transport = transport(random);
        let (extra, protocol) = (
            8 * random.below(0..3),
            if transport.len() == 8 { 17 } else { 6 },
        );
        let below = extra + transport.len() + payload.len();
        if ipv6 {
            let next = if extra > 0 { 60 } else { protocol };
            headers.extend([0x60, 0x20, 0, 7]);
            headers.extend((below as u16).to_be_bytes());
            headers.extend([next, 64]);
            headers.extend(random.bytes(32));
            if extra > 0 {
                headers.extend([protocol, (extra / 8 - 1) as u8]);
                headers.resize(headers.len() + extra - 2, 0);
            }
        } else {
            let flags = if random.flips() { 0x40 } else { 0 };
            headers.extend([0x45 + (extra / 4) as u8, 0b10]);
            headers.extend((20 + below as u16).to_be_bytes());
            headers.extend([0xff, 0xf0, flags, 0, 64, protocol, 0, 0]);
            headers.extend(random.bytes(8 + extra));
        }
        headers.extend(transport);
        let fragments = cut(random, &payload);
        Self {
            medium,
            headers,
            payload,
            segments: count as u16,
            fragments,
        }
    }

    /// In its buffer.
    fn copied(&self) -> Packet<HeapFrame> {
        let mut frame = self.frame();
        frame.bytes_mut()[self.headers.len()..][..self.payload.len()]
            .copy_from_slice(&self.payload);
        self.packet(frame, Deferred::Nothing)
    }

    /// In fragments; the buffer holds what an earlier packet left there.
    fn gathered(&self) -> Packet<HeapFrame> {
        let mut frame = self.frame();
        let fragments = frame.fragments_mut().expect("a list");
        fragments.extend(self.fragments.iter().cloned());
        self.packet(frame, Deferred::Payload)
    }

    fn frame(&self) -> HeapFrame {
        let mut frame = HeapFrame::with_len(Tso::MOST.frame_len());
        frame.bytes_mut().fill(0xdd);
        frame.bytes_mut()[..self.headers.len()].copy_from_slice(&self.headers);
        frame
    }

    fn packet(&self, frame: HeapFrame, deferred: Deferred) -> Packet<HeapFrame> {
        Packet::new(frame, (self.headers.len() + self.payload.len()) as u32)
            .with_medium(self.medium)
            .with_segments(self.segments)
            .with_tos(0b10, 3)
            .with_deferred(deferred)
    }
}

/// A header of UDP, or of TCP with or without options and flags.
fn transport(random: &mut Random) -> Vec<u8> {
    let mut header = random.bytes(8);
    if random.below(0..4) == 0 {
        return header;
    }
    let options = 4 * random.below(0..11);
    header.extend(random.bytes(12 + options));
    header[12] = ((5 + options / 4) << 4) as u8 | random.below(0..2) as u8;
    header
}

/// `payload` in at most [`MAX_FRAGMENTS`], of odd lengths and of none.
fn cut(random: &mut Random, payload: &[u8]) -> Vec<Bytes> {
    let mut cuts: Vec<usize> = (0..random.below(0..MAX_FRAGMENTS))
        .map(|_| random.below(0..payload.len() + 1))
        .chain([0, payload.len()])
        .collect();
    cuts.sort_unstable();
    let fragments = cuts
        .windows(2)
        .map(|ends| payload[ends[0]..ends[1]].to_vec());
    fragments.map(Bytes::from).collect()
}

/// All of a packet's bytes.
fn read(packet: &Packet<HeapFrame>) -> Vec<u8> {
    packet.slices().collect::<Vec<_>>().concat()
}

fn segments(packet: &Packet<HeapFrame>) -> Vec<Vec<u8>> {
    let whole = packet.segmentation().expect("TCP or UDP");
    let segment = |index| {
        let mut out = vec![0; whole.len_of(index)];
        assert_eq!(whole.write(index, &mut out), Some(out.len()));
        out
    };
    (0..whole.count()).map(segment).collect()
}

/// The frames of the pieces of `packet`.
fn split(packet: Packet<HeapFrame>) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let result = packet.split(&mut |piece| {
        assert_eq!((piece.segments(), piece.deferred()), (1, Deferred::Nothing));
        assert!(piece.frame().fragments().is_empty());
        pieces.push(piece.bytes().to_vec());
    });
    assert!(result.is_ok());
    pieces
}

fn check(case: &Case, random: &mut Random) {
    let (mut copied, mut gathered) = (case.copied(), case.gathered());
    assert_eq!(copied.len(), gathered.len());
    assert_eq!(copied.memory(), gathered.memory());
    assert_eq!(copied.header_len(), gathered.header_len());
    assert_eq!(gathered.headers(), case.headers);
    if random.flips() {
        for packet in [&mut copied, &mut gathered] {
            assert!(packet.set_ce());
            packet.finish();
        }
    }
    assert_eq!(read(&gathered), copied.bytes());
    let frames = segments(&copied);
    assert_eq!(frames.len(), usize::from(case.segments));
    assert_eq!(segments(&gathered), frames);

    let double = gathered.duplicate().expect("heap memory");
    assert_eq!(split(double), frames);
    let mut double = gathered.duplicate().expect("heap memory");
    double.complete();
    assert_eq!(double.bytes(), copied.bytes());
    assert!(double.frame().fragments().is_empty());
    assert_eq!(split(double), frames);

    let bit = random.0.next_u64();
    let mut damaged = gathered.duplicate().expect("heap memory");
    assert!(damaged.corrupt(bit) && copied.corrupt(bit));
    assert_eq!(damaged.bytes(), copied.bytes());
    assert_eq!(split(gathered), frames);
    let fragments = case.fragments.iter().map(AsRef::as_ref);
    assert_eq!(fragments.collect::<Vec<&[u8]>>().concat(), case.payload);
}

#[test]
fn a_gathered_packet_is_the_copied_one() {
    for seed in 0..CASES {
        let mut random = Random(SplitMix64::new(seed));
        let mut case = Case::new(&mut random);
        println!("seed {seed}: {} segments", case.segments);
        check(&case, &mut random);
        // A pool's frame refers to nothing.
        let mut pool = Pool::new(Vec::<HeapFrame>::new()).with_large(Vec::new());
        let _nobody_waits = pool.settle(case.gathered());
        assert!(
            case.fragments
                .iter_mut()
                .all(|fragment| fragment.is_empty() || fragment.is_unique())
        );
    }
}
