//! [`Granted`]: the transmit half of a card whose frames leave when a medium says so
//! ([`medium`](crate::medium)).
//!
//! Between ring and air stands a window of frames that were taken at least once. A frame that
//! failed stays in it and goes again, first; frames behind it wait for it, as the receiver's
//! reordering buffer makes them wait on a real channel. So frames leave in order, and one that was
//! acknowledged early completes with the one before it.

use std::collections::VecDeque;
use std::fmt;

use tautline_base::{Bytes, Device, HeapFrame, Instant, Item, Packet};
use tautline_qdisc::{Backlog, Drops, DynQdisc, Qdisc};

use super::SimNic;

/// A discipline inside a driver.
pub type Discipline = Box<dyn DynQdisc<Packet<HeapFrame>>>;

/// What became of a frame on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It arrived.
    Acknowledged,
    /// It did not, and goes again.
    Failed,
    /// It did not, and is lost.
    GivenUp,
}

impl SimNic {
    /// From now on frames leave when a medium takes them. Until then they wait as `discipline`
    /// inside the driver has it (what it drops completes at once), or in the order in which they
    /// were put. The card must be at rest.
    pub fn await_grants(&mut self, discipline: Option<Discipline>) {
        debug_assert_eq!(
            self.in_flight(),
            0,
            "frames of two kinds of departure would overtake each other"
        );
        self.granted = Some(Box::new(Granted::new(discipline)));
    }

    /// Frames that wait for a grant; those on the air do not. Nothing unless the card is granted.
    pub fn awaiting(&self) -> Backlog {
        self.granted
            .as_ref()
            .map_or_else(Backlog::default, |granted| granted.waiting())
    }

    /// True when a frame waits for a grant that a window of so many frames lets go.
    pub fn is_grantable(&self, window: usize) -> bool {
        self.granted
            .as_ref()
            .is_some_and(|granted| granted.may_take(window))
    }

    /// True when a frame waits for a grant.
    pub fn is_awaiting(&self) -> bool {
        self.granted
            .as_ref()
            .is_some_and(|granted| !granted.waiting().is_empty())
    }

    /// The medium takes frames onto the air, those first that failed there before, while `fits`
    /// agrees with the length of the next one; it is asked once about each, and for the last time
    /// when it says no. `window` is the most that are taken from the oldest unacknowledged one on.
    /// Returns how many were taken: none unless the card is granted. Every grant is
    /// [concluded](Self::conclude).
    pub fn grant(&mut self, now: Instant, window: usize, fits: impl FnMut(Bytes) -> bool) -> usize {
        let Some(granted) = &mut self.granted else {
            return 0;
        };
        let taken = granted.take(now, window, fits);
        self.settle_granted(now);
        taken
    }

    /// The medium tells at `at` what became of the frames that its oldest unconcluded grant took.
    /// `verdict` is asked in their order, with how often each was sent. What arrived, and nothing
    /// sent before it is missing, departs at `at`.
    pub fn conclude(&mut self, at: Instant, verdict: impl FnMut(u32) -> Verdict) {
        if let Some(granted) = &mut self.granted {
            granted.conclude(verdict);
            self.settle_granted(at);
        }
    }

    /// What arrived departs, what was dropped or lost completes.
    pub(super) fn settle_granted(&mut self, at: Instant) {
        let Some(mut granted) = self.granted.take() else {
            return;
        };
        while let Some((packet, arrived)) = granted.pop_settled() {
            if arrived {
                self.departures
                    .extend(std::iter::repeat_n(at, packet.segments().into()));
                self.sending.push_back(packet);
            } else {
                self.sent.push_back(packet);
                self.gather(at);
            }
        }
        for (packet, _reason) in granted.drops.drain() {
            self.sent.push_back(packet);
            self.gather(at);
        }
        self.granted = Some(granted);
    }
}

/// Where frames wait for a grant.
enum Queue {
    /// In the order of the ring.
    Ring {
        frames: VecDeque<Packet<HeapFrame>>,
        backlog: Backlog,
    },
    /// As a discipline inside the driver has it.
    Discipline(Discipline),
}

/// Where a frame of the window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    /// By which grant.
    OnAir(u64),
    Settled {
        arrived: bool,
    },
}

struct Held {
    packet: Packet<HeapFrame>,
    tries: u32,
    place: Place,
}

/// Frames of a granted card, between ring and air.
pub(super) struct Granted {
    queue: Queue,
    window: VecDeque<Held>,
    /// Those of the window that wait.
    held: Backlog,
    /// How many grants there were, and how many are concluded.
    grants: u64,
    concluded: u64,
    /// What the driver's discipline dropped.
    pub(super) drops: Drops<Packet<HeapFrame>>,
}

impl Granted {
    /// Nothing to send; frames will wait as `discipline` has it, or in the order in which they
    /// come.
    pub(super) fn new(discipline: Option<Discipline>) -> Self {
        let ring = || Queue::Ring {
            frames: VecDeque::new(),
            backlog: Backlog::default(),
        };
        let queue = discipline.map_or_else(ring, Queue::Discipline);
        Self {
            queue,
            window: VecDeque::new(),
            held: Backlog::default(),
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
            Queue::Discipline(discipline) => discipline.enqueue(packet, now, &mut self.drops),
        }
    }

    /// Frames that are not on the air and still have to be.
    pub(super) fn waiting(&self) -> Backlog {
        let queued = self.queued();
        Backlog {
            packets: queued.packets + self.held.packets,
            bytes: queued.bytes + self.held.bytes,
        }
    }

    /// True when a window of `longest` lets a frame go.
    pub(super) fn may_take(&self, longest: usize) -> bool {
        !self.held.is_empty() || (self.window.len() < longest && !self.queued().is_empty())
    }

    fn queued(&self) -> Backlog {
        match &self.queue {
            Queue::Ring { backlog, .. } => *backlog,
            Queue::Discipline(discipline) => discipline.backlog(),
        }
    }

    /// Takes frames onto the air, those first that were there before, while `fits` agrees with the
    /// next one's length and the window, counted from its oldest frame, is shorter than `longest`.
    /// Returns how many.
    pub(super) fn take(
        &mut self,
        now: Instant,
        longest: usize,
        mut fits: impl FnMut(Bytes) -> bool,
    ) -> usize {
        let mut taken = 0;
        self.grants += 1;
        let grant = self.grants;
        for held in &mut self.window {
            if self.held.is_empty() {
                break;
            }
            if held.place == Place::Waiting {
                if !fits(held.packet.len()) {
                    return taken;
                }
                self.held.remove(held.packet.len());
                held.go(grant);
                taken += 1;
            }
        }
        while self.window.len() < longest {
            let Some(packet) = self.next(now) else { break };
            let mut held = Held {
                packet,
                tries: 0,
                place: Place::Waiting,
            };
            let goes = fits(held.packet.len());
            if goes {
                held.go(grant);
                taken += 1;
            } else {
                self.held.add(held.packet.len());
            }
            self.window.push_back(held);
            if !goes {
                break;
            }
        }
        taken
    }

    /// The next frame of the queue, as it will be on the air.
    fn next(&mut self, now: Instant) -> Option<Packet<HeapFrame>> {
        match &mut self.queue {
            Queue::Ring { frames, backlog } => {
                let packet = frames.pop_front()?;
                backlog.remove(packet.len());
                Some(packet)
            }
            Queue::Discipline(discipline) => {
                let mut packet = discipline.dequeue(now, &mut self.drops)?;
                packet.finish();
                Some(packet)
            }
        }
    }

    /// Settles what the oldest grant took. `verdict` is told how often the frame was sent.
    pub(super) fn conclude(&mut self, mut verdict: impl FnMut(u32) -> Verdict) {
        if self.concluded == self.grants {
            return;
        }
        self.concluded += 1;
        let grant = Place::OnAir(self.concluded);
        for held in self.window.iter_mut().filter(|held| held.place == grant) {
            held.place = match verdict(held.tries) {
                Verdict::Acknowledged => Place::Settled { arrived: true },
                Verdict::Failed => {
                    self.held.add(held.packet.len());
                    Place::Waiting
                }
                Verdict::GivenUp => Place::Settled { arrived: false },
            };
        }
    }

    /// The oldest frame and whether it arrived, once that is known.
    pub(super) fn pop_settled(&mut self) -> Option<(Packet<HeapFrame>, bool)> {
        let Place::Settled { arrived } = self.window.front()?.place else {
            return None;
        };
        self.window.pop_front().map(|held| (held.packet, arrived))
    }

    /// Gives every frame up.
    pub(super) fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.extend(self.window.drain(..).map(|held| held.packet));
        self.held = Backlog::default();
        self.concluded = self.grants;
        match &mut self.queue {
            Queue::Ring { frames, backlog } => {
                lost.extend(frames.drain(..));
                *backlog = Backlog::default();
            }
            Queue::Discipline(discipline) => {
                // Far in the future no shaper holds anything back.
                let end = Instant::from_nanos(u64::MAX);
                lost.extend(std::iter::from_fn(|| {
                    discipline.dequeue(end, &mut self.drops)
                }));
            }
        }
        lost.extend(self.drops.drain().map(|(packet, _)| packet));
    }
}

impl Held {
    fn go(&mut self, grant: u64) {
        self.place = Place::OnAir(grant);
        self.tries = self.tries.saturating_add(1);
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted")
            .field("waiting", &self.waiting())
            .field("window", &self.window.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
