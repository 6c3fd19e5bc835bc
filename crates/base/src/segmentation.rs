//! [`Segmentation`]: cuts a packet of several TCP segments into single ones, as a NIC with TSO and a
//! qdisc in [`Item::split`](crate::Item::split) do; likewise datagrams sent as one (`UDP_SEGMENT`).
//!
//! Each segment repeats the headers with its own length, sequence number and checksums (RFC 9293
//! §3.1, RFC 791, RFC 8200). Only the last has FIN and PSH. The IPv4 identification is repeated where
//! the packet must not be fragmented; else each segment has its own (RFC 6864 §4.1, §4.3), as in
//! Linux's `inet_gso_segment`.

use core::ops::Range;

use crate::checksum::{copy, copy_parts, fold, sum};
use crate::headers::{
    DESTINATION, ETHERNET_HEADER, EXTENSIONS, HOP_BY_HOP, IPV4, IPV4_HEADER, IPV6, IPV6_HEADER,
    TCP, TCP_HEADER, UDP, UDP_HEADER, u16_at,
};

/// FIN and PSH, set in the last segment only.
const LAST_ONLY: u8 = 0x01 | 0x08;
const CWR: u8 = 0x80;
/// Offsets of flags and checksum in a TCP header, and of the checksum in a UDP header.
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// Bits of the IPv4 word of flags and offset: "do not fragment", and those set in a fragment.
const DONT_FRAGMENT: u16 = 0x4000;
const FRAGMENT: u16 = 0x3fff;
/// Option of IPv6 (RFC 6275 §6.3).
const HOME_ADDRESS: u8 = 201;

/// Offsets of the headers and the payload of a TCP segment or datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    network: usize,
    transport: usize,
    payload: usize,
    ipv6: bool,
    udp: bool,
    /// Difference of the IPv4 identifications of two segments.
    id_step: u16,
}

impl Layout {
    /// The offsets in `frame`, whose network header begins at `network`; `None` if it holds neither
    /// TCP nor UDP, or a fragment of it only.
    fn of(frame: &[u8], network: usize) -> Option<Self> {
        let first = *frame.get(network)?;
        let (transport, protocol, ipv6) = match first >> 4 {
            4 => (
                network + usize::from(first & 0x0f) * 4,
                *frame.get(network + 9)?,
                false,
            ),
            6 => {
                let next = *frame.get(network + 6)?;
                let (transport, protocol) = behind_extensions(frame, network + IPV6_HEADER, next)?;
                (transport, protocol, true)
            }
            _ => return None,
        };
        let ethertype = if ipv6 { IPV6 } else { IPV4 };
        if network >= ETHERNET_HEADER && u16_at(frame, network - 2)? != ethertype {
            return None;
        }
        let flags = if ipv6 {
            DONT_FRAGMENT
        } else {
            u16_at(frame, network + 6)?
        };
        if flags & FRAGMENT != 0 {
            return None;
        }
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
            id_step: u16::from(flags & DONT_FRAGMENT == 0),
        })
    }

    /// End of the packet in `frame`, behind which padding may follow; the end of `frame` if the IP header
    /// does not say.
    fn end(&self, frame: &[u8]) -> usize {
        let (at, header) = if self.ipv6 {
            (self.network + 4, IPV6_HEADER)
        } else {
            (self.network + 2, 0)
        };
        let len = u16_at(frame, at).map_or(0, usize::from);
        Some(self.network + header + len)
            .filter(|end| (self.payload..=frame.len()).contains(end))
            .unwrap_or(frame.len())
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
            // All but length, identification and checksum.
            network: if self.ipv6 {
                0
            } else {
                parts(ip, &[0..2, 6..10, 12..ip.len()])
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

/// Offset and protocol behind the IPv6 extension headers at `at`, the first of kind `next`. `None` if they
/// are truncated, too many, others than options, or change the pseudo-header.
#[inline]
fn behind_extensions(frame: &[u8], mut at: usize, mut next: u8) -> Option<(usize, u8)> {
    for _ in 0..EXTENSIONS {
        if !matches!(next, HOP_BY_HOP | DESTINATION) {
            return Some((at, next));
        }
        let end = at + 8 * (usize::from(*frame.get(at + 1)?) + 1);
        let options = frame.get(at + 2..end)?;
        if has_home_address(options) {
            return None;
        }
        (next, at) = (frame[at], end);
    }
    None
}

/// Whether `options` of IPv6 name a home address, which takes the place of the source in the pseudo-header
/// (RFC 6275 §11.3.1), or are malformed.
fn has_home_address(mut options: &[u8]) -> bool {
    loop {
        match *options {
            [] => return false,
            [0, ..] => options = &options[1..],
            [HOME_ADDRESS, ..] | [_] => return true,
            [_, len, ..] => match options.get(2 + usize::from(len)..) {
                Some(rest) => options = rest,
                None => return true,
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
/// without a change, if `frame` holds neither TCP nor UDP, or padding behind it, which the device would
/// count too.
pub fn leave_checksum(frame: &mut [u8], network: usize) -> bool {
    let layout = Layout::of(frame, network).filter(|headers| headers.end(frame) == frame.len());
    let Some(headers) = layout else {
        return false;
    };
    let partial = fold(headers.pseudo_sum(frame, frame.len() - headers.transport));
    frame[headers.transport + headers.checksum()..][..2].copy_from_slice(&partial.to_be_bytes());
    true
}

/// Writes the TCP or UDP checksum of a whole packet, after its payload of zeros if `zeros`. A frame
/// with neither stays unchanged, and so does padding behind the packet.
pub(crate) fn complete(frame: &mut [u8], network: usize, zeros: bool) {
    let Some(headers) = Layout::of(frame, network) else {
        return;
    };
    if zeros {
        frame[headers.payload..].fill(0);
    }
    let at = headers.transport + headers.checksum();
    frame[at..at + 2].fill(0);
    let body = &frame[headers.transport..headers.end(frame)];
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
    /// Flags that only the first segment has.
    first_only: u8,
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
            first_only: 0,
        })
    }

    /// Gives CWR to the first segment only ([`Offload::cwr_once`](crate::Offload)).
    #[must_use]
    pub fn with_cwr_once(self) -> Self {
        Self {
            first_only: CWR,
            ..self
        }
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

    /// Reduces `frame`, the whole packet or, with `fragments`, its headers, to the last segment of those
    /// of `size` bytes. Returns its length.
    pub(crate) fn keep_last(
        frame: &mut [u8],
        fragments: &[bytes::Bytes],
        network: usize,
        size: usize,
    ) -> Option<usize> {
        let whole = Segmentation::of_size(frame, network, size)?;
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
            id_step,
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
            let first = u16::from_be_bytes([ip[4], ip[5]]);
            let id = first.wrapping_add(id_step.wrapping_mul(index as u16));
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            let checksum = !fold(self.repeated.network + u64::from(total) + u64::from(id));
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
            if index > 0 {
                header[FLAGS] &= !self.first_only;
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
