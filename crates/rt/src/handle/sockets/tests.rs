//! The host's memory of its handles.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tautline_base::Pool;
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{Pfifo, pfifo};
use tautline_stack::{HostConfig, NoTrace};

use super::*;
use crate::handle::{Config, StackHandle};

/// A program that waits for the end and for other things asks again after each of them.
#[test]
fn the_host_keeps_nothing_for_those_who_no_longer_wait_for_its_end() {
    let [device, _other] = crate::cable().expect("descriptors");
    let ring = Ring::new(device, Dql::default());
    let port = Port::new(Pfifo::new(pfifo::Config::default()), ring);
    let config = HostConfig::new([2, 0, 0, 0, 0, 1], 1);
    let mut host = Host::new(config, port, Pool::heap(16, None), NoTrace);
    let (handle, mut sockets) = StackHandle::new(Config::default(), Waker::noop().clone());
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting = pin!(handle.ended());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    for _ in 0..10 {
        let asked = pin!(handle.ended()).poll(&mut context);
        assert!(asked.is_pending());
        let _ = sockets.turn(&mut host, Instant::ZERO);
    }
    // The one that waits, and the last of the others until the next asks.
    assert_eq!(sockets.ends.len(), 2);
    drop(sockets);
    assert_eq!(waiting.poll(&mut context), Poll::Ready(()));
}
