//! [`Controller`]: told structs, answers with one.
//!
//! The transport reports what happened ([`Ack`], [`Congestion`], undo, idle); the controller
//! answers every question with one [`Verdict`], whose pacing rate is mandatory, so no sender can
//! forget it.

use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use crate::sampler::RateSample;

/// A congestion-control algorithm. A value, chosen at run time; one per connection.
pub trait Controller: Send {
    /// Its name as `net.ipv4.tcp_congestion_control` spells it.
    fn name(&self) -> &'static str;

    /// Data was newly acknowledged, cumulatively or selectively.
    fn on_ack(&mut self, ack: &Ack);

    /// The path or the local host signalled congestion. Called once per episode (fast recovery,
    /// window of CE marks), and once per expiry for timeouts.
    fn on_congestion(&mut self, congestion: &Congestion);

    /// The last congestion signal proved spurious: restore what it cost.
    fn on_undo(&mut self, now: Instant);

    /// Transmission starts again with nothing in flight, however short the pause was.
    fn on_idle(&mut self, idle: &Idle);

    /// The answer, valid until the next call.
    fn verdict(&self) -> Verdict;

    /// One segment was found lost, by acknowledgements, a timer or a drop inside this host. Called
    /// for each, before the [`on_ack`](Self::on_ack) or [`on_congestion`](Self::on_congestion) of
    /// the same moment.
    fn on_lost(&mut self, _loss: &Loss) {}

    /// Takes a live connection over from another controller: starts from its window, as Linux does
    /// when `TCP_CONGESTION` changes. A controller with no use for that starts anew.
    fn adopt(&mut self, _before: &Verdict) {}

    /// For a retransmission timeout or more less than the window was in flight, although neither
    /// the window nor the send buffer limited the sender. Never called during an episode. A
    /// controller that models the path has no use for it.
    fn on_underuse(&mut self, _underuse: &Underuse) {}

    /// What it believes, for people to look at.
    fn model(&self) -> Model {
        Model::default()
    }

    /// Which feedback about congestion marks it needs. Asked once per connection, before it opens.
    fn ecn(&self) -> Ecn {
        Ecn::Classic
    }

    /// Who owns the window during loss recovery. Window-based controllers leave it to PRR.
    fn recovery(&self) -> Recovery {
        Recovery::Prr
    }

    /// How many segments may leave in one packet where the device cuts it (TSO). `autosized`: what
    /// the pacing rate carries in about a millisecond, and more on short paths. Default: that, but
    /// two at least (Linux `tcp_min_tso_segs`).
    fn packet_segments(&self, autosized: u64) -> u64 {
        autosized.max(2)
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
    /// The sender was limited by the window (not by the application) in the flight this
    /// acknowledges.
    pub cwnd_limited: bool,
    /// A new round trip began with this acknowledgement.
    pub round_start: bool,
    /// Where the transport stands with congestion signals, after this acknowledgement.
    pub phase: Phase,
    /// Of `acked`, what arrived with a congestion mark as far as the peer's echoes tell.
    pub marked: Bytes,
    /// Perhaps held back by the receiver: a lone segment that was less than full. Such a sample
    /// says little about the path.
    pub delayed: bool,
    /// When the pacer lets the next segment go; not after `now` if at once. What departs until then
    /// counts as in flight although it is not in the network.
    pub next_departure: Instant,
}

/// Where the transport stands between a congestion signal and its end (Linux `tcp_ca_state`;
/// Disorder counts as open).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No signal is being answered.
    #[default]
    Open,
    /// The window shrinks because of a mark or of a drop inside this host; nothing is lost in the
    /// network.
    Cwr,
    /// Fast recovery. The window of window-based controllers stands still, because PRR owns it.
    Recovery,
    /// After a retransmission timeout, until all that was sent before it is acknowledged. The
    /// window grows by slow start.
    Loss,
}

/// One segment that was found lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When it was found.
    pub now: Instant,
    /// Its bytes.
    pub bytes: Bytes,
    /// In flight when it was sent, itself included.
    pub sent_in_flight: Bytes,
    /// Lost from its transmission until now, itself included.
    pub lost_since: Bytes,
    /// Delivered in all when it was sent.
    pub prior_delivered: Bytes,
    /// Its flight was limited by the application.
    pub app_limited: bool,
}

/// Transmission starts again with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// When.
    pub now: Instant,
    /// How long nothing was in flight.
    pub idle: Duration,
    /// The retransmission timeout in force.
    pub rto: Duration,
    /// The application, not the peer's window, had nothing to send.
    pub app_limited: bool,
}

/// A window was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Underuse {
    /// When.
    pub now: Instant,
    /// Most bytes in flight meanwhile.
    pub used: Bytes,
}

/// What a controller needs of explicit congestion notification, where the transport's configuration
/// allows ECN at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// One reduction per window of marks: data carries ECT(0), echoes follow RFC 3168 unless the
    /// ends agreed on AccECN.
    #[default]
    Classic,
    /// The share of marked bytes: data carries ECT(0), retransmissions and pure acknowledgements
    /// too, and echoes follow RFC 8257 §3.2 or AccECN. Only for networks under one administration.
    Dctcp,
    /// The share of marked bytes, and the queues of L4S (RFC 9331): data carries ECT(1), and AccECN
    /// (RFC 9768) is required; without it, no data is marked as ECN-capable.
    L4s,
}

/// What a controller believes, in the terms of `ss -ti`. `None` where it has no such notion.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// Name of its state; empty if it has only one.
    pub state: &'static str,
    /// Bandwidth of the path.
    pub bandwidth: Option<Rate>,
    /// Round trip without queues.
    pub min_rtt: Option<Duration>,
    /// Pacing rate over bandwidth.
    pub pacing_gain: Option<f64>,
    /// Window over bandwidth-delay product.
    pub cwnd_gain: Option<f64>,
    /// Share of marked segments (DCTCP's and Prague's alpha).
    pub alpha: Option<f64>,
    /// The window, in segments, that CUBIC's curve levels off at (`W_max`).
    pub plateau: Option<f64>,
    /// How long CUBIC's curve takes to get there from the beginning of its epoch (`K`).
    pub k: Option<Duration>,
    /// How long that epoch has lasted.
    pub epoch: Option<Duration>,
}

/// A congestion signal.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// When it was seen.
    pub now: Instant,
    /// What it was.
    pub signal: Signal,
    /// In flight when it was seen; for a timeout, what is still thought to be once it has condemned
    /// the rest.
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
    /// The rate at which bytes of payload may leave.
    pub pacing_rate: Rate,
    /// Most bytes that may leave back to back when the pacer is late.
    pub burst: Bytes,
}
