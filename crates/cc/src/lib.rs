//! Congestion control for any transport: a [`Controller`] learns what acknowledgments delivered and
//! answers with a window and a rate.
//!
//! [`Algorithm`] names the controllers of this crate; [`Factory`] makes them, or one of your own,
//! for each connection. [`Sampler`] measures the delivery rate, [`pacing`] turns windows into rates,
//! [`Pacer`] rates into times of departure, [`Traced`] writes every event of a controller as CSV. Sequence numbers, timers and
//! retransmissions belong to the transport.
//!
//! ```
//! use tautline_cc::{Algorithm, Bytes, Config, Congestion, Instant, Signal};
//!
//! let algorithm: Algorithm = "cubic".parse()?;
//! let mut controller = algorithm.build(&Config::new(Bytes::new(1448)));
//! controller.on_congestion(&Congestion { now: Instant::ZERO, signal: Signal::Loss, in_flight: Bytes::new(14_480) });
//! assert_eq!(controller.verdict().cwnd, Bytes::new(10_136)); // β = 0.7
//! # Ok::<(), tautline_cc::UnknownAlgorithm>(())
//! ```
//!
//! # A sender of your own
//! The transport keeps a [`SentRate`] for each packet and the bytes in flight. It asks for the verdict
//! before each packet: [`cwnd`](Verdict::cwnd) bounds the bytes in flight, and a [`Pacer`] says when the
//! packet may leave. [`Controller`] lists the other events: spurious losses, timeouts, idle times.
//!
//! ```
//! use std::collections::VecDeque;
//! use std::time::Duration;
//! use tautline_cc::{
//!     Ack, Algorithm, Bytes, Config, Congestion, CongestionState, Controller, Instant, NewestDelivered,
//!     Pacer, Rate, Sampler, SentRate, Signal,
//! };
//!
//! const DATAGRAM: Bytes = Bytes::new(1200);
//!
//! struct Sender {
//!     controller: Box<dyn Controller>,
//!     sampler: Sampler,
//!     sent: VecDeque<(u64, SentRate)>, // packet numbers in flight, oldest first
//!     next_number: u64,
//!     in_flight: Bytes,
//!     pacer: Pacer,
//!     srtt: Duration,
//!     min_rtt: Duration,
//!     round_ends: u64,    // the first packet of the next round trip
//!     recovery_ends: u64, // the first packet sent after the last loss was found
//! }
//!
//! impl Sender {
//!     /// When the next datagram may leave; `None`: not before an acknowledgment.
//!     fn departure(&self) -> Option<Instant> {
//!         let fits = self.in_flight + DATAGRAM <= self.controller.verdict().cwnd;
//!         fits.then_some(self.pacer.next())
//!     }
//!
//!     fn on_sent(&mut self, now: Instant) -> u64 {
//!         let (number, verdict) = (self.next_number, self.controller.verdict());
//!         let first = self.in_flight == Bytes::ZERO;
//!         self.in_flight += DATAGRAM;
//!         self.sent.push_back((number, self.sampler.on_send(now, self.in_flight, first)));
//!         self.next_number += 1;
//!         self.pacer.departed(now, DATAGRAM, 1, verdict.pace());
//!         number
//!     }
//!
//!     /// An ACK frame acknowledges packet `number`; what was sent three packets earlier is lost.
//!     fn on_ack_frame(&mut self, number: u64, now: Instant) {
//!         let Ok(at) = self.sent.binary_search_by_key(&number, |(sent, _)| *sent) else { return };
//!         let Some((_, record)) = self.sent.remove(at) else { return };
//!         let prior_in_flight = self.in_flight;
//!         self.in_flight -= DATAGRAM;
//!         let mut newest = NewestDelivered::default();
//!         self.sampler.on_delivered(&mut newest, &record, DATAGRAM, now);
//!         let rtt = now - record.sent_at;
//!         self.srtt = if self.srtt.is_zero() { rtt } else { (self.srtt * 7 + rtt) / 8 };
//!         self.min_rtt = self.min_rtt.min(rtt);
//!
//!         let (mut lost, mut episode_begins) = (Bytes::ZERO, false);
//!         while let Some(&(sent, record)) = self.sent.front() && sent + 3 <= number {
//!             self.sent.pop_front();
//!             self.in_flight -= DATAGRAM;
//!             lost += DATAGRAM;
//!             self.controller.on_lost(&self.sampler.on_lost(&record, DATAGRAM, now));
//!             episode_begins |= sent >= self.recovery_ends;
//!         }
//!         let in_flight = self.in_flight;
//!         if episode_begins {
//!             self.recovery_ends = self.next_number;
//!             self.controller.on_congestion(&Congestion { now, signal: Signal::Loss, in_flight });
//!         }
//!         let round_start = number >= self.round_ends;
//!         if round_start {
//!             self.round_ends = self.next_number;
//!         }
//!         let is_recovering = number < self.recovery_ends;
//!         self.controller.on_ack(&Ack {
//!             lost,
//!             prior_in_flight,
//!             rtt: Some(rtt),
//!             srtt: self.srtt,
//!             min_rtt: self.min_rtt,
//!             delivered: self.sampler.delivered(),
//!             rate: self.sampler.on_ack(newest, now, self.min_rtt),
//!             cwnd_limited: true, // false while the application has nothing to send
//!             round_start,
//!             state: if is_recovering { CongestionState::Recovery } else { CongestionState::Open },
//!             next_departure: self.pacer.next(),
//!             ..Ack::new(now, DATAGRAM, in_flight)
//!         });
//!     }
//! }
//!
//! // A link of 10 Mbit/s and 20 ms each way, whose queue holds 40 datagrams.
//! let (rate, delay) = (Rate::mbit(10), Duration::from_millis(20));
//! for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
//!     let mut sender = Sender {
//!         controller: algorithm.build(&Config::new(DATAGRAM)),
//!         sampler: Sampler::default(),
//!         sent: VecDeque::new(),
//!         next_number: 0,
//!         in_flight: Bytes::ZERO,
//!         pacer: Pacer::default(),
//!         srtt: Duration::ZERO,
//!         min_rtt: Duration::MAX,
//!         round_ends: 0,
//!         recovery_ends: 0,
//!     };
//!     let (mut now, end) = (Instant::from_secs(1), Instant::from_secs(11));
//!     let (mut link_free, mut acks, mut delivered) = (now, VecDeque::new(), 0);
//!     while now < end {
//!         while sender.departure().is_some_and(|at| at <= now) {
//!             let number = sender.on_sent(now);
//!             if link_free - now < DATAGRAM * 40 / rate {
//!                 link_free = link_free.max(now) + DATAGRAM / rate;
//!                 acks.push_back((link_free + delay * 2, number));
//!             }
//!         }
//!         let ack = acks.front().map(|(at, _)| *at);
//!         now = sender.departure().into_iter().chain(ack).min().expect("something is in flight");
//!         while let Some(&(at, number)) = acks.front() && at <= now {
//!             acks.pop_front();
//!             sender.on_ack_frame(number, now);
//!             delivered += 1;
//!         }
//!     }
//!     let goodput = Rate::from_amount(DATAGRAM * delivered, Duration::from_secs(10));
//!     assert!(goodput > rate.percent(80), "{goodput} under {:?}", sender.controller);
//! }
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
pub mod pacer;
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
pub use pacer::{CatchUp, Pace, Pacer, PacerConfig};
pub use pacing::{PacingRatios, burst, window_rate};
pub use prague::Prague;
pub use reno::Reno;
pub use sampler::{NewestDelivered, RateSample, Sampler, SentRate};
pub use tautline_base::{Bytes, Instant, Rate};
pub use traced::{Row, Traced};
pub use window_controller::WindowController;
pub use windowed_max::WindowedMax;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
