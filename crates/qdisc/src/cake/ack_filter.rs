//! [`superseded`]: which TCP acknowledgment in a queue the newest one makes superfluous
//! (`net/sched/sch_cake.c`).
//!
//! On links with much less capacity upstream than downstream, acknowledgments of a download fill
//! the queue. Each says all that the ones before it said, and more; so an older one may go, as long
//! as nothing else is lost with it: data, flags, marks, options.

use tautline_base::Item;

use super::headers::network;
use crate::index::Index;

/// The fields of a TCP segment that the filter reads.
struct Segment<'a> {
    /// Source and destination address; of IPv6 they are longer.
    addresses: &'a [u8],
    /// The TCP header with its options.
    header: &'a [u8],
    /// Nothing follows the header.
    is_bare: bool,
}

const TCP: u8 = 6;
const IPV6_IN_IPV4: u8 = 41;
const SYN: u16 = 0x002;
const ACK: u16 = 0x010;
const ECE_CWR: u16 = 0x0c0;
/// All flags, the reserved ones included.
const FLAGS: u16 = 0xfff;

impl<'a> Segment<'a> {
    /// The TCP segment in a packet; `None` without one, or if its headers are incomplete or are not
    /// shown.
    fn of(packet: &'a impl Item) -> Option<Self> {
        let (_, bytes) = network(packet)?;
        match bytes.first()? >> 4 {
            4 => Self::of_ipv4(bytes),
            6 => Self::of_ipv6(bytes),
            _ => None,
        }
    }

    fn of_ipv4(bytes: &'a [u8]) -> Option<Self> {
        let len = 4 * usize::from(bytes.first()? & 0xf);
        let header = bytes.get(..len).filter(|header| header.len() >= 20)?;
        if be16(header, 6)? & 0x3fff != 0 {
            return None; // a fragment
        }
        match header[9] {
            IPV6_IN_IPV4 => Self::of_ipv6(&bytes[len..]),
            TCP => Self::of_tcp(
                &header[12..20],
                &bytes[len..],
                usize::from(be16(header, 2)?).checked_sub(len)?,
            ),
            _ => None,
        }
    }

    fn of_ipv6(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<40>()?;
        let is_tcp = header[0] >> 4 == 6 && header[6] == TCP;
        let len = is_tcp.then(|| be16(header, 4))??;
        Self::of_tcp(&bytes[8..40], &bytes[40..], len.into())
    }

    /// `len` is that of the segment according to the IP header.
    fn of_tcp(addresses: &'a [u8], bytes: &'a [u8], len: usize) -> Option<Self> {
        let header_len = 4 * usize::from(bytes.get(12)? >> 4);
        let header = bytes
            .get(..header_len)
            .filter(|header| header.len() >= 20)?;
        Some(Self {
            addresses,
            header,
            is_bare: len == header_len,
        })
    }

    fn ports(&self) -> &[u8] {
        &self.header[..4]
    }

    fn ack(&self) -> u32 {
        be32(self.header, 8).unwrap_or_default()
    }

    fn flags(&self) -> u16 {
        be16(self.header, 12).unwrap_or_default() & FLAGS
    }

    fn options(&self) -> Options<'a> {
        Options {
            bytes: &self.header[20..],
        }
    }

    fn is_of_same_flow(&self, other: &Self) -> bool {
        self.addresses == other.addresses && self.ports() == other.ports()
    }

    /// Value and echo of its timestamp; zeros if it has none.
    fn timestamps(&self) -> (u32, u32) {
        let found = self.options().find_map(|option| match option {
            Some((8, content)) => Some((be32(content, 0)?, be32(content, 4)?)),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Its SACK blocks.
    fn sack(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        let content = self
            .options()
            .find_map(|option| option.filter(|(kind, _)| *kind == 5))
            .map_or(&[][..], |found| found.1);
        content
            .chunks_exact(8)
            .filter_map(|block| Some((be32(block, 0)?, be32(block, 4)?)))
    }

    /// A bare acknowledgment.
    fn is_pure_ack(&self) -> bool {
        self.is_bare && self.flags() & !ECE_CWR == ACK
    }

    /// Whether nothing in its options would be missed if the acknowledgment with these timestamps
    /// came instead.
    fn options_may_go(&self, (value, echo): (u32, u32)) -> bool {
        self.options().all(|option| match option {
            Some((19, _)) => true,                        // MD5
            Some((5, content)) => content.len() % 8 == 0, // SACK, compared elsewhere
            Some((8, content)) if content.len() == 8 => {
                let (old_value, old_echo) = (be32(content, 0), be32(content, 4));
                old_value.is_some_and(|old| !is_later(old, value))
                    && old_echo.is_some_and(|old| !is_later(old, echo))
            }
            _ => false,
        })
    }

    /// Whether the SACK blocks of `newer` cover all of this one's: `None` if not, else whether they
    /// cover more.
    fn sack_grows_to(&self, newer: &Self) -> Option<bool> {
        let covered = self.sack().all(|(start, end)| {
            // A block below the acknowledgment reports a duplicate (DSACK): it must arrive.
            !before(start, self.ack())
                && newer
                    .sack()
                    .any(|other| !is_later(other.0, start) && !before(other.1, end))
        });
        let sum = |blocks: &mut dyn Iterator<Item = (u32, u32)>| -> u64 {
            blocks
                .map(|(start, end)| u64::from(end.wrapping_sub(start)))
                .sum()
        };
        let first = self.sack().next().is_none() && newer.sack().next().is_some();
        covered.then(|| first || sum(&mut newer.sack()) > sum(&mut self.sack()))
    }

    /// Whether `newer` says all that this acknowledgment says, and more: of two equal ones both
    /// count, as duplicates.
    fn is_superseded_by(&self, newer: &Self) -> bool {
        self.is_pure_ack()
            && self.options_may_go(newer.timestamps())
            && !is_later(self.ack(), newer.ack())
            && self
                .sack_grows_to(newer)
                .is_some_and(|more| more || self.ack() != newer.ack())
    }
}

/// The options of a TCP header: kind and content; `None` for one that is broken, after which
/// nothing follows.
#[derive(Clone)]
struct Options<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Option<(u8, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.bytes.iter().position(|&kind| kind != 1)?;
        let bytes = core::mem::take(&mut self.bytes).get(start..)?;
        let kind = *bytes.first()?;
        if kind == 0 {
            return None;
        }
        let len = bytes.get(1).map_or(0, |&len| usize::from(len));
        let Some(content) = bytes.get(2..len) else {
            return Some(None);
        };
        self.bytes = &bytes[len..];
        Some(Some((kind, content)))
    }
}

/// Sequence numbers: whether `a` lies behind `b`, and the other way round.
fn is_later(a: u32, b: u32) -> bool {
    before(b, a)
}

fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > i32::MAX as u32
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|bytes| u16::from_be_bytes(*bytes))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// Whether a packet is a TCP acknowledgment and nothing else.
pub(super) fn is_pure_ack(packet: &impl Item) -> bool {
    Segment::of(packet).is_some_and(|segment| segment.is_pure_ack())
}

/// The packet before the acknowledgment that `newest` makes superfluous among `older`, the packets
/// ahead of it in its queue; `Some(None)` if that is the first; `None` without one.
///
/// The oldest is dropped, and only if a second one could be; `aggressive` lets a single one go too
/// if the newest follows it directly and repeats its ECN flags.
pub(super) fn superseded<'a, P: Item + 'a>(
    older: impl Iterator<Item = (Index, &'a P)>,
    newest: &P,
    aggressive: bool,
) -> Option<Option<Index>> {
    let newest = Segment::of(newest).filter(|newest| newest.flags() & (ACK | SYN) == ACK)?;
    let mut found: Option<Candidate> = None;
    let mut previous = None;
    for (at, packet) in older {
        let before = previous.replace(at);
        let Some(old) = Segment::of(packet).filter(|old| old.is_of_same_flow(&newest)) else {
            continue;
        };
        let ecn = old.flags() & ECE_CWR;
        // The congestion feedback changed after it: without it, that would go unseen.
        found = found.filter(|found| found.ecn == ecn);
        if old.is_superseded_by(&newest) {
            match found {
                Some(oldest) => return Some(oldest.before),
                None => found = Some(Candidate { at, before, ecn }),
            }
        }
    }
    let single = found.filter(|single| aggressive && previous == Some(single.at))?;
    (single.ecn == newest.flags() & ECE_CWR).then_some(single.before)
}

/// An acknowledgment that may go.
struct Candidate {
    at: Index,
    before: Option<Index>,
    ecn: u16,
}
