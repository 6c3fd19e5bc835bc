//! Shared by the simulation tests: scenarios, an independent reader of TCP frames, a controller
//! with a fixed answer.

use std::time::Duration;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{Ack, Congestion, Controller, Factory, Idle, Verdict};
use tautline_sim::transfer::{SENDER, TransferNetwork};
use tautline_sim::{
    Check, Impairments, LinkConfig, Outcome, Pattern, Probability, Record, Transfer,
};
use tautline_stack::{Pacing, PacketEvent, TcpConfig, TcpInfo, TsqLimit, What};

/// Segment payload on a 1500-byte MTU with timestamps.
pub(crate) const MSS: u64 = 1448;
/// A full data frame.
pub(crate) const FRAME: u64 = 1514;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A link of `mbit` there with one `rtt` of buffer, a perfect one back.
pub(crate) fn path(mbit: u64, rtt: Duration) -> [LinkConfig; 2] {
    [
        LinkConfig::bottleneck(Rate::mbit(mbit), rtt / 2, rtt),
        LinkConfig {
            delay: rtt / 2,
            ..LinkConfig::default()
        },
    ]
}

/// A path without a queue that could fill: only the delay.
pub(crate) fn long_wire(rtt: Duration) -> [LinkConfig; 2] {
    let link = LinkConfig {
        delay: rtt / 2,
        ..LinkConfig::default()
    };
    [link.clone(), link]
}

pub(crate) fn percent(percent: f64) -> Probability {
    Probability::percent(percent).expect("a percentage")
}

/// Both directions of `transfer` suffer.
pub(crate) fn impaired(transfer: Transfer, impair: Impairments) -> Transfer {
    let links = transfer.links.map(|link| LinkConfig { impair, ..link });
    Transfer { links, ..transfer }
}

/// Runs a transfer; it must complete, be equal, and leave nothing behind.
#[track_caller]
pub(crate) fn run(transfer: &Transfer) -> Outcome {
    run_watched(transfer, |_| {})
}

/// [`run`], or `None` if the hosts never found each other: a path that loses packets may lose all
/// three questions of ARP, or their answers, and then the connection is refused in order.
#[track_caller]
pub(crate) fn run_if_found(transfer: &Transfer) -> Option<Outcome> {
    match transfer.run() {
        Err(error) if error.to_string().contains("nobody on the link answers") => None,
        Err(error) => panic!("{error}"),
        Ok(outcome) => {
            clean(transfer, &outcome);
            assert!(
                outcome.content_equal,
                "SEED={}: what arrived is not what was sent",
                transfer.seed
            );
            Some(outcome)
        }
    }
}

/// [`run`] that shows the network to `watch` after every step.
#[track_caller]
pub(crate) fn run_watched(
    transfer: &Transfer,
    watch: impl FnMut(&TransferNetwork<'_, ()>),
) -> Outcome {
    let outcome = transfer
        .run_watched(watch)
        .unwrap_or_else(|error| panic!("{error}"));
    clean(transfer, &outcome);
    assert!(
        outcome.content_equal,
        "SEED={}: what arrived is not what was sent",
        transfer.seed
    );
    outcome
}

/// The sender's connection, while it is open.
pub(crate) fn sender_info(network: &TransferNetwork<'_, ()>) -> Option<TcpInfo> {
    let end = network.endpoint(SENDER);
    let mut connections = end.apps.connections(&end.host);
    connections.next().map(|(_, info)| info)
}

/// [`run`] with a recorder.
#[track_caller]
pub(crate) fn run_recorded<R: Record>(transfer: &Transfer, recorder: R) -> (Outcome, R) {
    let data = || Pattern::new(Pcg32::seed_from_u64(transfer.seed), transfer.bytes);
    let mut check = Check::new(data());
    let result = transfer.run_with(
        data(),
        |bytes: &[u8]| check.compare(bytes),
        recorder,
        |_| {},
    );
    let (outcome, recorder) = result.unwrap_or_else(|error| panic!("{error}"));
    clean(transfer, &outcome);
    assert!(
        check.is_equal(),
        "SEED={}: what arrived is not what was sent",
        transfer.seed
    );
    (outcome, recorder)
}

/// Nothing is left behind and every account balances.
#[track_caller]
pub(crate) fn clean(transfer: &Transfer, outcome: &Outcome) {
    let seed = transfer.seed;
    assert_eq!(outcome.outstanding, 0, "SEED={seed}: frames leaked");
    assert_eq!(outcome.sockets, 0, "SEED={seed}: sockets leaked");
    assert_eq!(outcome.received, transfer.bytes, "SEED={seed}");
    for (host, nic) in outcome.hosts.iter().zip(&outcome.nics) {
        assert_eq!(
            host.births,
            host.completed + host.dropped,
            "SEED={seed}: a packet has no end"
        );
        assert_eq!(
            host.completed, nic.tx_packets,
            "SEED={seed}: completions are what the NIC sent"
        );
        assert_eq!(
            host.frames_in, nic.rx_frames,
            "SEED={seed}: the host saw what the NIC kept"
        );
    }
    for (number, link) in outcome.links.iter().enumerate() {
        assert_eq!(link.entered, outcome.nics[number].tx_frames, "SEED={seed}");
        assert_eq!(
            link.entered + link.duplicated,
            link.arrived + link.lost + link.drops(),
            "SEED={seed}"
        );
        let nic = &outcome.nics[1 - number];
        assert_eq!(link.arrived, nic.rx_frames + nic.rx_dropped, "SEED={seed}");
    }
}

/// A controller whose answer never changes.
#[derive(Clone, Copy)]
pub(crate) struct Fixed {
    pub(crate) cwnd: Bytes,
    pub(crate) pacing_rate: Rate,
}

impl Fixed {
    pub(crate) fn factory(self) -> Factory {
        Factory::new(move |_| Box::new(self))
    }
}

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _congestion: &Congestion) {}

    fn on_undo(&mut self, _now: Instant) {}

    fn on_idle(&mut self, _idle: &Idle) {}

    fn verdict(&self) -> Verdict {
        Verdict {
            cwnd: self.cwnd,
            ssthresh: Bytes::MAX,
            pacing_rate: self.pacing_rate,
            burst: Bytes::new(2 * FRAME),
        }
    }
}

/// A receiver whose window does not open any more, and that acknowledges every second segment
/// therefore.
pub(crate) fn wide() -> TcpConfig {
    TcpConfig {
        receive_start: Bytes::mib(6),
        ..TcpConfig::default()
    }
}

/// TCP with nothing in the way but the fixed window of `segments`.
pub(crate) fn window_only(segments: u64) -> TcpConfig {
    let fixed = Fixed {
        cwnd: Bytes::new(segments * MSS),
        pacing_rate: Rate::MAX,
    };
    TcpConfig {
        congestion: fixed.factory(),
        pacing: Pacing::Off,
        tsq: TsqLimit::Off,
        ..TcpConfig::default()
    }
}

/// The TCP header of an Ethernet/IPv4 frame, read apart from the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpFrame {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) payload: u32,
}

impl TcpFrame {
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        if frame.get(12..14) != Some(&[0x08, 0x00]) || frame.get(23) != Some(&6) {
            return None;
        }
        let word = |at: usize| {
            u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
        };
        let total = u32::from(u16::from_be_bytes([frame[16], frame[17]]));
        let header = u32::from(frame[46] >> 4) * 4;
        Some(Self {
            seq: word(38),
            ack: word(42),
            payload: total - 20 - header,
        })
    }
}

/// Bytes that the sender has put on the wire and not yet seen acknowledged, counted from the frames
/// alone. Without loss this is what is in flight.
#[derive(Default)]
pub(crate) struct Flight {
    sent_to: Option<u32>,
    acked_to: Option<u32>,
    pub(crate) peak: u32,
}

impl Record for Flight {
    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        let (0, Some(tcp)) = (host, TcpFrame::read(frame)) else {
            return;
        };
        match event.what {
            What::Ringed if tcp.payload > 0 => {
                let end = tcp.seq.wrapping_add(tcp.payload);
                let newest = self
                    .sent_to
                    .is_none_or(|sent| end.wrapping_sub(sent) as i32 > 0);
                self.sent_to = if newest { Some(end) } else { self.sent_to };
            }
            What::Received => self.acked_to = Some(tcp.ack),
            _ => {}
        }
        if let (Some(sent), Some(acked)) = (self.sent_to, self.acked_to) {
            // The acknowledgment of a FIN is one past the data.
            self.peak = self
                .peak
                .max((sent.wrapping_sub(acked) as i32).max(0) as u32);
        }
    }
}

/// When the sender's data frames entered its ring.
#[derive(Default)]
pub(crate) struct Departures(pub(crate) Vec<(Instant, u64)>);

impl Record for Departures {
    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        let data = TcpFrame::read(frame).is_some_and(|tcp| tcp.payload > 0);
        if host == 0 && event.what == What::Ringed && data {
            self.0.push((event.at, u64::from(event.len)));
        }
    }
}

impl Departures {
    /// Those from `start` on.
    pub(crate) fn since(&self, start: Duration) -> Self {
        let start = Instant::ZERO + start;
        Self(
            self.0
                .iter()
                .copied()
                .filter(|(at, _)| *at >= start)
                .collect(),
        )
    }

    /// The most bytes that departed within any `span`.
    pub(crate) fn most_within(&self, span: Duration) -> u64 {
        let (mut first, mut sum, mut most) = (0, 0, 0);
        for (at, len) in &self.0 {
            sum += len;
            while *at - self.0[first].0 >= span {
                sum -= self.0[first].1;
                first += 1;
            }
            most = most.max(sum);
        }
        most
    }
}
