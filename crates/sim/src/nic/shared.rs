//! [`SharedQueue`]: the transmit half of a NIC on a shared [`medium`](crate::medium).
//!
//! Between ring and medium there is a window of frames that were sent at least once. A failed frame
//! stays in it and is sent again, first; frames behind it wait, as in the receiver's reordering
//! buffer. So frames leave in order, and one that was acknowledged early departs with the one before
//! it.

use std::collections::VecDeque;
use std::fmt;

use tautline_base::{Backlog, Bytes, Device, Drops, HeapFrame, Instant, Item, Packet, Qdisc};
use tautline_tc::DynQdisc;

use super::SimNic;

/// A qdisc inside a driver.
pub type DriverQueue = Box<dyn DynQdisc<Packet<HeapFrame>>>;

/// Result of sending a frame on a shared medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// It arrived.
    Acknowledged,
    /// It failed and is sent again.
    Retry,
    /// It failed and is lost.
    Dropped,
}

impl SimNic {
    /// Attaches the NIC, which must be idle, to a medium that takes its frames. Until then frames
    /// wait in the `driver` queue (its drops complete at once), or in ring order.
    pub fn attach_to_medium(&mut self, driver: Option<DriverQueue>) {
        debug_assert_eq!(self.in_flight(), 0, "only an idle NIC can be attached");
        self.shared = Some(Box::new(SharedQueue::new(driver)));
    }

    /// Frames that are waiting for a grant. Zero unless the NIC is on a medium.
    pub fn waiting(&self) -> Backlog {
        self.shared
            .as_ref()
            .map_or_else(Backlog::default, |shared| shared.waiting())
    }

    /// True if a frame is waiting that a window of `window` frames permits to send.
    pub fn can_send(&self, window: usize) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| shared.can_send(window))
    }

    /// True if a frame is waiting for a grant.
    pub fn has_waiting(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| !shared.waiting().is_empty())
    }

    /// Grants a transmission: takes frames, failed ones first, while `fits` accepts the length of
    /// the next one. It is called once per frame, and not again after it has returned false.
    /// `window`: the maximum number of frames from the oldest unacknowledged one on. Returns the
    /// number of frames taken. Every grant is [concluded](Self::conclude).
    pub fn grant(&mut self, now: Instant, window: usize, fits: impl FnMut(Bytes) -> bool) -> usize {
        let Some(shared) = &mut self.shared else {
            return 0;
        };
        let taken = shared.take(now, window, fits);
        self.settle_shared(now);
        taken
    }

    /// Concludes the oldest grant at `at`. `status` is called for each of its frames, in order, with
    /// the number of times that the frame was sent. Acknowledged frames depart once all frames
    /// before them have.
    pub fn conclude(&mut self, at: Instant, status: impl FnMut(u32) -> TxStatus) {
        if let Some(shared) = &mut self.shared {
            shared.conclude(status);
            self.settle_shared(at);
        }
    }

    /// Lets acknowledged frames depart, and completes dropped ones.
    pub(super) fn settle_shared(&mut self, at: Instant) {
        let Some(mut shared) = self.shared.take() else {
            return;
        };
        while let Some((packet, arrived)) = shared.pop_settled() {
            if arrived {
                self.departures
                    .extend(std::iter::repeat_n(at, packet.segments().into()));
                self.ring.insert(self.sent + self.sending, packet);
                self.sending += 1;
            } else {
                self.complete_unsent(packet, at);
            }
        }
        for (packet, _reason) in shared.drops.drain() {
            self.complete_unsent(packet, at);
        }
        self.shared = Some(shared);
    }

    /// Completes a packet that is lost, before those that are being sent.
    fn complete_unsent(&mut self, packet: Packet<HeapFrame>, at: Instant) {
        self.ring.insert(self.sent, packet);
        self.sent += 1;
        self.gather(at);
    }
}

/// Frames that were never sent.
enum Queue {
    Ring {
        frames: VecDeque<Packet<HeapFrame>>,
        backlog: Backlog,
    },
    Driver(DriverQueue),
}

/// State of a frame in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameState {
    Waiting,
    /// Sent by the grant of this number.
    OnAir(u64),
    Settled {
        arrived: bool,
    },
}

struct WindowFrame {
    packet: Packet<HeapFrame>,
    tries: u32,
    state: FrameState,
}

/// Frames between the ring and the medium.
pub(super) struct SharedQueue {
    queue: Queue,
    window: VecDeque<WindowFrame>,
    /// Waiting frames of the window.
    retries: Backlog,
    grants: u64,
    /// Number of grants concluded.
    concluded: u64,
    /// Drops of the driver's qdisc.
    pub(super) drops: Drops<Packet<HeapFrame>>,
}

impl SharedQueue {
    fn new(driver: Option<DriverQueue>) -> Self {
        let ring = || Queue::Ring {
            frames: VecDeque::new(),
            backlog: Backlog::default(),
        };
        Self {
            queue: driver.map_or_else(ring, Queue::Driver),
            window: VecDeque::new(),
            retries: Backlog::default(),
            grants: 0,
            concluded: 0,
            drops: Drops::new(),
        }
    }

    pub(super) fn enqueue(&mut self, packet: Packet<HeapFrame>, now: Instant) {
        match &mut self.queue {
            Queue::Ring { frames, backlog } => {
                backlog.add(packet.len());
                frames.push_back(packet);
            }
            Queue::Driver(qdisc) => qdisc.enqueue(packet, now, &mut self.drops),
        }
    }

    fn waiting(&self) -> Backlog {
        let queued = self.queued();
        Backlog {
            packets: queued.packets + self.retries.packets,
            bytes: queued.bytes + self.retries.bytes,
        }
    }

    fn can_send(&self, longest: usize) -> bool {
        !self.retries.is_empty() || (self.window.len() < longest && !self.queued().is_empty())
    }

    fn queued(&self) -> Backlog {
        match &self.queue {
            Queue::Ring { backlog, .. } => *backlog,
            Queue::Driver(qdisc) => qdisc.backlog(),
        }
    }

    fn take(&mut self, now: Instant, longest: usize, mut fits: impl FnMut(Bytes) -> bool) -> usize {
        let mut taken = 0;
        self.grants += 1;
        let grant = self.grants;
        for frame in &mut self.window {
            if self.retries.is_empty() {
                break;
            }
            if frame.state == FrameState::Waiting {
                if !fits(frame.packet.len()) {
                    return taken;
                }
                self.retries.remove(frame.packet.len());
                frame.send(grant);
                taken += 1;
            }
        }
        while self.window.len() < longest {
            let Some(packet) = self.next(now) else { break };
            let mut frame = WindowFrame {
                packet,
                tries: 0,
                state: FrameState::Waiting,
            };
            let goes = fits(frame.packet.len());
            if goes {
                frame.send(grant);
                taken += 1;
            } else {
                self.retries.add(frame.packet.len());
            }
            self.window.push_back(frame);
            if !goes {
                break;
            }
        }
        taken
    }

    /// The next frame of the queue, as it will be on the medium.
    fn next(&mut self, now: Instant) -> Option<Packet<HeapFrame>> {
        match &mut self.queue {
            Queue::Ring { frames, backlog } => {
                let packet = frames.pop_front()?;
                backlog.remove(packet.len());
                Some(packet)
            }
            Queue::Driver(qdisc) => {
                let mut packet = qdisc.dequeue(now, &mut self.drops)?;
                packet.finish();
                Some(packet)
            }
        }
    }

    fn conclude(&mut self, mut status: impl FnMut(u32) -> TxStatus) {
        if self.concluded == self.grants {
            return;
        }
        self.concluded += 1;
        let grant = FrameState::OnAir(self.concluded);
        for frame in self.window.iter_mut().filter(|frame| frame.state == grant) {
            frame.state = match status(frame.tries) {
                TxStatus::Acknowledged => FrameState::Settled { arrived: true },
                TxStatus::Retry => {
                    self.retries.add(frame.packet.len());
                    FrameState::Waiting
                }
                TxStatus::Dropped => FrameState::Settled { arrived: false },
            };
        }
    }

    /// The oldest frame and whether it arrived, once that is known.
    fn pop_settled(&mut self) -> Option<(Packet<HeapFrame>, bool)> {
        let FrameState::Settled { arrived } = self.window.front()?.state else {
            return None;
        };
        self.window.pop_front().map(|frame| (frame.packet, arrived))
    }

    /// Moves every frame to `lost`.
    pub(super) fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.extend(self.window.drain(..).map(|frame| frame.packet));
        self.retries = Backlog::default();
        self.concluded = self.grants;
        match &mut self.queue {
            Queue::Ring { frames, backlog } => {
                lost.extend(frames.drain(..));
                *backlog = Backlog::default();
            }
            Queue::Driver(qdisc) => {
                // In the far future every shaper lets packets go.
                let end = Instant::from_nanos(u64::MAX);
                let rest = std::iter::from_fn(|| qdisc.dequeue(end, &mut self.drops));
                lost.extend(rest);
            }
        }
        lost.extend(self.drops.drain().map(|(packet, _)| packet));
    }
}

impl WindowFrame {
    fn send(&mut self, grant: u64) {
        self.state = FrameState::OnAir(grant);
        self.tries = self.tries.saturating_add(1);
    }
}

impl fmt::Debug for SharedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedQueue")
            .field("waiting", &self.waiting())
            .field("window", &self.window.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
