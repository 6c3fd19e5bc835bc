//! The trace of large packets: TCP packets of several segments (GSO) among packets of one.

use crate::frame::{ACK, Flow, Frame, Tcp};
use crate::trace::{Arrival, Rng, numbered};

/// Payload of a segment.
const SIZE: u32 = 1460;
/// Headers of a segment: Ethernet, IPv4 and TCP without options.
const HEADERS: u32 = 54;
/// Most segments of a packet: 64 KiB.
const MOST: u32 = 44;

/// Four bulk senders of packets of 2 to 8 segments, one in twenty of 44, and four of small packets,
/// together 1.2 times the link of 12 Mbit/s, for `millis` of time.
pub(crate) fn trace(millis: u32) -> Vec<Arrival> {
    let mut rng = Rng::new(200);
    let mut arrivals = Vec::new();
    for number in 0..8 {
        let is_bulk = number < 4;
        let flow = Flow {
            source: 1 + (number % 3) as u8,
            destination: 1 + (number % 2) as u8,
            number,
        };
        // Four classes, half of the senders with ECT(0).
        let tos = [0x00, 0xba, 0x8a, 0x20][usize::from(number % 4)];
        let share = if is_bulk { 0.285 } else { 0.015 };
        let (mut at, mut seq) = ((rng.share() * 5e6) as u64, 1u32);
        while at < u64::from(millis) * 1_000_000 {
            let segments = match (is_bulk, rng.between(0, 19)) {
                (false, _) => 1,
                (true, 0) => MOST,
                (true, _) => rng.between(2, 8),
            };
            let payload = match segments {
                1 => rng.between(60, 300),
                // The last segment may be short.
                _ => (segments - 1) * SIZE + rng.between(1, SIZE),
            };
            let tcp = Tcp {
                seq,
                ack: 1,
                flags: ACK,
                ..Tcp::default()
            };
            seq = seq.wrapping_add(payload);
            let frame = Frame::new(flow, HEADERS + payload, tos, Some(&tcp));
            let frame = frame.in_segments(segments as u16, SIZE);
            let bytes = payload + segments * HEADERS;
            arrivals.push(Arrival { at, frame });
            at += (f64::from(bytes) * 8e9 / (12e6 * share) * (0.5 + rng.share())) as u64;
        }
    }
    numbered(arrivals)
}
