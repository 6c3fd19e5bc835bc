//! Traces: packets and the times at which they come, made from a seed. The same seed gives the same
//! trace everywhere.
//!
//! All are for a link of 12 Mbit/s. Times fall on odd nanoseconds and no packet is as long as the
//! next, so that hardly ever two events coincide whose order would be a matter of taste.

use tautline_base::{Instant, Item, Rate, SplitMix64};

use crate::frame::{Flow, Frame};

/// The purposes of the traces.
pub(crate) const LINK: Rate = Rate::mbit(12);

/// A packet and when it comes, in nanoseconds from the start.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) frame: Frame,
}

/// A seeded random number generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + (self.0.next_u64() % u64::from(high - low + 1)) as u32
    }

    /// From 0 to below 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One sender of UDP.
#[derive(Clone, Debug)]
struct Sender {
    flow: Flow,
    /// TOS byte with its ECN bits.
    tos: u8,
    /// Smallest and largest packet.
    sizes: (u32, u32),
    /// Load while on, as a share of the link.
    load: f64,
    /// Packets that come together, smallest and largest number.
    burst: (u32, u32),
    /// Mean milliseconds on and off; `None`: always on.
    phases: Option<(u32, u32)>,
}

/// DSCP and old TOS values that fall into different bands, tins and classes; ECT(0).
const CLASSES: [u8; 8] = [0x02, 0x22, 0xba, 0x8a, 0x12, 0x0a, 0x92, 0xc2];
/// Between packets that come together.
const BACK_TO_BACK_NS: u64 = 12_007;

impl Sender {
    fn new(number: u16, load: f64) -> Self {
        let flow = Flow {
            source: 1 + (number % 3) as u8,
            destination: 1 + (number / 2 % 3) as u8,
            number,
        };
        let tos = CLASSES[usize::from(number) % CLASSES.len()];
        Self {
            flow,
            tos,
            sizes: (1420, 1514),
            load,
            burst: (1, 1),
            phases: None,
        }
    }

    fn sizes(self, low: u32, high: u32) -> Self {
        Self {
            sizes: (low, high),
            ..self
        }
    }

    fn ecn(self, ecn: u8) -> Self {
        Self {
            tos: self.tos & 0xfc | ecn,
            ..self
        }
    }

    fn bursts(self, low: u32, high: u32) -> Self {
        Self {
            burst: (low, high),
            ..self
        }
    }

    fn phases(self, on: u32, off: u32) -> Self {
        Self {
            phases: Some((on, off)),
            ..self
        }
    }

    fn between(self, source: u8, destination: u8) -> Self {
        Self {
            flow: Flow {
                source,
                destination,
                ..self.flow
            },
            ..self
        }
    }

    /// Its packets until `end`. Gaps are from half to one and a half of what the load asks for.
    fn send(&self, rng: &mut Rng, end: u64, into: &mut Vec<Arrival>) {
        let ns_per_byte = 8e9 / (LINK.as_bits_per_sec() as f64 * self.load);
        let phase =
            |rng: &mut Rng, mean_ms: u32| (f64::from(mean_ms) * 1e6 * (0.5 + rng.share())) as u64;
        let mut at = (rng.share() * 5e6) as u64;
        let mut on_until = self.phases.map_or(u64::MAX, |(on, _)| at + phase(rng, on));
        while at < end {
            let (count, mut bytes) = (rng.between(self.burst.0, self.burst.1), 0);
            for packet in 0..count {
                let len = rng.between(self.sizes.0, self.sizes.1);
                bytes += len;
                let at = at + u64::from(packet) * BACK_TO_BACK_NS;
                into.push(Arrival {
                    at,
                    frame: Frame::new(self.flow, len, self.tos, None),
                });
            }
            at += (f64::from(bytes) * ns_per_byte * (0.5 + rng.share())) as u64;
            if let Some((on, off)) = self.phases
                && at >= on_until
            {
                at = at.max(on_until) + phase(rng, off);
                on_until = at + phase(rng, on);
            }
        }
    }
}

/// Sorts and numbers, a packet of several segments with the number of the first: the kernel counts its
/// identification on when it cuts it. Two packets never come within 6 µs of each other.
pub(crate) fn numbered(mut arrivals: Vec<Arrival>) -> Vec<Arrival> {
    const APART: u64 = 6_000;
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut earliest = 0;
    let mut next = 0u16;
    arrivals
        .into_iter()
        .map(|Arrival { at, frame }| {
            let at = at.max(earliest);
            earliest = at + APART;
            let number = next;
            next = next
                .checked_add(frame.segments())
                .expect("fewer than 65535 segments");
            Arrival {
                at,
                frame: frame.numbered(number),
            }
        })
        .collect()
}

/// The kinds of traffic, one trace each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Traffic {
    /// Six bulk senders, together 1.3 times the link.
    Overload,
    /// Bursts of up to 120 packets, 0.9 times the link on average.
    Bursts,
    /// Six senders of few small packets beside two of many large ones.
    Sparse,
    /// Packets of all sizes, 1.2 times the link.
    Mixed,
    /// Senders that come and go: from nothing to 2.4 times the link.
    OnOff,
    /// Not-ECT, ECT(0), ECT(1) and already marked packets, 1.3 times the link.
    Ecn,
    /// 48 senders, 1.25 times the link.
    Many,
    /// One source host with eight flows beside one with one, the same towards destinations.
    Hosts,
    /// Packets that name the time at which they want to leave (SO_TXTIME), some already past, some
    /// beyond any horizon.
    Departures,
}

impl Traffic {
    /// The seven that every qdisc is given.
    pub(crate) const USUAL: [Self; 7] = [
        Self::Overload,
        Self::Bursts,
        Self::Sparse,
        Self::Mixed,
        Self::OnOff,
        Self::Ecn,
        Self::Many,
    ];

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Its packets for `millis` of time.
    pub(crate) fn trace(self, millis: u32) -> Vec<Arrival> {
        let mut rng = Rng::new(self as u64 + 1);
        let senders: Vec<Sender> = match self {
            Self::Overload => (0..6)
                .map(|number| Sender::new(number, 1.3 / 6.0))
                .collect(),
            Self::Bursts => (0..4)
                .map(|number| Sender::new(number, 0.9 / 4.0).bursts(20, 120))
                .collect(),
            Self::Sparse => (0..8)
                .map(|number| match number {
                    0 | 3 => Sender::new(number, 0.65),
                    _ => Sender::new(number, 0.015).sizes(90, 300),
                })
                .collect(),
            Self::Mixed => (0..6)
                .map(|number| Sender::new(number, 0.2).sizes(64, 1514))
                .collect(),
            Self::OnOff => (0..6)
                .map(|number| Sender::new(number, 0.4).phases(300, 330))
                .collect(),
            Self::Ecn => (0..8)
                .map(|number| {
                    Sender::new(number, 1.3 / 8.0).ecn([0, 2, 1, 3][usize::from(number) % 4])
                })
                .collect(),
            Self::Many => (0..48)
                .map(|number| Sender::new(number, 1.25 / 48.0).sizes(200, 1514))
                .collect(),
            Self::Hosts => (0..18)
                .map(|number| {
                    let sender = Sender::new(number, 2.0 / 18.0).sizes(1380, 1420);
                    match number {
                        0..8 => sender.between(1, 1),
                        8 => sender.between(2, 2),
                        9..17 => sender.between(3, 3),
                        _ => sender.between(3, 4),
                    }
                })
                .collect(),
            Self::Departures => (0..6).map(|number| Sender::new(number, 0.15)).collect(),
        };
        let mut arrivals = Vec::new();
        for sender in senders {
            sender.send(&mut rng, u64::from(millis) * 1_000_000, &mut arrivals);
        }
        let mut arrivals = numbered(arrivals);
        if self == Self::Departures {
            for Arrival { at, frame } in &mut arrivals {
                // Mostly a few milliseconds ahead; one in fifty beyond ten seconds; one in ten in
                // the past.
                let ahead = match rng.between(0, 49) {
                    0 => 11_000_000_000,
                    1..5 => -3_000_000,
                    _ => (-(1.0 - rng.share()).ln() * 8e6) as i64,
                };
                *frame = frame
                    .clone()
                    .departing(Instant::from_nanos(at.saturating_add_signed(ahead)));
            }
        }
        arrivals
    }
}

/// Every flow of a trace, in the order of its first packet, with that packet.
pub(crate) fn flows(arrivals: &[Arrival]) -> Vec<&Frame> {
    let mut seen = std::collections::HashSet::new();
    arrivals
        .iter()
        .map(|arrival| &arrival.frame)
        .filter(|frame| seen.insert(frame.flow))
        .collect()
}

/// The job that `validation/linux/driver.py` reads.
pub(crate) fn job(tc: &str, arrivals: &[Arrival]) -> String {
    use std::fmt::Write;
    let hex = |frame: &Frame| -> String {
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        frame
            .headers()
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect()
    };
    let mut job = String::new();
    for line in tc.lines().map(str::trim).filter(|line| !line.is_empty()) {
        writeln!(job, "{line}").expect("a string grows");
    }
    for frame in flows(arrivals) {
        writeln!(job, "b {}", hex(frame)).expect("a string grows");
    }
    for Arrival { at, frame } in arrivals {
        let departure = match frame.departure() {
            Instant::ZERO => "-".into(),
            when => when.as_nanos().to_string(),
        };
        write!(
            job,
            "p {at} {} {departure} {} {}",
            frame.priority(),
            frame.whole_len(),
            hex(frame)
        )
        .expect("a string grows");
        match frame.segment_size() {
            Some(size) => writeln!(job, " {size}"),
            None => writeln!(job),
        }
        .expect("a string grows");
    }
    job
}
