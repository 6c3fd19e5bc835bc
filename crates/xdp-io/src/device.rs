//! [`XdpDevice`]: one queue of an interface as a [`Device`].

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::XdpOptionsFlags;
use tautline_base::headers::ETHERNET_HEADER;
use tautline_base::{Device, Frame, Instant, Packet, Received};
use xsk_rs::config::BindFlags;

use crate::attach::Attachment;
use crate::config::{Bind, Config, CopyReason, Mode};
use crate::doorbell::Doorbell;
use crate::error::{Failure, OpenError};
use crate::interface::{Carriage, is_running, queues_or_one};
use crate::memory::{Memory, register_umem, ring_for};
use crate::rings::{Binding, BoundSocket, Rings, bind};
use crate::statistics::{Counters, Kernel, Statistics};
use crate::umem::{Umem, UmemFrame, chunks_for};
use crate::watchdog::Watchdog;
use crate::{retry, sys};

/// Most packets sent per wake of a copying socket; the kernel's default is 32.
const WAKE_BUDGET: u32 = 256;

/// Polls and pauses of a reset that waits for the kernel to return packets.
const RESET_TRIES: usize = 20;
const RESET_PAUSE: Duration = Duration::from_millis(1);

/// Time between two wakes after a failed one.
const BACK_OFF: Duration = Duration::from_millis(10);

/// An AF_XDP socket on one queue, with its rings and its UMEM, which it may share with one other.
///
/// Packets use frames of that UMEM; [`put`](Device::put) panics on any other. Dropping the device
/// detaches its XDP program at once; the queue is free again when all frames of the UMEM are dropped too,
/// and the other device if one shares it.
#[derive(Debug)]
pub struct XdpDevice {
    // Dropped first: the kernel receives its traffic again before the socket closes.
    attachment: Arc<Attachment>,
    rings: Rings,
    doorbell: Doorbell,
    failure: Option<Failure>,
    /// No wake before: the last one failed.
    wake_at: Instant,
    watchdog: Watchdog,
    /// Packets put that are too short for the kernel to send.
    runts: Vec<Packet<UmemFrame>>,
    /// Frames for packets in frames of the device that this one replaced.
    spare: Vec<UmemFrame>,
    mtu: usize,
    mode: Mode,
    copy_reason: Option<CopyReason>,
}

impl XdpDevice {
    /// Opens queue `config.queue` of an interface and attaches the XDP program to it.
    ///
    /// Returns the `config.transmit_frames` frames for sending, for a
    /// [`Pool`](tautline_base::Pool). The frames for receiving stay in the device.
    ///
    /// # Errors
    /// [`OpenError`], each with its remedy. A busy interface is retried for a second.
    pub fn open(config: Config) -> Result<(Self, Vec<UmemFrame>), OpenError> {
        config.check()?;
        let attachment = Attachment::carrying(&config, 0)?;
        Self::open_on(Arc::new(attachment), config)
    }

    /// Like [`open`](Self::open), for another queue of an interface with a program: one attachment
    /// serves all queues. Ignores `config.take` and `config.driver`, which the attachment has set.
    ///
    /// # Errors
    /// [`OpenError`]; also if the attachment is of another interface than `config.interface`.
    pub fn open_on(
        attachment: Arc<Attachment>,
        config: Config,
    ) -> Result<(Self, Vec<UmemFrame>), OpenError> {
        Self::open_holding(attachment, config, 0)
    }

    /// Like [`open_on`](Self::open_on), with frames for an MTU of `least` bytes at least.
    pub(crate) fn open_holding(
        attachment: Arc<Attachment>,
        config: Config,
        least: usize,
    ) -> Result<(Self, Vec<UmemFrame>), OpenError> {
        config.check()?;
        let carriage = attachment.carriage(&config, least)?;
        let [memory] = register_umem([&config], carriage)?;
        Self::bind(attachment, config, carriage, memory)
    }

    /// Binds a socket to the queue, on memory for `carriage`.
    pub(crate) fn bind(
        attachment: Arc<Attachment>,
        config: Config,
        carriage: Carriage,
        memory: Memory,
    ) -> Result<(Self, Vec<UmemFrame>), OpenError> {
        let Memory {
            umem,
            frames,
            is_first,
        } = memory;
        let native = attachment.native();
        let copying = CopyReason::before_bind(config.bind, native, carriage.mtu);
        let socket = bind_patiently(&umem, &config, carriage, native, copying)?;
        let mut rings = Rings::new(socket, umem, is_first, frames.assembly);
        let receive = frames.receive.into_iter();
        receive.for_each(|frame| rings.recycle(frame));
        rings.refill();
        attachment.serve(config.queue, rings.fd())?;
        let mode = Mode {
            native,
            zero_copy: is_zero_copy(rings.fd()),
        };
        // Kernels before 6.17 refuse the option and send 32 packets a wake; the doorbell handles
        // both.
        let _ = sys::set_wake_budget(rings.fd(), WAKE_BUDGET.min(config.transmit_ring));
        let device = Self {
            attachment,
            rings,
            doorbell: Doorbell::default(),
            failure: None,
            wake_at: Instant::ZERO,
            watchdog: Watchdog::default(),
            runts: Vec::new(),
            spare: Vec::new(),
            mtu: carriage.mtu,
            mode,
            copy_reason: (!mode.zero_copy).then(|| copying.unwrap_or(CopyReason::Driver)),
        };
        Ok((device, frames.transmit))
    }

    /// The mode in which the kernel bound the socket.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The reason why packets are copied; `None` in zero copy.
    pub fn copy_reason(&self) -> Option<CopyReason> {
        self.copy_reason
    }

    /// The socket, for `poll(2)`: readable after frames were received. [`failure`](Self::failure)
    /// explains an error condition on it.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.rings.fd()
    }

    /// The reason why the device does not send; `None` if it does. A system call, unless the last
    /// doorbell failed; some more while packets wait or the link was down at the last wake. The state of
    /// the link is as seen from the network namespace of the calling thread.
    pub fn failure(&mut self) -> Option<Failure> {
        // The removal of an interface begins with its link going down.
        if matches!(self.failure, None | Some(Failure::LinkDown))
            && let Ok(Err(error)) = sockopt::socket_error(self.rings.fd())
        {
            // A socket has an error of its own only after its interface was removed.
            self.failure = Some(if error == Errno::NETDOWN {
                Failure::Removed
            } else {
                failure_of(error)
            });
        }
        // A device that only receives wakes nobody, and would never find out.
        if self.failure == Some(Failure::LinkDown) && self.is_running() {
            self.failure = None;
        }
        if self.failure.is_none() && self.has_stalled() {
            return Some(Failure::Stalled);
        }
        self.failure
    }

    /// Takes the place of a closed device: each packet in a frame of that one is copied into one of
    /// `frames`, which then circulates in its place.
    pub(crate) fn succeed(&mut self, frames: Vec<UmemFrame>) {
        self.spare = frames;
        self.watchdog = Watchdog::successor();
    }

    /// True if this replaces a device of the same queue, and the driver has completed nothing since.
    pub(crate) fn succeeds_in_vain(&self) -> bool {
        self.watchdog.succeeds_in_vain()
    }

    /// Appends every packet to `lost` and closes the socket, though frames are outside. Returns its last
    /// counters.
    pub(crate) fn close(mut self, lost: &mut Vec<Packet<UmemFrame>>) -> Statistics {
        self.reset(lost);
        let statistics = self.statistics();
        // It can fail only for want of descriptors; then the queue is free once no frame is left outside.
        let _ = self.rings.close();
        statistics
    }

    fn has_stalled(&mut self) -> bool {
        if self.rings.in_flight() == 0 {
            return false;
        }
        let Self {
            attachment,
            watchdog,
            ..
        } = self;
        watchdog.has_stalled(|| is_running(&attachment.current_name()))
    }

    fn is_running(&self) -> bool {
        is_running(&self.interface())
    }

    /// The name of its interface now.
    pub(crate) fn interface(&self) -> String {
        self.attachment.current_name()
    }

    /// True if `frame` belongs to the UMEM of this device.
    pub(crate) fn owns(&self, frame: &UmemFrame) -> bool {
        self.rings.owns(frame)
    }

    /// The counters of the device.
    pub(crate) fn counters(&self) -> Counters {
        self.rings.counters
    }

    /// The counters of the device and the kernel. One system call.
    pub fn statistics(&self) -> Statistics {
        let kernel = sockopt::xdp_statistics(self.rings.fd())
            .ok()
            .map(|s| Kernel {
                receive_dropped: s.rx_dropped,
                receive_ring_full: s.rx_ring_full.unwrap_or(0),
                fill_ring_empty: s.rx_fill_ring_empty_descs.unwrap_or(0),
                fill_invalid: s.rx_invalid_descs,
                transmit_invalid: s.tx_invalid_descs,
                transmit_ring_empty: s.tx_ring_empty_descs.unwrap_or(0),
            });
        Statistics {
            device: self.rings.counters,
            kernel,
        }
    }

    /// Wakes the kernel for the packets in the transmit ring, if it sleeps. A copying socket sends only when it is
    /// woken, but before Linux 6.0 the second socket on a UMEM does not say that it sleeps.
    fn wake(&mut self) {
        if self.mode.zero_copy && !self.rings.transmit_sleeps() {
            self.doorbell.silence();
            return;
        }
        let Self {
            rings,
            doorbell,
            failure,
            ..
        } = self;
        *failure = doorbell.ring(|| rings.wake()).err().map(failure_of);
        rings.counters.unfinished += u64::from(doorbell.unfinished());
    }

    /// [`wake`](Self::wake), but after a failure only every [`BACK_OFF`]: a link that is down refuses
    /// each.
    fn wake_patiently(&mut self, now: Instant) {
        if self.failure.is_none() || now >= self.wake_at {
            self.wake();
            self.wake_at = now + BACK_OFF;
        }
    }
}

impl Device for XdpDevice {
    type Frame = UmemFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    /// Those of its UMEM; none while the kernel may still send what a [`reset`](Device::reset) has returned, so
    /// that no such frame goes to another device in exchange.
    fn accepts(&self, frame: &UmemFrame) -> bool {
        self.rings.owns(frame) && !self.rings.has_late()
    }

    /// As of the last doorbell or reap.
    fn room(&self) -> usize {
        self.rings.room()
    }

    fn put(&mut self, mut packet: Packet<UmemFrame>, now: Instant) {
        assert!(self.rings.room() > 0, "put without room");
        if !self.spare.is_empty()
            && !self.rings.owns(packet.frame())
            && let Some(mut frame) = self.spare.pop()
        {
            let bytes = packet.bytes();
            frame.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            packet.replace_frame(frame);
        }
        if self.rings.in_flight() == 0 {
            self.watchdog.restart(now);
        }
        // The kernel refuses empty descriptors without completing them.
        if packet.bytes().len() < ETHERNET_HEADER {
            self.rings.counters.runts += 1;
            self.runts.push(packet);
            return;
        }
        self.rings.stage(packet);
    }

    fn doorbell(&mut self, now: Instant) {
        self.rings.submit();
        self.wake_patiently(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<UmemFrame>>) {
        let waits = self.rings.in_flight() > 0;
        if (waits && self.watchdog.nudges(now)) || self.doorbell.unfinished() {
            self.wake_patiently(now);
        }
        let before = self.rings.counters.completed;
        done.append(&mut self.runts);
        self.rings.reap(done);
        self.watchdog
            .reaped(self.rings.counters.completed - before, now);
        if self.failure.is_some() {
            self.watchdog.restart(now);
        }
    }

    fn in_flight(&self) -> usize {
        self.rings.in_flight() + self.runts.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<UmemFrame>> {
        self.rings
            .receive()
            .map(|(frame, start, len)| Received::new(frame, start, len))
    }

    fn recycle(&mut self, frame: UmemFrame) {
        self.rings.recycle(frame);
    }

    /// `poll(2)` reports nothing on the socket of a removed interface, so its pending error is
    /// queried.
    fn is_gone(&mut self) -> bool {
        matches!(self.failure(), Some(Failure::Removed | Failure::Stalled))
    }

    /// Waits up to 20 ms for the kernel to return packets. Packets that it keeps longer are returned
    /// too; there is then no [`room`](Device::room) until the kernel has completed them, so that no
    /// chunk is sent twice.
    fn reset(&mut self, lost: &mut Vec<Packet<UmemFrame>>) {
        lost.append(&mut self.runts);
        self.wake_at = Instant::ZERO;
        self.rings.unstage(lost);
        for _ in 0..RESET_TRIES {
            self.wake();
            self.rings.reap(lost);
            if self.rings.in_flight() == 0 || self.failure.is_some() {
                break;
            }
            retry::pause(RESET_PAUSE);
        }
        self.rings.abandon(lost);
    }
}

impl AsFd for XdpDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll_fd()
    }
}

pub(crate) fn bind_patiently(
    umem: &Umem,
    config: &Config,
    carriage: Carriage,
    native: bool,
    copying: Option<CopyReason>,
) -> Result<BoundSocket, OpenError> {
    let copying = match (config.bind, copying) {
        (Bind::ZeroCopy, _) if !native => {
            return Err(OpenError::Unsupported {
                interface: config.interface.clone(),
                what: "zero copy in the generic hook",
                instead: "Driver::Native, Bind::Auto or Bind::Copy",
            });
        }
        (Bind::ZeroCopy, _) => BindFlags::XDP_ZEROCOPY,
        (_, None) => BindFlags::empty(),
        (_, Some(_)) => BindFlags::XDP_COPY,
    };
    let spanning = if carriage.spans_chunks {
        BindFlags::XDP_USE_SG
    } else {
        BindFlags::empty()
    };
    let chunks = chunks_for(carriage.held) as u32;
    let binding = Binding {
        interface: &config.interface,
        queue: config.queue,
        transmit_ring: ring_for(config.transmit_ring, chunks),
        receive_ring: ring_for(config.receive_ring, chunks),
        flags: copying | spanning | BindFlags::XDP_USE_NEED_WAKEUP,
    };
    retry::while_busy(|| bind(umem, binding)).map_err(|error| bind_error(config, carriage, error))
}

fn bind_error(config: &Config, carriage: Carriage, error: Errno) -> OpenError {
    let interface = config.interface.clone();
    match error {
        Errno::BUSY => OpenError::Busy {
            interface,
            waited: retry::PATIENCE,
        },
        Errno::INVAL if config.queue >= queues_or_one(&interface) => OpenError::NoSuchQueue {
            queues: queues_or_one(&interface),
            interface,
            queue: config.queue,
        },
        Errno::NETDOWN => OpenError::InterfaceDown { interface },
        Errno::NODEV => OpenError::NoSuchInterface { interface },
        // Kernels before 6.6 do not know the flag; most drivers have one buffer per packet in zero copy.
        Errno::INVAL | Errno::OPNOTSUPP if carriage.spans_chunks => carriage.refused(&interface),
        Errno::OPNOTSUPP => OpenError::Unsupported {
            interface,
            what: "zero copy",
            instead: "Bind::Auto or Bind::Copy",
        },
        Errno::PERM => OpenError::NoPermission {
            doing: "bind an AF_XDP socket",
            capability: "CAP_NET_RAW",
        },
        error if config.bind == Bind::ZeroCopy => OpenError::Refused {
            interface,
            what: "zero copy on this queue",
            source: error.into(),
            remedy: "ask for Bind::Auto or Bind::Copy",
        },
        error => OpenError::os("bind the AF_XDP socket", error),
    }
}

fn is_zero_copy(socket: BorrowedFd<'_>) -> bool {
    sockopt::xdp_options(socket)
        .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
}

/// A permanent failure to send. ENXIO is an unbound socket, which only the removal of its interface
/// causes.
fn failure_of(error: Errno) -> Failure {
    match error {
        Errno::NETDOWN => Failure::LinkDown,
        Errno::NXIO | Errno::NODEV => Failure::Removed,
        error => Failure::Os(error.raw_os_error()),
    }
}
