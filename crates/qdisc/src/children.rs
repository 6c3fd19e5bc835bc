//! [`Children`]: the qdiscs below one parent, by class, and their common backlog.
//!
//! A parent's backlog is that of its children. It is not counted a second time where drops inside a
//! child would have to be reported upwards (the source of most faults of this kind in Linux), but
//! read off the child after every call; the total follows by the difference, so that no call asks
//! more than one child.
//!
//! Each child is [parked](Parked), for the parents that need the length of its next packet; the others
//! never ask for it.

use alloc::vec::Vec;

use tautline_base::{Backlog, Bytes, ConfigError, Drops, Instant, Item, Qdisc};

use crate::class::ClassId;
use crate::flush::flush;
use crate::parked::Parked;
use crate::stats::Common;

/// Qdiscs in the order of their classes' numbers; a position among them changes only when one is
/// added or removed.
#[derive(Debug)]
pub struct Children<P, Q> {
    handle: u16,
    minors: Vec<u16>,
    children: Vec<Child<P, Q>>,
    total: Backlog,
}

#[derive(Debug)]
struct Child<P, Q> {
    queue: Parked<P, Q>,
    /// Its counters; its backlog as of the last call.
    common: Common,
}

impl<P: Item, Q: Qdisc<P>> Children<P, Q> {
    /// No children yet, of a qdisc called `handle`.
    pub(crate) fn new(handle: u16) -> Self {
        let (minors, children) = (Vec::new(), Vec::new());
        Self {
            handle,
            minors,
            children,
            total: Backlog::default(),
        }
    }

    /// Adds `queue` as the qdisc of `class`; returns its position.
    pub(crate) fn insert(&mut self, class: ClassId, queue: Q) -> Result<usize, ConfigError> {
        let own = class.major == self.handle && class.minor > 0;
        ConfigError::check(own, "classid", class, "a class of the qdisc it is added to")?;
        let Err(at) = self.minors.binary_search(&class.minor) else {
            return ConfigError::check(false, "classid", class, "a class that does not exist yet")
                .map(|()| 0);
        };
        let queue = Parked::new(queue);
        let common = Common {
            backlog: queue.backlog(),
            ..Common::default()
        };
        self.total = sum(self.total, common.backlog);
        self.minors.insert(at, class.minor);
        self.children.insert(at, Child { queue, common });
        Ok(at)
    }

    /// Removes the child at `at`; its packets go to `drops`.
    pub(crate) fn remove(&mut self, at: usize, drops: &mut Drops<P>) {
        self.with(at, drops, |queue, drops| flush(queue, drops));
        self.minors.remove(at);
        let Backlog { packets, bytes } = self.children.remove(at).common.backlog;
        self.total = Backlog {
            packets: self.total.packets - packets,
            bytes: self.total.bytes - bytes,
        };
    }

    /// Replaces the child at `at` by `queue`; its packets go to `drops`.
    pub(crate) fn replace(&mut self, at: usize, queue: Q, drops: &mut Drops<P>) {
        self.with(at, drops, |old, drops| {
            flush(old, drops);
            *old = Parked::new(queue);
        });
    }

    /// The position of the qdisc of `class`.
    pub(crate) fn find(&self, class: ClassId) -> Option<usize> {
        if class.major == self.handle {
            self.minors.binary_search(&class.minor).ok()
        } else {
            None
        }
    }

    /// Like [`find`](Self::find), for a call that must name an existing class.
    pub(crate) fn known(
        &self,
        class: ClassId,
        parameter: &'static str,
    ) -> Result<usize, ConfigError> {
        self.find(class)
            .ok_or_else(|| ConfigError::new(parameter, class, "an existing class"))
    }

    /// The name of the qdisc itself.
    pub(crate) fn handle(&self) -> ClassId {
        ClassId::new(self.handle, 0)
    }

    /// The name of the class at `at`.
    pub(crate) fn id(&self, at: usize) -> ClassId {
        ClassId::new(self.handle, self.minors[at])
    }

    /// Number of children.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// Their backlog.
    pub(crate) fn backlog(&self) -> Backlog {
        self.total
    }

    /// The backlog of the child at `at` after the last call to it.
    pub(crate) fn held(&self, at: usize) -> Backlog {
        self.children[at].common.backlog
    }

    /// The child at `at`.
    pub(crate) fn child(&self, at: usize) -> &Q {
        self.children[at].queue.inner()
    }

    /// When the child at `at` yields its next packet.
    pub(crate) fn ready_at(&self, at: usize) -> Option<Instant> {
        self.children[at].queue.ready_at()
    }

    /// Every class, its qdisc and what passed it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClassId, &Q, Common)> {
        self.minors
            .iter()
            .zip(&self.children)
            .map(|(&minor, child)| {
                let common = Common {
                    backlog: child.queue.backlog(),
                    ..child.common
                };
                (
                    ClassId::new(self.handle, minor),
                    child.queue.inner(),
                    common,
                )
            })
    }

    /// Queues `packet` in the child at `at`.
    #[inline]
    pub(crate) fn enqueue(&mut self, at: usize, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.with(at, drops, |queue, drops| queue.enqueue(packet, now, drops));
    }

    /// Takes a packet from the child at `at`.
    #[inline]
    pub(crate) fn dequeue(&mut self, at: usize, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let packet = self.with(at, drops, |queue, drops| queue.dequeue(now, drops))?;
        let common = &mut self.children[at].common;
        common.sent_bytes += packet.len();
        common.sent_packets += u64::from(packet.segments());
        Some(packet)
    }

    /// The length of the next packet of the child at `at`.
    #[inline]
    pub(crate) fn peek_len(
        &mut self,
        at: usize,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Option<Bytes> {
        self.with(at, drops, |queue, drops| queue.peek_len(now, drops))
    }

    /// Calls `call` with the child at `at`; counts its drops and records its backlog afterwards.
    pub(crate) fn with_child<R>(
        &mut self,
        at: usize,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Q, &mut Drops<P>) -> R,
    ) -> R {
        self.with(at, drops, |queue, drops| call(queue.inner_mut(), drops))
    }

    /// Like [`with_child`](Self::with_child), with the packet that is parked.
    #[inline]
    fn with<R>(
        &mut self,
        at: usize,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Parked<P, Q>, &mut Drops<P>) -> R,
    ) -> R {
        let (child, before) = (&mut self.children[at], drops.len());
        let result = call(&mut child.queue, drops);
        child.common.drops += (drops.len() - before) as u64;
        self.note(at);
        result
    }

    #[inline]
    fn note(&mut self, at: usize) {
        self.total = self.total_with(at);
        let Child { queue, common } = &mut self.children[at];
        common.backlog = queue.backlog();
    }

    /// The total with the present backlog of the child at `at`.
    #[inline]
    fn total_with(&self, at: usize) -> Backlog {
        let Child {
            queue,
            common: Common { backlog: noted, .. },
        } = &self.children[at];
        let Backlog { packets, bytes } = sum(self.total, queue.backlog());
        Backlog {
            packets: packets - noted.packets,
            bytes: bytes - noted.bytes,
        }
    }
}

fn sum(one: Backlog, other: Backlog) -> Backlog {
    Backlog {
        packets: one.packets + other.packets,
        bytes: one.bytes + other.bytes,
    }
}
