//! The task of a stack lets others run while its device has packets without end.
#![cfg(target_os = "linux")]

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tautline_base::{HeapFrame, Instant, Medium, Packet, Received};
use tautline_netstack::device::{Device, Nic, PacketIo};
use tautline_netstack::{Cidr, Netstack};
use tautline_rt::Clock;

/// Frames that a task takes at once.
const BATCH: usize = 64;
/// Longer than the task runs at a time, for a batch.
const TIME_OF_FRAME: Duration = Duration::from_micros(2);
/// Frames until the device is empty: a task that does not let others run ends then.
const FRAMES: usize = 100_000;

/// A device that has frames without end, each of which takes its time.
struct Endless {
    clock: Clock,
    taken: Arc<AtomicUsize>,
    /// Never readable.
    socket: UnixDatagram,
}

impl Endless {
    fn new(taken: &Arc<AtomicUsize>) -> Self {
        Self {
            clock: Clock::start(),
            taken: Arc::clone(taken),
            socket: UnixDatagram::unbound().expect("a descriptor"),
        }
    }

    /// False once it is empty.
    fn take(&self) -> bool {
        let begun = self.clock.now();
        while self.clock.now() < begun + TIME_OF_FRAME {}
        self.taken.fetch_add(1, Ordering::Relaxed) < FRAMES
    }
}

impl PacketIo for Endless {
    fn mtu(&self) -> usize {
        1500
    }

    fn poll_recv(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.take() {
            Poll::Ready(Ok(60))
        } else {
            Poll::Pending
        }
    }

    fn poll_send(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The same as a device of `tautline-rt`.
struct EndlessNic(Endless);

impl AsFd for EndlessNic {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

impl tautline_base::Device for EndlessNic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn medium(&self) -> Medium {
        Medium::Ip
    }

    fn room(&self) -> usize {
        0
    }

    fn put(&mut self, _: Packet<HeapFrame>, _now: Instant) {}

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, _: &mut Vec<Packet<HeapFrame>>) {}

    fn in_flight(&self) -> usize {
        0
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        let frame = HeapFrame::new();
        self.0.take().then(|| Received::new(frame, 0, 60))
    }

    fn recycle(&mut self, _: HeapFrame) {}

    fn reset(&mut self, _: &mut Vec<Packet<HeapFrame>>) {}
}

/// Goes to the end of the run queue. tokio's `yield_now` waits longer, for a poll of the driver.
async fn let_others_run() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn others_run_between_batches(device: impl Device, taken: Arc<AtomicUsize>) {
    let builder = Netstack::builder(device).address(Cidr::new([10, 9, 0, 1], 24));
    let stack = builder.build().expect("a runtime");
    let hold = stack.hold();
    let _incoming = stack.tcp_incoming().await.expect("the first");
    assert_eq!(taken.load(Ordering::Relaxed), 0, "it has not begun");
    drop(hold);
    for _ in 0..20 {
        let before = taken.load(Ordering::Relaxed);
        let_others_run().await;
        // A slice may end with the batch that has begun in it; the runtime may give the task two turns.
        let meanwhile = taken.load(Ordering::Relaxed) - before;
        assert!(meanwhile <= 4 * BATCH, "{meanwhile} frames");
    }
    assert!(
        taken.load(Ordering::Relaxed) >= BATCH,
        "nothing was received"
    );
}

#[tokio::test]
async fn a_stack_whose_device_is_never_empty_lets_others_run() {
    let [one, other] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let device = Endless::new(&one);
    // The runtime runs its main future less often than its tasks.
    let first = tokio::spawn(others_run_between_batches(device, one));
    first.await.expect("no panic");
    let device = Nic::new(EndlessNic(Endless::new(&other)));
    let second = tokio::spawn(others_run_between_batches(device, other));
    second.await.expect("no panic");
}
