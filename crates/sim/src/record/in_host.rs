//! [`InHost`]: notes on the packets inside hosts.

use std::collections::HashMap;

/// One note per packet between its birth and end. A packet stays in its frame, so the host and the
/// address of the frame identify it. The address never appears in a result.
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
