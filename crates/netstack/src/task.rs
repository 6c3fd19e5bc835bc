//! The task of a stack: its turns, and its end.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use tautline_rt::handle::Config;
use tautline_rt::{ByWords, Clock, Sockets, StackHandle};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::alarm::Alarm;

/// Time for the last resets of a stack to leave, and for their answers.
const LAST_PACKETS: Duration = Duration::from_millis(100);

/// The turns of a task that drives a host.
pub(crate) trait Turns: Send + 'static {
    /// Runs until nothing is left to do now. Ready once the device has ended, or after the
    /// [end](Self::end) once the last packets have left.
    fn poll(&mut self, context: &mut Context<'_>, alarm: &mut Alarm) -> Poll<io::Result<()>>;

    /// Fails the handles, and resets the connections.
    fn end(&mut self);

    /// Passes on what can leave at once after the end. False if there is nothing more.
    fn flush(&mut self, context: &mut Context<'_>) -> bool;
}

/// Starts a task that takes the turns that `make` returns, until the device has ended or the stack is
/// dropped.
pub(crate) fn spawn_task<T: Turns>(
    config: Config,
    make: impl FnOnce(Sockets<ByWords>, Clock) -> io::Result<T>,
) -> io::Result<(StackHandle, StackTask)> {
    let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    let waker = Arc::new(TaskWaker::default());
    let (handle, sockets) = StackHandle::new(config, Waker::from(Arc::clone(&waker)));
    let clock = Clock::start();
    let outcome: Arc<OnceLock<Outcome>> = Arc::default();
    let task = Task {
        turns: make(sockets.rebuilding(ByWords), clock)?,
        outcome: Arc::clone(&outcome),
        is_over: false,
    };
    let task = runtime.spawn(task.run(Arc::clone(&waker), clock));
    let task = StackTask {
        task,
        waker,
        outcome,
    };
    Ok((handle, task))
}

/// How a stack has ended. The error is shared by all that ask for it.
pub(crate) type Outcome = Result<(), Arc<io::Error>>;

/// A running task.
pub(crate) struct StackTask {
    pub(crate) task: JoinHandle<()>,
    pub(crate) waker: Arc<TaskWaker>,
    /// Set once it has ended.
    pub(crate) outcome: Arc<OnceLock<Outcome>>,
}

/// Turns that end with their task, at the latest with its runtime.
struct Task<T: Turns> {
    turns: T,
    outcome: Arc<OnceLock<Outcome>>,
    /// The last packets have left, or never will.
    is_over: bool,
}

impl<T: Turns> Task<T> {
    async fn run(mut self, waker: Arc<TaskWaker>, clock: Clock) {
        let mut alarm = Alarm::new(clock);
        let outcome = poll_fn(|context| {
            waker.task.register(context.waker());
            if waker.is_stopped.load(Ordering::Acquire) {
                return Poll::Ready(Ok(()));
            }
            self.turns.poll(context, &mut alarm)
        })
        .await;
        let has_failed = outcome.is_err();
        // Before the handles report that the host is gone.
        let _ = self.outcome.set(outcome.map_err(Arc::new));
        self.turns.end();
        if !has_failed {
            let last = poll_fn(|context| self.turns.poll(context, &mut alarm));
            // What has not left by then is lost, as on any link.
            let _ = timeout(LAST_PACKETS, last).await;
        }
        self.is_over = true;
    }
}

impl<T: Turns> Drop for Task<T> {
    /// The resets of a task that is dropped before its stack, as far as the device takes them at once.
    fn drop(&mut self) {
        // A host that has panicked might do so again, and end the program.
        if self.is_over || std::thread::panicking() {
            return;
        }
        let why = "the tokio runtime of the stack was shut down; it must outlive the stack";
        let _ = self.outcome.set(Err(Arc::new(io::Error::other(why))));
        self.turns.end();
        let mut context = Context::from_waker(Waker::noop());
        while self.turns.flush(&mut context) {}
    }
}

/// Wakes the task on behalf of the handles.
#[derive(Debug, Default)]
pub(crate) struct TaskWaker {
    task: AtomicWaker,
    /// The stack is dropped.
    is_stopped: AtomicBool,
}

impl TaskWaker {
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.task.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.task.wake();
    }
}
