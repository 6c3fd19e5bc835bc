//! Congestion control for any transport: it is told what acknowledgements brought, and answers with
//! a window and a rate.
//!
//! | module | holds |
//! |---|---|
//! | `controller` | [`Controller`] and its vocabulary: [`Ack`], [`Congestion`], [`Loss`], [`Idle`], [`Verdict`], [`Model`], [`Ecn`] |
//! | `algorithm` | [`Algorithm`], the controllers of this crate by name; [`Factory`] |
//! | `config` | [`Config`] |
//! | [`reno`] | NewReno, RFC 5681 |
//! | [`cubic`], [`curve`] | CUBIC, RFC 9438, and its growth function |
//! | [`cubic_linux`] | CUBIC as in Linux 6.1 |
//! | [`bbr`] | BBR version 1 as in Linux, and BBR-n |
//! | [`bbr3`] | BBRv3, draft-ietf-ccwg-bbr |
//! | [`dctcp`], [`prague`], `mark_share` | controllers that heed the share of congestion marks: RFC 8257, and L4S |
//! | [`slow_start`], [`hystart`], [`hystart_classic`] | how a connection begins; HyStart++, RFC 9406; HyStart as in Linux |
//! | `window`, `packets`, `episode`, `round` | what window-based controllers share |
//! | [`pacing`] | windows turned into rates |
//! | `sampler` | [`Sampler`]: the delivery rate |
//! | `traced` | [`Traced`]: shows each event of a controller, as [`Row`]s of CSV |
//! | `windowed_max` | [`WindowedMax`]: the largest of recent samples |
//!
//! Nothing here knows TCP: sequence numbers, timers and retransmissions are the transport's.
//!
//! ```
//! use tautline_base::{Bytes, Instant};
//! use tautline_cc::{Algorithm, Config, Congestion, Signal};
//!
//! let algorithm: Algorithm = "cubic".parse()?;
//! let mut controller = algorithm.build(&Config::new(Bytes::new(1448)));
//! controller.on_congestion(&Congestion { now: Instant::ZERO, signal: Signal::Loss, in_flight: Bytes::new(14_480) });
//! assert_eq!(controller.verdict().cwnd, Bytes::new(10_136)); // seven of ten segments
//! # Ok::<(), tautline_cc::UnknownAlgorithm>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod algorithm;
pub mod bbr;
pub mod bbr3;
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
pub mod slow_start;
mod traced;
mod window;
mod window_controller;
mod windowed_max;

pub use algorithm::{Algorithm, Factory, UnknownAlgorithm};
pub use bbr::Bbr;
pub use bbr3::Bbr3;
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
pub use sampler::{RateSample, Sampler, SentRate};
pub use traced::{Row, Traced};
pub use window_controller::WindowController;
pub use windowed_max::WindowedMax;
