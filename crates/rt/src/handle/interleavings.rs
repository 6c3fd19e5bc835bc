//! Every interleaving of two threads, by loom: no wake and no byte is lost. Run by `scripts/prove`.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use loom::thread::{JoinHandle, spawn};
use tautline_base::SocketId;

use super::byte_queue::{Budget, ByteQueue, ends};
use super::notify::NotifyFlag;
use super::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use super::waiters::Waiters;

const SOCKET: SocketId = SocketId {
    index: 1,
    generation: std::num::NonZeroU32::MIN,
};

/// A socket with work, its flag and the queue of the host's thread.
#[derive(Default)]
struct Socket {
    work: AtomicUsize,
    flag: NotifyFlag,
    queue: Mutex<Vec<SocketId>>,
}

impl Socket {
    /// On an application's thread.
    fn add_work(&self) {
        self.work.fetch_add(1, Ordering::Release);
        if let Some(id) = self.flag.set() {
            self.queue.lock().expect("no panic").push(id);
        }
    }

    /// On the host's thread: serves the sockets in the queue; returns the work seen last.
    fn serve(&self) -> Option<usize> {
        let queued = std::mem::take(&mut *self.queue.lock().expect("no panic"));
        let served = queued.into_iter().map(|_| {
            self.flag.clear();
            self.work.load(Ordering::Acquire)
        });
        served.last()
    }
}

#[test]
fn work_is_never_left_without_a_notification() {
    loom::model(|| {
        let socket = Arc::new(Socket::default());
        socket.flag.set_socket(SOCKET);
        let threads = [(); 2].map(|()| {
            let socket = Arc::clone(&socket);
            spawn(move || socket.add_work())
        });
        let mut seen = socket.serve().unwrap_or(0);
        for thread in threads {
            thread.join().expect("no panic");
        }
        seen = socket.serve().unwrap_or(seen);
        assert_eq!(seen, 2);
    });
}

/// Work that comes before the host has named the socket is seen when it does, and later work is
/// notified.
#[test]
fn work_before_the_name_is_served_with_it() {
    loom::model(|| {
        let socket = Arc::new(Socket::default());
        let application = {
            let socket = Arc::clone(&socket);
            spawn(move || {
                socket.add_work();
                socket.add_work();
            })
        };
        // Loom does not see the cell of the name: without this the name would always come first.
        loom::thread::yield_now();
        socket.flag.set_socket(SOCKET);
        let seen = socket.work.load(Ordering::Acquire);
        application.join().expect("no panic");
        assert_eq!(socket.serve().unwrap_or(seen), 2);
    });
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A condition that another thread makes true, and announces.
#[derive(Default)]
struct Announced {
    waiters: Waiters,
    value: AtomicUsize,
}

impl Announced {
    fn announce(self: &Arc<Self>) -> JoinHandle<()> {
        let shared = Arc::clone(self);
        spawn(move || {
            shared.value.store(1, Ordering::Release);
            shared.waiters.wake();
        })
    }

    fn condition(&self) -> Option<()> {
        (self.value.load(Ordering::Acquire) == 1).then_some(())
    }
}

fn waker() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count(AtomicUsize::new(0)));
    (Arc::clone(&count), Waker::from(count))
}

#[test]
fn a_task_that_polls_is_woken() {
    loom::model(|| {
        let (shared, (count, waker)) = (Arc::new(Announced::default()), waker());
        let announcer = shared.announce();
        let context = Context::from_waker(&waker);
        let answer = shared.waiters.poll(&context, || shared.condition());
        announcer.join().expect("no panic");
        assert!(answer.is_ready() || count.0.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn a_task_in_the_list_is_woken() {
    loom::model(|| {
        let (shared, (count, waker)) = (Arc::new(Announced::default()), waker());
        let announcer = shared.announce();
        let mut future = pin!(shared.waiters.wait(|| shared.condition()));
        let answer = future.as_mut().poll(&mut Context::from_waker(&waker));
        announcer.join().expect("no panic");
        assert!(answer.is_ready() || count.0.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn bytes_pass_whole_and_in_order() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(1 << 20));
        let queue = Arc::new(ByteQueue::new(1000, &budget));
        let (mut sender, mut receiver) = ends(Arc::clone(&queue), queue);
        let writer = spawn(move || {
            assert_eq!(sender.push(&[1, 2, 3]), 3);
            assert_eq!(sender.push(&[4]), 1);
            sender
        });
        let mut out = [0; 8];
        let mut count = receiver.pop(&mut out[..2]);
        count += receiver.pop(&mut out[count..]);
        let sender = writer.join().expect("no panic");
        count += receiver.pop(&mut out[count..]);
        assert_eq!((count, &out[..4]), (4, &[1, 2, 3, 4][..]));
        assert!(receiver.is_empty() && !sender.has_unread());
        assert_eq!(budget.held(), 0);
    });
}

/// A host that sets the flag of a full ring, and still finds more than half of it unread, is notified.
#[test]
fn a_host_that_waits_for_half_of_a_ring_is_notified() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(1 << 20));
        let queue = Arc::new(ByteQueue::new(4, &budget));
        let (mut sender, mut receiver) = ends(Arc::clone(&queue), queue);
        assert_eq!(sender.push(&[1, 2, 3]), 3);
        let full = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&full);
        let reader = spawn(move || {
            let reads = [(); 3].map(|()| {
                assert_eq!(receiver.pop(&mut [0]), 1);
                receiver.is_half_empty() && flag.swap(false, Ordering::AcqRel)
            });
            reads.contains(&true)
        });
        full.swap(true, Ordering::AcqRel);
        let waits = !sender.is_half_empty();
        let is_notified = reader.join().expect("no panic");
        assert!(is_notified || !waits);
    });
}

/// Everything that an end wrote before it was dropped can be read once that is seen.
#[test]
fn bytes_before_the_end_are_seen_with_it() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(1 << 20));
        let queue = Arc::new(ByteQueue::new(1000, &budget));
        let (mut sender, mut receiver) = ends(Arc::clone(&queue), queue);
        let writer = spawn(move || assert_eq!(sender.push(&[1, 2, 3]), 3));
        let is_over = receiver.is_abandoned();
        let count = receiver.pop(&mut [0; 8]);
        assert!(count == 3 || !is_over, "{count} bytes before the end");
        writer.join().expect("no panic");
        assert!(receiver.is_abandoned());
    });
}
