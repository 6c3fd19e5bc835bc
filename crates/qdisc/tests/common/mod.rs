//! [`Probe`]: a packet with a name, for tests of queues. Shared by the unit tests and the integration tests.

use std::vec::Vec;

use tautline_base::{Bytes, Instant, Item};

/// A packet without bytes whose every trait can be chosen.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) id: u32,
    pub(crate) flow: u64,
    pub(crate) tos: u8,
    len: u32,
    priority: u8,
    enqueued: Instant,
}

impl Probe {
    /// A full-size Not-ECT packet of flow 0.
    pub(crate) fn new(id: u32) -> Self {
        Self { id, flow: 0, tos: 0, len: 1514, priority: 0, enqueued: Instant::ZERO }
    }

    pub(crate) fn sized(self, len: u32) -> Self {
        Self { len, ..self }
    }

    pub(crate) fn flow(self, flow: u64) -> Self {
        Self { flow, ..self }
    }

    pub(crate) fn tos(self, tos: u8) -> Self {
        Self { tos, ..self }
    }

    pub(crate) fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
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
}

/// The names of `packets`, in order.
pub(crate) fn ids(packets: impl Iterator<Item = Probe>) -> Vec<u32> {
    packets.map(|packet| packet.id).collect()
}
