//! [`Controller`]: told structs, answers with one.
//!
//! The transport reports what happened ([`Ack`], [`Congestion`], undo, idle); the controller answers every question with one
//! [`Verdict`], whose pacing rate is mandatory, so no sender can forget it.

use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use crate::sampler::RateSample;

/// A congestion-control algorithm. A value, chosen at run time; one per connection.
pub trait Controller: Send {
    /// Its name as `net.ipv4.tcp_congestion_control` spells it.
    fn name(&self) -> &'static str;

    /// Data was newly acknowledged, cumulatively or selectively.
    fn on_ack(&mut self, ack: &Ack);

    /// The path or the local host signalled congestion. Called once per episode (fast recovery, window of CE marks), and
    /// once per expiry for timeouts.
    fn on_congestion(&mut self, congestion: &Congestion);

    /// The last congestion signal proved spurious: restore what it cost.
    fn on_undo(&mut self, now: Instant);

    /// Transmission starts again after `idle` with nothing in flight.
    fn on_idle(&mut self, now: Instant, idle: Duration);

    /// The answer, valid until the next call.
    fn verdict(&self) -> Verdict;

    /// Who owns the window during loss recovery. Window-based controllers leave it to PRR.
    fn recovery(&self) -> Recovery {
        Recovery::Prr
    }
}

/// What an acknowledgement brought. Amounts are in bytes of payload.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Newly delivered by it: cumulatively acknowledged and newly SACKed.
    pub acked: Bytes,
    /// Newly found lost while it was processed.
    pub lost: Bytes,
    /// In flight before it.
    pub prior_in_flight: Bytes,
    /// In flight after it.
    pub in_flight: Bytes,
    /// RTT sample of the latest-sent segment it delivered, if that was sent once only.
    pub rtt: Option<Duration>,
    /// Smoothed RTT after the sample; zero before the first.
    pub srtt: Duration,
    /// Lowest RTT of the path lately.
    pub min_rtt: Duration,
    /// Total delivered so far, for round counting.
    pub delivered: Bytes,
    /// Delivery-rate sample, if this acknowledgement gave a valid one.
    pub rate: Option<RateSample>,
    /// The sender was limited by the window (not by the application) in the flight this acknowledges.
    pub cwnd_limited: bool,
    /// A new round trip began with this acknowledgement.
    pub round_start: bool,
    /// The transport is in fast recovery or loss recovery. After [`Signal::Loss`] the window then stands still, because PRR
    /// owns it; after [`Signal::Timeout`] it grows by slow start all the same.
    pub in_recovery: bool,
}

/// A congestion signal.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// When it was seen.
    pub now: Instant,
    /// What it was.
    pub signal: Signal,
    /// In flight when it was seen; for a timeout, what is still thought to be once it has condemned the rest.
    pub in_flight: Bytes,
}

/// What signalled congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Loss found by acknowledgements: fast recovery begins.
    Loss,
    /// The retransmission timer expired.
    Timeout,
    /// The peer echoed a congestion mark.
    Ce,
    /// This host's own queueing discipline refused a packet.
    LocalDrop,
}

/// Who sets the window during loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Proportional rate reduction (RFC 9937), driven by the transport down to `ssthresh`.
    Prr,
    /// The controller itself.
    Controller,
}

/// A controller's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Most bytes that may be in flight.
    pub cwnd: Bytes,
    /// Slow-start threshold; [`Bytes::MAX`] before the first reduction.
    pub ssthresh: Bytes,
    /// The rate at which bytes may leave.
    pub pacing_rate: Rate,
    /// Most bytes that may leave back to back when the pacer is late.
    pub burst: Bytes,
}
