//! [`Waiters`]: the tasks that wait for one condition of a socket.
//!
//! A `poll_*` method keeps the last task that called it, as tokio's do; this needs no lock and
//! serves a socket of one task. Any number of tasks may wait on a shared handle as well; they are in
//! a list, whose lock the host's thread takes only if the list has entries.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker, ready};

use tokio::task::coop::poll_proceed;

use super::sync::{AtomicBool, AtomicWaker, Mutex, MutexGuard, Ordering};

/// The tasks to wake when a condition changes.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    poller: AtomicWaker,
    /// The list may have entries.
    has_listed: AtomicBool,
    /// Boxed, and only while it has entries: an idle connection has none.
    list: Mutex<Option<Box<List>>>,
}

type List = Vec<(u64, Waker)>;

/// Names an entry of any list.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(0);

impl Waiters {
    /// Wakes all of them; call it after the change.
    pub(super) fn wake(&self) {
        self.poller.wake();
        if self.has_listed.swap(false, Ordering::AcqRel) {
            let waiting = self.lock().take();
            let waiting = waiting.into_iter().flat_map(|list| *list);
            waiting.for_each(|(_, waker)| waker.wake());
        }
    }

    /// Polls `ask` on behalf of the last task that called. Asks again after the waker is
    /// registered: a change before that wakes no task.
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

    /// Waits until `ask` returns a value; any number of tasks may wait. Takes part in tokio's
    /// cooperative scheduling. Cancel safe: a value that `ask` took is returned at once.
    pub(super) async fn wait<T>(&self, mut ask: impl FnMut() -> Option<T>) -> T {
        let mut entry = ListEntry {
            waiters: self,
            ticket: None,
        };
        poll_fn(|context| {
            let turn = ready!(poll_proceed(context));
            let answer = ask().or_else(|| {
                entry.register(context.waker());
                ask()
            });
            answer.map_or(Poll::Pending, |answer| {
                turn.made_progress();
                Poll::Ready(answer)
            })
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<List>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task's entry in the list.
struct ListEntry<'a> {
    waiters: &'a Waiters,
    ticket: Option<u64>,
}

impl ListEntry<'_> {
    fn register(&mut self, waker: &Waker) {
        let mut list = self.waiters.lock();
        let waiting = list.get_or_insert_default();
        let next = || NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        let ticket = *self.ticket.get_or_insert_with(next);
        match waiting.iter_mut().find(|(other, _)| *other == ticket) {
            Some((_, old)) => old.clone_from(waker),
            None => waiting.push((ticket, waker.clone())),
        }
        // Under the lock, so that `wake` finds this entry in the list.
        self.waiters.has_listed.swap(true, Ordering::AcqRel);
    }
}

impl Drop for ListEntry<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut list = self.waiters.lock();
            if let Some(waiting) = &mut *list {
                waiting.retain(|(other, _)| *other != ticket);
            }
            list.take_if(|waiting| waiting.is_empty());
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
    fn each_waiting_task_is_woken_once_and_a_dropped_future_leaves_no_entry() {
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
            assert_eq!(waiters.lock().as_ref().map(|list| list.len()), Some(2));
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
        assert!(waiters.lock().is_none());
    }
}
