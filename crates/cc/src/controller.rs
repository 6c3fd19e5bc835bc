//! [`Controller`]: the interface between a transport and its congestion control.
//!
//! The transport reports events as structs ([`Ack`], [`Congestion`], [`Loss`], [`Idle`],
//! [`Underuse`]). The controller answers with one [`Verdict`], which always includes a pacing rate.

use core::fmt;
use core::time::Duration;

use tautline_base::{Bytes, Instant, Rate};

use crate::pacer::Pace;
use crate::sampler::RateSample;

/// A congestion-control algorithm: a value chosen at run time, one per connection.
///
/// The transport calls the methods; this is the order of calls in `tautline-stack`.
///
/// | event | calls |
/// |---|---|
/// | the connection opens | [`ecn`](Self::ecn) |
/// | the algorithm is replaced (`TCP_CONGESTION`) | [`ecn`](Self::ecn), [`adopt`](Self::adopt) |
/// | an acknowledgment delivers data | [`on_lost`](Self::on_lost) per lost segment, [`on_congestion`](Self::on_congestion) if an episode begins, [`on_ack`](Self::on_ack) |
/// | the retransmission timer expires | `on_lost` per lost segment, `on_congestion` |
/// | this host's qdisc drops a segment | `on_lost`, `on_congestion` |
/// | DSACK, Eifel or F-RTO proves a retransmission spurious | [`on_undo`](Self::on_undo) |
/// | new data is sent with nothing in flight | [`on_idle`](Self::on_idle) |
/// | new data is sent, once per retransmission timeout without full use of the window | [`on_underuse`](Self::on_underuse) |
/// | after each of these | [`verdict`](Self::verdict) |
/// | a packet is built for a device with segmentation offload | [`packet_segments`](Self::packet_segments) |
/// | a segment is sent or acknowledged during loss recovery | [`recovery`](Self::recovery) |
/// | statistics are requested | [`name`](Self::name), [`model`](Self::model) |
///
/// # In a QUIC stack
///
/// | RFC 9002 | here |
/// |---|---|
/// | `max_datagram_size` | [`Config::mss`](crate::Config::mss), the largest UDP payload. Amounts are those of `bytes_in_flight` |
/// | OnPacketSent | [`Sampler::on_send`](crate::Sampler::on_send); before it `on_idle` if nothing was in flight, but not for the first packet |
/// | OnAckReceived | [`Sampler::on_delivered`](crate::Sampler::on_delivered) per packet, then once per ACK frame [`Sampler::on_ack`](crate::Sampler::on_ack) and `on_ack` |
/// | OnPacketsLost | [`Sampler::on_lost`](crate::Sampler::on_lost) and `on_lost` per packet; `on_congestion` with [`Signal::Loss`] if the packet was sent after the last `on_congestion` |
/// | more CE marks (§7.1) | `on_congestion` with [`Signal::Ce`] if the newest packet acknowledged was sent after the last `on_congestion`; [`Ack::marked`] is the growth of the count, of packets, in bytes: `acked` at most |
/// | the ECN codepoint to send (RFC 9000 §13.4) | [`ecn`](Self::ecn): ECT(0), with [`Ecn::L4s`] ECT(1) |
/// | underutilized window (§7.8) | [`Ack::cwnd_limited`] is false; [`Sampler::mark_app_limited`](crate::Sampler::mark_app_limited) when the application has nothing more to send. `on_underuse` may be left out |
/// | probe timeout | nothing |
/// | persistent congestion (§7.6) | `on_congestion` with [`Signal::Timeout`] and nothing in flight: the smallest window, whatever was sent since |
/// | a larger datagram size is found | a new controller with that `mss`, which [`adopt`](Self::adopt)s the verdict of the old one |
///
/// The window of the verdict is reduced at once, so a transport without PRR need not know
/// [`recovery`](Self::recovery). `tautline-quinn` is such a transport; its
/// documentation says for each field of [`Ack`] which quantity of RFC 9002 it is.
///
/// # A controller of one's own
/// It needs the first six methods:
///
/// ```
/// use tautline_base::{Bytes, Instant, Rate};
/// use tautline_cc::{Ack, Congestion, Controller, Idle, Verdict};
///
/// /// Keeps one window and one rate, whatever happens.
/// struct Constant(Verdict);
///
/// impl Controller for Constant {
///     fn name(&self) -> &'static str { "constant" }
///     fn on_ack(&mut self, _ack: &Ack) {}
///     fn on_congestion(&mut self, _congestion: &Congestion) {}
///     fn on_undo(&mut self, _now: Instant) {}
///     fn on_idle(&mut self, _idle: &Idle) {}
///     fn verdict(&self) -> Verdict { self.0 }
/// }
///
/// let factory = tautline_cc::Factory::new(|config| {
///     Box::new(Constant(Verdict {
///         cwnd: config.mss * 100,
///         ssthresh: Bytes::MAX,
///         pacing_rate: Rate::mbit(10),
///         burst: config.mss * 2,
///     }))
/// });
/// # assert_eq!(factory.build(&tautline_cc::Config::new(Bytes::new(1000))).verdict().cwnd, Bytes::new(100_000));
/// ```
pub trait Controller: Send {
    /// The name in `net.ipv4.tcp_congestion_control`.
    fn name(&self) -> &'static str;

    /// Data was newly acknowledged, cumulatively or selectively.
    fn on_ack(&mut self, ack: &Ack);

    /// The path or the local host signaled congestion. Called once per episode (fast recovery,
    /// window of CE marks), and once per expiry of the retransmission timer.
    fn on_congestion(&mut self, congestion: &Congestion);

    /// The last congestion signal proved spurious: revert its effects.
    fn on_undo(&mut self, now: Instant);

    /// Transmission resumes with nothing in flight, however short the pause was.
    fn on_idle(&mut self, idle: &Idle);

    /// Window and rate, valid until the next call of another method.
    fn verdict(&self) -> Verdict;

    /// One segment was found lost, by acknowledgments, by a timer or by a drop inside this host.
    /// Called for each lost segment, before the [`on_ack`](Self::on_ack) or
    /// [`on_congestion`](Self::on_congestion) of the same event. Default: ignores it, because
    /// `on_congestion` is enough for a window-based controller.
    fn on_lost(&mut self, _loss: &Loss) {}

    /// Takes over a live connection from another controller: starts from its window, like Linux
    /// when `TCP_CONGESTION` changes. Called once, before any event. Default: starts anew.
    fn adopt(&mut self, _before: &Verdict) {}

    /// Less than the window was in flight for a retransmission timeout or longer, although neither
    /// the window nor the send buffer limited the sender (RFC 2861 §3.1). Never called during an
    /// episode. Default: ignores it, which is right for a controller that models the path.
    fn on_underuse(&mut self, _underuse: &Underuse) {}

    /// Estimates for statistics and plots. Default: empty.
    fn model(&self) -> Model {
        Model::default()
    }

    /// The feedback about congestion marks that the controller needs. Called once per connection,
    /// before it opens, and when the controller is replaced. Default: [`Ecn::Classic`].
    fn ecn(&self) -> Ecn {
        Ecn::Classic
    }

    /// Owner of the window during loss recovery. May change between calls. Default:
    /// [`Recovery::Prr`].
    fn recovery(&self) -> Recovery {
        Recovery::Prr
    }

    /// Largest number of segments in one packet that the device cuts (TSO). `autosized`: what the
    /// pacing rate carries in about a millisecond, and more on short paths. Default: `autosized`,
    /// at least two (Linux `tcp_min_tso_segs`).
    fn packet_segments(&self, autosized: u64) -> u64 {
        autosized.max(2)
    }
}

impl fmt::Debug for dyn Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name())
            .field("verdict", &self.verdict())
            .finish_non_exhaustive()
    }
}

/// The effects of one acknowledgment. Amounts are in bytes of payload.
///
/// A transport other than `tautline-stack` (QUIC, say) starts from [`Ack::new`] and adds the fields
/// that it knows:
///
/// | controller | fields beyond `now`, `acked`, `in_flight` |
/// |---|---|
/// | all | `srtt`, `state`, `cwnd_limited` |
/// | HyStart++ (CUBIC) | `rtt`, `round_start` |
/// | SEARCH (CUBIC) | `rtt` |
/// | HyStart (CUBIC as in Linux) | `rtt`, `delivered` |
/// | DCTCP, Prague | `delivered`, `lost`, `marked` |
/// | BBR, BBRv3 | `rtt`, `min_rtt`, `delivered`, `rate`, `lost`, `prior_in_flight`; [`Controller::on_lost`] |
///
/// [`Sampler`](crate::Sampler) computes `delivered` and `rate`.
///
/// ```
/// use std::time::Duration;
/// use tautline_base::{Bytes, Instant};
/// use tautline_cc::Ack;
///
/// let rtt = Duration::from_millis(20);
/// let ack = Ack {
///     rtt: Some(rtt),
///     srtt: rtt,
///     ..Ack::new(Instant::from_secs(1), Bytes::new(2_400), Bytes::new(12_000))
/// };
/// assert_eq!(ack.prior_in_flight, Bytes::new(14_400));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    /// Time of arrival.
    pub now: Instant,
    /// Newly delivered: cumulatively acknowledged and newly SACKed.
    pub acked: Bytes,
    /// Newly found lost while it was processed.
    pub lost: Bytes,
    /// In flight before it.
    pub prior_in_flight: Bytes,
    /// In flight after it.
    pub in_flight: Bytes,
    /// RTT sample of the latest-sent segment it delivered, if that segment was sent only once.
    pub rtt: Option<Duration>,
    /// Smoothed RTT including the sample; zero before the first sample.
    pub srtt: Duration,
    /// Lowest recent RTT of the path; zero before the first sample.
    pub min_rtt: Duration,
    /// Total delivered so far, for round counting.
    pub delivered: Bytes,
    /// Delivery-rate sample; `None` if the acknowledgment gave no valid one.
    pub rate: Option<RateSample>,
    /// The window (not the application) limited the sender in the flight that this acknowledges.
    /// Windows grow only then.
    pub cwnd_limited: bool,
    /// A new round trip began with this acknowledgment.
    pub round_start: bool,
    /// Congestion state of the transport after this acknowledgment.
    pub state: CongestionState,
    /// Part of `acked` that arrived with a congestion mark, as far as the peer's echoes say.
    pub marked: Bytes,
    /// The receiver may have delayed it: it covers a lone segment that was less than full. Its RTT
    /// sample is unreliable.
    pub delayed: bool,
    /// When the pacer releases the next segment; not after `now` if at once. Segments that depart
    /// until then count as in flight although they are not in the network yet.
    pub next_departure: Instant,
}

impl Ack {
    /// An acknowledgment of `acked` bytes that leaves `in_flight` bytes in flight, of a sender
    /// that the window limits, outside any episode; no samples.
    pub fn new(now: Instant, acked: Bytes, in_flight: Bytes) -> Self {
        Self {
            now,
            acked,
            prior_in_flight: in_flight + acked,
            in_flight,
            cwnd_limited: true,
            next_departure: now,
            ..Self::default()
        }
    }
}

/// Congestion state of the transport (Linux `tcp_ca_state`; Disorder counts as open).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionState {
    /// No congestion episode.
    #[default]
    Open,
    /// The window shrinks because of a mark or of a drop inside this host; nothing was lost in the
    /// network.
    Cwr,
    /// Fast recovery. PRR owns the window of window-based controllers.
    Recovery,
    /// After a retransmission timeout, until all data sent before it is acknowledged. The window
    /// grows by slow start.
    Loss,
}

/// One segment that was found lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Time of detection.
    pub now: Instant,
    /// Payload of the segment.
    pub bytes: Bytes,
    /// In flight when it was sent, itself included.
    pub sent_in_flight: Bytes,
    /// Lost since its transmission, itself included.
    pub lost_since: Bytes,
    /// Total delivered when it was sent.
    pub prior_delivered: Bytes,
    /// The application limited its flight.
    pub app_limited: bool,
}

/// Transmission resumes with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Time of the first transmission.
    pub now: Instant,
    /// Time with nothing in flight.
    pub idle: Duration,
    /// The retransmission timeout in force.
    pub rto: Duration,
    /// The application had nothing to send, rather than the peer's window being closed.
    pub app_limited: bool,
}

/// A window that was not fully used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Underuse {
    /// End of the period.
    pub now: Instant,
    /// Most bytes in flight during the period.
    pub used: Bytes,
}

/// The feedback that a controller needs from explicit congestion notification, where the
/// transport's configuration allows ECN at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// One reduction per window of marks: data carries ECT(0), echoes follow RFC 3168 unless the
    /// ends negotiated AccECN.
    #[default]
    Classic,
    /// The share of marked bytes: data carries ECT(0), as do retransmissions and pure
    /// acknowledgments, and echoes follow RFC 8257 §3.2 or AccECN. Only for networks under one
    /// administration.
    Dctcp,
    /// The share of marked bytes, and the queues of L4S (RFC 9331): data carries ECT(1), and AccECN
    /// (RFC 9768) is required; without it, data is not ECN-capable.
    L4s,
}

/// A controller's estimates, in the terms of `ss -ti`. `None` where it has no such notion.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// Name of the controller's state; empty if it has only one.
    pub state: &'static str,
    /// Estimated bandwidth of the path.
    pub bandwidth: Option<Rate>,
    /// Estimated round trip without queues.
    pub min_rtt: Option<Duration>,
    /// Pacing rate over bandwidth.
    pub pacing_gain: Option<f64>,
    /// Window over bandwidth-delay product.
    pub cwnd_gain: Option<f64>,
    /// Share of marked segments (DCTCP's and Prague's alpha).
    pub alpha: Option<f64>,
    /// Plateau of CUBIC's curve in segments (`W_max`).
    pub plateau: Option<f64>,
    /// Time from the beginning of CUBIC's epoch to the plateau (`K`).
    pub k: Option<Duration>,
    /// Age of that epoch.
    pub epoch: Option<Duration>,
}

/// A congestion signal.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Time of detection.
    pub now: Instant,
    /// Kind of signal.
    pub signal: Signal,
    /// In flight at that time; after a timeout, without the segments that it declared lost.
    pub in_flight: Bytes,
}

/// Kinds of congestion signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Loss found by acknowledgments: fast recovery begins.
    Loss,
    /// The retransmission timer expired.
    Timeout,
    /// The peer echoed a congestion mark.
    Ce,
    /// A qdisc of this host dropped a packet.
    LocalDrop,
}

/// Owner of the window during loss recovery.
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
    /// Limit of the bytes in flight.
    pub cwnd: Bytes,
    /// Slow-start threshold; [`Bytes::MAX`] before the first reduction.
    pub ssthresh: Bytes,
    /// Rate at which payload may leave.
    pub pacing_rate: Rate,
    /// Most bytes that may leave back to back when the pacer is late.
    pub burst: Bytes,
}

impl Verdict {
    /// Rate and burst, for a [`Pacer`](crate::Pacer).
    pub fn pace(&self) -> Pace {
        Pace {
            rate: self.pacing_rate,
            burst: self.burst,
        }
    }
}
