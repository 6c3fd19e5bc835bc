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

use tautline_base::{Device, Instant, Packet};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{Host, Tracer, reset_connections};

use crate::application::{Application, Next, serve};
use crate::clock::Clock;
use crate::event_fd::EventFd;
use crate::wait::Waiter;

/// Forwards frames between two devices.
pub trait Forwarder {
    /// Forwards the frames that can be forwarded now.
    fn turn(&mut self, now: Instant) -> Progress;

    /// Descriptors that become readable when a frame was received.
    fn devices(&self) -> [BorrowedFd<'_>; 2];
}

/// Result of [`Forwarder::turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More frames may be ready.
    Again,
    /// No frame is ready before this deadline or the next reception.
    Wait(Option<Instant>),
    /// Forwarding has ended; the loop returns.
    Done,
}

/// How the thread spends idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Sleeps until the device or a timer wakes it.
    #[default]
    Sleep,
    /// Polls without sleeping. Uses a whole core, and pays only where the machine has one to spare.
    Spin,
}

/// Why [`EventLoop::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The application returned [`Next::Done`].
    Application,
    /// [`Stopper::stop`] was called.
    Stopped,
    /// The device's descriptor reports an error, or its interface was removed.
    DeviceFailed,
}

/// Drives one host.
#[derive(Debug)]
pub struct EventLoop {
    clock: Clock,
    idle: Idle,
    gather: Duration,
    waiter: Waiter,
    /// Turns that forwarded or received nothing.
    turns: Cell<u32>,
    event_fd: Arc<EventFd>,
    stopped: Arc<AtomicBool>,
}

/// Most frames that one [`Host::receive`] takes; after this many there may be more.
const FULL_BATCH: usize = 64;
/// Lateness from which a turn counts as a scheduling gap of the thread.
const LATE: Duration = Duration::from_millis(1);
/// Further batches taken by a late turn: a receive ring's worth.
const CATCH_UP: usize = 64;
/// How long frames may gather while there is traffic: with 20 µs a veth pair carries a third more
/// than with none, and no less than with 50 µs.
const GATHER: Duration = Duration::from_micros(20);
/// Idle turns of a spinning loop between two checks of the device's descriptor: a few per
/// millisecond.
const TURNS_BETWEEN_CHECKS: u32 = 1024;
/// Shortest wait worth a system call.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);
/// Interval between checks that the device exists and works: its descriptor may not report that. Each costs
/// a few system calls.
const CHECK: Duration = Duration::from_millis(250);
/// Time for the last resets of a host to leave, and for their answers.
const RESET_TIME: Duration = Duration::from_millis(100);

impl EventLoop {
    /// A loop for the calling thread.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(clock: Clock, idle: Idle) -> io::Result<Self> {
        let (event_fd, stopped) = (Arc::new(EventFd::new()?), Arc::default());
        Ok(Self {
            clock,
            idle,
            gather: GATHER,
            waiter: Waiter::new(),
            turns: Cell::new(0),
            event_fd,
            stopped,
        })
    }

    /// How long frames gather before the next receive while there is traffic, like `ethtool -C
    /// rx-usecs` of a NIC. A thread that is woken for every frame costs itself and the
    /// sender more than the frame does, and acknowledges every other one. The first frame after a
    /// pause is never held back. Default 20 µs; zero receives at once.
    #[must_use]
    pub fn gathering(mut self, time: Duration) -> Self {
        self.gather = time;
        self
    }

    /// The clock of the host.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends the loop from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            event_fd: Arc::clone(&self.event_fd),
            stopped: Arc::clone(&self.stopped),
        }
    }

    /// Wakes the loop from another thread; it then runs the application's turn.
    pub fn event_fd(&self) -> Arc<EventFd> {
        Arc::clone(&self.event_fd)
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
        // Frames came, and the loop has not waited since.
        let mut traffic = false;
        let mut check_at = self.clock.now() + CHECK;
        while !self.stopped.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now >= check_at {
                if !has_working_device(host, now) {
                    return Ok(Ended::DeviceFailed);
                }
                check_at = now + CHECK;
            }
            let mut received = host.receive(now);
            // The thread was not scheduled. Without the frames behind the first batch, expired
            // timers would retransmit data that has been acknowledged since.
            let is_late = promised.is_some_and(|at| now > at + LATE);
            if let Some(at) = promised.filter(|_| is_late) {
                tracing::debug!(by = ?(now - at), "the thread was scheduled late");
            }
            for _ in 0..CATCH_UP {
                if received < FULL_BATCH || !(is_late || host.is_flooded()) {
                    break;
                }
                received = host.receive(now);
            }
            let (wake, next) = serve(host, application, now);
            let deadline = match next {
                Next::Done => return Ok(Ended::Application),
                Next::At(at) => Some(at),
                Next::Event => None,
            };
            // A wake may name a time that is over: whatever is possible at once.
            let asked = wake.map(|wake| wake.at).into_iter().chain(deadline).min();
            promised = asked.map(|at| at.max(now));
            let until = promised.map_or(check_at, |at| at.min(check_at));
            traffic |= received > 0;
            if received == FULL_BATCH || until == now {
                continue;
            }
            if !self.wait(host, Some(until), traffic)? {
                return Ok(Ended::DeviceFailed);
            }
            traffic = false;
        }
        Ok(Ended::Stopped)
    }

    /// Drives `forwarder` until it is done, the loop is stopped or a device fails. Sleeps between
    /// turns until the deadline that `turn` returned or until a device is readable; with
    /// [`Idle::Spin`] it polls instead.
    ///
    /// To poll for 20 µs before each sleep costs 15 % of the TCP throughput on two processors and
    /// shortens no round trip.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn run_forwarder<W: Forwarder>(&self, forwarder: &mut W) -> io::Result<Ended> {
        while !self.stopped.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let until = match forwarder.turn(now) {
                Progress::Again => continue,
                Progress::Wait(until) => until,
                Progress::Done => return Ok(Ended::Application),
            };
            let turn = self.turns.get();
            self.turns.set(turn.wrapping_add(1));
            if self.idle == Idle::Spin && !turn.is_multiple_of(TURNS_BETWEEN_CHECKS) {
                std::hint::spin_loop();
                continue;
            }
            let time = match until {
                _ if self.idle == Idle::Spin => Some(Duration::ZERO),
                until => until.map(|until| until - self.clock.now()),
            };
            let ready = self
                .waiter
                .wait(&forwarder.devices(), self.event_fd.as_fd(), time)?;
            if ready.woken {
                self.event_fd.clear();
            }
            if ready.failed {
                return Ok(Ended::DeviceFailed);
            }
        }
        Ok(Ended::Stopped)
    }

    /// Ends a host: drives it without its application until its last packets have left and what closed
    /// connections had to deliver is acknowledged, or `time` has passed; then resets the connections that are
    /// still open, so that their peers do not wait for timeouts. The resets take a tenth of a second at
    /// most. Returns at once if the device has failed.
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
        let has_delivered = |host: &Host<Q, D, T, L>| !host.is_delivering();
        if !self.run_out(host, time, has_delivered)? || reset_connections(host) == 0 {
            return Ok(());
        }
        // A peer that has missed data challenges the reset (RFC 5961 §3.2): its answer is another one, with the
        // number that it wants.
        self.run_out(host, RESET_TIME, |_| false).map(drop)
    }

    /// Drives the host until `is_done` and no packet is on its way to the device, or for `time`. Returns false
    /// if the device has failed.
    fn run_out<Q, D, T, L>(
        &self,
        host: &mut Host<Q, D, T, L>,
        time: Duration,
        is_done: impl Fn(&Host<Q, D, T, L>) -> bool,
    ) -> io::Result<bool>
    where
        D: Device + AsFd,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let end = self.clock.now() + time;
        loop {
            if host.device_mut().is_gone() {
                return Ok(false);
            }
            let now = self.clock.now();
            // With more to receive the device stays readable, and the wait returns at once.
            let _ = host.receive(now);
            let wake = host.poll(now);
            // A host with many packets to send makes 64 in each poll.
            let is_idle = host.outstanding() == 0 && wake.is_none_or(|wake| wake.at > now);
            if is_idle && is_done(host) || now >= end {
                return Ok(true);
            }
            let until = wake.map_or(end, |wake| wake.at.min(end));
            // A failed device ends every wait at once, also one whose time is over: the host may always have
            // something to do.
            if !self.sleep(host, Some(until - self.clock.now()), false)? {
                return Ok(false);
            }
        }
    }

    /// Waits for input or until `until`; during traffic lets frames gather instead. Returns false if
    /// the device has failed.
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
            // A loop that never waits checks now and then that the device still works.
            let turn = self.turns.get();
            self.turns.set(turn.wrapping_add(1));
            if traffic || !turn.is_multiple_of(TURNS_BETWEEN_CHECKS) {
                return Ok(true);
            }
            let ready = self.waiter.wait(
                &[host.port().ring().device().as_fd()],
                self.event_fd.as_fd(),
                Some(Duration::ZERO),
            )?;
            return Ok(!ready.failed);
        }
        let time = end.map(|end| end - now);
        if time.is_some_and(|time| time < SHORTEST_WAIT) {
            return Ok(true);
        }
        self.sleep(host, time, traffic)
    }

    /// Sleeps until there is input or for `time`; the device is not watched while frames gather during
    /// traffic. Returns false if the device has failed.
    fn sleep<Q, D, T, L>(
        &self,
        host: &Host<Q, D, T, L>,
        time: Option<Duration>,
        traffic: bool,
    ) -> io::Result<bool>
    where
        D: Device + AsFd,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let device = [host.port().ring().device().as_fd()];
        let watched = if traffic { &[] } else { device.as_slice() };
        let ready = self.waiter.wait(watched, self.event_fd.as_fd(), time)?;
        if ready.woken {
            self.event_fd.clear();
        }
        Ok(!ready.failed)
    }
}

/// Ends an [`EventLoop`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    event_fd: Arc<EventFd>,
    stopped: Arc<AtomicBool>,
}

impl Stopper {
    /// Makes the loop return [`Ended::Stopped`] at its next turn.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.event_fd.signal();
    }
}

/// Resets the device if it asks for that. Returns false if it is gone.
fn has_working_device<Q, D, T, L>(host: &mut Host<Q, D, T, L>, now: Instant) -> bool
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    if host.device_mut().is_gone() {
        tracing::warn!("the device is gone");
        return false;
    }
    if host.device_mut().needs_reset(now) {
        tracing::warn!("the device is reset; packets in it are dropped");
        host.reset_device(now);
    }
    true
}

#[cfg(test)]
mod tests;
