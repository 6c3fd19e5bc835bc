//! [`Template`]: the headers of segments that differ in sequence number and checksum only. To copy
//! them and add the differences to a checksum computed once costs a small part of writing them anew
//! (RFC 1624 updates checksums in the same way).

use std::net::IpAddr;

use tautline_base::{Deferred, checksum};

use super::tcp::{CHECKSUM, PROTOCOL};
use super::{Payload, ip_header_len, pseudo_sum};

/// Link, network and TCP headers with a timestamp fit: 18, 40 and 32 bytes with VLAN and IPv6. A copy
/// of a constant size needs no loop.
const ROOM: usize = 96;
/// Offset of the sequence number in the TCP header.
const SEQUENCE: usize = 4;

/// Headers of full segments, with a sequence number and checksum of zero.
#[derive(Debug)]
pub(crate) struct Template {
    headers: [u8; ROOM],
    /// Offset of the TCP header.
    transport: usize,
    /// Offset of the payload.
    payload: usize,
    /// Length of a frame.
    len: usize,
    /// The sum of pseudo-header and TCP header, not yet folded.
    sum: u64,
}

impl Template {
    /// The headers of `frame`, a segment from one address to the other with `payload` bytes. `None`
    /// if they do not fit, or the frame is shorter than the room for them.
    #[inline]
    pub(crate) fn of(
        frame: &[u8],
        link: usize,
        (source, destination): (IpAddr, IpAddr),
        payload: usize,
    ) -> Option<Self> {
        let mut headers = *frame.first_chunk::<ROOM>()?;
        let transport = link + ip_header_len(source);
        let (len, payload) = (frame.len(), frame.len().checked_sub(payload)?);
        if payload > ROOM || transport + CHECKSUM + 2 > payload {
            return None;
        }
        headers[transport + SEQUENCE..][..4].fill(0);
        headers[transport + CHECKSUM..][..2].fill(0);
        let sum = pseudo_sum(source, destination, PROTOCOL, len - transport)
            + u64::from(checksum::sum(&headers[transport..payload]));
        Some(Self {
            headers,
            transport,
            payload,
            len,
            sum,
        })
    }

    /// Writes the segment of `payload`, which has the length of the others, at `seq`. Returns the
    /// frame's length.
    #[inline]
    pub(crate) fn write(&self, frame: &mut [u8], seq: u32, payload: Payload<'_>) -> usize {
        let frame = self.write_headers(frame, seq);
        let sum = self.sum + u64::from(seq) + payload.write_and_sum(&mut frame[self.payload..]);
        let sum = (!checksum::fold(sum)).to_be_bytes();
        frame[self.transport + CHECKSUM..][..2].copy_from_slice(&sum);
        self.len
    }

    /// Like [`write`](Self::write), for a device that
    /// [completes](tautline_base::Device::completes) the frame. Returns its length and the deferred
    /// work.
    #[inline]
    pub(crate) fn write_incomplete(
        &self,
        frame: &mut [u8],
        seq: u32,
        payload: Payload<'_>,
    ) -> (usize, Deferred) {
        let frame = self.write_headers(frame, seq);
        match payload {
            Payload::Zeros(_) => (self.len, Deferred::Zeros),
            Payload::Bytes(..) | Payload::Chunks(..) => {
                payload.write(&mut frame[self.payload..]);
                (self.len, Deferred::Checksum)
            }
        }
    }

    /// Writes the headers, and whatever follows them in the room, which the payload overwrites.
    #[inline]
    fn write_headers<'a>(&self, frame: &'a mut [u8], seq: u32) -> &'a mut [u8] {
        let frame = &mut frame[..self.len];
        if let Some(place) = frame.first_chunk_mut::<ROOM>() {
            *place = self.headers;
        }
        frame[self.transport + SEQUENCE..][..4].copy_from_slice(&seq.to_be_bytes());
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn headers_that_end_before_the_checksum_are_refused() {
        let ends = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 7, 0, host)));
        let checksum_end = 14 + 20 + CHECKSUM + 2;
        let template = |headers: usize| Template::of(&[0; 1500], 14, ends.into(), 1500 - headers);
        assert!(template(checksum_end - 1).is_none());
        assert!(template(checksum_end).is_some());
        assert!(template(ROOM).is_some() && template(ROOM + 1).is_none());
    }
}
