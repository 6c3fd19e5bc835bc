//! [`Flight`]: what was sent and is not acknowledged, with its timers, loss recovery, congestion
//! control and pacing.

mod acknowledge;
mod congestion;
mod cwnd_validation;
mod duplicates;
mod info;
mod path_mtu;
pub(super) mod recovery;
mod repair;
mod rtt;
mod segments;
mod sending;
mod tail_probe;
mod timers;

use std::sync::Arc;

use tautline_base::{Bytes, Instant, Rate};

use self::congestion::Congestion;
use self::path_mtu::PathMtu;
pub(in crate::tcp) use self::path_mtu::on_link_mtu;
use self::recovery::{Phase, Recovery};
pub(in crate::tcp) use self::rtt::MAX_RTO;
pub(in crate::tcp) use self::rtt::RttEstimator;
pub(in crate::tcp) use self::segments::Delivery;
use self::segments::Segments;
pub(in crate::tcp::send) use self::segments::sacked_runs;
pub(in crate::tcp::send) use self::segments::{discard_records, record_memory};
use self::timers::SendTimers;
pub(in crate::tcp) use self::timers::sooner;
use crate::config::{Pacing, TcpConfig};
use crate::seq;
use crate::tcp::Tuple;
use crate::wire::TIMESTAMP_OPTION;

/// Our numbers on the wire, random per connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Numbers {
    /// Initial sequence number (RFC 6528).
    pub(in crate::tcp) isn: u32,
    /// Added to the clock to form timestamps (RFC 7323 §5.4).
    pub(in crate::tcp) timestamp_offset: u32,
}

impl Numbers {
    /// A seed for random choices of the connection, known only to those who see its segments.
    pub(in crate::tcp) fn seed(&self) -> u64 {
        u64::from(self.isn) << 32 | u64::from(self.timestamp_offset)
    }

    /// Our timestamp clock, in milliseconds.
    pub(in crate::tcp) fn timestamp(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.timestamp_offset)
    }

    /// A segment sent between `first` and `now` may have carried the timestamp `value`.
    pub(in crate::tcp) fn has_stamped(&self, value: u32, first: Instant, now: Instant) -> bool {
        !seq::older(value, self.timestamp(first)) && !seq::older(self.timestamp(now), value)
    }

    /// Parameters of a controller for segments of `segment` bytes.
    fn controller(&self, segment: u64, config: &TcpConfig) -> tautline_cc::Config {
        let seed = self.seed();
        tautline_cc::Config {
            seed,
            paced: config.pacing != Pacing::Off,
            ..tautline_cc::Config::new(Bytes::new(segment))
        }
    }
}

/// Result of the handshake for the sending half.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct SendOptions {
    pub(in crate::tcp) sack: bool,
    /// Most payload bytes that both ends' links carry in a segment.
    pub(in crate::tcp) most: u64,
    /// Network and TCP headers of a data segment, options included.
    pub(in crate::tcp) headers: usize,
}

/// Totals for `info()`.
#[derive(Debug, Default)]
struct Totals {
    bytes_acked: u64,
    retransmits: u64,
    timeouts: u32,
    local_drops: u32,
    spurious: u32,
    /// Segments the peer has reported, cumulatively or selectively.
    delivered: u64,
    /// The latest delivery rate, and whether the application limited it.
    delivery_rate: Option<(Rate, bool)>,
}

/// Everything sent and not acknowledged.
pub(in crate::tcp) struct Flight {
    config: Arc<TcpConfig>,
    numbers: Numbers,
    /// The peer reports what arrives out of order.
    sack: bool,
    /// Most payload in a segment on the path as it is known.
    mss: u64,
    pub(in crate::tcp) segments: Segments,
    pub(in crate::tcp) rtt: RttEstimator,
    pub(in crate::tcp) congestion: Congestion,
    pub(in crate::tcp) recovery: Recovery,
    pub(super) timers: SendTimers,
    pub(in crate::tcp) path: PathMtu,
    /// Timeouts since the peer last acknowledged anything new.
    timeouts: u32,
    /// When the flight became empty.
    idle_since: Option<Instant>,
    /// The qdisc refused a segment. Nothing is sent until it may have room again: a completion of
    /// ours, an acknowledgment or a timeout.
    pub(in crate::tcp) refused: bool,
    /// The window was reduced: with classic ECN the next new data says so (RFC 3168 §6.1.2).
    pub(in crate::tcp) cwr_due: bool,
    totals: Totals,
}

impl Flight {
    /// An empty flight. `link`: MTU of this host's link.
    pub(super) fn new(
        numbers: Numbers,
        tuple: &Tuple,
        link: usize,
        config: Arc<TcpConfig>,
    ) -> Self {
        let first = (link - tuple.headers_len() - TIMESTAMP_OPTION) as u64;
        Self {
            numbers,
            sack: false,
            mss: tuple.default_mss().into(),
            segments: Segments::default(),
            rtt: RttEstimator::default(),
            congestion: Congestion::new(
                &config.congestion,
                &numbers.controller(first, &config),
                config.pacer,
            ),
            recovery: Recovery::default(),
            timers: SendTimers::default(),
            path: PathMtu::new(link, tuple),
            timeouts: 0,
            idle_since: None,
            refused: false,
            cwr_due: false,
            totals: Totals::default(),
            config,
        }
    }

    /// Takes over the result of the handshake and starts the controller with the real segment size.
    pub(super) fn open(&mut self, options: SendOptions) {
        self.sack = options.sack;
        self.path.open(options.most, options.headers);
        self.mss = options.most;
        self.start_controller();
    }

    /// Starts the controller: with one segment if the SYN was retransmitted more than once (RFC
    /// 6928 §2, Linux).
    fn start_controller(&mut self) {
        let mut with = self.numbers.controller(self.mss, &self.config);
        if self.una() == 0 && self.timeouts > 1 {
            with.initial_window = with.mss;
        }
        self.congestion.start(&self.config.congestion, &with);
    }

    pub(super) fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// Replaces the configuration.
    pub(in crate::tcp) fn configure(&mut self, config: Arc<TcpConfig>) {
        self.config = config;
    }

    /// The handshake is complete. Timeouts of the SYN-ACK say nothing about the window for data.
    pub(in crate::tcp) fn opened(&mut self) {
        if self.timeouts > 0 {
            self.start_controller();
        }
    }

    /// Replaces the controller; the new one begins with the window of the one before (Linux
    /// `TCP_CONGESTION`).
    pub(in crate::tcp) fn set_congestion(&mut self) {
        let before = *self.congestion.verdict();
        self.start_controller();
        self.congestion
            .update(|controller| controller.adopt(&before));
    }

    /// Our initial sequence number and timestamp clock.
    pub(in crate::tcp) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// SND.UNA as a stream offset.
    pub(in crate::tcp) fn una(&self) -> u64 {
        self.segments.una()
    }

    /// SND.NXT as a stream offset.
    pub(in crate::tcp) fn nxt(&self) -> u64 {
        self.segments.nxt()
    }

    /// Most payload in a segment.
    pub(in crate::tcp) fn mss(&self) -> u64 {
        self.mss
    }

    /// The stream offset nearest to SND.UNA that `wire` names.
    pub(in crate::tcp) fn offset(&self, wire: u32) -> Option<u64> {
        seq::from_wire(self.numbers.isn, self.una(), wire)
    }

    /// Clears the count of timeouts: the peer's closed window explains them, not the path.
    pub(in crate::tcp::send) fn forgive_timeouts(&mut self) {
        self.timeouts = 0;
    }

    /// The rate at which payload leaves: the controller's, within the application's limit.
    pub(in crate::tcp) fn pacing_rate(&self) -> Rate {
        let rate = self.congestion.verdict().pacing_rate;
        self.config
            .max_pacing_rate
            .filter(|most| *most > Rate::ZERO)
            .map_or(rate, |most| rate.min(most))
    }

    /// The congestion window in force.
    pub(super) fn cwnd(&self) -> Bytes {
        match self.recovery.phase {
            Phase::Recovery(_) if self.congestion.uses_prr() => self.recovery.window,
            _ => self.congestion.verdict().cwnd,
        }
    }
}
