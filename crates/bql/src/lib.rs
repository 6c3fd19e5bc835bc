//! The limited device ring: dynamic queue limits, and the ring behind them.
//!
//! A ring that is always full adds its whole length to every packet's delay; a ring that runs dry
//! wastes the link. Dynamic queue limits ([`Dql`], the algorithm behind Linux's byte queue limits)
//! find the least number of bytes that keeps the link busy, from the sizes of queued and completed
//! packets alone.
//!
//! Use [`Dql`] alone in a driver; [`Ring`] under a scheduler of your own; [`Port`] for the whole
//! transmit path: any [`Qdisc`](tautline_base::Qdisc), limit, ring.
//!
//! ```
//! use tautline_base::{Bytes, Instant};
//! use tautline_bql::{Dql, Limit};
//!
//! let now = Instant::ZERO;
//! let mut dql = Dql::default();
//! while dql.available(now) {
//!     dql.queued(Bytes::new(1514), now); // one packet goes to the hardware ...
//! }
//! dql.completed(dql.in_flight(), now); // ... and it ran dry,
//! assert_eq!(dql.limit(), Bytes::new(1514)); // so that next time two may be in flight
//! ```
//!
//! # A ring of your own
//! [`Ring`] and [`Port`] drive any [`Device`](tautline_base::Device). One that only sends receives nothing:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::time::Duration;
//! use tautline_base::{Device, Drops, HeapFrame, Instant, Item, Packet, Rate, Received};
//! use tautline_bql::{Dql, Limit, Port, Ring};
//! use tautline_qdisc::{FqCodel, fq_codel::Config};
//!
//! /// 256 descriptors in front of a wire of 100 Mbit/s, each with the time of its completion.
//! #[derive(Default)]
//! struct MyRing {
//!     descriptors: VecDeque<(Packet<HeapFrame>, Instant)>,
//!     busy_until: Instant,
//! }
//!
//! impl Device for MyRing {
//!     type Frame = HeapFrame;
//!
//!     fn mtu(&self) -> usize { 1500 }
//!     fn room(&self) -> usize { 256 - self.descriptors.len() }
//!     fn in_flight(&self) -> usize { self.descriptors.len() }
//!     fn doorbell(&mut self, _now: Instant) {} // `put` has told the wire already
//!
//!     fn put(&mut self, packet: Packet<HeapFrame>, now: Instant) {
//!         self.busy_until = self.busy_until.max(now) + packet.len() / Rate::mbit(100);
//!         self.descriptors.push_back((packet, self.busy_until));
//!     }
//!
//!     fn reap(&mut self, now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
//!         let is_done = |(_, at): &(_, Instant)| *at <= now;
//!         while self.descriptors.front().is_some_and(is_done) {
//!             done.extend(self.descriptors.pop_front().map(|(packet, _)| packet));
//!         }
//!     }
//!
//!     fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> { None }
//!     fn recycle(&mut self, _frame: HeapFrame) {}
//!
//!     fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
//!         lost.extend(self.descriptors.drain(..).map(|(packet, _)| packet));
//!     }
//! }
//!
//! let ring = Ring::new(MyRing::default(), Dql::default());
//! let mut port = Port::new(FqCodel::new(Config::default())?, ring);
//! let (mut now, mut drops, mut done) = (Instant::from_secs(1), Drops::new(), Vec::new());
//! for _ in 0..2000 { // an interrupt every 500 us
//!     while port.backlog().packets < 100 {
//!         port.enqueue(Packet::new(HeapFrame::new(), 1514), now, &mut drops);
//!     }
//!     port.transmit(now, 64, &mut drops, |_| {});
//!     now += Duration::from_micros(500);
//!     port.reap(now, &mut done); // all completions of an interrupt at once: one batch for the limit
//!     done.clear(); // reuse the frames
//!     drops.drain().for_each(drop);
//! }
//! // 6250 bytes leave in 500 us: the wire is never idle, and far less than 256 packets wait for it.
//! assert!((6250..20_000).contains(&port.ring().limit().limit().get()));
//! # Ok::<(), tautline_base::ConfigError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dql;
mod limit;
mod limit_kind;
mod multi_port;
mod port;
pub mod push;
mod queue;
mod ring;

pub use dql::Dql;
pub use limit::{Limit, Unlimited};
pub use limit_kind::LimitKind;
pub use multi_port::{MultiPort, Waking};
pub use port::Port;
pub use push::Push;
pub use queue::TxStats;
pub use ring::{Ring, Slot, Stopped};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
