//! [`Bench`]: a medium and its NICs without hosts, for tests of media.

use std::time::Duration;

use tautline_base::{Bytes, Device, HeapFrame, Instant, Packet, Pool, Rate};

use super::Medium;
use crate::nic::{NicConfig, SimNic};

/// Frames for each NIC: more than the rings of the tests hold.
const FRAMES: usize = 400;

/// A medium, and NICs that a test fills with frames.
pub(super) struct Bench {
    pub(super) medium: Medium,
    pub(super) nics: Vec<SimNic>,
    pub(super) pool: Pool<HeapFrame>,
    pub(super) now: Instant,
    /// Departed frames: time in microseconds, number of the NIC, length.
    pub(super) departed: Vec<(u64, usize, usize)>,
}

impl Bench {
    /// Equal NICs on `medium`.
    pub(super) fn new(medium: impl Into<Medium>, config: NicConfig) -> Self {
        let medium = medium.into();
        let count = medium.nic_count();
        let nics = (0..count).map(|number| {
            let mut nic = SimNic::new(config.clone()).expect("valid");
            medium.attach(number, &mut nic);
            nic
        });
        Self {
            nics: nics.collect(),
            medium,
            pool: Pool::new((0..count * FRAMES).map(|_| HeapFrame::new()).collect()),
            now: Instant::ZERO,
            departed: Vec::new(),
        }
    }

    /// Puts `count` frames of `len` bytes into the ring of `nic`.
    pub(super) fn put(&mut self, nic: usize, count: usize, len: u32) {
        for _ in 0..count {
            let frame = self.pool.take().expect("enough");
            self.nics[nic].put(Packet::new(frame, len), self.now);
        }
        self.nics[nic].doorbell(self.now);
    }

    /// Processes the next event; `None` if no event is pending.
    pub(super) fn step(&mut self) -> Option<()> {
        self.now = self.now.max(self.medium.next_event(&self.nics[..])?);
        self.medium.advance(self.now, &mut self.nics[..]);
        let mut done = Vec::new();
        for (number, nic) in self.nics.iter_mut().enumerate() {
            nic.advance(self.now, |bytes, at| {
                self.departed.push((at.as_micros(), number, bytes.len()))
            });
            nic.reap(self.now, &mut done);
        }
        for packet in done {
            let _ownerless = self.pool.settle(packet);
        }
        Some(())
    }

    /// Runs until no event is pending.
    pub(super) fn run_dry(&mut self) {
        while self.step().is_some() {}
        assert_eq!(self.pool.outstanding(), 0);
    }

    /// Keeps `nics` full of frames of `len` bytes for `time`. Returns the rate of each NIC, of which
    /// `overhead` bytes of each frame do not count.
    pub(super) fn saturate(
        &mut self,
        nics: &[usize],
        (len, overhead): (u32, u64),
        time: Duration,
    ) -> Vec<Rate> {
        let end = self.now + time;
        while self.now < end {
            for nic in nics {
                let room = self.nics[*nic].room();
                self.put(*nic, room, len);
            }
            self.step().expect("there is always something to send");
        }
        (0..self.nics.len())
            .map(|nic| Rate::from_amount(Bytes::new(self.bytes(nic, overhead)), time))
            .collect()
    }

    /// Bytes that `nic` has sent, without `overhead` bytes of each frame.
    pub(super) fn bytes(&self, nic: usize, overhead: u64) -> u64 {
        let own = self.departed.iter().filter(|(_, number, _)| *number == nic);
        own.map(|(.., len)| *len as u64 - overhead).sum()
    }
}
