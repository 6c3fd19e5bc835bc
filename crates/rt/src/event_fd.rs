//! [`EventFd`]: wakes a thread that waits for its device.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

/// An `eventfd(2)` that is written at most once between two waits.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
    is_set: AtomicBool,
}

impl EventFd {
    /// An eventfd that is not set.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            fd,
            is_set: AtomicBool::new(false),
        })
    }

    /// Wakes the waiting thread, now or when it next waits. After [`clear`](Self::clear) it sees
    /// every earlier write of this thread.
    pub fn signal(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            // An eventfd refuses only when its counter would overflow; then it is readable anyway.
            let _ = write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Call it when the descriptor is readable, before reading shared state.
    pub fn clear(&self) {
        // Drained first, then declared clear: a signal in between leaves the counter empty, but the
        // state it announces is read afterwards.
        let _ = read(&self.fd, &mut [0; 8]);
        self.is_set.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The waker that [`StackHandle::new`](crate::StackHandle::new) takes.
impl Wake for EventFd {
    fn wake(self: Arc<Self>) {
        self.signal();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.signal();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::wait::{Readiness, Waiter};

    /// A thread that sleeps whenever it finds nothing takes every item published with a signal.
    #[test]
    fn no_signal_is_lost() {
        const ITEMS: u32 = 200_000;
        let (event_fd, published) = (
            Arc::new(EventFd::new().expect("a descriptor")),
            Arc::new(AtomicU32::new(0)),
        );
        let producer = {
            let (event_fd, published) = (Arc::clone(&event_fd), Arc::clone(&published));
            std::thread::spawn(move || {
                for _ in 0..ITEMS {
                    published.fetch_add(1, Ordering::Relaxed);
                    event_fd.signal();
                }
            })
        };
        let (idle, waiter) = (EventFd::new().expect("a descriptor"), Waiter::new());
        let mut taken = 0;
        while taken < ITEMS {
            let Readiness { woken, .. } = waiter
                .wait(&[idle.as_fd()], event_fd.as_fd(), None)
                .expect("poll");
            assert!(woken);
            event_fd.clear();
            taken = published.load(Ordering::Relaxed);
        }
        producer.join().expect("no panic");
    }
}
