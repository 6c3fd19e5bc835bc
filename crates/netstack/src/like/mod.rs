//! The shapes of other crates' types, so that a program changes one import: [`ipstack`] as `ipstack`
//! 1.0, [`smoltcp`] as `netstack-smoltcp` 0.2.
//!
//! They cover the documented use of those crates. New programs take the types of this crate's root,
//! which say more: a SYN can be refused, queueing and memory have settings.

pub mod ipstack;
pub mod smoltcp;
