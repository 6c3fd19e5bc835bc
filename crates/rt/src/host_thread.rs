//! [`HostThread`]: a host on its own thread, for programs that only need sockets.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tautline_base::{Device, Packet};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{Host, Tracer};

use crate::clock::Clock;
use crate::event_loop::{Ended, EventLoop, Idle, Stopper};
use crate::handle::{Config, Fixed, Rebuild, StackHandle};

/// Default time limit for a stopping host to deliver what dropped streams have left.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// A thread that drives a host until it is [stopped](Self::stop) or its device fails. To drop this does
/// not end the thread: it then runs until its device fails.
#[derive(Debug)]
pub struct HostThread {
    stopper: Stopper,
    /// Time for the last deliveries; unset: the default.
    limit: Arc<OnceLock<Duration>>,
    thread: JoinHandle<io::Result<Ended>>,
}

impl HostThread {
    /// Starts a thread that makes a host and drives it, and returns the handle for sockets.
    ///
    /// # Errors
    /// Those of `make`, or if the process has no thread or file descriptor left.
    pub fn spawn<Q, D, T, L>(
        config: Config,
        idle: Idle,
        make: impl FnOnce() -> io::Result<Host<Q, D, T, L>> + Send + 'static,
    ) -> io::Result<(Self, StackHandle)>
    where
        D: Device + AsFd,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        Self::spawn_with(config, idle, Fixed, make)
    }

    /// Like [`spawn`](Self::spawn); with [`ByWords`](crate::ByWords), [`StackHandle::set_qdisc`]
    /// replaces the host's qdisc.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_with<Q, D, T, L, B>(
        config: Config,
        idle: Idle,
        rebuild: B,
        make: impl FnOnce() -> io::Result<Host<Q, D, T, L>> + Send + 'static,
    ) -> io::Result<(Self, StackHandle)>
    where
        B: Rebuild<Q> + Send + 'static,
        D: Device + AsFd,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let (sender, receiver) = sync_channel(1);
        let limit = Arc::new(OnceLock::new());
        let chosen = Arc::clone(&limit);
        let thread = Builder::new().name("host".into()).spawn(move || {
            let event_loop = EventLoop::new(Clock::start(), idle)?;
            let mut host = make()?;
            let (stack, sockets) = StackHandle::new(config, Waker::from(event_loop.event_fd()));
            let mut sockets = sockets.rebuilding(rebuild);
            // The receiver is gone only if `spawn` panicked.
            let _ = sender.send((event_loop.stopper(), stack));
            let ended = event_loop.run(&mut host, &mut sockets)?;
            sockets.abort_all(&mut host, event_loop.clock().now());
            // The handles fail now, and not once everything is delivered.
            drop(sockets);
            let limit = chosen.get().copied().unwrap_or(DRAIN_TIME);
            event_loop.drain(&mut host, limit)?;
            Ok(ended)
        })?;
        match receiver.recv() {
            Ok((stopper, stack)) => {
                let host = Self {
                    stopper,
                    limit,
                    thread,
                };
                Ok((host, stack))
            }
            Err(_) => Err(outcome(thread)
                .err()
                .unwrap_or_else(|| io::Error::other("the host's thread ended"))),
        }
    }

    /// Ends the thread after it has reset the connections that are still held. What dropped streams have left
    /// is delivered first; connections for which a second does not suffice are reset, too.
    ///
    /// # Errors
    /// If the kernel refused to wait.
    ///
    /// # Panics
    /// If the host's thread panicked.
    pub fn stop(self) -> io::Result<Ended> {
        self.stop_within(DRAIN_TIME)
    }

    /// Like [`stop`](Self::stop), with `limit` instead of a second. The last resets take a tenth of a
    /// second more at most.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    ///
    /// # Panics
    /// As [`stop`](Self::stop).
    pub fn stop_within(self, limit: Duration) -> io::Result<Ended> {
        // Set only here.
        let _ = self.limit.set(limit);
        self.stopper.stop();
        outcome(self.thread)
    }
}

fn outcome(thread: JoinHandle<io::Result<Ended>>) -> io::Result<Ended> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
