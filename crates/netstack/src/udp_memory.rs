//! [`Memory`]: the bytes that queued datagrams take together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bookkeeping for a datagram, so that empty ones count as well.
const OVERHEAD: usize = 64;

/// A bound on the bytes of datagrams in queues.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Semaphore>);

/// A datagram in a queue; it counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Queued {
    bytes: Box<[u8]>,
    _permit: OwnedSemaphorePermit,
}

impl Memory {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))))
    }

    /// A copy of `data`; `None` if the memory is used up.
    pub(crate) fn copy(&self, data: &[u8]) -> Option<Queued> {
        let bytes = u32::try_from(data.len() + OVERHEAD).ok()?;
        let permit = Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()?;
        Some(Queued {
            bytes: data.into(),
            _permit: permit,
        })
    }
}

impl Queued {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_count_until_they_are_dropped() {
        let memory = Memory::new(1000);
        let held: Vec<_> = (0..).map_while(|_| memory.copy(&[7; 100])).collect();
        assert_eq!(held.len(), 6);
        assert_eq!(held[5].bytes(), [7; 100]);
        drop(held);
        let empty: Vec<_> = (0..).map_while(|_| memory.copy(&[])).collect();
        assert_eq!(empty.len(), 15);
    }

    #[test]
    fn a_bound_beyond_all_memory_is_none() {
        let memory = Memory::new(usize::MAX);
        assert!(memory.copy(&[7; 100]).is_some());
    }
}
