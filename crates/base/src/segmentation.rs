//! [`Segmentation`]: cuts a packet of several TCP segments into single ones, as a NIC with TSO and a
//! qdisc in [`Item::split`](crate::Item::split) do; likewise datagrams sent as one (`UDP_SEGMENT`).
//!
//! Each segment repeats the headers with its own length, sequence number and checksums (RFC 9293
//! §3.1, RFC 791, RFC 8200). Only the last has FIN and PSH. The IPv4 identification is repeated too:
//! our packets are never fragmented (RFC 6864 §4.1).

use core::ops::Range;

use crate::checksum::{copy, copy_parts, fold, sum};
use crate::headers::{IPV4_HEADER, IPV6_HEADER, TCP, TCP_HEADER, UDP, UDP_HEADER};

/// FIN and PSH, set in the last segment only.
const LAST_ONLY: u8 = 0x01 | 0x08;
/// Offsets of flags and checksum in a TCP header, and of the checksum in a UDP header.
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// Offsets of the headers and the payload of a TCP segment or datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    network: usize,
    transport: usize,
    payload: usize,
    ipv6: bool,
    udp: bool,
}

impl Layout {
    /// The offsets in `frame`, whose network header begins at `network`; `None` if it holds neither
    /// TCP nor UDP.
    fn of(frame: &[u8], network: usize) -> Option<Self> {
        let first = *frame.get(network)?;
        let (transport, protocol, ipv6) = match first >> 4 {
            4 => (
                network + usize::from(first & 0x0f) * 4,
                *frame.get(network + 9)?,
                false,
            ),
            6 => (network + IPV6_HEADER, *frame.get(network + 6)?, true),
            _ => return None,
        };
        let (offset, least) = match protocol {
            TCP => (
                usize::from(*frame.get(transport + 12)? >> 4) * 4,
                TCP_HEADER,
            ),
            UDP => (UDP_HEADER, UDP_HEADER),
            _ => return None,
        };
        let (payload, udp) = (transport + offset, protocol == UDP);
        let whole = transport >= network + IPV4_HEADER && offset >= least && payload <= frame.len();
        whole.then_some(Self {
            network,
            transport,
            payload,
            ipv6,
            udp,
        })
    }

    /// Offset of the checksum in the transport header.
    fn checksum(&self) -> usize {
        if self.udp { UDP_CHECKSUM } else { CHECKSUM }
    }

    /// The sum of the pseudo-header, with `len` bytes from the transport header on.
    fn pseudo_sum(&self, frame: &[u8], len: usize) -> u64 {
        let addresses = if self.ipv6 {
            self.network + 8..self.network + 40
        } else {
            self.network + 12..self.network + 20
        };
        u64::from(sum(&frame[addresses])) + u64::from(if self.udp { UDP } else { TCP }) + len as u64
    }

    /// The checksum field of a packet whose transport header, pseudo-header and payload have this
    /// `sum`.
    fn checksum_field(&self, sum: u64) -> [u8; 2] {
        match !fold(sum) {
            // Zero means no checksum in a datagram (RFC 768).
            0 if self.udp => [u8::MAX; 2],
            checksum => checksum.to_be_bytes(),
        }
    }

    /// The sums of the parts of the headers of `whole` that are the same in each segment.
    fn repeated_sums(&self, whole: &[u8]) -> Repeated {
        let parts = |header: &[u8], ranges: &[Range<usize>]| {
            let sums = ranges.iter().map(|range| sum(&header[range.clone()]));
            sums.map(u64::from).sum::<u64>()
        };
        let ip = &whole[self.network..self.transport];
        let transport = &whole[self.transport..self.payload];
        Repeated {
            // All but the length and the checksum.
            network: if self.ipv6 {
                0
            } else {
                parts(ip, &[0..2, 4..10, 12..ip.len()])
            },
            // All but length and checksum of UDP; all but sequence number, flags and checksum of TCP.
            transport: self.pseudo_sum(whole, 0)
                + if self.udp {
                    u64::from(sum(&transport[..4]))
                } else {
                    let end = transport.len();
                    parts(transport, &[0..4, 8..12, 14..CHECKSUM, CHECKSUM + 2..end])
                },
        }
    }
}

/// Sums that the checksums of all segments have in common.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    network: u64,
    transport: u64,
}

/// Bytes of headers that each segment of `frame` repeats; `None` without TCP or UDP.
pub(crate) fn header_len(frame: &[u8], network: usize) -> Option<usize> {
    Layout::of(frame, network).map(|headers| headers.payload)
}

/// Writes the sum of the pseudo-header as transport checksum, for a packet that a device cuts or
/// checksums (Linux's `CHECKSUM_PARTIAL`). Its network header begins at `network`. Returns false,
/// without a change, if `frame` holds neither TCP nor UDP.
pub fn leave_checksum(frame: &mut [u8], network: usize) -> bool {
    let Some(headers) = Layout::of(frame, network) else {
        return false;
    };
    let partial = fold(headers.pseudo_sum(frame, frame.len() - headers.transport));
    frame[headers.transport + headers.checksum()..][..2].copy_from_slice(&partial.to_be_bytes());
    true
}

/// Writes the TCP or UDP checksum of a whole packet, after its payload of zeros if `zeros`. A frame
/// with neither stays unchanged.
pub(crate) fn complete(frame: &mut [u8], network: usize, zeros: bool) {
    let Some(headers) = Layout::of(frame, network) else {
        return;
    };
    if zeros {
        frame[headers.payload..].fill(0);
    }
    let at = headers.transport + headers.checksum();
    frame[at..at + 2].fill(0);
    let body = &frame[headers.transport..];
    let sum = headers.pseudo_sum(frame, body.len()) + u64::from(sum(body));
    frame[at..at + 2].copy_from_slice(&headers.checksum_field(sum));
}

/// A packet of several segments, to be written as single frames.
///
/// ```
/// use tautline_base::Segmentation;
///
/// // Ethernet, IPv4 and TCP headers of 54 bytes, and 3000 bytes of payload.
/// let mut whole = vec![0; 3054];
/// whole[12..15].copy_from_slice(&[8, 0, 0x45]);
/// (whole[23], whole[46]) = (6, 0x50);
/// let segmentation = Segmentation::new(&whole, 14, 3).expect("it holds TCP");
/// let mut frame = [0; 2048];
/// assert_eq!(segmentation.write(1, &mut frame), Some(1054));
/// assert_eq!(frame[38..42], 1000u32.to_be_bytes(), "the sequence number of the second");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Segmentation<'a> {
    whole: &'a [u8],
    /// The payload, if it is not in `whole`.
    fragments: &'a [bytes::Bytes],
    headers: Layout,
    repeated: Repeated,
    /// Bytes of payload per segment; the last may be shorter.
    size: usize,
    count: usize,
}

impl<'a> Segmentation<'a> {
    /// Cuts the frame `whole`, whose network header begins at `network`, into `segments` segments;
    /// `None` if it holds neither TCP nor UDP, or fewer bytes of payload than segments.
    pub fn new(whole: &'a [u8], network: usize, segments: u16) -> Option<Self> {
        let payload = whole.len() - Layout::of(whole, network)?.payload;
        Self::of_size(
            whole,
            network,
            payload.div_ceil(usize::from(segments.max(1))),
        )
        .filter(|cut| cut.count == usize::from(segments))
    }

    /// Cuts the frame `whole`, whose network header begins at `network`, into segments of `size` bytes
    /// of payload; the last may be shorter.
    pub fn of_size(whole: &'a [u8], network: usize, size: usize) -> Option<Self> {
        let headers = Layout::of(whole, network)?;
        let count = (whole.len() - headers.payload).div_ceil(size.max(1)).max(1);
        Some(Self {
            whole,
            fragments: &[],
            headers,
            repeated: headers.repeated_sums(whole),
            size,
            count,
        })
    }

    /// Reads the payload from `fragments` instead of `whole`.
    pub(crate) fn with_fragments(self, fragments: &'a [bytes::Bytes]) -> Self {
        Self { fragments, ..self }
    }

    /// Number of segments.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of headers that each segment repeats.
    pub fn header_len(&self) -> usize {
        self.headers.payload
    }

    /// Bytes of payload per segment; the last may be shorter.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Offset of the transport header, and of the checksum in it.
    pub fn checksum_at(&self) -> (usize, usize) {
        (self.headers.transport, self.headers.checksum())
    }

    /// True for IPv6, false for IPv4.
    pub fn is_ipv6(&self) -> bool {
        self.headers.ipv6
    }

    /// Bytes of the frame of segment `index`, counted from 0.
    pub fn len_of(&self, index: usize) -> usize {
        let payload = self.whole.len() - self.headers.payload;
        self.headers.payload
            + payload
                .saturating_sub(index.saturating_mul(self.size))
                .min(self.size)
    }

    /// Writes segment `index`, counted from 0, as a frame with all its checksums. Returns its length;
    /// `None` if there is no such segment or `out` is too short.
    pub fn write(&self, index: usize, out: &mut [u8]) -> Option<usize> {
        let Layout { payload, .. } = self.headers;
        let len = self.len_of(index);
        let out = out.get_mut(..len).filter(|_| index < self.count)?;
        out[..payload].copy_from_slice(&self.whole[..payload]);
        let (start, place) = (index * self.size, &mut out[payload..]);
        let sum = match self.fragments {
            [] => copy(&self.whole[payload + start..][..place.len()], place).into(),
            fragments => copy_parts(range_of(fragments, start, place.len()), place),
        };
        self.finish(index, out, sum);
        Some(len)
    }

    /// Reduces `frame`, the whole packet or, with `fragments`, its headers, to the last segment. Returns
    /// its length.
    pub(crate) fn keep_last(
        frame: &mut [u8],
        fragments: &[bytes::Bytes],
        network: usize,
        count: u16,
    ) -> Option<usize> {
        let whole = Segmentation::new(frame, network, count)?;
        let (headers, last) = (whole.headers, whole.count - 1);
        let (start, len) = (last * whole.size, whole.len_of(last));
        let last_segment = Segmentation {
            whole: &[],
            fragments: &[],
            ..whole
        };
        if fragments.is_empty() {
            frame.copy_within(headers.payload + start.., headers.payload);
        }
        let out = &mut frame[..len];
        let place = &mut out[headers.payload..];
        let sum = match fragments {
            [] => sum(place).into(),
            fragments => copy_parts(range_of(fragments, start, place.len()), place),
        };
        last_segment.finish(last, out, sum);
        Some(len)
    }

    /// Turns the headers of the whole in `out` into those of segment `index`, the sum of whose payload
    /// is `payload`.
    fn finish(&self, index: usize, out: &mut [u8], payload: u64) {
        let Layout {
            network,
            transport,
            ipv6,
            ..
        } = self.headers;
        let len = out.len();
        let ip = &mut out[network..transport];
        if ipv6 {
            let below = (len - network - IPV6_HEADER) as u16;
            ip[4..6].copy_from_slice(&below.to_be_bytes());
        } else {
            let total = (len - network) as u16;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            let checksum = !fold(self.repeated.network + u64::from(total));
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        let header = &mut out[transport..];
        let mut sum = self.repeated.transport + (len - transport) as u64 + payload;
        if self.headers.udp {
            let below = (len - transport) as u16;
            header[4..6].copy_from_slice(&below.to_be_bytes());
            sum += u64::from(below);
        } else {
            let first = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            let seq = first.wrapping_add((index * self.size) as u32);
            header[4..8].copy_from_slice(&seq.to_be_bytes());
            if index + 1 < self.count {
                header[FLAGS] &= !LAST_ONLY;
            }
            sum += u64::from(seq) + u64::from(u16::from_be_bytes([header[12], header[FLAGS]]));
        }
        let at = self.headers.checksum();
        header[at..at + 2].copy_from_slice(&self.headers.checksum_field(sum));
    }
}

/// Copies `fragments` to `place`, one after the other, as far as they fit.
pub(crate) fn gather(fragments: &[bytes::Bytes], place: &mut [u8]) {
    let mut at = 0;
    for part in range_of(fragments, 0, place.len()) {
        place[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// The `len` bytes from `start` on of what `fragments` hold one after the other, in parts.
fn range_of(
    fragments: &[bytes::Bytes],
    mut start: usize,
    mut len: usize,
) -> impl Iterator<Item = &[u8]> {
    fragments.iter().filter_map(move |fragment| {
        let from = start.min(fragment.len());
        let to = fragment.len().min(from + len);
        start -= from;
        len -= to - from;
        (from < to).then(|| &fragment[from..to])
    })
}

#[cfg(test)]
mod tests;
