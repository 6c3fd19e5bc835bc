//! [`Throttled`]: the flows whose first packet must wait, the earliest first.

use tautline_base::Instant;

use super::flow::{FlowStatus, Flows};
use crate::index::Index;
use crate::timed::{Timed, Timeline};

/// Flows that wait for their time.
///
/// A flow whose time moves forward gets a second entry; the first is void, which shows when it says
/// another time than its flow. The entry at the front is never void, and void ones never outnumber
/// the others by much.
#[derive(Debug)]
pub(super) struct Throttled {
    entries: Timed<(Instant, Index)>,
    queue: Timeline,
    /// Entries, void or not.
    held: usize,
    /// Flows.
    flows: usize,
}

/// Void entries that are not worth a clean-up.
const FEW: usize = 64;

impl Throttled {
    pub(super) fn new() -> Self {
        Self {
            entries: Timed::new(),
            queue: Timeline::default(),
            held: 0,
            flows: 0,
        }
    }

    /// Number of throttled flows.
    pub(super) fn len(&self) -> usize {
        self.flows
    }

    /// Time at which the first of them may continue.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.entries.front(self.queue).map(|(time, _)| time)
    }

    /// Adds flow `at`, which has just been given the place `Throttled { until }`.
    pub(super) fn push(&mut self, at: Index, until: Instant) {
        self.enter(at, until);
        self.flows += 1;
    }

    /// Lets the throttled flow `at` go on at `until`, if that is earlier than it was to.
    pub(super) fn advance(&mut self, flows: &mut Flows, at: Index, until: Instant) {
        if !matches!(flows[at].place, FlowStatus::Throttled { until: was } if until < was) {
            return;
        }
        flows[at].place = FlowStatus::Throttled { until };
        self.enter(at, until);
        if self.held > 2 * self.flows + FEW {
            self.drop_void(flows);
        }
    }

    /// Takes the first flow, which is now among the old ones.
    pub(super) fn pop(&mut self, flows: &mut Flows) -> Option<Index> {
        let (_, at) = self.take()?;
        self.flows -= 1;
        flows[at].place = FlowStatus::Old;
        while self
            .entries
            .front(self.queue)
            .is_some_and(|(_, entry)| is_void(flows, entry))
        {
            self.take();
        }
        Some(at)
    }

    fn enter(&mut self, at: Index, until: Instant) {
        self.entries.push(&mut self.queue, until, (until, at));
        self.held += 1;
    }

    fn take(&mut self) -> Option<(Instant, Index)> {
        let entry = self.entries.pop(&mut self.queue)?;
        self.held -= 1;
        Some(entry)
    }

    /// Every entry moves to a new queue but the void ones. Costs no more than the pushes since the
    /// last time.
    fn drop_void(&mut self, flows: &Flows) {
        let mut old = core::mem::take(&mut self.queue);
        self.held = 0;
        while let Some((until, at)) = self.entries.pop(&mut old) {
            if !is_void(flows, &(until, at)) {
                self.enter(at, until);
            }
        }
    }
}

fn is_void(flows: &Flows, &(until, at): &(Instant, Index)) -> bool {
    flows[at].place != FlowStatus::Throttled { until }
}
