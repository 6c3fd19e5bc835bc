//! [`Index`], [`Links`] and [`Chain`]: singly linked queues threaded through an array by index.
//!
//! fq_codel keeps its packets and its flows in two arrays; every queue of packets and every list of
//! flows is a chain through one of them. Linking by index costs no allocation per packet and needs
//! no `unsafe`.

use core::num::NonZeroU32;

/// Position in an array, stored plus one so that `Option<Index>` takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Index(NonZeroU32);

impl Index {
    /// The index of `position`.
    #[inline]
    pub(crate) fn new(position: usize) -> Self {
        let stored = u32::try_from(position)
            .ok()
            .and_then(|position| NonZeroU32::MIN.checked_add(position));
        Self(stored.expect("an array of four thousand million packets does not fit in memory"))
    }

    /// The position.
    #[inline]
    pub(crate) fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// An array whose elements carry the link to their successor.
pub(crate) trait Links {
    /// The element after `at`.
    fn next(&self, at: Index) -> Option<Index>;

    /// Makes `next` the element after `at`.
    fn set_next(&mut self, at: Index, next: Option<Index>);
}

/// First and last element of a queue through an array.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    ends: Option<(Index, Index)>,
}

impl Chain {
    /// The first element.
    #[inline]
    pub(crate) fn front(self) -> Option<Index> {
        self.ends.map(|(first, _)| first)
    }

    /// The last element.
    #[inline]
    pub(crate) fn back(self) -> Option<Index> {
        self.ends.map(|(_, last)| last)
    }

    /// True when it has no element.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.ends.is_none()
    }

    /// Appends `at`, which is in no chain.
    pub(crate) fn push_back(&mut self, links: &mut impl Links, at: Index) {
        links.set_next(at, None);
        self.ends = match self.ends {
            None => Some((at, at)),
            Some((first, last)) => {
                links.set_next(last, Some(at));
                Some((first, at))
            }
        };
    }

    /// Unlinks the first element.
    pub(crate) fn pop_front(&mut self, links: &impl Links) -> Option<Index> {
        let (first, last) = self.ends?;
        self.ends = links.next(first).map(|second| (second, last));
        Some(first)
    }

    /// Unlinks the element after `before`, the first if that is `None`. `before` is in this chain.
    pub(crate) fn remove_after(
        &mut self,
        links: &mut impl Links,
        before: Option<Index>,
    ) -> Option<Index> {
        let Some(before) = before else {
            return self.pop_front(links);
        };
        let (first, last) = self.ends?;
        let at = links.next(before)?;
        links.set_next(before, links.next(at));
        self.ends = Some((first, if at == last { before } else { last }));
        Some(at)
    }

    /// Counts its elements by traversal.
    pub(crate) fn count(self, links: &impl Links) -> usize {
        core::iter::successors(self.front(), |&at| links.next(at)).count()
    }
}
