//! [`Frame`]: a packet with real headers, of which the kernel and our qdiscs see the same bytes.

use tautline_base::{Bytes, Instant, Item};
use tautline_qdisc::pfifo_fast::priority_of_tos;

/// The flow of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Flow {
    /// Source host, the last byte of 10.1.0.0/16.
    pub(crate) source: u8,
    /// Destination host, the last byte of 10.2.0.0/16.
    pub(crate) destination: u8,
    /// Distinguishes flows between the same hosts; the source port counts from 1024.
    pub(crate) number: u16,
}

/// The TCP header of a packet, where it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    /// Value and echo of the timestamp option.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// Blocks of the SACK option.
    pub(crate) sack: Vec<(u32, u32)>,
}

/// Flag bits of TCP.
pub(crate) const ACK: u8 = 0x10;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ECE: u8 = 0x40;
pub(crate) const CWR: u8 = 0x80;

/// A packet of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Its place in the trace, the identification field of its IPv4 header.
    pub(crate) id: u16,
    pub(crate) flow: Flow,
    len: u32,
    /// Segments of a TCP packet, and the payload of each but the last.
    segments: (u16, u32),
    tos: u8,
    priority: u8,
    mark: u32,
    departure: Instant,
    enqueued: Instant,
    headers: Vec<u8>,
}

impl Frame {
    /// A packet of `len` bytes on the wire without FCS: UDP, or TCP if a header is given. A TCP
    /// segment without payload is as long as its headers, whatever `len` says.
    pub(crate) fn new(flow: Flow, len: u32, tos: u8, tcp: Option<&Tcp>) -> Self {
        let transport = match tcp {
            None => udp(flow, len),
            Some(tcp) => segment(flow, tcp),
        };
        let ip_len = if tcp.is_some() {
            len.max(34 + transport.len() as u32)
        } else {
            len.max(60)
        } - 14;
        let mut headers = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, tos];
        headers.extend((ip_len as u16).to_be_bytes());
        headers.extend([0, 0, 0, 0, 64, if tcp.is_some() { 6 } else { 17 }, 0, 0]);
        headers.extend([10, 1, 0, flow.source, 10, 2, 0, flow.destination]);
        headers.extend(transport);
        Self {
            id: 0,
            flow,
            len: (ip_len + 14).max(60),
            segments: (1, 0),
            tos,
            priority: priority_of_tos(tos),
            mark: 0,
            departure: Instant::ZERO,
            enqueued: Instant::ZERO,
            headers,
        }
    }

    /// Gives it its place in the trace.
    pub(crate) fn numbered(mut self, id: u16) -> Self {
        self.id = id;
        self.headers[18..20].copy_from_slice(&id.to_be_bytes());
        self.headers[24..26].fill(0);
        let words = self.headers[14..34]
            .chunks(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum = words.sum::<u32>();
        let sum = (sum >> 16) + (sum & 0xffff);
        let checksum = !((sum >> 16) + sum) as u16;
        self.headers[24..26].copy_from_slice(&checksum.to_be_bytes());
        self
    }

    /// Makes it a packet of several segments of `size` bytes of payload.
    pub(crate) fn in_segments(mut self, count: u16, size: u32) -> Self {
        self.segments = (count, size);
        self
    }

    /// Payload of each segment but the last, if it is a packet of several.
    pub(crate) fn segment_size(&self) -> Option<u32> {
        (self.segments.0 > 1).then_some(self.segments.1)
    }

    /// Length of the packet as a whole, with its headers once.
    pub(crate) fn whole_len(&self) -> u32 {
        self.len
    }

    /// Asks for a departure at `when`.
    pub(crate) fn departing(mut self, when: Instant) -> Self {
        self.departure = when;
        self
    }
}

fn ports(flow: Flow, destination: u16) -> Vec<u8> {
    [
        (1024 + flow.number).to_be_bytes(),
        destination.to_be_bytes(),
    ]
    .concat()
}

fn udp(flow: Flow, len: u32) -> Vec<u8> {
    let mut header = ports(flow, 2000);
    header.extend((len.max(60) as u16 - 34).to_be_bytes());
    header.extend([0, 0]);
    header
}

fn segment(flow: Flow, tcp: &Tcp) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some((value, echo)) = tcp.timestamps {
        options.extend([1, 1, 8, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    }
    if !tcp.sack.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * tcp.sack.len() as u8]);
        for (left, right) in &tcp.sack {
            options.extend(left.to_be_bytes());
            options.extend(right.to_be_bytes());
        }
    }
    let mut header = ports(flow, 443);
    header.extend(tcp.seq.to_be_bytes());
    header.extend(tcp.ack.to_be_bytes());
    header.extend([
        ((20 + options.len()) as u8 / 4) << 4,
        tcp.flags,
        0x20,
        0,
        0,
        0,
        0,
        0,
    ]);
    header.extend(options);
    header
}

impl Item for Frame {
    fn len(&self) -> Bytes {
        let repeated = u32::from(self.segments.0 - 1) * self.headers.len() as u32;
        Bytes::new((self.len + repeated).into())
    }

    fn segments(&self) -> u16 {
        self.segments.0
    }

    fn split(self, each: &mut dyn FnMut(Self)) -> Result<(), Self> {
        let (count @ 2.., size) = self.segments else {
            return Err(self);
        };
        let headers = self.headers.len() as u32;
        let payload = self.len - headers;
        for place in 0..count {
            let before = u32::from(place) * size;
            each(Self {
                id: self.id + place,
                len: headers + size.min(payload - before),
                segments: (1, 0),
                ..self.clone()
            });
        }
        Ok(())
    }

    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    fn set_enqueued(&mut self, now: Instant) {
        self.enqueued = now;
    }

    /// The memory that Linux 6.1 accounts for a packet of a packet socket: the buffer, 16 bytes of
    /// headroom, the packet and 320 bytes of shared information, each rounded up to 64 bytes and
    /// together to the next size of its allocator, and 256 bytes of descriptor. Of a packet of several
    /// segments the headers are in the buffer and the payload in pages.
    fn memory(&self) -> Bytes {
        if self.segments.0 > 1 {
            let payload = self.len - self.headers.len() as u32;
            return Bytes::new(u64::from(payload.next_multiple_of(4096) + 512 + 256));
        }
        let buffer = (self.len + 16).next_multiple_of(64) + 320;
        Bytes::new(u64::from(buffer.next_power_of_two().max(512) + 256))
    }

    fn flow_hash(&self) -> u64 {
        let Flow {
            source,
            destination,
            number,
        } = self.flow;
        (u64::from(source) << 40 | u64::from(destination) << 32 | u64::from(number))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn host_hashes(&self) -> (u32, u32) {
        let mixed = |host: u8| (u32::from(host) + 1).wrapping_mul(0x9e37_79b9);
        (
            mixed(self.flow.source),
            mixed(self.flow.destination).rotate_left(16),
        )
    }

    fn tos(&self) -> u8 {
        self.tos
    }

    fn set_tos(&mut self, tos: u8) {
        self.tos = tos;
    }

    fn priority(&self) -> u8 {
        self.priority
    }

    fn departure(&self) -> Instant {
        self.departure
    }

    fn header_len(&self) -> Bytes {
        Bytes::new(self.headers.len() as u64)
    }

    fn headers(&self) -> &[u8] {
        &self.headers
    }

    fn set_priority(&mut self, priority: u8) {
        self.priority = priority;
    }

    fn mark(&self) -> u32 {
        self.mark
    }

    fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn corrupt(&mut self, _bit: u64) -> bool {
        true
    }
}
