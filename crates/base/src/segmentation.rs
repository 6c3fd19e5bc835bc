//! [`Segmentation`]: cuts a packet that stands for several TCP segments into them, as a card with
//! TSO does at its serialiser and a discipline in [`Item::split`](crate::Item::split). Datagrams
//! that were sent as one (`UDP_SEGMENT`) are cut likewise.
//!
//! The headers are repeated; length, sequence number and checksums are each segment's own (RFC 9293
//! §3.1, RFC 791, RFC 8200). FIN and PSH are the last one's. The identification of IPv4 is repeated
//! too: our packets are never fragmented (RFC 6864 §4.1).

use crate::checksum::{fold, sum};
use crate::headers::{IPV6_HEADER, TCP, TCP_HEADER, UDP, UDP_HEADER, network_offset};

/// FIN and PSH, in the byte of the flags.
const LAST_ONLY: u8 = 0x01 | 0x08;
/// Where TCP has its flags and its checksum, and UDP its checksum.
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// Where the headers of a TCP segment or a datagram in an Ethernet frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Headers {
    network: usize,
    transport: usize,
    payload: usize,
    ipv6: bool,
    udp: bool,
}

impl Headers {
    /// Those of `frame`; `None` if it holds neither.
    fn of(frame: &[u8]) -> Option<Self> {
        let network = network_offset(frame);
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
        let whole = transport > network && offset >= least && payload <= frame.len();
        whole.then_some(Self {
            network,
            transport,
            payload,
            ipv6,
            udp,
        })
    }

    /// Where the checksum is, counted from the transport header.
    fn checksum(&self) -> usize {
        if self.udp { UDP_CHECKSUM } else { CHECKSUM }
    }

    /// The one's complement sum of the pseudo-header, for `len` bytes from the transport header on.
    fn pseudo_sum(&self, frame: &[u8], len: usize) -> u64 {
        let addresses = if self.ipv6 {
            self.network + 8..self.network + 40
        } else {
            self.network + 12..self.network + 20
        };
        u64::from(sum(&frame[addresses])) + u64::from(if self.udp { UDP } else { TCP }) + len as u64
    }

    /// Writes the checksum of what IP carries in `frame`.
    fn write_checksum(&self, frame: &mut [u8]) {
        let pseudo = self.pseudo_sum(frame, frame.len() - self.transport);
        let (body, at) = (&mut frame[self.transport..], self.checksum());
        body[at..at + 2].fill(0);
        let checksum = match !fold(pseudo + u64::from(sum(body))) {
            // In a datagram zero would mean that there is none.
            0 if self.udp => u16::MAX,
            checksum => checksum,
        };
        body[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The bytes that every segment of the packet in the Ethernet frame `frame` repeats; `None` if it
/// holds nothing that can be cut.
pub(crate) fn header_len(frame: &[u8]) -> Option<usize> {
    Headers::of(frame).map(|headers| headers.payload)
}

/// Writes the TCP checksum of a packet that is still to be cut, or to be checksummed by the device:
/// the sum of the pseudo-header, as Linux leaves it to hardware (`CHECKSUM_PARTIAL`). False, and
/// nothing changes, if `frame` holds neither TCP nor UDP.
pub fn leave_checksum(frame: &mut [u8]) -> bool {
    let Some(headers) = Headers::of(frame) else {
        return false;
    };
    let partial = fold(headers.pseudo_sum(frame, frame.len() - headers.transport));
    frame[headers.transport + headers.checksum()..][..2].copy_from_slice(&partial.to_be_bytes());
    true
}

/// Writes the TCP or UDP checksum of a whole packet, whatever stands there, over its payload or
/// over `zeros` in place of that. Nothing changes if `frame` holds neither.
pub(crate) fn complete(frame: &mut [u8], zeros: bool) {
    let Some(headers) = Headers::of(frame) else {
        return;
    };
    if zeros {
        frame[headers.payload..].fill(0);
    }
    headers.write_checksum(frame);
}

/// A packet of several segments, to be written one by one.
///
/// ```
/// use tautline_base::Segmentation;
///
/// // Ethernet, IPv4 and TCP headers of 54 bytes, and 3000 bytes of payload.
/// let mut whole = vec![0; 3054];
/// whole[12..15].copy_from_slice(&[8, 0, 0x45]);
/// (whole[23], whole[46]) = (6, 0x50);
/// let segmentation = Segmentation::new(&whole, 3).expect("it holds TCP");
/// let mut frame = [0; 2048];
/// assert_eq!(segmentation.write(1, &mut frame), Some(1054));
/// assert_eq!(frame[38..42], 1000u32.to_be_bytes(), "the sequence number of the second");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Segmentation<'a> {
    whole: &'a [u8],
    headers: Headers,
    /// Payload of each segment but the last, which may have less.
    size: usize,
    count: usize,
}

impl<'a> Segmentation<'a> {
    /// The Ethernet frame `whole` as `segments` segments; `None` if it holds nothing that can be
    /// cut, or fewer bytes of payload than segments.
    pub fn new(whole: &'a [u8], segments: u16) -> Option<Self> {
        let payload = whole.len() - Headers::of(whole)?.payload;
        Self::of_size(whole, payload.div_ceil(usize::from(segments.max(1))))
            .filter(|cut| cut.count == usize::from(segments))
    }

    /// The same as segments of `size` bytes of payload each, but perhaps the last.
    pub fn of_size(whole: &'a [u8], size: usize) -> Option<Self> {
        let headers = Headers::of(whole)?;
        let count = (whole.len() - headers.payload).div_ceil(size.max(1)).max(1);
        Some(Self {
            whole,
            headers,
            size,
            count,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of headers that each repeats.
    pub fn header_len(&self) -> usize {
        self.headers.payload
    }

    /// Bytes of payload of each but perhaps the last.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where the transport header begins, and the checksum in it.
    pub fn checksum_at(&self) -> (usize, usize) {
        (self.headers.transport, self.headers.checksum())
    }

    /// The packet is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.headers.ipv6
    }

    /// Bytes of the frame of segment `index`.
    pub fn len_of(&self, index: usize) -> usize {
        let payload = self.whole.len() - self.headers.payload;
        self.headers.payload
            + payload
                .saturating_sub(index.saturating_mul(self.size))
                .min(self.size)
    }

    /// Writes segment `index`, counted from 0, as a frame of its own with all its checksums.
    /// Returns its length; `None` if there is no such segment, or `out` is too short.
    pub fn write(&self, index: usize, out: &mut [u8]) -> Option<usize> {
        let Headers { payload, .. } = self.headers;
        let len = self.len_of(index);
        let out = out.get_mut(..len).filter(|_| index < self.count)?;
        out[..payload].copy_from_slice(&self.whole[..payload]);
        out[payload..].copy_from_slice(&self.whole[payload + index * self.size..][..len - payload]);
        self.finish(index, out);
        Some(len)
    }

    /// Moves the last segment to the front of `frame`, which holds the whole packet. Returns its
    /// length.
    pub(crate) fn keep_last(count: u16, frame: &mut [u8]) -> Option<usize> {
        let whole = Segmentation::new(frame, count)?;
        let (headers, last, from) = (
            whole.headers,
            whole.count - 1,
            whole.headers.payload + (whole.count - 1) * whole.size,
        );
        let len = whole.len_of(last);
        let (size, count) = (whole.size, whole.count);
        let end = frame.len();
        frame.copy_within(from..end, headers.payload);
        let out = &mut frame[..len];
        Segmentation {
            whole: &[],
            headers,
            size,
            count,
        }
        .finish(last, out);
        Some(len)
    }

    /// Makes the headers in `out`, which are those of the whole, those of segment `index`.
    fn finish(&self, index: usize, out: &mut [u8]) {
        let Headers {
            network,
            transport,
            ipv6,
            ..
        } = self.headers;
        let len = out.len();
        if ipv6 {
            let below = (len - network - IPV6_HEADER) as u16;
            out[network + 4..network + 6].copy_from_slice(&below.to_be_bytes());
        } else {
            out[network + 2..network + 4].copy_from_slice(&((len - network) as u16).to_be_bytes());
            out[network + 10..network + 12].fill(0);
            let checksum = !sum(&out[network..transport]);
            out[network + 10..network + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        let body = &mut out[transport..];
        if self.headers.udp {
            body[4..6].copy_from_slice(&((len - transport) as u16).to_be_bytes());
        } else {
            let first = u32::from_be_bytes([body[4], body[5], body[6], body[7]]);
            body[4..8]
                .copy_from_slice(&first.wrapping_add((index * self.size) as u32).to_be_bytes());
            if index + 1 < self.count {
                body[FLAGS] &= !LAST_ONLY;
            }
        }
        self.headers.write_checksum(out);
    }
}

#[cfg(test)]
mod tests;
