//! [`Rounds`]: deficit round robin among the children of a qdisc (Shreedhar and Varghese 1996;
//! `drr_dequeue` in `net/sched/sch_drr.c`, the second half of `ets_qdisc_dequeue` in
//! `net/sched/sch_ets.c`).
//!
//! Linux stops at a child that holds its packets back (a shaper); here the next one is served.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tautline_base::{Bytes, Drops, Instant, Item, Qdisc};

use crate::children::Children;
use crate::parked::Parked;

/// Children that take turns.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// One for each child, in the same order.
    turns: Vec<Turn>,
    /// Children that have packets, by position, the one in turn first.
    active: VecDeque<usize>,
}

#[derive(Debug)]
struct Turn {
    /// At least 1.
    quantum: Bytes,
    deficit: Bytes,
    active: bool,
    /// Length of its head, if that did not fit when it was last its turn.
    too_long: Option<Bytes>,
}

/// The result of a round.
enum Round<P> {
    /// A packet to send.
    Packet(P),
    /// Heads that did not fit; the deficits grew.
    TooLong,
    /// Nothing: no child gave its packets away.
    Closed,
}

impl Rounds {
    /// A child was added at `at`. It has no turn yet.
    pub(crate) fn insert(&mut self, at: usize, quantum: Bytes) {
        self.turns.insert(
            at,
            Turn {
                quantum,
                deficit: Bytes::ZERO,
                active: false,
                too_long: None,
            },
        );
        self.active
            .iter_mut()
            .filter(|other| **other >= at)
            .for_each(|other| *other += 1);
        self.active.reserve(self.turns.len() - self.active.len());
    }

    /// The child at `at` was removed.
    pub(crate) fn remove(&mut self, at: usize) {
        self.turns.remove(at);
        self.active.retain(|other| *other != at);
        self.active
            .iter_mut()
            .filter(|other| **other > at)
            .for_each(|other| *other -= 1);
    }

    /// Gives the child at `at` another quantum, at least 1. Its deficit stays.
    pub(crate) fn set_quantum(&mut self, at: usize, quantum: Bytes) {
        self.turns[at].quantum = quantum;
    }

    /// The child at `at` has packets: its turn comes last if it had none.
    #[inline]
    pub(crate) fn activate(&mut self, at: usize) {
        let turn = &mut self.turns[at];
        if !turn.active {
            turn.active = true;
            turn.deficit = turn.quantum;
            self.active.push_back(at);
        }
    }

    /// The child at `at` no longer takes turns.
    pub(crate) fn deactivate(&mut self, at: usize) {
        self.turns[at].active = false;
        self.active.retain(|other| *other != at);
    }

    /// Bytes that the child at `at` may still send in this turn.
    pub(crate) fn deficit(&self, at: usize) -> Bytes {
        self.turns[at].deficit
    }

    /// The next packet; `None` if no active child gives one away.
    pub(crate) fn dequeue<P: Item, Q: Qdisc<P>>(
        &mut self,
        children: &mut Children<P, Parked<P, Q>>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Option<P> {
        loop {
            match self.one_round(children, now, drops) {
                Round::Packet(packet) => return Some(packet),
                Round::TooLong => self.skip_rounds(),
                Round::Closed => return None,
            }
        }
    }

    /// When the first of the active children opens that have just held back their packets.
    pub(crate) fn opens<P: Item, Q: Qdisc<P>>(
        &self,
        children: &Children<P, Parked<P, Q>>,
    ) -> Option<Instant> {
        let opens = self.active.iter().map(|&at| children.child(at).ready_at());
        opens.flatten().min()
    }

    /// Gives the children whose heads are too long the quanta of the rounds that would pass before
    /// the first of them fits.
    fn skip_rounds(&mut self) {
        let Self { turns, active } = self;
        let rounds = active.iter().filter_map(|&at| {
            let turn = &turns[at];
            let lacks = turn.too_long?.saturating_sub(turn.deficit);
            Some(lacks.get().div_ceil(turn.quantum.get()))
        });
        let rounds = rounds.min().unwrap_or(0);
        for &at in active.iter() {
            let turn = &mut turns[at];
            if turn.too_long.is_some() {
                turn.deficit += turn.quantum * rounds;
            }
        }
    }

    /// One turn of each active child at most.
    fn one_round<P: Item, Q: Qdisc<P>>(
        &mut self,
        children: &mut Children<P, Parked<P, Q>>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Round<P> {
        let mut grown = false;
        for _ in 0..self.active.len() {
            let Some(&at) = self.active.front() else {
                break;
            };
            let turn = &mut self.turns[at];
            // An empty packet counts as a byte, or a child of them would have its turn forever.
            let head = children
                .peek_len(at, now, drops)
                .map(|len| len.max(Bytes::new(1)));
            turn.too_long = head.filter(|len| *len > turn.deficit);
            match head {
                Some(len) if len <= turn.deficit => {
                    turn.deficit -= len;
                    let packet = children.dequeue(at, now, drops);
                    if children.held(at).is_empty() {
                        turn.active = false;
                        self.active.pop_front();
                    }
                    return packet.map_or(Round::Closed, Round::Packet);
                }
                Some(_) => {
                    turn.deficit += turn.quantum;
                    grown = true;
                    self.active.rotate_left(1);
                }
                None if children.held(at).is_empty() => {
                    turn.active = false;
                    self.active.pop_front();
                }
                None => self.active.rotate_left(1),
            }
        }
        if grown { Round::TooLong } else { Round::Closed }
    }
}
