//! [`oneshot`]: a channel for the one reply of the host's thread to a command.

use std::sync::{Arc, OnceLock};

use super::Failure;
use super::waiters::Waiters;

#[derive(Debug)]
struct Shared<T> {
    reply: OnceLock<Result<T, Failure>>,
    receiver: Waiters,
}

/// The application's end.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<Shared<T>>);

/// The host's end. Dropped without a reply, it sends [`Failure::HostGone`].
#[derive(Debug)]
pub(super) struct Reply<T>(Arc<Shared<T>>);

/// Both ends of a channel for one reply.
pub(super) fn oneshot<T>() -> (Reply<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        reply: OnceLock::new(),
        receiver: Waiters::default(),
    });
    (Reply(Arc::clone(&shared)), Receiver(shared))
}

impl<T: Clone> Receiver<T> {
    /// Waits for the reply.
    ///
    /// # Errors
    /// The host's [`Failure`], or [`Failure::HostGone`].
    pub(super) async fn received(self) -> Result<T, Failure> {
        self.0.receiver.wait(|| self.0.reply.get().cloned()).await
    }
}

impl<T> Reply<T> {
    /// Replies. The first reply counts.
    pub(super) fn send(&self, reply: Result<T, Failure>) {
        let _ = self.0.reply.set(reply);
        self.0.receiver.wake();
    }

    /// Whether somebody still waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.send(Err(Failure::HostGone));
    }
}
