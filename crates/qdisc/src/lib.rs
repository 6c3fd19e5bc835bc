//! Queueing disciplines as a library: what `tc qdisc` offers, outside a kernel.
//!
//! A qdisc is four verbs ([`Qdisc`]): `enqueue`, `dequeue`, `ready_at`, `backlog`; one that can
//! show its next packet without giving it up has a fifth, `peek_len`. It is generic over the packet
//! (anything that is an [`Item`](tautline_base::Item)), takes the time as an argument, and gives
//! dropped packets back in [`Drops`].
//!
//! ```
//! use tautline_base::{Instant, Packet};
//! use tautline_qdisc::{Drops, FqCodel, Ledger, Qdisc, Stats, fq_codel::Config};
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
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod aqm_fifo;
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
pub use class::ClassId;
pub use classful::Classful;
pub use cobalt::Cobalt;
pub use codel::Codel;
pub use drr::Drr;
pub use dualpi2::DualPi2;
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
pub use tautline_base::{Backlog, ConfigError, DropReason, Drops, Qdisc, Tally};
pub use tbf::Tbf;
