//! [`Rounds`]: deficit round robin among the children of a qdisc (Shreedhar and Varghese 1996;
//! `drr_dequeue` in `net/sched/sch_drr.c`, the second half of `ets_qdisc_dequeue` in
//! `net/sched/sch_ets.c`).
//!
//! Linux stops at a child that holds its packets back (a shaper); here the next one is served.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tautline_base::{Bytes, Drops, Instant, Item, Qdisc};

use crate::children::Children;

/// Children that take turns.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// One for each child, in the same order.
    shares: Vec<Share>,
    /// Children that have packets, by position, the one in turn first.
    active: VecDeque<usize>,
}

#[derive(Debug)]
struct Share {
    /// At least 1.
    quantum: Bytes,
    deficit: Bytes,
    active: bool,
    /// Length of its head, if that did not fit when it was last its share.
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
        self.shares.insert(
            at,
            Share {
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
        self.active.reserve(self.shares.len() - self.active.len());
    }

    /// The child at `at` was removed.
    pub(crate) fn remove(&mut self, at: usize) {
        self.shares.remove(at);
        self.active.retain(|other| *other != at);
        self.active
            .iter_mut()
            .filter(|other| **other > at)
            .for_each(|other| *other -= 1);
    }

    /// Gives the child at `at` another quantum, at least 1. Its deficit stays.
    pub(crate) fn set_quantum(&mut self, at: usize, quantum: Bytes) {
        self.shares[at].quantum = quantum;
    }

    /// The child at `at` has packets: its turn comes last if it had none.
    #[inline]
    pub(crate) fn activate(&mut self, at: usize) {
        let share = &mut self.shares[at];
        if !share.active {
            share.active = true;
            share.deficit = share.quantum;
            self.active.push_back(at);
        }
    }

    /// The child at `at` no longer takes turns: it has run empty otherwise than by its turn
    /// (`drr_qlen_notify`), or is served otherwise. With its next turn it has its whole quantum.
    pub(crate) fn deactivate(&mut self, at: usize) {
        self.shares[at].active = false;
        self.active.retain(|other| *other != at);
    }

    /// Bytes that the child at `at` may still send in this share.
    pub(crate) fn deficit(&self, at: usize) -> Bytes {
        self.shares[at].deficit
    }

    /// The next packet; `None` if no active child gives one away.
    pub(crate) fn dequeue<P: Item, Q: Qdisc<P>>(
        &mut self,
        children: &mut Children<P, Q>,
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
    pub(crate) fn opens<P: Item, Q: Qdisc<P>>(&self, children: &Children<P, Q>) -> Option<Instant> {
        let opens = self.active.iter().map(|&at| children.ready_at(at));
        opens.flatten().min()
    }

    /// Gives the children whose heads are too long the quanta of the rounds that would pass before
    /// the first of them fits.
    fn skip_rounds(&mut self) {
        let Self { shares, active } = self;
        let rounds = active.iter().filter_map(|&at| {
            let share = &shares[at];
            let lacks = share.too_long?.saturating_sub(share.deficit);
            Some(lacks.get().div_ceil(share.quantum.get()))
        });
        let rounds = rounds.min().unwrap_or(0);
        for &at in active.iter() {
            let share = &mut shares[at];
            if share.too_long.is_some() {
                share.deficit += share.quantum * rounds;
            }
        }
    }

    /// One turn of each active child at most.
    fn one_round<P: Item, Q: Qdisc<P>>(
        &mut self,
        children: &mut Children<P, Q>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Round<P> {
        let mut grown = false;
        for _ in 0..self.active.len() {
            let Some(&at) = self.active.front() else {
                break;
            };
            let share = &mut self.shares[at];
            // An empty packet counts as a byte, or a child of them would have its turn forever.
            let head = children
                .peek_len(at, now, drops)
                .map(|len| len.max(Bytes::new(1)));
            share.too_long = head.filter(|len| *len > share.deficit);
            match head {
                Some(len) if len <= share.deficit => {
                    share.deficit -= len;
                    let packet = children.dequeue(at, now, drops);
                    if children.held(at).is_empty() {
                        share.active = false;
                        self.active.pop_front();
                    }
                    return packet.map_or(Round::Closed, Round::Packet);
                }
                Some(_) => {
                    share.deficit += share.quantum;
                    grown = true;
                    self.active.rotate_left(1);
                }
                None if children.held(at).is_empty() => {
                    share.active = false;
                    self.active.pop_front();
                }
                None => self.active.rotate_left(1),
            }
        }
        if grown { Round::TooLong } else { Round::Closed }
    }
}
