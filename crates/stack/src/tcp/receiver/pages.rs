//! [`Pages`]: the bytes of a stream by offset, stored in pages, so that memory follows the number
//! of bytes and not their distance. The payload of a large packet can stay where it arrived.

use std::collections::VecDeque;

use crate::kept_bytes::KeptBytes;

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
    /// Payloads that were not copied, by offset. Pages hold nothing at their offsets.
    kept: VecDeque<Kept>,
    /// Bytes of memory that they hold.
    kept_memory: usize,
}

#[derive(Debug)]
struct Kept {
    start: u64,
    payload: KeptBytes,
}

impl Kept {
    fn end(&self) -> u64 {
        self.start + self.payload.bytes.len() as u64
    }
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

    /// Stores `bytes` at `offset`, which is above all that was written: `kept`, if the same bytes are in
    /// memory to keep, or a copy.
    #[inline]
    pub(super) fn write_or_keep(&mut self, offset: u64, bytes: &[u8], kept: Option<KeptBytes>) {
        match kept {
            Some(payload) => self.keep(offset, payload),
            None => self.write(offset, bytes),
        }
    }

    fn keep(&mut self, offset: u64, payload: KeptBytes) {
        let held = self.held.get_or_insert_default();
        held.kept_memory += payload.memory;
        held.kept.push_back(Kept {
            start: offset,
            payload,
        });
    }

    /// Copies the bytes from `offset` on, which were written, to `out`.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        let (mut at, mut out) = (offset, out);
        while !out.is_empty() {
            let part = self.part_from(at);
            let (head, rest) = out.split_at_mut(part.len().min(out.len()));
            if head.is_empty() {
                return;
            }
            head.copy_from_slice(&part[..head.len()]);
            (at, out) = (at + head.len() as u64, rest);
        }
    }

    /// The bytes from `offset` on, which were written, as far as they are in one place.
    pub(super) fn part_from(&self, offset: u64) -> &[u8] {
        let Some(held) = &self.held else { return &[] };
        let end = match held.kept_at(offset) {
            Some(kept) if kept.start <= offset => {
                return &kept.payload.bytes[(offset - kept.start) as usize..];
            }
            Some(kept) => kept.start,
            None => u64::MAX,
        };
        let page = held.pages.get((offset / PAGE - self.first) as usize);
        let Some(Some(page)) = page else { return &[] };
        let until = PAGE.min(end - (offset - offset % PAGE));
        &page[(offset % PAGE) as usize..until as usize]
    }

    /// The rest of the payload at `offset`, if it was not copied, and is most of it: its memory is held as
    /// a whole.
    pub(super) fn kept_from(&self, offset: u64) -> Option<KeptBytes> {
        let kept = self.held.as_ref()?.kept_at(offset)?;
        let before = offset.checked_sub(kept.start)? as usize;
        let payload = &kept.payload;
        let is_most = before <= payload.bytes.len() / 4;
        is_most.then(|| payload.part(&payload.bytes[before..]))
    }

    /// Nothing below `offset` is needed any more.
    pub(super) fn release_below(&mut self, offset: u64) {
        let first = offset / PAGE;
        let Some(held) = &mut self.held else {
            self.first = self.first.max(first);
            return;
        };
        while let Some(kept) = held.kept.front()
            && kept.end() <= offset
        {
            held.kept_memory -= kept.payload.memory;
            held.kept.pop_front();
        }
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
            held.count * PAGE as usize
                + slots * size_of::<Option<Page>>()
                + held.kept_memory
                + held.kept.capacity() * size_of::<Kept>()
                + size_of::<Storage>()
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
            ..
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

impl Storage {
    /// The first payload that was not copied and ends above `offset`.
    fn kept_at(&self, offset: u64) -> Option<&Kept> {
        let at = self.kept.partition_point(|kept| kept.end() <= offset);
        self.kept.get(at)
    }
}
