//! [`block_on`]: blocks a thread on a future.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park, park_timeout};
use std::time::Duration;

use tokio::task::coop::unconstrained;

use crate::clock::Clock;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks on `future`, which must be cancel safe; `None` after `timeout`.
pub(super) fn block_on<F: Future>(future: F, timeout: Option<Duration>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(current())));
    // On a thread of tokio's: the budget of the task that blocks there would end and never come back.
    let mut future = pin!(unconstrained(future));
    let clock = Clock::start();
    let end = timeout.map(|timeout| clock.now() + timeout);
    loop {
        // `park` returns at once if the waker was called since the poll.
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(result);
        }
        match end.map(|end| end - clock.now()) {
            None => park(),
            Some(Duration::ZERO) => return None,
            Some(rest) => park_timeout(rest),
        }
    }
}
