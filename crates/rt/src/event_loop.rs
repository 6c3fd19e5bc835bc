//! [`EventLoop`]: drives a host on its device in real time, on the calling thread.
//!
//! The driver's contract of `tautline-stack`, kept literally: any number of inputs, one poll, then
//! wait until the wake or the next input.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tautline_base::{Device, Instant, Packet, Wake};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{Event, Host, Tracer};

use crate::bell::Bell;
use crate::clock::Clock;
use crate::wait::Waiter;

/// A program on a host `H`.
pub trait Application<H> {
    /// The host tells of `event`.
    fn on_event(&mut self, host: &mut H, event: Event, now: Instant);

    /// Called in every turn of the loop, after the events and before the poll; says what to wait
    /// for.
    fn turn(&mut self, host: &mut H, now: Instant) -> Next;
}

/// What an application waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An event, or somebody who wakes the loop.
    Event,
    /// That, or this moment.
    At(Instant),
    /// Nothing: it is done.
    Done,
}

/// Work between two devices: a bridge.
pub trait Between {
    /// Moves what can be moved now.
    fn turn(&mut self, now: Instant) -> Turn;

    /// Descriptors that become readable when something was received.
    fn devices(&self) -> [BorrowedFd<'_>; 2];
}

/// What [`Between::turn`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be more to move at once.
    Again,
    /// Nothing until this moment, or until something is received.
    Wait(Option<Instant>),
    /// The work is done.
    Done,
}

/// How the thread spends the time between two things to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Asleep until the device or a timer wakes it.
    #[default]
    Sleep,
    /// Looking again at once. Uses a whole core, and pays only where the machine has one to spare.
    Spin,
}

/// Why [`EventLoop::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The application is done.
    Application,
    /// Somebody called [`Stopper::stop`].
    Stopped,
    /// The device reports an error and receives no more; it knows which.
    DeviceFailed,
}

/// Drives one host.
#[derive(Debug)]
pub struct EventLoop {
    clock: Clock,
    idle: Idle,
    gather: Duration,
    waiter: Waiter,
    /// Idle turns of a spinning loop.
    turns: Cell<u32>,
    bell: Arc<Bell>,
    stopped: Arc<AtomicBool>,
}

/// Frames taken from the device in one [`Host::receive`]; so many mean that there may be more.
const FULL_BATCH: usize = 64;
/// How late a turn is when its thread had no processor for a while.
const LATE: Duration = Duration::from_millis(1);
/// Further batches taken by a late turn: a receive ring's worth.
const CATCH_UP: usize = 32;
/// How long frames may gather while there is traffic: with 20 µs a veth pair carries a third more
/// than with none, and no less than with 50 µs.
const GATHER: Duration = Duration::from_micros(20);
/// Idle turns of a spinning loop between two looks at the device's descriptor: a few times a
/// millisecond.
const TURNS_BETWEEN_CHECKS: u32 = 1024;
/// Shortest wait worth a system call.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);

impl EventLoop {
    /// A loop for the calling thread.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(clock: Clock, idle: Idle) -> io::Result<Self> {
        let (bell, stopped) = (Arc::new(Bell::new()?), Arc::default());
        Ok(Self {
            clock,
            idle,
            gather: GATHER,
            waiter: Waiter::new(),
            turns: Cell::new(0),
            bell,
            stopped,
        })
    }

    /// How long to let frames gather before the next look, while there is traffic; as `ethtool -C
    /// rx-usecs` of a network card. A thread that is woken for every frame costs itself and the
    /// sender more than the frame does, and acknowledges every other one. The first frame after a
    /// pause is never held back. Default 20 µs; zero looks at once.
    pub fn gathering(mut self, time: Duration) -> Self {
        self.gather = time;
        self
    }

    /// The clock the host lives by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends the loop from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            bell: Arc::clone(&self.bell),
            stopped: Arc::clone(&self.stopped),
        }
    }

    /// Wakes the loop from elsewhere, so that the application has a turn.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    /// Runs until the application is done, the loop is stopped or the device fails.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn run<Q, D, T, L, A>(
        &self,
        host: &mut Host<Q, D, T, L>,
        application: &mut A,
    ) -> io::Result<Ended>
    where
        D: Device + AsFd,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
        A: Application<Host<Q, D, T, L>>,
    {
        let mut promised = None;
        while !self.stopped.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let mut received = host.receive(now);
            if promised.is_some_and(|at| now > at + LATE) {
                // Timers have expired whose answers may be waiting behind the first batch: a thread
                // that had no processor would send again what was acknowledged meanwhile.
                for _ in 0..CATCH_UP {
                    if received < FULL_BATCH {
                        break;
                    }
                    received = host.receive(now);
                }
            }
            let (wake, next) = serve(host, application, now);
            let asked = match next {
                Next::Done => return Ok(Ended::Application),
                Next::At(at) => Some(at),
                Next::Event => None,
            };
            let until = wake.map(|wake| wake.at).into_iter().chain(asked).min();
            promised = until;
            if received < FULL_BATCH && !self.wait(host, until, received > 0)? {
                return Ok(Ended::DeviceFailed);
            }
        }
        Ok(Ended::Stopped)
    }

    /// Drives `work` on two devices until it is done, the loop is stopped or a device fails. Its
    /// `turn` moves what can be moved and says when to come again at the latest; the loop sleeps
    /// until then, or until a device has received.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn run_between<W: Between>(&self, work: &mut W) -> io::Result<Ended> {
        while !self.stopped.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let until = match work.turn(now) {
                Turn::Again => continue,
                Turn::Wait(until) => until,
                Turn::Done => return Ok(Ended::Application),
            };
            let now = self.clock.now();
            let time = if self.idle == Idle::Spin {
                Some(Duration::ZERO)
            } else {
                until.map(|until| until - now)
            };
            let ready = self.waiter.wait(&work.devices(), self.bell.as_fd(), time)?;
            if ready.bell {
                self.bell.silence();
            }
            if ready.failed {
                return Ok(Ended::DeviceFailed);
            }
        }
        Ok(Ended::Stopped)
    }

    /// Goes on without an application until no packet is on its way or `time` has passed: what the
    /// host still has to say is said.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn drain<Q, D, T, L>(&self, host: &mut Host<Q, D, T, L>, time: Duration) -> io::Result<()>
    where
        D: Device + AsFd,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let end = self.clock.now() + time;
        loop {
            let now = self.clock.now();
            // With more to receive the device stays readable, and the wait returns at once.
            let _ = host.receive(now);
            let wake = host.poll(now);
            if host.outstanding() == 0 || now >= end {
                return Ok(());
            }
            self.wait(host, Some(wake.map_or(end, |wake| wake.at.min(end))), false)?;
        }
    }

    /// Waits for input or until `until`; during traffic lets frames gather instead. False if the
    /// device has failed.
    fn wait<Q, D, T, L>(
        &self,
        host: &Host<Q, D, T, L>,
        until: Option<Instant>,
        traffic: bool,
    ) -> io::Result<bool>
    where
        D: Device + AsFd,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let now = self.clock.now();
        let gather = traffic.then(|| now + self.gather);
        let end = until.into_iter().chain(gather).min();
        if self.idle == Idle::Spin {
            let end = if traffic { end.unwrap_or(now) } else { now };
            while self.clock.now() < end {
                std::hint::spin_loop();
            }
            // Whoever never waits must ask now and then whether the device is still there.
            let turn = self.turns.get();
            self.turns.set(turn.wrapping_add(1));
            if traffic || !turn.is_multiple_of(TURNS_BETWEEN_CHECKS) {
                return Ok(true);
            }
            let ready = self.waiter.wait(
                &[host.port().ring().device().as_fd()],
                self.bell.as_fd(),
                Some(Duration::ZERO),
            )?;
            return Ok(!ready.failed);
        }
        let time = end.map(|end| end - now);
        if time.is_some_and(|time| time < SHORTEST_WAIT) {
            return Ok(true);
        }
        // While frames gather, the device is not looked at.
        let device = [host.port().ring().device().as_fd()];
        let watched = if traffic { &[] } else { device.as_slice() };
        let ready = self.waiter.wait(watched, self.bell.as_fd(), time)?;
        if ready.bell {
            self.bell.silence();
        }
        Ok(!ready.failed)
    }
}

/// Events, the application's turn, one poll; again while the poll brings events.
fn serve<Q, D, T, L, A>(
    host: &mut Host<Q, D, T, L>,
    application: &mut A,
    now: Instant,
) -> (Option<Wake>, Next)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
    A: Application<Host<Q, D, T, L>>,
{
    let mut pending = host.next_event();
    loop {
        while let Some(event) = pending {
            application.on_event(host, event, now);
            pending = host.next_event();
        }
        let next = application.turn(host, now);
        let wake = host.poll(now);
        pending = host.next_event();
        if pending.is_none() || next == Next::Done {
            return (wake, next);
        }
    }
}

/// Ends an [`EventLoop`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    bell: Arc<Bell>,
    stopped: Arc<AtomicBool>,
}

impl Stopper {
    /// Makes the loop return [`Ended::Stopped`] at its next turn.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.bell.ring();
    }
}
