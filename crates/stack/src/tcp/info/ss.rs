//! [`Ss`]: a connection in one line, with the names that `ss -tin` uses and ours after them.

use std::fmt;
use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_cc::Model;

use super::TcpInfo;
use crate::tcp::ecn::EcnState;

/// A [`TcpInfo`] as `ss -tin` would print it: times in milliseconds, rates in bits per second,
/// windows in segments. Fields without a counterpart in Linux follow at the end: the account of TCP
/// Small Queues, the pacer's next departure, RACK's window, the account of PRR.
///
/// ```
/// # fn shows(host: &impl Fn() -> Option<tautline_stack::TcpInfo>) {
/// if let Some(info) = host() {
///     println!("{}", info.ss());
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ss<'a>(&'a TcpInfo);

impl TcpInfo {
    /// The connection in one line.
    pub fn ss(&self) -> Ss<'_> {
        Ss(self)
    }
}

/// Milliseconds with as many digits as it takes, at most three.
struct Ms(Duration);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match (micros / 1000, micros % 1000) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, rest) => write!(f, "{whole}.{}", format!("{rest:03}").trim_end_matches('0')),
        }
    }
}

/// Bits per second.
struct Bps(Rate);

impl fmt::Display for Bps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}bps", u128::from(self.0.as_bytes_per_sec()) * 8)
    }
}

impl Ss<'_> {
    /// Whole segments, rounded up.
    fn segments(&self, bytes: Bytes) -> u64 {
        bytes.get().div_ceil(self.0.mss.get().max(1))
    }

    fn negotiated(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        write!(f, "{}", info.state)?;
        if info.timestamps {
            f.write_str(" ts")?;
        }
        if info.sack {
            f.write_str(" sack")?;
        }
        match info.ecn {
            EcnState::Off => {}
            EcnState::Classic => f.write_str(" ecn")?,
            EcnState::AccEcn => f.write_str(" accecn")?,
        }
        if info.received_ce > 0 {
            f.write_str(" ecnseen")?;
        }
        write!(f, " {}", info.congestion)?;
        if let Some((peer, own)) = info.scales {
            write!(f, " wscale:{peer},{own}")?;
        }
        Ok(())
    }

    fn sender(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        write!(f, " rto:{}", Ms(info.rto))?;
        if info.backoff > 0 {
            write!(f, " backoff:{}", info.backoff)?;
        }
        write!(
            f,
            " rtt:{}/{} ato:{}",
            Ms(info.srtt),
            Ms(info.rttvar),
            Ms(info.delayed_ack)
        )?;
        let sizes = [info.mss, info.path_mtu, info.peer_mss, info.advertised_mss].map(Bytes::get);
        write!(
            f,
            " mss:{} pmtu:{} rcvmss:{} advmss:{}",
            sizes[0], sizes[1], sizes[2], sizes[3]
        )?;
        write!(f, " cwnd:{}", info.cwnd.get() / info.mss.get().max(1))?;
        if info.ssthresh < Bytes::MAX {
            write!(f, " ssthresh:{}", self.segments(info.ssthresh))?;
        }
        Ok(())
    }

    fn counters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        let always = [
            ("bytes_sent", info.bytes_sent),
            ("bytes_acked", info.bytes_acked),
            ("bytes_received", info.bytes_received),
            ("segs_out", info.segments_out),
            ("segs_in", info.segments_in),
            ("data_segs_out", info.data_segments_out),
            ("data_segs_in", info.data_segments_in),
        ];
        always
            .iter()
            .try_for_each(|(name, count)| write!(f, " {name}:{count}"))?;
        non_zero(f, &[("bytes_retrans", info.bytes_retransmitted)])
    }

    fn rates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        if info.srtt > Duration::ZERO {
            write!(f, " send {}", Bps(Rate::from_amount(info.cwnd, info.srtt)))?;
        }
        for (name, age) in [
            ("lastsnd", info.last_sent),
            ("lastrcv", info.last_received),
            ("lastack", Some(info.last_heard)),
        ] {
            if let Some(age) = age {
                write!(f, " {name}:{}", age.as_millis())?;
            }
        }
        if info.pacing_rate < Rate::MAX {
            write!(f, " pacing_rate {}", Bps(info.pacing_rate))?;
        }
        if let Some(rate) = info.delivery_rate {
            write!(f, " delivery_rate {}", Bps(rate))?;
        }
        write!(f, " delivered:{}", info.delivered)?;
        non_zero(f, &[("delivered_ce", info.delivered_ce)])?;
        if info.app_limited {
            f.write_str(" app_limited")?;
        }
        let Some(limited) = info.limited else {
            return Ok(());
        };
        write!(f, " busy:{}ms", Ms(limited.busy))?;
        let shares = [
            ("rwnd_limited", limited.peer_window),
            ("sndbuf_limited", limited.send_buffer),
            ("cwnd_limited", limited.cwnd),
            ("tsq_limited", limited.tsq),
            ("pacer_limited", limited.pacer),
        ];
        for (name, time) in shares
            .into_iter()
            .filter(|(_, time)| *time > Duration::ZERO)
        {
            let percent = 100.0 * time.as_secs_f64() / limited.busy.max(time).as_secs_f64();
            write!(f, " {name}:{}ms({percent:.1}%)", Ms(time))?;
        }
        Ok(())
    }

    fn losses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        non_zero(f, &[("unacked", info.segments_unacked as u64)])?;
        if info.retransmits > 0 {
            write!(
                f,
                " retrans:{}/{}",
                info.retransmissions_out, info.retransmits
            )?;
        }
        non_zero(
            f,
            &[
                ("lost", self.segments(info.lost)),
                ("sacked", self.segments(info.sacked)),
                ("dsack_dups", info.duplicates),
            ],
        )?;
        if info.reorderings > 0 {
            write!(
                f,
                " reordering:{} reord_seen:{}",
                info.reordering, info.reorderings
            )?;
        }
        Ok(())
    }

    fn windows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        if let Some(rtt) = info.receive_rtt {
            write!(f, " rcv_rtt:{}", Ms(rtt))?;
        }
        write!(f, " rcv_space:{}", info.receive_space.get())?;
        non_zero(f, &[("notsent", info.unsent.get())])?;
        if info.min_rtt > Duration::ZERO {
            write!(f, " minrtt:{}", Ms(info.min_rtt))?;
        }
        non_zero(f, &[("rcv_ooopack", info.out_of_order as u64)])?;
        write!(
            f,
            " snd_wnd:{} rcv_wnd:{}",
            info.peer_window.get(),
            info.receive_window.get()
        )
    }

    /// Values that Linux does not report.
    fn ours(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0;
        let limit = info
            .tsq_limit
            .map_or_else(|| "off".to_owned(), |limit| limit.get().to_string());
        write!(
            f,
            " tsq:({}/{limit},throttles:{})",
            info.tsq_charged.get(),
            info.tsq_throttles
        )?;
        if info.next_departure > Duration::ZERO {
            write!(f, " departs:{}", Ms(info.next_departure))?;
        }
        write!(f, " rack:(window:{})", Ms(info.reordering_window))?;
        if let Some(reduction) = info.reduction {
            let [delivered, out, divisor] =
                [reduction.delivered, reduction.out, reduction.divisor].map(Bytes::get);
            write!(f, " prr:(delivered:{delivered},out:{out},of:{divisor})")?;
        }
        if info.phase != tautline_cc::CongestionState::Open {
            write!(f, " phase:{:?}", info.phase)?;
        }
        non_zero(
            f,
            &[
                ("timeouts", info.timeouts),
                ("tail_probes", info.tail_probes),
                ("spurious", info.spurious),
                ("local_drops", info.local_drops),
            ],
        )
    }
}

/// The nonzero counters.
fn non_zero(f: &mut fmt::Formatter<'_>, counters: &[(&str, u64)]) -> fmt::Result {
    counters
        .iter()
        .filter(|(_, count)| *count > 0)
        .try_for_each(|(name, count)| write!(f, " {name}:{count}"))
}

/// The controller's model, in parentheses behind its name.
fn model(f: &mut fmt::Formatter<'_>, name: &str, model: &Model) -> fmt::Result {
    let ms = |time: Duration| Ms(time).to_string();
    let gain = |gain: f64| format!("{gain:.3}");
    let facts = [
        ("bw", model.bandwidth.map(|rate| Bps(rate).to_string())),
        ("mrtt", model.min_rtt.map(ms)),
        ("pacing_gain", model.pacing_gain.map(gain)),
        ("cwnd_gain", model.cwnd_gain.map(gain)),
        ("alpha", model.alpha.map(gain)),
        (
            "w_max",
            model.plateau.map(|plateau| format!("{plateau:.1}")),
        ),
        ("k", model.k.map(ms)),
        ("epoch", model.epoch.map(ms)),
    ];
    let state = Some(("state", model.state.to_owned())).filter(|_| !model.state.is_empty());
    let known = state.into_iter().chain(
        facts
            .into_iter()
            .filter_map(|(name, fact)| Some((name, fact?))),
    );
    let known: Vec<String> = known.map(|(name, fact)| format!("{name}:{fact}")).collect();
    if known.is_empty() {
        Ok(())
    } else {
        write!(f, " {name}:({})", known.join(","))
    }
}

impl fmt::Display for Ss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.negotiated(f)?;
        self.sender(f)?;
        self.counters(f)?;
        model(f, self.0.congestion, &self.0.model)?;
        self.rates(f)?;
        self.losses(f)?;
        self.windows(f)?;
        self.ours(f)
    }
}
