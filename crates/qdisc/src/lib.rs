//! Queueing disciplines as a library: what `tc qdisc` offers, outside a kernel.
//!
//! A qdisc is four verbs ([`Qdisc`]): `enqueue`, `dequeue`, `ready_at`, `backlog`; one that can
//! show its next packet without giving it up has a fifth, `peek_len`. It is generic over the packet
//! (anything that is an [`Item`]), takes the time as an argument, and gives dropped packets back in
//! [`Drops`].
//!
//! ```
//! use tautline_qdisc::{Drops, FqCodel, Instant, Ledger, Packet, Qdisc, Stats, fq_codel::Config};
//!
//! let config = Config { limit: 2, ..Config::default() };
//! let mut qdisc = Stats::new(Ledger::new(FqCodel::new(config)?));
//! let mut drops = Drops::new();
//! for flow in [1, 1, 2] {
//!     qdisc.enqueue(Packet::new((), 1514).with_hashes(flow, 0, 0), Instant::ZERO, &mut drops);
//! }
//! assert_eq!(drops.drain().count(), 1); // the fat flow lost a packet, the thin one did not
//! while let Some(packet) = qdisc.dequeue(Instant::from_micros(10), &mut drops) {
//!     println!("send {} bytes", packet.bytes().len());
//! }
//! assert_eq!(qdisc.stats().dequeued.packets, 2);
//! # Ok::<(), tautline_qdisc::ConfigError>(())
//! ```
//!
//! # A loop of your own
//! A router or a VPN implements [`Item`] for its packets, and runs one loop for each way out: enqueue
//! what has arrived; dequeue while the qdisc gives something and the way out takes it; settle the drops;
//! wait until [`ready_at`](Qdisc::ready_at), the next arrival, or the way out takes something again.
//!
//! ```
//! use tautline_qdisc::{Bytes, Cake, Drops, FlowInfo, FlowKey, Instant, Item, Medium, Qdisc, Rate};
//! use tautline_qdisc::cake::{Bandwidth, Config};
//!
//! /// An IP packet of a TUN interface.
//! struct IpPacket {
//!     bytes: Vec<u8>,
//!     info: FlowInfo,
//!     enqueued: Instant,
//! }
//!
//! impl Item for IpPacket {
//!     fn len(&self) -> Bytes { Bytes::new(self.bytes.len() as u64) }
//!     fn enqueued(&self) -> Instant { self.enqueued }
//!     fn set_enqueued(&mut self, now: Instant) { self.enqueued = now; }
//!     fn flow_hash(&self) -> u64 { self.info.flow }
//!     fn host_hashes(&self) -> (u32, u32) { (self.info.source, self.info.destination) } // CAKE
//!     fn tos(&self) -> u8 { self.info.tos } // CAKE's tins, ECN
//!     fn set_tos(&mut self, tos: u8) { self.info.tos = tos; } // ECN marks
//!     fn headers(&self) -> &[u8] { &self.bytes } // filters, CAKE's ACK filter
//!     fn network_offset(&self) -> usize { 0 }
//!     fn finish(&mut self) { Medium::Ip.write_tos(&mut self.bytes, self.info.tos); }
//! }
//!
//! let bandwidth = Bandwidth::Shaped("20mbit".parse::<Rate>()?);
//! let mut queue = Cake::new(Config { bandwidth, ..Config::default() })?;
//! let (key, mut drops) = (FlowKey::from_seed(1), Drops::new()); // FlowKey::new(HashKey::random())
//!
//! let mut now = Instant::from_secs(1); // of a clock: see `Instant`
//! # let mut sent = 0;
//! for bytes in [vec![0x45; 1500], vec![0x45; 1500]] { // what has arrived
//!     let info = key.parse_on(Medium::Ip, &bytes);
//!     queue.enqueue(IpPacket { bytes, info, enqueued: now }, now, &mut drops);
//! }
//! while let Some(mut packet) = queue.dequeue(now, &mut drops) {
//!     packet.finish(); // marks go into the header
//!     # sent += packet.bytes.len();
//!     // send packet.bytes
//! }
//! for (_packet, _reason) in drops.drain() {} // count it, reuse its buffer
//! let wait = queue.ready_at().map(|at| at - now); // `None`: until something arrives
//! # assert_eq!((sent, wait > Some(std::time::Duration::ZERO)), (1500, true));
//! # now += std::time::Duration::from_millis(1);
//! # Ok::<(), tautline_qdisc::ConfigError>(())
//! ```
//!
//! Without the feature `std` (on by default) nothing draws random hash keys: give `perturbation` in each
//! `Config` that has one.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod aqm_fifo;
mod bands;
pub mod bfifo;
pub mod blue;
pub mod cake;
pub mod cake_mq;
mod children;
mod class;
mod classful;
pub mod cobalt;
pub mod codel;
pub mod drr;
mod drr_plus;
pub mod dualpi2;
pub mod ets;
pub mod fifo;
pub mod filter;
mod flow_key;
mod flush;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod htb;
mod index;
mod ledger;
pub mod mq;
pub mod netem;
mod parked;
pub mod pfifo;
pub mod pfifo_fast;
pub mod pfifo_head_drop;
pub mod pie;
pub mod prio;
mod queue;
mod random;
mod rate;
pub mod red;
mod replace;
mod rounds;
pub mod sfq;
mod slab;
pub mod stats;
pub mod tbf;
#[cfg(test)]
mod testing;
mod ticker;
mod timed;
pub mod units;

pub use aqm_fifo::{AqmFifo, FifoAqm, Peek};
pub use bfifo::Bfifo;
pub use blue::Blue;
pub use cake::Cake;
pub use cake_mq::CakeMq;
pub use class::{ClassId, NoClassId};
pub use classful::Classful;
pub use cobalt::Cobalt;
pub use codel::Codel;
pub use drr::Drr;
pub use dualpi2::DualPi2;
pub use ets::Ets;
pub use fifo::Fifo;
pub use flow_key::{FlowInfo, FlowKey};
pub use fq::Fq;
pub use fq_codel::FqCodel;
pub use fq_pie::FqPie;
pub use htb::Htb;
pub use ledger::Ledger;
pub use mq::Mq;
pub use netem::Netem;
pub use parked::Parked;
pub use pfifo::Pfifo;
pub use pfifo_fast::PfifoFast;
pub use pfifo_head_drop::PfifoHeadDrop;
pub use pie::Pie;
pub use prio::Prio;
pub use queue::Queue;
pub use rate::{Framing, LinkLayer};
pub use red::Red;
pub use replace::replace;
pub use sfq::Sfq;
pub use stats::{Common, FlowStats, QueueStats, Stats};
pub use tautline_base::{
    Backlog, Bytes, ConfigError, DropReason, Drops, Ecn, HashKey, Instant, Item, Medium,
    MultiQueue, Packet, Qdisc, Rate, Tally,
};
pub use tbf::Tbf;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
