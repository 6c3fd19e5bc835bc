//! Congestion control for any transport.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod controller;
mod sampler;

pub use controller::{Ack, Congestion, Controller, Recovery, Signal, Verdict};
pub use sampler::{RateSample, Sampler, SentRate};
