//! [`Bell`]: lets other threads wake one that waits for its device.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

/// An eventfd that is written at most once between two waits.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    rung: AtomicBool,
}

impl Bell {
    /// A silent bell.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            fd,
            rung: AtomicBool::new(false),
        })
    }

    /// Wakes the waiting thread, now or when it next waits. What was published before is seen by
    /// whoever [`silence`](Self::silence)s the bell afterwards.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // An eventfd refuses only when its counter would overflow; then it is readable anyway.
            let _ = write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// To be called when the descriptor is readable, before looking for what was published.
    pub fn silence(&self) {
        // First drained, then declared silent: a ring in between leaves the counter empty, but what
        // it announces is seen.
        let _ = read(&self.fd, &mut [0; 8]);
        self.rung.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// As a waker, it wakes the thread: what [`Stack`](crate::Stack) takes.
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::wait::{Readiness, Waiter};

    /// Every item published with a ring is taken by a thread that sleeps whenever it has found
    /// nothing.
    #[test]
    fn no_ring_is_lost() {
        const ITEMS: u32 = 200_000;
        let (bell, published) = (
            Arc::new(Bell::new().expect("a descriptor")),
            Arc::new(AtomicU32::new(0)),
        );
        let producer = {
            let (bell, published) = (Arc::clone(&bell), Arc::clone(&published));
            std::thread::spawn(move || {
                for _ in 0..ITEMS {
                    published.fetch_add(1, Ordering::Relaxed);
                    bell.ring();
                }
            })
        };
        let (idle, waiter) = (Bell::new().expect("a descriptor"), Waiter::new());
        let mut taken = 0;
        while taken < ITEMS {
            let Readiness { bell: rung, .. } = waiter
                .wait(&[idle.as_fd()], bell.as_fd(), None)
                .expect("poll");
            assert!(rung);
            bell.silence();
            taken = published.load(Ordering::Relaxed);
        }
        producer.join().expect("no panic");
    }
}
