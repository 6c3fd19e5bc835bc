//! [`XdpQueues`]: every queue of an interface as one [`Device`].
//!
//! A NIC spreads received packets over its queues by a hash (RSS), ARP included, and AF_XDP has one
//! socket per queue: a program that serves one queue misses the packets of the others. Some drivers
//! change the number of queues when a program attaches (virtio_net), so they are counted afterwards.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use tautline_base::{Device, Instant, Packet, Received};

use crate::attach::Attachment;
use crate::config::{Config, CopyReason, Mode};
use crate::device::XdpDevice;
use crate::error::{Failure, OpenError};
use crate::interface::{interface_mtu, interface_queues, is_running, queues_or_one, ring_sizes};
use crate::statistics::{Counters, Kernel};
use crate::umem::UmemFrame;

/// Most packets received from one queue before the next has its turn.
const BULK: usize = 64;

/// The AF_XDP sockets of all queues of an interface, served by one thread. It receives on every
/// queue and sends on the first, so that the packets of a connection keep their order.
///
/// When the driver completes nothing, when the number of queues changes, or when nothing arrives
/// after the link came back or the MTU or the rings' sizes changed, [`Device::needs_reset`] is true
/// and the next reset closes all sockets and opens them anew ([`rebinds`](Self::rebinds)).
#[derive(Debug)]
pub struct XdpQueues {
    config: Config,
    only: Option<u32>,
    /// An attachment that other devices use too: it outlasts a reset.
    shared: Option<Arc<Attachment>>,
    /// Empty after a reset that could not open them.
    queues: Vec<XdpDevice>,
    /// Readable if one of the sockets is.
    readiness: OwnedFd,
    turn: usize,
    /// Packets received in this turn.
    bulk: usize,
    /// Of the first queue: mode, reason to copy, MTU.
    opened: (Mode, Option<CopyReason>, usize),
    /// Queues of the interface when the sockets were opened.
    count: u32,
    /// The reset that is necessary.
    cause: Option<Cause>,
    /// When closed sockets may be opened again.
    retry_at: Instant,
    silence: Silence,
    rebinds: Rebinds,
    /// Of the sockets that a reset closed.
    closed: (Counters, Kernel),
}

/// The settings of an interface whose change makes a driver set its rings up anew.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    is_running: bool,
    mtu: Option<usize>,
    rings: Option<[u32; 4]>,
}

impl Settings {
    fn read(interface: &str) -> Self {
        Self {
            is_running: is_running(interface),
            mtu: interface_mtu(interface).ok(),
            rings: ring_sizes(interface),
        }
    }
}

/// Detects drivers that deliver nothing to the sockets any more after their interface was reset
/// (vmxnet3).
#[derive(Debug, Default)]
struct Silence {
    /// At the last check.
    settings: Option<Settings>,
    /// The last change of that, until something arrives.
    changed: Option<Change>,
    /// Packets received until the last check, and the last check that found more.
    received: u64,
    received_at: Option<Instant>,
    /// The sockets were opened anew for it, and nothing has arrived since.
    was_tried: bool,
}

/// A change of an interface.
#[derive(Debug)]
struct Change {
    /// Packets received and completed when it was found.
    received: u64,
    completed: u64,
    /// Packets had arrived in the second before.
    was_busy: bool,
    at: Instant,
}

/// Time since the last packet within which an interface was busy.
const BUSY: Duration = Duration::from_secs(1);
/// Time without a packet after a change that counts as silence.
const SILENT: Duration = Duration::from_secs(3);

impl Silence {
    /// True if nothing has arrived since the interface changed, although packets arrived before or were
    /// sent since, and the sockets were not opened anew for it.
    fn check(&mut self, interface: &str, (received, completed): (u64, u64), now: Instant) -> bool {
        if received > self.received {
            self.received_at = Some(now);
        }
        self.received = received;
        let settings = Settings::read(interface);
        let before = self.settings.replace(settings);
        if before.is_some() && before != self.settings {
            let earlier = self.changed.take().is_some_and(|change| change.was_busy);
            self.changed = Some(Change {
                received,
                completed,
                was_busy: earlier || self.received_at.is_some_and(|at| now <= at + BUSY),
                at: now,
            });
        }
        self.was_tried &= received == 0;
        let Some(change) = self.changed.as_mut() else {
            return false;
        };
        if received > change.received {
            self.changed = None;
            return false;
        }
        let is_expected = change.was_busy || completed > change.completed;
        now > change.at + SILENT && is_expected && !self.was_tried
    }
}

/// Why sockets are closed and opened anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Stalled,
    Queues,
    Silent,
}

/// Resets that closed the sockets and opened them anew. Displayed as one line about the last.
#[derive(Debug, Default)]
pub struct Rebinds {
    /// Number of resets after which the sockets were open again.
    pub count: u64,
    /// Packets in flight that they dropped.
    pub dropped: u64,
    cause: Option<Cause>,
    /// The last attempts to open the sockets, if they failed.
    failed: Option<Attempts>,
}

/// Attempts in a row that failed.
#[derive(Debug)]
struct Attempts {
    /// Why the last one failed.
    error: OpenError,
    count: u32,
}

impl Rebinds {
    /// True if the sockets were closed at least once, though perhaps not opened anew yet.
    pub fn any(&self) -> bool {
        self.cause.is_some()
    }
}

/// Attempts to open sockets anew on an interface that is up; each waits a second while it is busy.
const ATTEMPTS: u32 = 2;
/// Interval between two attempts.
const RETRY: Duration = Duration::from_secs(1);

impl fmt::Display for Rebinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            Some(Cause::Stalled) => "the driver completed no packet for 2 s",
            Some(Cause::Queues) => "the number of its queues changed",
            Some(Cause::Silent) => {
                "nothing arrived since its link came back, or its MTU or ring sizes changed"
            }
            None => return f.write_str("its sockets are the first"),
        })?;
        match &self.failed {
            Some(Attempts { error, .. }) => {
                write!(f, "; its sockets are closed: {error}; trying again")
            }
            None => write!(
                f,
                "; its sockets were closed and opened anew ({} so far, {} packets dropped)",
                self.count, self.dropped
            ),
        }
    }
}

/// The sockets of the queues in `config` or of `only` one, and the frames for sending on the first,
/// each for an MTU of `least` bytes at least.
pub(crate) fn open_queues(
    config: &Config,
    only: Option<u32>,
    shared: Option<&Arc<Attachment>>,
    least: usize,
) -> Result<(Vec<XdpDevice>, Vec<UmemFrame>, u32), OpenError> {
    let attachment = match shared {
        Some(shared) => Arc::clone(shared),
        None => Arc::new(Attachment::carrying(config, least)?),
    };
    let count = queues_or_one(&config.interface);
    let numbers = match only {
        Some(queue) => queue..queue.saturating_add(1),
        None => 0..count,
    };
    let (mut queues, mut frames) = (Vec::new(), Vec::new());
    for queue in numbers {
        let mut config = Config {
            queue,
            ..config.clone()
        };
        if !queues.is_empty() {
            // The other queues only receive.
            config.transmit_frames = 1;
            config.receive_frames = config.receive_frames.min(config.receive_ring);
        }
        let (device, spare) = XdpDevice::open_holding(Arc::clone(&attachment), config, least)?;
        if queues.is_empty() {
            frames = spare;
        }
        queues.push(device);
    }
    Ok((queues, frames, count))
}

/// Attaches the XDP program for a device of each of the `count` queues of an interface.
pub(crate) fn attach_each(config: &Config, count: u32) -> Result<Arc<Attachment>, OpenError> {
    config.check()?;
    let attachment = Attachment::carrying(config, 0)?;
    let queues = queues_or_one(&config.interface);
    if count != queues {
        return Err(OpenError::Queues {
            interface: config.interface.clone(),
            count,
            queues,
        });
    }
    Ok(Arc::new(attachment))
}

impl XdpQueues {
    /// Attaches the XDP program and opens all queues that exist afterwards, or `only` the one.
    /// `config.queue` is ignored. The first queue has `config.receive_frames`; each other one has as many
    /// as its receive ring holds, if that is fewer, so that a NIC with many queues pins less memory.
    ///
    /// Returns the frames for sending, as [`XdpDevice::open`] does.
    ///
    /// # Errors
    /// Those of [`XdpDevice::open`].
    pub fn open(config: Config, only: Option<u32>) -> Result<(Self, Vec<UmemFrame>), OpenError> {
        Self::open_with(config, only, None)
    }

    /// Attaches the XDP program and opens the first `count` queues that exist afterwards, each as a
    /// device of its own, for a thread of its own.
    ///
    /// # Errors
    /// Those of [`XdpDevice::open`]; also if the interface has fewer or more queues.
    pub fn open_each(
        config: &Config,
        count: u32,
    ) -> Result<Vec<(Self, Vec<UmemFrame>)>, OpenError> {
        let attachment = attach_each(config, count)?;
        (0..count)
            .map(|queue| {
                Self::open_with(config.clone(), Some(queue), Some(Arc::clone(&attachment)))
            })
            .collect()
    }

    fn open_with(
        config: Config,
        only: Option<u32>,
        shared: Option<Arc<Attachment>>,
    ) -> Result<(Self, Vec<UmemFrame>), OpenError> {
        config.check()?;
        let (queues, frames, count) = open_queues(&config, only, shared.as_ref(), 0)?;
        Ok((Self::of(config, only, shared, (queues, count))?, frames))
    }

    /// The device of open `queues`, of an interface that has `count`.
    pub(crate) fn of(
        config: Config,
        only: Option<u32>,
        shared: Option<Arc<Attachment>>,
        (queues, count): (Vec<XdpDevice>, u32),
    ) -> Result<Self, OpenError> {
        let readiness = watch(&queues)?;
        let first = &queues[0];
        Ok(Self {
            config,
            only,
            shared,
            opened: (first.mode(), first.copy_reason(), first.mtu()),
            queues,
            readiness,
            turn: 0,
            bulk: 0,
            count,
            cause: None,
            retry_at: Instant::ZERO,
            silence: Silence::default(),
            rebinds: Rebinds::default(),
            closed: Default::default(),
        })
    }

    /// The queues, each with its statistics. The first one sends. None after a reset that could not open
    /// them.
    pub fn queues(&self) -> &[XdpDevice] {
        &self.queues
    }

    /// The resets that opened the sockets anew.
    pub fn rebinds(&self) -> &Rebinds {
        &self.rebinds
    }

    /// The device's counters of all sockets, of those that a reset closed too.
    pub fn counters(&self) -> Counters {
        let (mut sum, _) = self.closed;
        for queue in &self.queues {
            sum += queue.counters();
        }
        sum
    }

    /// The kernel's counters of all sockets, of those that a reset closed too. One system call each.
    pub fn kernel(&self) -> Kernel {
        let (_, mut sum) = self.closed;
        for queue in &self.queues {
            sum += queue.statistics().kernel.unwrap_or_default();
        }
        sum
    }

    /// The mode in which the kernel bound the sending socket.
    pub fn mode(&self) -> Mode {
        self.opened.0
    }

    /// The reason why packets are copied; `None` in zero copy.
    pub fn copy_reason(&self) -> Option<CopyReason> {
        self.opened.1
    }

    /// Like [`XdpDevice::failure`], of the first queue that has one.
    pub fn failure(&mut self) -> Option<Failure> {
        match self.rebinds.failed.as_ref().map(|attempts| &attempts.error) {
            Some(OpenError::NoSuchInterface { .. }) => Some(Failure::Removed),
            Some(OpenError::InterfaceDown { .. }) => Some(Failure::LinkDown),
            Some(_) => Some(Failure::Closed),
            None => self.queues.iter_mut().find_map(XdpDevice::failure),
        }
    }

    /// Closes all sockets, and opens them on the queues that there are now.
    fn rebind(&mut self, lost: &mut Vec<Packet<UmemFrame>>) {
        let before = lost.len();
        for queue in self.queues.drain(..) {
            let last = queue.close(lost);
            self.closed.0 += last.device;
            self.closed.1 += last.kernel.unwrap_or_default();
        }
        self.rebinds.dropped += (lost.len() - before) as u64;
        // Packets of the MTU of before may still be queued.
        let least = self.mtu();
        let opened = open_queues(&self.config, self.only, self.shared.as_ref(), least)
            .and_then(|opened| Ok((watch(&opened.0)?, opened)));
        match opened {
            Ok((readiness, (mut queues, frames, count))) => {
                queues[0].succeed(frames);
                (self.queues, self.readiness, self.count) = (queues, readiness, count);
                (self.turn, self.bulk) = (0, 0);
                self.rebinds.count += 1;
                (self.rebinds.failed, self.cause) = (None, None);
                self.silence = Silence {
                    was_tried: self.silence.was_tried || self.rebinds.cause == Some(Cause::Silent),
                    ..Silence::default()
                };
            }
            Err(error) => {
                let before = self.rebinds.failed.take();
                let count = before.map_or(0, |attempts| attempts.count);
                // Without a link there is nothing to open.
                let is_down = matches!(error, OpenError::InterfaceDown { .. });
                let count = count + u32::from(!is_down);
                self.rebinds.failed = Some(Attempts { error, count });
            }
        }
    }

    fn is_silent(&mut self, now: Instant) -> bool {
        let counters = || self.queues.iter().map(XdpDevice::counters);
        let received = counters().map(|counters| counters.received).sum();
        let completed = counters().map(|counters| counters.completed).sum();
        let interface = &self.config.interface;
        self.silence.check(interface, (received, completed), now)
    }

    fn next_queue(&mut self) {
        (self.turn, self.bulk) = ((self.turn + 1) % self.queues.len(), 0);
    }
}

/// An epoll instance over all sockets.
fn watch(queues: &[XdpDevice]) -> Result<OwnedFd, OpenError> {
    let watch = || {
        let readiness = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for queue in queues {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&readiness, queue.poll_fd(), data, epoll::EventFlags::IN)?;
        }
        Ok(readiness)
    };
    watch().map_err(|error: Errno| OpenError::os("wait for several AF_XDP sockets", error))
}

impl Device for XdpQueues {
    type Frame = UmemFrame;

    fn mtu(&self) -> usize {
        self.opened.2
    }

    /// As the queue that sends.
    fn accepts(&self, frame: &UmemFrame) -> bool {
        let first = self.queues.first();
        first.is_some_and(|first| first.accepts(frame))
    }

    fn room(&self) -> usize {
        self.queues.first().map_or(0, Device::room)
    }

    fn put(&mut self, packet: Packet<UmemFrame>, now: Instant) {
        self.queues[0].put(packet, now);
    }

    fn doorbell(&mut self, now: Instant) {
        if let Some(first) = self.queues.first_mut() {
            first.doorbell(now);
        }
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<UmemFrame>>) {
        if let Some(first) = self.queues.first_mut() {
            first.reap(now, done);
        }
    }

    fn in_flight(&self) -> usize {
        self.queues.first().map_or(0, Device::in_flight)
    }

    fn receive(&mut self, now: Instant) -> Option<Received<UmemFrame>> {
        for _ in 0..self.queues.len() {
            if let Some(received) = self.queues[self.turn].receive(now) {
                self.bulk += 1;
                if self.bulk == BULK {
                    self.next_queue();
                }
                return Some(received);
            }
            self.next_queue();
        }
        None
    }

    fn recycle(&mut self, frame: UmemFrame) {
        let owner = self.queues.iter().position(|queue| queue.owns(&frame));
        // A frame of a socket that was closed meanwhile has no queue.
        if let Some(owner) = owner {
            self.queues[owner].recycle(frame);
        }
    }

    fn is_gone(&mut self) -> bool {
        match self.failure() {
            Some(Failure::Removed) => true,
            // A reset after a stall has not helped.
            Some(Failure::Stalled) => {
                let in_vain = self.queues.first().is_some_and(XdpDevice::succeeds_in_vain);
                in_vain && self.rebinds.cause == Some(Cause::Stalled)
            }
            Some(Failure::Closed) => {
                let failed = self.rebinds.failed.as_ref();
                failed.is_some_and(|attempts| attempts.count >= ATTEMPTS)
            }
            _ => false,
        }
    }

    fn needs_reset(&mut self, now: Instant) -> bool {
        if self.rebinds.failed.is_some() && now < self.retry_at {
            return false;
        }
        self.retry_at = now + RETRY;
        // The interface may have a new name.
        if let Some(first) = self.queues.first() {
            self.config.interface = first.interface();
        }
        let stalled = |first: &mut XdpDevice| first.failure() == Some(Failure::Stalled);
        if self.queues.first_mut().is_some_and(stalled) {
            self.cause = Some(Cause::Stalled);
        } else if self.only.is_none()
            && interface_queues(&self.config.interface).is_ok_and(|count| count != self.count)
        {
            self.cause = Some(Cause::Queues);
        } else if self.is_silent(now) {
            self.cause = Some(Cause::Silent);
        }
        self.cause.is_some()
    }

    /// Also opens the sockets anew if [`needs_reset`](Device::needs_reset) has found that necessary. It
    /// waits a second per step for a busy interface.
    fn reset(&mut self, lost: &mut Vec<Packet<UmemFrame>>) {
        if self.cause.is_some() {
            self.rebinds.cause = self.cause;
            return self.rebind(lost);
        }
        for queue in &mut self.queues {
            queue.reset(lost);
        }
    }
}

impl AsFd for XdpQueues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.queues.as_slice() {
            [only] => only.as_fd(),
            _ => self.readiness.as_fd(),
        }
    }
}
