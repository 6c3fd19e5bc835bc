//! [`Tree`]: which class may send next, without the packets.
//!
//! Leaves that have packets and are below their rate stand in the row of level 0 and their
//! priority. One that is at its rate hangs in a feed of its parent, the parent if need be in a feed
//! of its own parent, up to the first ancestor below its rate: that one stands in the row of its
//! level. So the rows hold, at any moment, exactly what may send, the levels from the bottom: a
//! class within its own rate precedes one that borrows, and one that borrows from a nearer ancestor
//! precedes one that borrows from a farther. Classes at a limit wait in order of time for their
//! buckets to fill.

use core::array;

use tautline_base::{Bytes, CallerClock, Instant};

use super::class::{Class, Mode, Node};
use super::ring::Ring;
use super::waiting::Waiting;
use super::{DEPTH, PRIORITIES};

/// Classes in the order of their numbers; a position changes only when one is added or removed.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) classes: alloc::vec::Vec<Class>,
    pub(super) rows: [[Ring; PRIORITIES]; DEPTH],
    /// The rows of each level that have members, one bit each.
    filled: [u8; DEPTH],
    pub(super) waiting: Waiting,
    pub(super) overlimits: u64,
    clock: CallerClock,
}

/// The set bits of `mask`, lowest first.
fn priorities(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = mask.checked_ilog2().map(|_| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            classes: alloc::vec::Vec::new(),
            rows: array::from_fn(|_| array::from_fn(|_| Ring::default())),
            filled: [0; DEPTH],
            waiting: Waiting::default(),
            overlimits: 0,
            clock: CallerClock::default(),
        }
    }

    /// Notes the time. If the clock stepped back, all that was to happen happens that much earlier.
    pub(super) fn advance_to(&mut self, now: Instant) {
        if let Some(step) = self.clock.step_back(now) {
            self.classes
                .iter_mut()
                .for_each(|class| class.step_back(step));
            self.waiting.step_back(step);
        }
    }

    /// The leaf at `at` has packets now.
    pub(super) fn activate(&mut self, at: usize) {
        let class = &mut self.classes[at];
        if class.activity == 0 {
            class.activity = 1 << class.prio();
            self.line_up(at);
        }
    }

    /// The leaf at `at` has no packets any more.
    pub(super) fn deactivate(&mut self, at: usize) {
        self.leave_line(at);
        self.classes[at].activity = 0;
    }

    /// Puts a class where its packets will be found: in its row, or in feeds up to the row of the
    /// first ancestor that can send.
    fn line_up(&mut self, mut at: usize) {
        let mut news = self.classes[at].activity;
        while news != 0
            && self.classes[at].mode == Mode::MayBorrow
            && let Some(parent) = self.classes[at].parent
        {
            let place = self.classes[at].place;
            let asked = news;
            if let Some(inner) = self.classes[parent].inner_mut() {
                for prio in priorities(asked) {
                    let feed = &mut inner.feeds[prio];
                    if !feed.is_empty() {
                        news &= !(1 << prio);
                    }
                    feed.insert(place);
                }
            }
            self.classes[parent].activity |= news;
            at = parent;
        }
        let Class { mode, level, .. } = self.classes[at];
        if mode == Mode::CanSend {
            for prio in priorities(news) {
                self.rows[level][prio].insert(at);
            }
            self.filled[level] |= news;
        }
    }

    /// Takes a class from where [`line_up`](Self::line_up) put it.
    fn leave_line(&mut self, mut at: usize) {
        let mut gone = self.classes[at].activity;
        while gone != 0
            && self.classes[at].mode == Mode::MayBorrow
            && let Some(parent) = self.classes[at].parent
        {
            let place = self.classes[at].place;
            let left = core::mem::take(&mut gone);
            if let Some(inner) = self.classes[parent].inner_mut() {
                for prio in priorities(left) {
                    inner.feeds[prio].remove_keeping_turn(place);
                    if inner.feeds[prio].is_empty() {
                        gone |= 1 << prio;
                    }
                }
            }
            self.classes[parent].activity &= !gone;
            at = parent;
        }
        let Class { mode, level, .. } = self.classes[at];
        if mode == Mode::CanSend {
            for prio in priorities(gone) {
                self.rows[level][prio].remove_passing_on(at);
                if self.rows[level][prio].is_empty() {
                    self.filled[level] &= !(1 << prio);
                }
            }
        }
    }

    /// Gives a class the mode that its buckets allow with `earned` more in them; for how many
    /// nanoseconds that lasts.
    fn change_mode(&mut self, at: usize, earned: i64) -> i64 {
        let class = &mut self.classes[at];
        let (mode, wait) = class.mode_with(earned, self.clock.latest());
        if mode == class.mode {
            return wait;
        }
        if mode == Mode::CannotSend {
            class.counters.overlimits += 1;
            self.overlimits += 1;
        }
        if self.classes[at].activity == 0 {
            self.classes[at].mode = mode;
            return wait;
        }
        if self.classes[at].mode != Mode::CannotSend {
            self.leave_line(at);
        }
        self.classes[at].mode = mode;
        if mode != Mode::CannotSend {
            self.line_up(at);
        }
        wait
    }

    fn wait(&mut self, at: usize, nanos: i64) {
        let nanos = core::time::Duration::from_nanos(nanos.max(1).unsigned_abs());
        self.waiting
            .insert(self.classes[at].level, at, self.clock.latest() + nanos);
    }

    /// Gives a class whose buckets have changed its mode, and lets it wait or not.
    #[inline]
    pub(super) fn reconsider(&mut self, at: usize) {
        let before = self.classes[at].mode;
        let wait = self.change_mode(at, 0);
        let Class { mode, level, .. } = self.classes[at];
        if mode == before {
            return;
        }
        if before != Mode::CanSend {
            self.waiting.remove(level, at);
        }
        if mode != Mode::CanSend {
            self.wait(at, wait);
        }
    }

    /// Sets the mode of a class from its buckets and earned tokens, and renews or ends its wait.
    pub(super) fn reconsider_now(&mut self, at: usize) {
        self.waiting.remove(self.classes[at].level, at);
        let wait = self.change_mode(at, self.classes[at].earned(self.clock.latest()));
        if self.classes[at].mode != Mode::CanSend {
            self.wait(at, wait);
        }
    }

    /// Wakes the classes of `level` whose time has come, each once.
    pub(super) fn wake(&mut self, level: usize) {
        while let Some((until, at)) = self.waiting.first(level)
            && until <= self.clock.latest()
        {
            self.reconsider_now(at);
        }
    }

    /// The priorities at which `level` may send, highest first.
    pub(super) fn sendable(&self, level: usize) -> impl Iterator<Item = usize> + use<> {
        priorities(self.filled[level])
    }

    /// Whether `level` may send at `prio`.
    pub(super) fn is_sendable(&self, level: usize, prio: usize) -> bool {
        self.filled[level] & (1 << prio) != 0
    }

    /// The leaf whose turn it is at `level` and `prio`: by the turn in the row, then by the turns
    /// in the feeds below.
    pub(super) fn leaf_in_turn(&mut self, level: usize, prio: usize) -> Option<usize> {
        let (mut path, mut depth) = ([0; DEPTH], 0usize);
        loop {
            let lender = depth.checked_sub(1).map(|above| path[above]);
            if let Some(at) = self.turn_at(lender, level, prio) {
                if self.classes[at].is_leaf() {
                    return Some(at);
                }
                path[depth] = at;
                depth += 1;
                continue;
            }
            if !self.ring(lender, level, prio).is_some_and(Ring::rewind) {
                return None;
            }
            // All below this lender had their turn: the lender's own is over too.
            if depth > 0 {
                depth -= 1;
                let above = depth.checked_sub(1).map(|above| path[above]);
                self.ring(above, level, prio).map(Ring::advance);
            }
        }
    }

    /// The feed of `lender`, or the row.
    fn ring(&mut self, lender: Option<usize>, level: usize, prio: usize) -> Option<&mut Ring> {
        match lender {
            None => Some(&mut self.rows[level][prio]),
            Some(at) => self.classes[at]
                .inner_mut()
                .map(|inner| &mut inner.feeds[prio]),
        }
    }

    fn turn_at(&mut self, lender: Option<usize>, level: usize, prio: usize) -> Option<usize> {
        match lender {
            None => self.rows[level][prio].current(),
            Some(at) => {
                let inner = self.classes[at].inner_mut()?;
                inner.feeds[prio]
                    .current()
                    .map(|place| inner.children[place])
            }
        }
    }

    /// Ends the turn of the leaf at `at`, which may send by leave of `level`.
    pub(super) fn end_turn(&mut self, at: usize, level: usize, prio: usize) {
        let lender = if level == 0 {
            None
        } else {
            self.classes[at].parent
        };
        self.ring(lender, level, prio).map(Ring::advance);
    }

    /// Counts a packet of the leaf at `at` against its turn.
    pub(super) fn count_turn(&mut self, at: usize, level: usize, prio: usize, len: Bytes) {
        let class = &mut self.classes[at];
        let Node::Leaf(deficits) = &mut class.node else {
            return;
        };
        let deficit = &mut deficits[level];
        // An empty packet counts as a byte, or a class of them would have its turn forever.
        *deficit = deficit.saturating_sub(i64::try_from(len.get().max(1)).unwrap_or(i64::MAX));
        if *deficit < 0 {
            *deficit = deficit.saturating_add(class.quantum);
            self.end_turn(at, level, prio);
        }
    }

    /// Lets the leaf at `at` and all its ancestors pay for a packet that left by leave of `level`.
    #[inline]
    pub(super) fn pay(&mut self, at: usize, level: usize, len: Bytes, segments: u16) {
        self.classes[at].counters.giants += u64::from(len > self.classes[at].config.mtu);
        let mut next = Some(at);
        while let Some(at) = next {
            let class = &mut self.classes[at];
            class.pay(len, level, self.clock.latest());
            if class.level > 0 {
                class.counters.sent_bytes += len;
                class.counters.sent_packets += u64::from(segments);
            }
            next = class.parent;
            self.reconsider(at);
        }
    }
}
