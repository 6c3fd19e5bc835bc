//! Segmentation and receive offload in software, for devices that carry frames of the MTU only.
//!
//! [`SoftwareOffload`] wraps a [`Device`]. Above it packets hold up to 64 KiB and pass TCP, the
//! qdisc and the queue limit once, not once per segment. Below it every frame is at most the MTU:
//! large packets are segmented when they enter the ring, and received segments of a flow are merged
//! before the host sees them. The model is Linux's `net/core/gso.c` and `net/core/gro.c`.
//!
#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod gro;
mod gso;

use alloc::vec::Vec;

use tautline_base::{Device, HeapFrame, Instant, KeptPacket, Medium, Packet, Pool, Received, Tso};

use gro::Gro;
use gso::Gso;

/// Most frames that one call of [`Device::receive`] reads, so that the host gets the first packets of
/// a long burst before its end (Linux polls a NIC for 64 frames, `NAPI_POLL_WEIGHT`). Five packets of
/// 64 KiB.
const BURST: usize = 256;

/// Settings of [`SoftwareOffload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The largest packets that are accepted and cut. Default: 64 KiB in at most 64 segments, so that
    /// the descriptors of a ring hold several packets (Linux leaves the number of segments open,
    /// `GSO_MAX_SEGS`).
    pub gso: Tso,
    /// Whether received segments are merged. Default: true.
    pub gro: bool,
}

impl Default for Config {
    fn default() -> Self {
        let gso = Tso {
            max_segments: 64,
            ..Tso::MOST
        };
        Self { gso, gro: true }
    }
}

/// Adds segmentation and receive offload to a device that has neither.
///
/// A packet counts as completed when the device below has completed its last frame, so the queue
/// limit and TCP small queues see true completions.
#[derive(Debug)]
pub struct SoftwareOffload<D: Device> {
    inner: D,
    config: Config,
    gso: Gso<D::Frame>,
    gro: Gro,
}

impl<D: Device> SoftwareOffload<D> {
    /// Wraps the idle device `inner`, whose transmitted frames come from `frames`. One frame for
    /// each descriptor of its ring is enough.
    pub fn new(inner: D, frames: Pool<D::Frame>, config: Config) -> Self {
        Self {
            gso: Gso::new(frames),
            gro: Gro::new(config.gso.frame_len(), inner.medium()),
            inner,
            config,
        }
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device below, for its own settings.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }
}

impl<D: Device> Device for SoftwareOffload<D> {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn medium(&self) -> Medium {
        self.inner.medium()
    }

    fn tso(&self) -> Option<Tso> {
        Some(self.config.gso)
    }

    /// A segment is cut from the memory that its payload is in.
    fn gathers(&self) -> bool {
        true
    }

    /// Checksums are written while segments are cut; a packet of one segment is written by the host.
    fn completes(&self) -> bool {
        false
    }

    /// Frames above it are on the heap, whatever the device below has.
    fn accepts(&self, _frame: &HeapFrame) -> bool {
        true
    }

    /// A packet needs one descriptor to begin with; the remaining segments follow as descriptors
    /// become free.
    fn room(&self) -> usize {
        let frames = self.gso.room(self.inner.room());
        let packets = frames / usize::from(self.config.gso.max_segments.max(1));
        packets.max(usize::from(frames > 0))
    }

    fn put(&mut self, packet: Packet<HeapFrame>, now: Instant) {
        self.gso.put(packet, &mut self.inner, now);
    }

    fn doorbell(&mut self, now: Instant) {
        self.inner.doorbell(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        self.gso.reap(&mut self.inner, now, done);
    }

    fn announces_completions(&self) -> bool {
        self.inner.announces_completions()
    }

    fn has_completed(&self) -> bool {
        self.inner.has_completed()
    }

    fn in_flight(&self) -> usize {
        self.gso.in_flight()
    }

    fn receive(&mut self, now: Instant) -> Option<Received<HeapFrame>> {
        for _ in 0..BURST {
            if !self.gro.takes_more() {
                return self.gro.next();
            }
            let Some(received) = self.inner.receive(now) else {
                break;
            };
            self.gro.take(&received, self.config.gro);
            self.inner.recycle(received.frame);
        }
        self.gro.flush();
        self.gro.next()
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.gro.recycle(frame);
    }

    /// Never: segments are merged by a copy, into frames that the next packets need.
    fn keep(&mut self, received: Received<HeapFrame>) -> Result<KeptPacket, Received<HeapFrame>> {
        Err(received)
    }

    fn is_gone(&mut self) -> bool {
        self.inner.is_gone()
    }

    fn needs_reset(&mut self, now: Instant) -> bool {
        self.inner.needs_reset(now)
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        self.gso.reset(&mut self.inner, lost);
    }
}

/// The descriptor of the device below, which announces frames and completions.
#[cfg(all(feature = "std", unix))]
impl<D: Device + std::os::fd::AsFd> std::os::fd::AsFd for SoftwareOffload<D> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
