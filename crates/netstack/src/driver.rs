//! Drives a host on a [`PacketIo`] from a task: the contract of `tautline-stack` with tokio's
//! readiness and timers. Its ring is in memory; packets leave it as fast as the device takes them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{fmt, io};

use atomic_waker::AtomicWaker;
use tautline_base::{Device, Frame, HeapFrame, Instant, Medium, Packet, Pool, Received};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Stats;
use tautline_rt::application::serve;
use tautline_rt::{ByWords, Clock, Next, Sockets, StackHandle};
use tautline_stack::{Host, NoTrace};
use tautline_tc::DynQdisc;
use tokio::time::{Sleep, sleep};

use crate::device::PacketIo;
use crate::settings::Settings;

/// The queueing discipline of every stack.
pub(crate) type Queue = Stats<Box<dyn DynQdisc<Packet<HeapFrame>>>>;

/// Room for a link header in a frame.
const LINK: usize = 18;
/// Packets in the ring.
const RING: usize = 256;
/// Frames received before the task lets others run.
const BATCH: usize = 64;
/// Turns before the task lets others run.
const TURNS: usize = 8;
/// Shorter waits than tokio's timers measure: the task yields instead.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The task or thread of a stack. Dropping it ends the stack.
pub enum Driver {
    Task(tokio::task::JoinHandle<()>),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Thread(Option<tautline_rt::HostThread>),
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task(_) => "Driver::Task",
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Thread(_) => "Driver::Thread",
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        match self {
            Self::Task(task) => task.abort(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // The error is the device's; no handle is left to report it to.
                    let _ = thread.stop();
                }
            }
        }
    }
}

/// A host on `device` with these settings.
pub(crate) fn host<D: Device<Frame = HeapFrame>>(device: D, settings: Settings) -> Host<Queue, D> {
    let len = device.mtu() + LINK;
    let pool = match device.tso() {
        Some(tso) => Pool::heap(settings.frames, Some(tso)),
        None => Pool::new(
            (0..settings.frames)
                .map(|_| HeapFrame::with_len(len))
                .collect(),
        ),
    };
    let ring = Ring::new(device, Dql::default());
    let mut host = Host::new(
        settings.host,
        Port::new(Stats::new(settings.qdisc), ring),
        pool,
        NoTrace,
    );
    host.set_limits(settings.limits);
    host
}

/// Starts a task that drives a host on `io`.
pub(crate) fn spawn<I: PacketIo>(io: I, settings: Settings) -> io::Result<(StackHandle, Driver)> {
    let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    let waker = Arc::new(TaskWaker::default());
    let config = settings.sockets.clone();
    let (handle, sockets) = StackHandle::new(config, Waker::from(Arc::clone(&waker)));
    let mut turns = Turns {
        host: host(MemoryRing::new(io.medium(), io.mtu()), settings),
        sockets: sockets.rebuilding(ByWords),
        io,
        clock: Clock::start(),
        has_begun: false,
    };
    let task = runtime.spawn(async move {
        let mut timer = pin!(sleep(Duration::ZERO));
        // An error is the end of the device: the handles report that the host is gone.
        let _ = poll_fn(|context| {
            waker.task.register(context.waker());
            turns.poll(context, timer.as_mut())
        })
        .await;
    });
    Ok((handle, Driver::Task(task)))
}

/// Wakes the task on behalf of the handles.
#[derive(Debug, Default)]
struct TaskWaker {
    task: AtomicWaker,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.task.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.task.wake();
    }
}

/// A host, its sockets and its device.
struct Turns<I> {
    host: Host<Queue, MemoryRing>,
    sockets: Sockets<ByWords>,
    io: I,
    clock: Clock,
    /// True once a socket has existed. Before that nothing is received: the SYN that arrives before
    /// the application listens would be refused.
    has_begun: bool,
}

impl<I: PacketIo> Turns<I> {
    /// Runs until nothing is left to do now. Ready once the device has ended.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        mut timer: Pin<&mut Sleep>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..TURNS {
            let received = if self.has_begun {
                self.receive(context)?
            } else {
                Some(0)
            };
            let now = self.clock.now();
            let _all = self.host.receive(now);
            let (wake, next) = serve(&mut self.host, &mut self.sockets, now);
            let mut is_busy = received == Some(BATCH);
            if !self.has_begun && self.host.socket_count() > 0 {
                (self.has_begun, is_busy) = (true, true);
            }
            is_busy |= self.transmit(context)?;
            if received.is_none() {
                return Poll::Ready(Ok(()));
            }
            let at = match next {
                Next::At(at) => Some(at),
                Next::Event | Next::Done => None,
            };
            let at = wake.map(|wake| wake.at).into_iter().chain(at).min();
            let wait = at.map(|at| at - self.clock.now());
            if is_busy || wait.is_some_and(|wait| wait.is_zero()) {
                continue;
            }
            match wait {
                None => return Poll::Pending,
                Some(wait) if wait < SHORTEST_SLEEP => break,
                Some(wait) => {
                    timer.set(sleep(wait));
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes up to a batch of frames from the device; `None` at its end.
    fn receive(&mut self, context: &mut Context<'_>) -> io::Result<Option<usize>> {
        let ring = self.host.device_mut();
        for taken in 0..BATCH {
            let mut frame = ring.spare_frame();
            match self.io.poll_recv(context, frame.bytes_mut()) {
                Poll::Ready(Ok(0)) => return Ok(None),
                Poll::Ready(Ok(len)) => {
                    let received = Received::new(frame, 0, len as u32);
                    ring.received.push_back(received);
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    ring.spare.push(frame);
                    return Ok(Some(taken));
                }
            }
        }
        Ok(Some(BATCH))
    }

    /// Writes the packets in the ring. True if the host has packets to complete.
    fn transmit(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let ring = self.host.device_mut();
        let mut has_written = false;
        while let Some(packet) = ring.waiting.front() {
            // A packet that the device refuses is lost, as on a wire; TCP sends it again.
            if self.io.poll_send(context, packet.bytes()).is_pending() {
                break;
            }
            has_written = true;
            ring.done.extend(ring.waiting.pop_front());
        }
        if let Poll::Ready(Err(error)) = self.io.poll_flush(context) {
            return Err(error);
        }
        Ok(has_written)
    }
}

/// A ring in memory between a host and its device.
struct MemoryRing {
    medium: Medium,
    mtu: usize,
    waiting: VecDeque<Packet<HeapFrame>>,
    done: Vec<Packet<HeapFrame>>,
    received: VecDeque<Received<HeapFrame>>,
    spare: Vec<HeapFrame>,
}

impl MemoryRing {
    fn new(medium: Medium, mtu: usize) -> Self {
        Self {
            medium,
            mtu,
            waiting: VecDeque::with_capacity(RING),
            done: Vec::with_capacity(RING),
            received: VecDeque::with_capacity(BATCH),
            spare: Vec::new(),
        }
    }

    /// A frame to receive into.
    fn spare_frame(&mut self) -> HeapFrame {
        let len = self.mtu + LINK;
        self.spare.pop().unwrap_or_else(|| HeapFrame::with_len(len))
    }
}

impl Device for MemoryRing {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn medium(&self) -> Medium {
        self.medium
    }

    fn room(&self) -> usize {
        RING - self.waiting.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        assert!(self.room() > 0, "put without room");
        self.waiting.push_back(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    /// The task polls the host after each write.
    fn announces_completions(&self) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        self.received.pop_front()
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.spare.push(frame);
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
        lost.extend(self.waiting.drain(..));
    }
}
