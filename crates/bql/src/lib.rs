//! The limited device ring: dynamic queue limits, and the ring behind them.
//!
//! A ring that is always full adds its whole length to every packet's delay; a ring that runs dry
//! wastes the link. Dynamic queue limits ([`Dql`], the algorithm behind Linux's byte queue limits)
//! find the least number of bytes that keeps the link busy, from the sizes of queued and completed
//! packets alone.
//!
//! Use [`Dql`] alone in a driver; [`Ring`] under a scheduler of your own; [`Port`] for the whole
//! transmit path: any [`Qdisc`], limit, ring.
//!
//! ```
//! use tautline_bql::{Bytes, Dql, Instant, Limit};
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
//! # A driver of your own
//! A driver that has its own descriptors needs [`Dql`] alone, one for each transmit queue. Its methods are
//! those of the trait [`Limit`]; [`dql::Config`] has the parameters that the kernel shows in
//! `byte_queue_limits`.
//!
//! ```
//! use std::collections::VecDeque;
//! use tautline_bql::{Bytes, Dql, Instant, Limit};
//!
//! #[derive(Default)]
//! struct TxQueue {
//!     descriptors: VecDeque<Bytes>,
//!     limit: Dql,
//! }
//!
//! impl TxQueue {
//!     /// False stops the queue until an interrupt opens it (`netdev_tx_sent_queue`).
//!     fn transmit(&mut self, frame: &[u8], now: Instant) -> bool {
//!         if self.descriptors.len() == 256 || !self.limit.available(now) {
//!             return false;
//!         }
//!         let len = Bytes::new(frame.len() as u64);
//!         self.descriptors.push_back(len);
//!         self.limit.queued(len, now);
//!         true
//!     }
//!
//!     /// `count` descriptors are done: one batch for the limit (`netdev_tx_completed_queue`).
//!     fn interrupt(&mut self, count: usize, now: Instant) -> bool {
//!         let done: Bytes = self.descriptors.drain(..count).sum();
//!         if done > Bytes::ZERO {
//!             self.limit.completed(done, now);
//!         }
//!         self.limit.available(now) // wakes the queue
//!     }
//!
//!     /// The device was reset: its descriptors are gone (`netdev_tx_reset_queue`).
//!     fn reset(&mut self) {
//!         self.descriptors.clear();
//!         self.limit.reset();
//!     }
//! }
//!
//! let (mut queue, now) = (TxQueue::default(), Instant::ZERO);
//! assert!(queue.transmit(&[0; 1514], now)); // a limit of zero lets one through
//! assert!(!queue.transmit(&[0; 1514], now));
//! assert!(queue.interrupt(1, now)); // the queue ran dry: the limit grows
//! assert_eq!(queue.limit.limit(), Bytes::new(1514));
//! # queue.reset();
//! ```
//!
//! # A ring of your own
//! [`Ring`] and [`Port`] drive any [`Device`]. One that only sends receives nothing:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::time::Duration;
//! use tautline_bql::{Device, Drops, HeapFrame, Instant, Item, Packet, Rate, Received};
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
//! # Ok::<(), tautline_bql::ConfigError>(())
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
pub use tautline_base::{
    Bytes, ConfigError, Device, Drops, Frame, HeapFrame, Instant, Item, Medium, Packet, Qdisc,
    Rate, Received,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
