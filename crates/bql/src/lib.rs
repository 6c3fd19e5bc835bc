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
