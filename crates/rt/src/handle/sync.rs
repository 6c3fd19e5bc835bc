//! Atomics and locks that the application's threads share with the host's: std's, or loom's where it
//! explores every interleaving (`scripts/prove`).

#[cfg(not(tautline_loom))]
pub(super) use atomic_waker::AtomicWaker;
#[cfg(not(tautline_loom))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(not(tautline_loom))]
pub(super) use std::sync::{Mutex, MutexGuard};

#[cfg(tautline_loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(tautline_loom)]
pub(super) use loom::sync::{Mutex, MutexGuard};

/// loom's model of `atomic_waker::AtomicWaker`, with its interface.
#[cfg(tautline_loom)]
#[derive(Debug)]
pub(super) struct AtomicWaker(loom::future::AtomicWaker);

#[cfg(tautline_loom)]
impl Default for AtomicWaker {
    fn default() -> Self {
        Self(loom::future::AtomicWaker::new())
    }
}

#[cfg(tautline_loom)]
impl AtomicWaker {
    pub(super) fn register(&self, waker: &std::task::Waker) {
        self.0.register_by_ref(waker);
    }

    pub(super) fn wake(&self) {
        self.0.wake();
    }
}
