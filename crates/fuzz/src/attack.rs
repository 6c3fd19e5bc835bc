//! Forged segments of an attacker on the link: copies of a segment that a host has sent, with other
//! numbers, flags, options and data, checksums valid.

use std::net::{Ipv4Addr, Ipv6Addr};

use arbitrary::Arbitrary;
use tautline_base::SplitMix64;
use tautline_testkit::{ACK, FIN, Ip, RST, SYN, Segment, TCP, frame};

/// Most segments of a burst.
const MOST: u64 = 64;
/// Flags that segments of connections have, more often than others.
const FLAGS: [u16; 6] = [ACK, ACK, ACK, ACK | FIN, ACK | RST, ACK | SYN];

/// A burst of forged segments.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Attack {
    seed: u64,
}

/// A parsed frame of a host.
struct Model {
    ip: Ip,
    segment: Segment,
}

impl Attack {
    /// The frames of the burst, after the model of `frame`; none if it holds no TCP segment.
    pub fn frames(self, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut rng = SplitMix64::new(self.seed);
        let Some(model) = Model::parse(frame) else {
            return Vec::new();
        };
        let count = 1 + rng.next_u64() % MOST;
        let macs = |at: usize| -> [u8; 6] { frame[at..at + 6].try_into().expect("six bytes") };
        (0..count)
            .map(|_| {
                let segment = model.forge(&mut rng).to_bytes();
                model.ip.frame(macs(0), macs(6), &segment)
            })
            .collect()
    }
}

impl Model {
    fn parse(frame: &[u8]) -> Option<Self> {
        let packet = &frame[14..];
        let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
        let (ip, tcp) = if ethertype == frame::IPV4 && packet[9] == TCP {
            let address = |at: usize| {
                let octets: [u8; 4] = packet[at..at + 4].try_into().expect("four bytes");
                Ipv4Addr::from(octets)
            };
            (Ip::new(address(12), address(16), TCP), &packet[20..])
        } else if ethertype == frame::IPV6 && packet[6] == TCP {
            let address = |at: usize| {
                let octets: [u8; 16] = packet[at..at + 16].try_into().expect("sixteen bytes");
                Ipv6Addr::from(octets)
            };
            (Ip::new(address(8), address(24), TCP), &packet[40..])
        } else {
            return None;
        };
        let segment = Segment::from_bytes(tcp, 0);
        Some(Self { ip, segment })
    }

    /// A segment that differs from the model in some fields.
    fn forge(&self, rng: &mut SplitMix64) -> Segment {
        let mut segment = self.segment.clone();
        let choices = rng.next_u64();
        let chance = |bit: u32, of: u64| choices >> bit & (of - 1) == 0;
        segment.seq = near(rng, segment.seq);
        segment.ack = near(rng, segment.ack);
        segment.window = rng.next_u64() as u16;
        segment.flags = if chance(0, 4) {
            (rng.next_u64() & 0x1ff) as u16
        } else {
            FLAGS[(rng.next_u64() % FLAGS.len() as u64) as usize]
        };
        if chance(2, 8) {
            segment.source_port = segment.source_port.wrapping_add(rng.next_u64() as u16 % 8);
        }
        if chance(5, 2) {
            segment.payload = vec![0; rng.next_u64() as usize % 1400];
        }
        if chance(6, 4) {
            let len = 4 * (rng.next_u64() as usize % 11);
            segment.options = (0..len).map(|_| rng.next_u64() as u8).collect();
        } else if chance(8, 4) && !segment.options.is_empty() {
            let at = rng.next_u64() as usize % segment.options.len();
            segment.options[at] ^= rng.next_u64() as u8;
        }
        segment
    }
}

/// `number`, or one within a segment, a window, or half of the sequence space of it.
fn near(rng: &mut SplitMix64, number: u32) -> u32 {
    let draw = rng.next_u64();
    let distance = (draw >> 32) as i32;
    number.wrapping_add_signed(match draw % 4 {
        0 => 0,
        1 => distance % 1500,
        2 => distance % 65_536,
        _ => distance,
    })
}
