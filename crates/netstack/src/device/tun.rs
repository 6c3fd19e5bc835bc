//! [`Tun`] and [`Nic`]: interfaces with a descriptor.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tautline_base::{Device, HeapFrame, Instant};
use tautline_rt::frame_device::ReadError;
#[cfg(target_os = "linux")]
use tautline_rt::packet_device::{Config, OpenError, PacketDevice, Take};
use tautline_rt::{ByWords, Clock, HostThread, Idle, Sockets, StackHandle, TunFd};
#[cfg(target_os = "linux")]
use tautline_rt::{Tap, TapError};
use tautline_stack::HostConfig;
#[cfg(target_os = "linux")]
use tautline_stack::LinkLocal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use super::sealed;
use crate::alarm::{Alarm, Rest};
use crate::driver::{self, Driver, SLICE};
use crate::served::Served;
use crate::settings::Settings;
use crate::start::Start;
use crate::task::{Turns, spawn_task};

/// Frames that one [`Host::receive`] takes at most.
const BATCH: usize = 64;
/// Lateness from which a turn receives everything before it lets timers expire.
const LATE: Duration = Duration::from_millis(1);
/// Further batches taken by a late turn.
const CATCH_UP: usize = 32;
/// Time without a read after which a task that does not sleep reads the interface, whether or not it is
/// known to be readable: the runtime asks for readiness only once a worker has nothing else to do, or
/// every 61 tasks, and with two workers on one processor an idle one gets its turn after milliseconds.
const UNREAD: Duration = Duration::from_micros(50);
/// Interval between checks that the interface still exists.
const CHECK: Duration = Duration::from_secs(1);

/// A TUN interface. Its stack is a task of the current runtime, whose I/O and time drivers must be
/// enabled, or has a thread of its own if there is no runtime.
pub struct Tun {
    kind: Kind,
    has_thread: bool,
}

enum Kind {
    #[cfg(target_os = "linux")]
    Named(Tap),
    Descriptor(TunFd),
}

impl Tun {
    /// Attaches to the TUN interface `interface`, or makes one that lives as long as the stack;
    /// packets stand for many segments both ways. Whether it is up, and what address the kernel's end
    /// has, is the caller's business (`ip link set`, `ip address add`).
    ///
    /// # Errors
    /// [`TapError`], each with its remedy.
    #[cfg(target_os = "linux")]
    pub fn open(interface: &str) -> Result<Self, TapError> {
        Tap::open_tun(interface, true).map(|tun| Self::of(Kind::Named(tun)))
    }

    /// Like [`open`](Self::open), with single segments only.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(target_os = "linux")]
    pub fn open_without_offload(interface: &str) -> Result<Self, TapError> {
        Tap::open_tun(interface, false).map(|tun| Self::of(Kind::Named(tun)))
    }

    /// A TUN interface that the caller has opened with `IFF_NO_PI` and without `IFF_VNET_HDR`, as
    /// Android's `VpnService` does; packets have up to `mtu` bytes.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn of_descriptor(descriptor: OwnedFd, mtu: usize) -> io::Result<Self> {
        let device = TunFd::of_descriptor(descriptor, mtu)?;
        Ok(Self::of(Kind::Descriptor(device)))
    }

    fn of(kind: Kind) -> Self {
        Self {
            kind,
            has_thread: false,
        }
    }

    /// Runs the stack on a thread of its own, whose timers are exact to microseconds, as pacing
    /// needs. A request and its answer then cost two switches between threads. To drop the stack blocks
    /// until the thread has ended: up to a second if dropped streams have something left to deliver.
    #[must_use]
    pub fn with_thread(mut self) -> Self {
        self.has_thread = true;
        self
    }
}

impl fmt::Debug for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tun")
            .field("has_thread", &self.has_thread)
            .finish_non_exhaustive()
    }
}

/// An Ethernet interface as one end: TAP, a packet socket, or any device of `tautline-rt`. The stack
/// wants its [address](crate::Builder::address). It is a task, or a thread, as that of a [`Tun`].
#[derive(Debug)]
pub struct Nic<D> {
    device: D,
    prepare: fn(&D, &mut HostConfig) -> io::Result<()>,
    read_error: Option<Arc<OnceLock<ReadError>>>,
}

impl<D> Nic<D>
where
    D: Device<Frame = HeapFrame> + AsFd + Send + 'static,
{
    /// A stack on `device`.
    pub fn new(device: D) -> Self {
        let prepare = |_: &D, _: &mut HostConfig| Ok(());
        Self {
            device,
            prepare,
            read_error: None,
        }
    }
}

#[cfg(target_os = "linux")]
impl Nic<Tap> {
    /// The TAP interface `interface`, or a new one that lives as long as the stack, with offload.
    ///
    /// # Errors
    /// [`TapError`], each with its remedy.
    pub fn tap(interface: &str) -> Result<Self, TapError> {
        let device = Tap::open_offloading(interface)?;
        let read_error = Some(device.read_error());
        Ok(Self {
            read_error,
            ..Self::new(device)
        })
    }
}

#[cfg(target_os = "linux")]
impl Nic<PacketDevice> {
    /// A packet socket on `interface`, which must be up and must not have the addresses of the stack.
    /// It receives what is sent to them, under the MAC address of the interface. If the stack owns
    /// [prefixes](crate::Builder::owns) or has another [MAC address](crate::Builder::mac), it receives
    /// everything, and the interface becomes promiscuous.
    ///
    /// # Errors
    /// [`OpenError`], each with its remedy.
    pub fn packet_socket(interface: &str) -> Result<Self, OpenError> {
        let device = PacketDevice::open(&Config {
            take: Take::Addresses(Vec::new()),
            ..Config::new(interface)
        })?;
        Ok(Self {
            prepare: share_interface,
            read_error: Some(device.read_error()),
            device,
        })
    }
}

/// Chooses what `device` receives for `host`, which shares the interface with the kernel: its MAC address,
/// and not the link-local address that the kernel has made of that.
#[cfg(target_os = "linux")]
fn share_interface(device: &PacketDevice, host: &mut HostConfig) -> io::Result<()> {
    let has_own_mac = host.mac != [0; 6] && host.mac != device.mac();
    let take = if has_own_mac || !host.owned.is_empty() {
        Take::Everything
    } else {
        Take::Addresses(host.addresses.iter().map(|own| own.address()).collect())
    };
    if !has_own_mac {
        (host.mac, host.link_local) = (device.mac(), LinkLocal::None);
    }
    device.take(&take).map_err(io::Error::other)
}

impl<D> sealed::Start for Nic<D>
where
    D: Device<Frame = HeapFrame> + AsFd + Send + 'static,
{
    fn prepare(&mut self, host: &mut HostConfig) -> io::Result<()> {
        (self.prepare)(&self.device, host)
    }

    fn start(self, settings: Settings) -> io::Result<(StackHandle, Driver)> {
        let (handle, driver) = start(self.device, settings, false)?;
        Ok((handle, driver.with_read_error(self.read_error)))
    }
}

impl sealed::Start for Tun {
    fn start(self, settings: Settings) -> io::Result<(StackHandle, Driver)> {
        let (read_error, started) = match self.kind {
            #[cfg(target_os = "linux")]
            Kind::Named(tun) => (tun.read_error(), start(tun, settings, self.has_thread)),
            Kind::Descriptor(tun) => (tun.read_error(), start(tun, settings, self.has_thread)),
        };
        let (handle, driver) = started?;
        Ok((handle, driver.with_read_error(Some(read_error))))
    }
}

/// Starts a stack on `device`, whose packets hold many segments, cut and merged in software if the
/// device carries single ones.
fn start<D>(device: D, settings: Settings, has_thread: bool) -> io::Result<(StackHandle, Driver)>
where
    D: Device<Frame = HeapFrame> + AsFd + Send + 'static,
{
    if device.tso().is_some() {
        run(device, settings, has_thread)
    } else {
        run(driver::offloaded(device), settings, has_thread)
    }
}

fn run<D>(device: D, settings: Settings, has_thread: bool) -> io::Result<(StackHandle, Driver)>
where
    D: Device<Frame = HeapFrame> + AsFd + Send + 'static,
{
    let config = settings.sockets.clone();
    if has_thread || Handle::try_current().is_err() {
        let make = move || Ok(driver::host(device, settings));
        let (thread, handle) = HostThread::spawn_with(config, Idle::Sleep, ByWords, make)?;
        return Ok((handle, Driver::of_thread(thread)));
    }
    let (handle, task) = spawn_task(config, |sockets, clock| {
        InterfaceTurns::new(device, settings, sockets, clock)
    })?;
    Ok((handle, Driver::of_task(task)))
}

/// A host on a TUN interface, its sockets, and the readiness of the interface.
struct InterfaceTurns<D: Device<Frame = HeapFrame>> {
    readiness: AsyncFd<OwnedFd>,
    served: Served<D>,
    clock: Clock,
    start: Arc<Start>,
    /// Nothing is received before.
    has_begun: bool,
    /// Deadline of the last poll.
    promised: Option<Instant>,
    /// Time of the last read.
    read_at: Instant,
    check_at: Instant,
}

impl<D: Device<Frame = HeapFrame> + AsFd> InterfaceTurns<D> {
    /// A host on `device`, within tokio's runtime.
    #[expect(
        deprecated,
        reason = "`register` is unsafe for the sake of types other than `OwnedFd`"
    )]
    fn new(
        device: D,
        settings: Settings,
        sockets: Sockets<ByWords>,
        clock: Clock,
    ) -> io::Result<Self> {
        let descriptor = device.as_fd().try_clone_to_owned()?;
        Ok(Self {
            start: Arc::clone(&settings.start),
            readiness: AsyncFd::with_interest(descriptor, Interest::READABLE)?,
            served: Served::new(driver::host(device, settings), sockets),
            clock,
            has_begun: false,
            promised: None,
            read_at: clock.now(),
            check_at: clock.now() + CHECK,
        })
    }
}

impl<D: Device<Frame = HeapFrame> + Send + 'static> Turns for InterfaceTurns<D> {
    fn poll(&mut self, context: &mut Context<'_>, alarm: &mut Alarm) -> Poll<io::Result<()>> {
        let mut now = self.clock.now();
        let end = now + SLICE;
        while now < end {
            if now >= self.check_at || self.served.has_ended() {
                // A read reports that the interface is gone; readiness does not.
                if self.has_begun {
                    let _ = self.served.host.receive(now);
                }
                if self.served.host.device_mut().is_gone() {
                    return Poll::Ready(Ok(()));
                }
                self.check_at = now + CHECK;
            }
            let mut is_busy = self.has_begun && self.receive(context, now)?;
            self.promised = self.served.turn(now);
            let sockets = self.served.host.socket_count();
            if !self.has_begun && self.start.may_begin(sockets, context) {
                (self.has_begun, is_busy) = (true, true);
            }
            if !is_busy {
                if self.served.is_done(self.promised, now) {
                    return Poll::Ready(Ok(()));
                }
                let at = self
                    .promised
                    .map_or(self.check_at, |at| at.min(self.check_at));
                match alarm.rest(Some(at), context) {
                    Rest::Again => {}
                    Rest::Yield => break,
                    Rest::Sleep => return Poll::Pending,
                }
            }
            now = self.clock.now();
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn end(&mut self) {
        self.served.end(self.clock.now());
    }

    fn flush(&mut self, _: &mut Context<'_>) -> bool {
        let now = self.clock.now();
        let before = self.served.host.stats();
        let at = self.served.turn(now);
        let after = self.served.host.stats();
        let is_stuck = (before.births, before.completed) == (after.births, after.completed);
        !is_stuck && !self.served.is_done(at, now)
    }
}

impl<D: Device<Frame = HeapFrame>> InterfaceTurns<D> {
    /// Receives a batch, or all frames if a deadline was missed: without them, expired timers would
    /// retransmit data that has been acknowledged since. True if more may be ready.
    fn receive(&mut self, context: &mut Context<'_>, now: Instant) -> io::Result<bool> {
        let mut ready = match self.readiness.poll_read_ready(context) {
            Poll::Ready(ready) => Some(ready?),
            Poll::Pending if now < self.read_at + UNREAD => return Ok(false),
            Poll::Pending => None,
        };
        self.read_at = now;
        let is_late = self.promised.is_some_and(|at| now > at + LATE);
        let batches = if is_late { CATCH_UP } else { 1 };
        let is_full = (0..batches).all(|_| self.served.host.receive(now) == BATCH);
        if is_full {
            return Ok(true);
        }
        let Some(ready) = &mut ready else {
            return Ok(false);
        };
        ready.clear_ready();
        // Registers the task for the next readiness.
        Ok(self.readiness.poll_read_ready(context).is_ready())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::task::Waker;

    use tautline_rt::handle;
    use tautline_stack::Limits;
    use tautline_tc::Tree;
    use tautline_testkit::{Ip, SYN, Segment, TCP};

    use super::*;
    use crate::Cidr;

    const ADDRESS: [u8; 4] = [10, 9, 0, 1];

    fn settings() -> Settings {
        let qdisc: Tree = "pfifo".parse().expect("words of tc");
        let host = HostConfig::new([2, 0, 0, 0, 0, 1], 1);
        Settings {
            host: host.address(Cidr::new(ADDRESS, 24)),
            qdisc: qdisc.build().expect("defaults"),
            sockets: handle::Config::default(),
            limits: Limits::default(),
            frames: 64,
            start: Arc::default(),
        }
    }

    /// The test never awaits, so its runtime is not asked what is readable.
    #[tokio::test]
    async fn a_task_that_does_not_sleep_reads_the_interface_without_being_told() {
        let (near, far) = UnixDatagram::pair().expect("sockets");
        far.set_nonblocking(true).expect("a socket");
        let device = TunFd::of_descriptor(near.into(), 1500).expect("a descriptor");
        let clock = Clock::start();
        let (_handle, sockets) = StackHandle::new(handle::Config::default(), Waker::noop().clone());
        let mut turns = InterfaceTurns::new(device, settings(), sockets.rebuilding(ByWords), clock)
            .expect("a runtime");
        turns.has_begun = true;
        let syn = Segment {
            source_port: 4000,
            destination_port: 9,
            flags: SYN,
            ..Segment::default()
        };
        let to_closed = Ip::new([10, 9, 0, 2], ADDRESS, TCP).packet(&syn.to_bytes());
        far.send(&to_closed).expect("room");
        let mut alarm = Alarm::new(clock);
        let mut context = Context::from_waker(Waker::noop());
        while clock.now() < turns.read_at + UNREAD {}
        let _ = turns.poll(&mut context, &mut alarm);
        far.recv(&mut [0; 100]).expect("a reset");
    }
}
