//! [`Pages`]: the bytes of a stream by offset, stored in pages, so that memory follows the number
//! of bytes and not their distance.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes in a page. Small in unit tests, so that they cross many borders.
pub(super) const PAGE: u64 = if cfg!(test) { 64 } else { 4096 };

type Page = Box<[u8; PAGE as usize]>;

/// A window onto a stream of which some bytes are there. The user keeps track of which.
///
/// Pages that are done with are kept for the bytes to come: a stream in steady state allocates
/// nothing.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Number of the first page that may be there.
    first: u64,
    /// Boxed: an idle connection has none.
    held: Option<Box<Storage>>,
}

#[derive(Debug, Default)]
struct Storage {
    /// Pages from the first number on; `None` where nothing was written.
    pages: VecDeque<Option<Page>>,
    spare: Vec<Page>,
    /// Spare pages that no byte has needed since the last [`trim`](Pages::trim).
    unneeded: usize,
    /// Number of pages, including spare ones.
    count: usize,
}

impl Pages {
    /// Writes `bytes` at `offset`, which has not been released.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let place = &mut self.page_mut(at / PAGE)[(at % PAGE) as usize..];
            let (head, rest) = bytes.split_at(place.len().min(bytes.len()));
            place[..head.len()].copy_from_slice(head);
            (at, bytes) = (at + head.len() as u64, rest);
        }
    }

    /// Copies the bytes from `offset` on, which were written, to `out`.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        let Some(held) = &self.held else { return };
        let mut out = out;
        for (number, within) in split(offset..offset + out.len() as u64) {
            let (head, rest) = out.split_at_mut(within.len());
            if let Some(Some(page)) = held.pages.get((number - self.first) as usize) {
                head.copy_from_slice(&page[within]);
            }
            out = rest;
        }
    }

    /// The bytes from `offset` on, which were written, to the end of their page.
    pub(super) fn page_from(&self, offset: u64) -> &[u8] {
        let page = (self.held.as_ref()).and_then(|held| {
            held.pages
                .get((offset / PAGE - self.first) as usize)?
                .as_deref()
        });
        page.map_or(&[], |page| &page[(offset % PAGE) as usize..])
    }

    /// Nothing below `offset` is needed any more.
    pub(super) fn release_below(&mut self, offset: u64) {
        let first = offset / PAGE;
        let Some(held) = &mut self.held else {
            self.first = self.first.max(first);
            return;
        };
        while self.first < first {
            self.first += 1;
            held.spare.extend(held.pages.pop_front().flatten());
        }
    }

    /// Frees the spare pages that nothing has needed since the last call: a burst may never come
    /// again.
    pub(super) fn trim(&mut self) {
        let Some(held) = &mut self.held else { return };
        held.spare.truncate(held.spare.len() - held.unneeded);
        held.count -= held.unneeded;
        held.unneeded = held.spare.len();
    }

    /// Nothing at all is needed: gives all memory back.
    pub(super) fn release_all(&mut self) {
        self.held = None;
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.held.as_ref().map_or(0, |held| {
            let slots = held.pages.capacity() + held.spare.capacity();
            held.count * PAGE as usize + slots * size_of::<Option<Page>>() + size_of::<Storage>()
        })
    }

    /// True when no memory is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    fn page_mut(&mut self, number: u64) -> &mut Page {
        let at = (number - self.first) as usize;
        let Storage {
            pages,
            spare,
            unneeded,
            count,
        } = &mut **self.held.get_or_insert_default();
        if at >= pages.len() {
            pages.resize_with(at + 1, || None);
        }
        pages[at].get_or_insert_with(|| {
            let page = spare.pop();
            *unneeded = spare.len().min(*unneeded);
            page.unwrap_or_else(|| {
                *count += 1;
                Box::new([0; PAGE as usize])
            })
        })
    }
}

/// The pages that `range` touches, and the part of each.
fn split(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        (at < range.end).then(|| {
            let (number, from) = (at / PAGE, at % PAGE);
            let to = PAGE.min(from + range.end - at);
            at += to - from;
            (number, from as usize..to as usize)
        })
    })
}
