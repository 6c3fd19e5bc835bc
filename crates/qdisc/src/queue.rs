//! [`Queue`]: packets in order of arrival and their backlog.

use alloc::collections::VecDeque;

use tautline_base::{Backlog, Bytes, Item};

use crate::codel::Source;

/// Packets in order of arrival.
#[derive(Debug)]
pub struct Queue<P> {
    packets: VecDeque<P>,
    backlog: Backlog,
}

impl<P> Queue<P> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self {
            packets: VecDeque::new(),
            backlog: Backlog::default(),
        }
    }

    /// Packets and bytes queued.
    pub fn held(&self) -> Backlog {
        self.backlog
    }

    /// The oldest packet.
    pub fn front(&self) -> Option<&P> {
        self.packets.front()
    }
}

impl<P: Item> Queue<P> {
    /// Appends `packet`.
    pub(crate) fn push(&mut self, packet: P) {
        self.backlog.add(packet.len());
        self.packets.push_back(packet);
    }
}

impl<P: Item> Source<P> for Queue<P> {
    #[inline]
    fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.len());
        Some(packet)
    }

    #[inline]
    fn backlog(&self) -> Bytes {
        self.backlog.bytes
    }
}
