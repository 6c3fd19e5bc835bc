//! [`InHost`]: notes on the packets that are inside a host now.

use std::collections::HashMap;

/// One note per packet between birth and end. A packet stays in its frame, so host and address of
/// the frame name it; the address only finds the note and never shows in a result.
#[derive(Debug)]
pub(crate) struct InHost<N> {
    notes: HashMap<(usize, usize), N>,
}

impl<N> InHost<N> {
    pub(crate) fn new() -> Self {
        Self {
            notes: HashMap::new(),
        }
    }

    pub(crate) fn begin(&mut self, host: usize, frame: &[u8], note: N) {
        self.notes.insert((host, frame.as_ptr().addr()), note);
    }

    pub(crate) fn find(&mut self, host: usize, frame: &[u8]) -> Option<&mut N> {
        self.notes.get_mut(&(host, frame.as_ptr().addr()))
    }

    pub(crate) fn end(&mut self, host: usize, frame: &[u8]) -> Option<N> {
        self.notes.remove(&(host, frame.as_ptr().addr()))
    }

    pub(crate) fn len(&self) -> usize {
        self.notes.len()
    }
}
