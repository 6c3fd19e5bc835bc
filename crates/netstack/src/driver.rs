//! Drives a host on a [`PacketIo`] from a task: the contract of `tautline-stack` with tokio's
//! readiness and timers. Its ring is in memory; packets leave it as fast as the device takes them.

use std::collections::VecDeque;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use tautline_base::{Device, Frame, HeapFrame, Instant, Medium, Packet, Pool, Received};
use tautline_bql::{Dql, Port, Ring};
use tautline_offload::SoftwareOffload;
use tautline_qdisc::Stats;
#[cfg(any(target_os = "linux", target_os = "android"))]
use tautline_rt::frame_device::ReadError;
use tautline_rt::{Clock, StackHandle};
use tautline_stack::{Host, NoTrace};

use crate::alarm::{Alarm, Rest};
use crate::device::PacketIo;
use crate::served::Served;
use crate::settings::{Queue, Settings};
use crate::start::Start;
use crate::task::{Outcome, StackTask, TaskWaker, Turns, spawn_task};

/// Room for a link header in a frame.
const LINK: usize = 18;
/// Packets in the ring.
const RING: usize = 256;
/// Ordinary frames for each large one.
const FRAMES_PER_LARGE: usize = 8;
/// Frames received before the task lets others run.
const BATCH: usize = 64;
/// Time that a thread has for what dropped streams have left when its stack is dropped.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LAST_DELIVERY: Duration = Duration::from_secs(1);
/// Time after which the task lets others run, such as those that wait for what it has received.
pub(crate) const SLICE: Duration = Duration::from_micros(50);

/// The task or thread of a stack. Dropping it ends the stack. It waits for a thread, which takes little more
/// than the second that [`HostThread::stop`](tautline_rt::HostThread::stop) gives what is left to deliver.
pub struct Driver {
    running: Running,
    /// Set once the task or thread has ended.
    outcome: Arc<OnceLock<Outcome>>,
    /// Why an interface has ended that was not removed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    read_error: Option<Arc<OnceLock<ReadError>>>,
}

enum Running {
    Task(tokio::task::JoinHandle<()>, Arc<TaskWaker>),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Thread(Mutex<Option<tautline_rt::HostThread>>),
}

impl Driver {
    pub(crate) fn of_task(task: StackTask) -> Self {
        Self {
            running: Running::Task(task.task, task.waker),
            outcome: task.outcome,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            read_error: None,
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn of_thread(thread: tautline_rt::HostThread) -> Self {
        Self {
            running: Running::Thread(Mutex::new(Some(thread))),
            outcome: Arc::default(),
            read_error: None,
        }
    }

    /// The device sets `read_error` if it ends for that reason.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn with_read_error(mut self, read_error: Option<Arc<OnceLock<ReadError>>>) -> Self {
        self.read_error = read_error;
        self
    }

    /// Ends the stack and waits until its device is closed. A thread has `limit` for what is left to
    /// deliver.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        expect(unused_variables, reason = "there are no threads")
    )]
    pub(crate) async fn stop(&mut self, limit: Duration) {
        match &mut self.running {
            Running::Task(task, waker) => {
                waker.stop();
                // A panic has printed its message.
                let _ = task.await;
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Running::Thread(thread) => {
                let thread = thread.get_mut().unwrap_or_else(PoisonError::into_inner);
                let thread = thread.take();
                let stop = move || drop(thread.map(|thread| end(thread, limit)));
                let _ = tokio::task::spawn_blocking(stop).await;
            }
        }
    }

    /// How the stack has ended, after its host has.
    pub(crate) fn outcome(&self) -> io::Result<()> {
        let outcome = self.outcome.get_or_init(|| match &self.running {
            Running::Task(..) => Err(Arc::new(panicked())),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Running::Thread(thread) => {
                let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                let ended = thread.map_or(Ok(()), |thread| end(thread, LAST_DELIVERY));
                ended.map_err(Arc::new)
            }
        });
        outcome
            .clone()
            .map_err(|error| io::Error::new(error.kind(), error))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(error) = self.read_error.as_ref().and_then(|error| error.get()) {
            return Err((*error).into());
        }
        Ok(())
    }
}

/// The task or thread has not returned an outcome; its message has been printed.
fn panicked() -> io::Error {
    io::Error::other("the stack has panicked")
}

/// Ends a thread and returns how it has ended.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn end(thread: tautline_rt::HostThread, limit: Duration) -> io::Result<()> {
    // A panic of the thread has printed its message and ends with it, as that of a task does: in a
    // destructor it would abort a program that is unwinding.
    match catch_unwind(AssertUnwindSafe(|| thread.stop_within(limit))) {
        Ok(ended) => ended.map(|_| ()),
        Err(_) => Err(panicked()),
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.running {
            Running::Task(..) => "Driver::Task",
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Running::Thread(_) => "Driver::Thread",
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        match &mut self.running {
            Running::Task(_, waker) => waker.stop(),
            // The error is the device's; nobody is left to report it to.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Running::Thread(thread) => {
                let thread = thread.get_mut().unwrap_or_else(PoisonError::into_inner);
                drop(thread.take().map(|thread| end(thread, LAST_DELIVERY)));
            }
        }
    }
}

/// A host on `device` with these settings.
pub(crate) fn host<D: Device<Frame = HeapFrame>>(device: D, settings: Settings) -> Host<Queue, D> {
    let pool = frames(settings.frames, device.mtu());
    let pool = match device.tso() {
        Some(tso) => pool.with_large(
            (0..(settings.frames / FRAMES_PER_LARGE).max(1))
                .map(|_| HeapFrame::with_len(tso.frame_len()))
                .collect(),
        ),
        None => pool,
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

/// `count` frames for packets of up to `mtu` bytes.
fn frames(count: usize, mtu: usize) -> Pool<HeapFrame> {
    let len = (mtu + LINK).max(HeapFrame::LEN);
    Pool::new((0..count).map(|_| HeapFrame::with_len(len)).collect())
}

/// Lets a host above `device`, which carries single segments, send and receive many at once. They
/// are cut into a burst of one flow: the kernel wakes its reader once for them.
pub(crate) fn offloaded<D: Device<Frame = HeapFrame>>(device: D) -> SoftwareOffload<D> {
    let frames = frames(RING, device.mtu());
    SoftwareOffload::new(device, frames, tautline_offload::Config::default())
}

/// Starts a task that drives a host on `io`.
pub(crate) fn spawn<I: PacketIo>(io: I, settings: Settings) -> io::Result<(StackHandle, Driver)> {
    let config = settings.sockets.clone();
    let (handle, task) = spawn_task(config, |sockets, clock| {
        let start = Arc::clone(&settings.start);
        let device = offloaded(MemoryRing::new(io.medium(), io.mtu()));
        Ok(PacketTurns {
            start,
            served: Served::new(host(device, settings), sockets),
            io,
            clock,
            has_begun: false,
        })
    })?;
    Ok((handle, Driver::of_task(task)))
}

/// A host, its sockets and its device.
struct PacketTurns<I> {
    served: Served<SoftwareOffload<MemoryRing>>,
    io: I,
    clock: Clock,
    start: Arc<Start>,
    /// Nothing is received before, nor after the device has ended.
    has_begun: bool,
}

impl<I: PacketIo> Turns for PacketTurns<I> {
    fn poll(&mut self, context: &mut Context<'_>, alarm: &mut Alarm) -> Poll<io::Result<()>> {
        let mut now = self.clock.now();
        let end = now + SLICE;
        while now < end {
            let received = if self.has_begun {
                self.receive(context)?
            } else {
                Some(0)
            };
            now = self.clock.now();
            let _all = self.served.host.receive(now);
            let at = self.served.turn(now);
            let mut is_busy = received == Some(BATCH);
            let sockets = self.served.host.socket_count();
            if !self.has_begun && self.start.may_begin(sockets, context) {
                (self.has_begun, is_busy) = (true, true);
            }
            is_busy |= self.transmit(context)?;
            if received.is_none() {
                self.has_begun = false;
                return Poll::Ready(Ok(()));
            }
            if is_busy {
                continue;
            }
            if self.served.is_done(at, now) {
                return Poll::Ready(Ok(()));
            }
            match alarm.rest(at, context) {
                Rest::Again => {}
                Rest::Yield => break,
                Rest::Sleep => return Poll::Pending,
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn end(&mut self) {
        self.served.end(self.clock.now());
    }

    fn flush(&mut self, context: &mut Context<'_>) -> bool {
        let now = self.clock.now();
        let at = self.served.turn(now);
        let may_go_on = matches!(self.transmit(context), Ok(true));
        may_go_on && !self.served.is_done(at, now)
    }
}

impl<I: PacketIo> PacketTurns<I> {
    /// Takes up to a batch of frames from the device; `None` at its end.
    fn receive(&mut self, context: &mut Context<'_>) -> io::Result<Option<usize>> {
        let ring = self.served.host.device_mut().inner_mut();
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
        let ring = self.served.host.device_mut().inner_mut();
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tautline_rt::handle::{Config, Failure, Rebuild};
    use tautline_rt::{HostThread, Idle, cable};
    use tautline_stack::{HostConfig, Limits};
    use tautline_tc::Tree;

    use super::*;

    /// Panics on the host's thread.
    struct Faulty;

    impl Rebuild<Queue> for Faulty {
        fn rebuild(&mut self, _tree: &Tree) -> Result<Queue, Failure> {
            panic!("a fault of the test");
        }
    }

    fn settings() -> Settings {
        let qdisc: Tree = "pfifo".parse().expect("words of tc");
        Settings {
            host: HostConfig::new([2, 0, 0, 0, 0, 1], 1),
            qdisc: qdisc.build().expect("defaults"),
            sockets: Config::default(),
            limits: Limits::default(),
            frames: 64,
            start: Arc::default(),
        }
    }

    #[tokio::test]
    async fn a_stack_whose_thread_has_panicked_is_dropped_in_silence() {
        let (thread, handle) =
            HostThread::spawn_with(Config::default(), Idle::Sleep, Faulty, || {
                let [device, _other] = cable()?;
                Ok(host(device, settings()))
            })
            .expect("a thread");
        handle
            .set_qdisc("pfifo")
            .await
            .expect_err("the thread is gone");
        let driver = Driver::of_thread(thread);
        let outcome = driver.outcome().expect_err("a panic");
        assert_eq!(outcome.to_string(), "the stack has panicked");
        drop(driver);
    }
}
