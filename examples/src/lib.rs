//! Code shared by the programs of this package.
#![forbid(unsafe_code)]

pub mod conversation;
