//! [`Waiters`]: the tasks that wait for one thing of a socket.
//!
//! A `poll_*` method keeps the last task that called it, as tokio's do: that is all a socket of one
//! task needs, and no lock is involved. Any number of tasks may wait on a shared handle besides;
//! they stand in a list, whose lock the host's thread takes only if somebody is in it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use atomic_waker::AtomicWaker;
use tokio::task::coop::poll_proceed;

/// Who is to be woken when a thing changes.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    poller: AtomicWaker,
    /// Somebody may stand in the list.
    crowded: AtomicBool,
    crowd: Mutex<Crowd>,
}

#[derive(Debug, Default)]
struct Crowd {
    next_ticket: u64,
    waiting: Vec<(u64, Waker)>,
}

impl Waiters {
    /// To be called after the thing has changed.
    pub(super) fn wake(&self) {
        self.poller.wake();
        if self.crowded.swap(false, Ordering::AcqRel) {
            let waiting = std::mem::take(&mut self.lock().waiting);
            waiting.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// Waits until `ask` has an answer, on behalf of the last task that polled. It is asked again
    /// after the waker is in place: what happens before that wakes nobody.
    pub(super) fn poll<T>(
        &self,
        context: &Context<'_>,
        mut ask: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        if let Some(answer) = ask() {
            return Poll::Ready(answer);
        }
        self.poller.register(context.waker());
        ask().map_or(Poll::Pending, Poll::Ready)
    }

    /// Waits until `ask` has an answer; any number of tasks may. An answer takes part in tokio's
    /// cooperative scheduling. A dropped future leaves nothing behind, and what `ask` had taken it
    /// has given out: nothing is lost.
    pub(super) async fn wait<T>(&self, mut ask: impl FnMut() -> Option<T>) -> T {
        let mut place = Place {
            waiters: self,
            ticket: None,
        };
        poll_fn(|context| {
            let turn = ready!(poll_proceed(context));
            let answer = ask().or_else(|| {
                place.take(context.waker());
                ask()
            });
            answer.map_or(Poll::Pending, |answer| {
                turn.made_progress();
                Poll::Ready(answer)
            })
        })
        .await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Crowd> {
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task's place in the list.
struct Place<'a> {
    waiters: &'a Waiters,
    ticket: Option<u64>,
}

impl Place<'_> {
    fn take(&mut self, waker: &Waker) {
        let mut crowd = self.waiters.lock();
        let ticket = *self.ticket.get_or_insert_with(|| {
            crowd.next_ticket += 1;
            crowd.next_ticket
        });
        match crowd.waiting.iter_mut().find(|(other, _)| *other == ticket) {
            Some((_, old)) => old.clone_from(waker),
            None => crowd.waiting.push((ticket, waker.clone())),
        }
        // Under the lock, so that whoever takes the list finds this entry in it.
        self.waiters.crowded.swap(true, Ordering::AcqRel);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.waiters
                .lock()
                .waiting
                .retain(|(other, _)| *other != ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn everybody_who_waits_is_woken_once_and_a_dropped_future_leaves_no_trace() {
        let (waiters, counts) = (
            Waiters::default(),
            [(); 3].map(|()| Arc::new(Count::default())),
        );
        let wakers = [0, 1, 2].map(|at: usize| Waker::from(Arc::clone(&counts[at])));
        let poller = waiters.poll(&Context::from_waker(&wakers[0]), || None::<()>);
        assert!(poller.is_pending());
        {
            let (mut first, mut second) = (
                pin!(waiters.wait(|| None::<()>)),
                pin!(waiters.wait(|| None::<()>)),
            );
            for _ in 0..3 {
                assert!(
                    first
                        .as_mut()
                        .poll(&mut Context::from_waker(&wakers[1]))
                        .is_pending()
                );
                assert!(
                    second
                        .as_mut()
                        .poll(&mut Context::from_waker(&wakers[2]))
                        .is_pending()
                );
            }
            assert_eq!(waiters.lock().waiting.len(), 2);
            waiters.wake();
            waiters.wake();
            assert_eq!(
                counts
                    .each_ref()
                    .map(|count| count.0.load(Ordering::Relaxed)),
                [1, 1, 1]
            );
            assert!(
                first
                    .as_mut()
                    .poll(&mut Context::from_waker(&wakers[1]))
                    .is_pending()
            );
        }
        assert!(waiters.lock().waiting.is_empty());
    }
}
