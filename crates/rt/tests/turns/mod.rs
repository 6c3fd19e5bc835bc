//! Hosts without threads: a test takes their turns, and counts the time.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tautline_base::{Device, HeapFrame, Instant, Packet, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{Pfifo, pfifo};
use tautline_rt::handle::Config;
use tautline_rt::{Application, Sockets, StackHandle};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};

/// A port of host 2.
pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), 80);
pub(crate) const START: Instant = Instant::from_secs(1);
/// The time after which tasks hang.
const LIMIT: Duration = Duration::from_secs(600);

/// Somebody was woken.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A host and its end of the sockets.
pub(crate) struct End<D: Device> {
    pub(crate) host: Host<Pfifo<Packet<D::Frame>>, D, NoTrace>,
    sockets: Sockets,
    pub(crate) wake: Option<Instant>,
}

/// Host `number` of 10.7.0.0/24.
pub(crate) fn identity(number: u8) -> HostConfig {
    HostConfig::new([2, 0, 0, 0, 0, number], u64::from(number))
        .address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24))
}

impl<D: Device<Frame = HeapFrame>> End<D> {
    pub(crate) fn new(
        identity: HostConfig,
        (device, pool): (D, Pool<HeapFrame>),
        config: Config,
        woken: &Arc<Flag>,
    ) -> (StackHandle, Self) {
        let qdisc = Pfifo::new(pfifo::Config::default());
        let port = Port::new(qdisc, Ring::new(device, Dql::default()));
        let (stack, sockets) = StackHandle::new(config, Waker::from(Arc::clone(woken)));
        let end = Self {
            host: Host::new(identity, port, pool, NoTrace),
            sockets,
            wake: None,
        };
        (stack, end)
    }

    /// One turn. True if something arrived or happened.
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        let received = self.host.receive(now);
        let mut events = 0;
        while let Some(event) = self.host.next_event() {
            self.sockets.on_event(&mut self.host, event, now);
            events += 1;
        }
        self.sockets.turn(&mut self.host, now);
        self.wake = self.host.poll(now).map(|wake| wake.at);
        received > 0 || events > 0
    }
}

/// Runs both tasks from `start` to their ends; returns the time then. `turn` takes a turn of both ends, and
/// is true if something arrived or happened.
pub(crate) fn run<D: Device>(
    ends: &mut [End<D>; 2],
    mut tasks: [Pin<&mut dyn Future<Output = io::Result<()>>>; 2],
    (woken, start): (&Arc<Flag>, Instant),
    mut turn: impl FnMut(&mut [End<D>; 2], Instant) -> bool,
) -> Instant {
    let (waker, mut now, mut done) = (Waker::from(Arc::clone(woken)), start, [false; 2]);
    loop {
        for (task, done) in tasks.iter_mut().zip(&mut done) {
            if !*done
                && let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&waker))
            {
                result.expect("the task succeeds");
                *done = true;
            }
        }
        if done == [true; 2] {
            return now;
        }
        if !turn(ends, now) && !woken.0.swap(false, Ordering::AcqRel) {
            // Nothing is left to do now: time jumps to the next thing there is.
            let next = ends.iter().filter_map(|end| end.wake).min();
            now = next.expect("a task waits for nothing").max(now);
            assert!(now - start < LIMIT, "the tasks hang");
        }
    }
}
