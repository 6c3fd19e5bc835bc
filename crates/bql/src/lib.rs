//! The limited device ring: how much may stand in front of the hardware, and the only door to it.
//!
//! A ring that is always full adds its whole length to every packet's delay; a ring that runs dry
//! wastes the link. Dynamic queue limits ([`Dql`], the algorithm behind Linux's byte queue limits)
//! find the least amount of bytes that keeps the link busy, from nothing but the sizes of what is
//! queued and completed.
//!
//! Use [`Dql`] alone in a driver; [`Ring`] when something else schedules; [`Port`] for the whole
//! way down.
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
pub use ring::{Ring, Slot};
