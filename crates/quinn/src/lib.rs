//! Congestion control of `tautline-cc` for quinn's connections, and quinn's socket over the UDP of a
//! userspace stack; for quinn 0.11.
//!
#![doc = include_str!("../README.md")]
//!
//! # Limits of quinn's congestion-control trait
//! - The pacing rate is not used: quinn spreads 5/4 of the window over a smoothed round trip, in
//!   bursts of at least ten datagrams. The window reported to it is therefore at most what the pacing
//!   rate sends in a smoothed round trip, so that the flight is the controller's, if not its spacing;
//!   without that BBR would never drain the queue of its startup. It changes no window-based
//!   controller, since those pace above their window.
//! - Spurious losses are not reported: `on_undo` is never called.
//! - Marks are an event without a count: controllers that react to the share of marked bytes are
//!   refused ([`NeedsMarks`]).
//! - Bytes sent include datagrams that are never acknowledged. The flight is an estimate between
//!   acknowledgments, and an endpoint that sent only such datagrams does not notice that it was idle.
//! - The MTU may change, the segment size of a controller may not: it remains the initial one. Only
//!   the minimum window follows the MTU.
//!
//! # Which fields of `Ack` a QUIC stack fills in
//! [`tautline_cc::Ack`] lists the fields that each controller needs. A QUIC stack knows all of them
//! (RFC 9002); the right column is what this crate can do through quinn's trait.
//!
//! | field | in a QUIC stack | here |
//! |---|---|---|
//! | `now` | arrival of the packet with the ACK frame | as given |
//! | `acked` | bytes in flight that the frame newly acknowledges, once for all its ranges | summed from `on_ack` until `on_end_acks` |
//! | `lost` | bytes that loss detection declares lost while it processes the frame (RFC 9002 §6.1) | of the frame before: quinn reports losses after the acknowledgment that revealed them |
//! | `in_flight`, `prior_in_flight` | bytes in flight after and before it (RFC 9002 §B.2) | as given; the sum with `acked` |
//! | `rtt` | the sample, if the largest acknowledged packet is newly acknowledged (RFC 9002 §5.1); before the correction by the ACK delay for BBR | from the time of sending of the newest packet |
//! | `srtt`, `min_rtt` | `smoothed_rtt` (RFC 9002 §5.3); a minimum over all time, or a window of it | quinn's; the minimum of the samples |
//! | `delivered`, `rate` | [`Sampler`](tautline_cc::Sampler) with one [`SentRate`](tautline_cc::SentRate) for each packet | one for each instant of sending, since quinn does not name packets |
//! | `cwnd_limited` | the flight that is acknowledged filled the window (RFC 9002 §7.8) | limited now, and not by the application; quinn counts the peer's flow control as the application |
//! | `round_start` | the newest acknowledged packet was sent after the last round ended | likewise |
//! | `state` | `Recovery` until a packet sent after its start is acknowledged (RFC 9002 §7.3.2), `Cwr` if a mark began it, `Loss` after persistent congestion (§7.6) | likewise |
//! | `marked` | growth of the ECN-CE count (RFC 9000 §13.4), in bytes; needed by DCTCP and Prague | zero |
//! | `delayed` | the frame waited for `max_ack_delay` | one packet that is less than full |
//! | `next_departure` | when the pacer releases the next packet | `now` |
//!
//! Besides: `on_lost` for each lost packet before `on_ack` (here once for each batch, with its sum),
//! `on_congestion` once for each recovery period, `on_idle` when sending resumes with nothing in
//! flight, `on_undo` if a loss proves spurious.
#![forbid(unsafe_code)]

mod config;
mod controller;
#[cfg(feature = "socket")]
mod socket;

pub use config::{ControllerConfig, NeedsMarks};
#[cfg(feature = "socket")]
pub use socket::Socket;
pub use tautline_cc::Algorithm;
