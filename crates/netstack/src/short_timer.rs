//! [`ShortTimer`]: deadlines nearer than tokio's timers measure. A shaper's next packet is due after
//! some hundred microseconds: the task would spin for it, or miss it by a millisecond.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{Builder, Thread, park, park_timeout};
use std::time::Duration;
use std::{io, mem};

use tautline_base::Instant;
use tautline_rt::Clock;

/// A thread that wakes a task at one deadline at a time.
#[derive(Debug)]
pub(crate) struct ShortTimer {
    state: Arc<Mutex<State>>,
    thread: Thread,
}

#[derive(Debug)]
enum State {
    Idle,
    Armed(Instant, Waker),
    Ended,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ShortTimer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the process has no thread left.
    pub(crate) fn start(clock: Clock) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::Idle));
        let shared = Arc::clone(&state);
        let thread = Builder::new().name("short timer".into());
        let thread = thread.spawn(move || run(&shared, clock))?.thread().clone();
        Ok(Self { state, thread })
    }

    /// Wakes `waker` at `at`, or earlier if an earlier deadline is pending.
    pub(crate) fn arm(&self, at: Instant, waker: &Waker) {
        {
            let mut state = lock(&self.state);
            match &mut *state {
                State::Armed(pending, task) if *pending <= at => {
                    return task.clone_from(waker);
                }
                state => *state = State::Armed(at, waker.clone()),
            }
        }
        self.thread.unpark();
    }
}

impl Drop for ShortTimer {
    fn drop(&mut self) {
        *lock(&self.state) = State::Ended;
        self.thread.unpark();
    }
}

fn run(state: &Mutex<State>, clock: Clock) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _exact = tautline_rt::wait::Waiter::new();
    loop {
        let mut armed = lock(state);
        let wait = match &*armed {
            State::Idle => None,
            State::Armed(at, _) => Some(*at - clock.now()),
            State::Ended => return,
        };
        if wait == Some(Duration::ZERO) {
            let expired = mem::replace(&mut *armed, State::Idle);
            drop(armed);
            if let State::Armed(_, task) = expired {
                task.wake();
            }
            continue;
        }
        drop(armed);
        wait.map_or_else(park, park_timeout);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;

    use super::*;

    struct Woken(Sender<Instant>, Clock);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(self.1.now());
        }
    }

    #[test]
    fn it_wakes_at_the_earlier_of_two_deadlines_and_ends_with_its_owner() {
        let ((sender, woken), clock) = (channel(), Clock::start());
        let waker = Waker::from(Arc::new(Woken(sender, clock)));
        let timer = ShortTimer::start(clock).expect("a thread");
        let at = clock.now() + Duration::from_millis(2);
        timer.arm(at + Duration::from_secs(100), &waker);
        timer.arm(at, &waker);
        timer.arm(at + Duration::from_secs(200), &waker);
        assert!(woken.recv().expect("it wakes") >= at);
        timer.arm(at + Duration::from_secs(100), &waker);
        drop((timer, waker));
        assert!(woken.recv().is_err(), "the thread has dropped the waker");
    }
}
