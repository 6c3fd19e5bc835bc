//! What the benches measure with: rigs that hold a stack, or a peer's, in one thread.
//!
//! | module | holds |
//! |---|---|
//! | [`acks`] | a congestion controller and a steady path |
//! | [`back_to_back`] | two devices without a wire between them |
//! | [`bulk`] | our stack's two ends |
//! | [`dumbbell`] | two simulated hosts and a router between them |
//! | [`idle`] | a conversation among idle connections |
//! | [`queue`] | a discipline with a standing backlog; every discipline's case |
//! | [`smoltcp_bulk`] | smoltcp's two ends |
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
