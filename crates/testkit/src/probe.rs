//! [`Probe`]: a packet for tests of queueing disciplines.

use tautline_base::{Bytes, Instant, Item};

/// A packet with an identifier and, by default, without bytes. Every property of an [`Item`] can be
/// set.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Identifies the packet in assertions.
    pub id: u32,
    /// Its flow hash.
    pub flow: u64,
    /// The TOS byte, whose low two bits are the ECN codepoint.
    pub tos: u8,
    len: u32,
    priority: u8,
    enqueued: Instant,
    hosts: (u32, u32),
    departure: Instant,
    segments: u16,
    mark: u32,
    headers: Vec<u8>,
    network_offset: usize,
}

impl Probe {
    /// A full-size Not-ECT packet (1514 bytes) of flow 0.
    pub fn new(id: u32) -> Self {
        Self {
            id,
            flow: 0,
            tos: 0,
            len: 1514,
            priority: 0,
            enqueued: Instant::ZERO,
            hosts: (0, 0),
            departure: Instant::ZERO,
            segments: 1,
            mark: 0,
            headers: Vec::new(),
            network_offset: 14,
        }
    }

    /// Sets its wire length in bytes.
    pub fn sized(self, len: u32) -> Self {
        Self { len, ..self }
    }

    /// Sets its flow hash.
    pub fn flow(self, flow: u64) -> Self {
        Self { flow, ..self }
    }

    /// Sets its TOS byte.
    pub fn tos(self, tos: u8) -> Self {
        Self { tos, ..self }
    }

    /// Sets its priority (`SO_PRIORITY`).
    pub fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Sets the hashes of source and destination host.
    pub fn hosts(self, source: u32, destination: u32) -> Self {
        Self {
            hosts: (source, destination),
            ..self
        }
    }

    /// Sets its earliest departure time.
    pub fn departing(self, departure: Instant) -> Self {
        Self { departure, ..self }
    }

    /// Makes it a packet of `segments` segments.
    pub fn of_segments(self, segments: u16) -> Self {
        Self { segments, ..self }
    }

    /// Sets its firewall mark (`SO_MARK`).
    pub fn marked(self, mark: u32) -> Self {
        Self { mark, ..self }
    }

    /// Sets its bytes, from the Ethernet header on, and its length to theirs.
    pub fn with_headers(self, headers: Vec<u8>) -> Self {
        Self {
            len: headers.len() as u32,
            headers,
            ..self
        }
    }

    /// Sets where its network header begins.
    pub fn network_at(self, network_offset: usize) -> Self {
        Self {
            network_offset,
            ..self
        }
    }
}

impl Item for Probe {
    fn len(&self) -> Bytes {
        Bytes::new(self.len.into())
    }

    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    fn set_enqueued(&mut self, now: Instant) {
        self.enqueued = now;
    }

    fn flow_hash(&self) -> u64 {
        self.flow
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

    fn set_priority(&mut self, priority: u8) {
        self.priority = priority;
    }

    fn host_hashes(&self) -> (u32, u32) {
        self.hosts
    }

    fn departure(&self) -> Instant {
        self.departure
    }

    fn segments(&self) -> u16 {
        self.segments
    }

    fn headers(&self) -> &[u8] {
        &self.headers
    }

    fn network_offset(&self) -> usize {
        self.network_offset
    }

    fn mark(&self) -> u32 {
        self.mark
    }

    fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    /// Every piece has the identifier of the whole; the lengths add up to that of the whole.
    fn split(self, each: &mut dyn FnMut(Self)) -> Result<(), Self> {
        if self.segments <= 1 {
            return Err(self);
        }
        let segments = u32::from(self.segments);
        for piece in 0..segments {
            let len = self.len / segments + u32::from(piece < self.len % segments);
            each(Self {
                len,
                segments: 1,
                ..self.clone()
            });
        }
        Ok(())
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn corrupt(&mut self, bit: u64) -> bool {
        let Some(bit) = bit.checked_rem(8 * self.headers.len() as u64) else {
            return false;
        };
        self.headers[(bit / 8) as usize] ^= 1 << (bit % 8);
        true
    }
}

/// The identifiers of `packets`, in order.
pub fn ids(packets: impl Iterator<Item = Probe>) -> Vec<u32> {
    packets.map(|packet| packet.id).collect()
}
