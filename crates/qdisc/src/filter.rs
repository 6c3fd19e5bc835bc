//! [`Filters`]: which class a packet belongs to, by rules in order, as `tc filter` gives them.

use tautline_base::{Instant, Item};

use crate::class::ClassId;

/// What the rules say about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs to this class.
    Class(ClassId),
    /// No rule says anything: the discipline decides by itself.
    Continue,
    /// It is to be dropped.
    Drop,
}

/// An ordered list of rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filters {}

impl Filters {
    /// Applies the rules in order until one decides; actions on the way may rewrite the packet's TOS, priority and mark.
    pub fn classify<P: Item>(&mut self, _packet: &mut P, _now: Instant) -> Verdict {
        Verdict::Continue
    }
}
