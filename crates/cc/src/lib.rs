//! Congestion control for any transport: a [`Controller`] learns what acknowledgments delivered and
//! answers with a window and a rate.
//!
//! [`Algorithm`] names the controllers of this crate; [`Factory`] makes them, or one of your own,
//! for each connection. [`Sampler`] measures the delivery rate, [`pacing`] turns windows into rates,
//! [`Traced`] writes every event of a controller as CSV. Sequence numbers, timers and
//! retransmissions belong to the transport.
//!
//! ```
//! use tautline_base::{Bytes, Instant};
//! use tautline_cc::{Algorithm, Config, Congestion, Signal};
//!
//! let algorithm: Algorithm = "cubic".parse()?;
//! let mut controller = algorithm.build(&Config::new(Bytes::new(1448)));
//! controller.on_congestion(&Congestion { now: Instant::ZERO, signal: Signal::Loss, in_flight: Bytes::new(14_480) });
//! assert_eq!(controller.verdict().cwnd, Bytes::new(10_136)); // β = 0.7
//! # Ok::<(), tautline_cc::UnknownAlgorithm>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod algorithm;
pub mod bbr;
pub mod bbr3;
pub mod careful_resume;
mod config;
mod controller;
pub mod cubic;
pub mod cubic_linux;
pub mod curve;
pub mod dctcp;
mod episode;
pub mod hystart;
pub mod hystart_classic;
mod mark_share;
pub mod pacing;
mod packets;
pub mod prague;
pub mod reno;
mod rounds;
mod sampler;
mod saved;
pub mod search;
pub mod slow_start;
mod traced;
mod window;
mod window_controller;
mod windowed_max;

pub use algorithm::{Algorithm, Factory, UnknownAlgorithm};
pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use careful_resume::{CarefulResume, SavedPath};
pub use config::Config;
pub use controller::{
    Ack, Congestion, CongestionState, Controller, Ecn, Idle, Loss, Model, Recovery, Signal,
    Underuse, Verdict,
};
pub use cubic::Cubic;
pub use cubic_linux::CubicLinux;
pub use dctcp::Dctcp;
pub use pacing::{PacingRatios, burst, window_rate};
pub use prague::Prague;
pub use reno::Reno;
pub use sampler::{NewestDelivered, RateSample, Sampler, SentRate};
pub use traced::{Row, Traced};
pub use window_controller::WindowController;
pub use windowed_max::WindowedMax;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
