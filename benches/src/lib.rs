//! Rigs for the benches: a stack, or a peer's, in one thread.
#![forbid(unsafe_code)]

pub mod acks;
pub mod back_to_back;
pub mod bulk;
pub mod dumbbell;
pub mod idle;
pub mod queue;
pub mod smoltcp_bulk;

pub use back_to_back::BackToBack;
pub use bulk::Bulk;
pub use dumbbell::Dumbbell;
pub use idle::AmongIdle;
pub use smoltcp_bulk::SmoltcpBulk;
