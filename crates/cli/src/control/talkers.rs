//! [`Talkers`]: the hosts and flows of one direction that carry most, in bounded memory.
//!
//! Hosts and flows are ranked by the bytes that they sent or lost recently: weights halve every ten
//! seconds. A host or flow with more than 1/256 of these bytes is in the table. Its counters begin
//! when it enters the table.

mod space_saving;

use std::fmt;
use std::mem::take;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_base::headers::{Headers, IpHeader, Medium, TCP, UDP};
use tautline_base::{HashKey, Instant};
use tautline_stack::{PacketEvent, Tracer, What};

use super::state::Amount;
use space_saving::SpaceSaving;

/// Counters of each table.
const COUNTERS: usize = 256;
/// Hosts and flows shown.
const SHOWN: usize = 16;
/// Interval after which weights halve.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// The tables of one direction.
pub struct Talkers {
    medium: Medium,
    /// By source and by destination.
    hosts: [SpaceSaving<Host, Traffic>; 2],
    flows: SpaceSaving<Flow, Traffic>,
    /// The packet of the next event was marked.
    marked: bool,
    /// When the weights were last halved.
    halved: Instant,
}

/// An IPv6 address, or an IPv4-mapped one, in two words: cheaper to hash and to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Host(u64, u64);

impl Host {
    fn new(address: IpAddr) -> Self {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        Self((bits >> 64) as u64, bits as u64)
    }

    fn address(self) -> IpAddr {
        let bits = u128::from(self.0) << 64 | u128::from(self.1);
        Ipv6Addr::from_bits(bits).to_canonical()
    }
}

/// Which end of its packets a host is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// It sends them.
    #[default]
    Source,
    /// It receives them.
    Destination,
}

/// Packets of the same addresses, protocol and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    source: Host,
    destination: Host,
    /// The protocol and the ports, each with a bit that says whether it is known.
    transport: u64,
}

const HAS_PORTS: u64 = 1 << 32;
const HAS_PROTOCOL: u64 = 1 << 33;

impl Flow {
    fn new(ip: &IpHeader, [source, destination]: [Host; 2]) -> Self {
        let protocol = ip
            .protocol
            .map(|number| HAS_PROTOCOL | u64::from(number) << 40);
        let ports = ip
            .ports
            .map(|(from, to)| HAS_PORTS | u64::from(from) << 16 | u64::from(to));
        Self {
            source,
            destination,
            transport: protocol.unwrap_or(0) | ports.unwrap_or(0),
        }
    }

    fn protocol(self) -> Option<u8> {
        (self.transport & HAS_PROTOCOL > 0).then_some((self.transport >> 40) as u8)
    }

    fn ports(self) -> Option<(u16, u16)> {
        let ports = ((self.transport >> 16) as u16, self.transport as u16);
        (self.transport & HAS_PORTS > 0).then_some(ports)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    since: Option<Instant>,
    sent: Amount,
    drops: u64,
    marks: u64,
    /// Of the packets sent.
    sojourn_sum: Duration,
    sojourn_max: Duration,
}

/// The tables, each with the heaviest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopTalkers {
    /// Sources, then destinations.
    pub hosts: Vec<TopHost>,
    /// Flows.
    pub flows: Vec<TopFlow>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopHost {
    /// IP address.
    pub address: String,
    /// Whether it is the source or the destination.
    pub end: End,
    /// Its counters.
    #[serde(flatten)]
    pub traffic: Counters,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopFlow {
    /// `tcp 10.0.0.1:5001 > 10.0.0.2:443`.
    pub flow: String,
    /// Its counters.
    #[serde(flatten)]
    pub traffic: Counters,
}

/// Counters since a host or flow entered its table. A packet of several segments counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// When that was, in seconds since the middlebox began.
    pub since_s: f64,
    /// Packets sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked with congestion experienced.
    pub marks: u64,
    /// Sum of the sojourn times of the packets sent, in nanoseconds.
    pub sojourn_sum_ns: u64,
    /// The longest.
    pub sojourn_max_ns: u64,
}

impl Talkers {
    /// Empty tables for packets of `medium`; `seed` keys their hashes.
    pub fn new(medium: Medium, seed: u64) -> Self {
        let key = HashKey::from_seed(seed);
        Self {
            medium,
            hosts: [0, 1].map(|_| SpaceSaving::new(COUNTERS, key)),
            flows: SpaceSaving::new(COUNTERS, key),
            marked: false,
            halved: Instant::ZERO,
        }
    }

    /// The heaviest hosts and flows. The middlebox `began` then.
    pub fn top(&self, began: Instant) -> TopTalkers {
        let ends = [End::Source, End::Destination];
        let hosts = self.hosts.iter().zip(ends).flat_map(|(hosts, end)| {
            let hosts = hosts.heaviest(SHOWN).into_iter();
            hosts.map(move |(host, traffic)| TopHost {
                address: host.address().to_string(),
                end,
                traffic: traffic.counters(began),
            })
        });
        let flows = self.flows.heaviest(SHOWN).into_iter();
        TopTalkers {
            hosts: hosts.collect(),
            flows: flows
                .map(|(flow, traffic)| TopFlow {
                    flow: flow.to_string(),
                    traffic: traffic.counters(began),
                })
                .collect(),
        }
    }

    fn fade(&mut self, now: Instant) {
        let passed = now - self.halved;
        if passed < HALF_LIFE {
            return;
        }
        let times = passed.as_secs() / HALF_LIFE.as_secs();
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        for hosts in &mut self.hosts {
            hosts.halve(times);
        }
        self.flows.halve(times);
        self.halved = now;
    }

    fn count(&mut self, ip: &IpHeader, event: &PacketEvent, marked: bool) {
        let ends = [ip.source, ip.destination].map(Host::new);
        let weight = u64::from(event.len);
        let flow = self.flows.add(Flow::new(ip, ends), weight);
        flow.record(event, marked);
        for (hosts, end) in self.hosts.iter_mut().zip(ends) {
            hosts.add(end, weight).record(event, marked);
        }
    }
}

impl Tracer for Talkers {
    fn record(&mut self, event: &PacketEvent, frame: &[u8]) {
        match event.what {
            What::Marked => self.marked = true,
            What::Ringed | What::Dropped(_) => {
                let marked = take(&mut self.marked);
                self.fade(event.at);
                let headers = Headers::parse(frame, self.medium.network_offset(frame));
                if let Some(ip) = headers.ip {
                    self.count(&ip, event, marked);
                }
            }
            What::Born | What::Queued | What::Completed | What::Received => {}
        }
    }
}

impl Traffic {
    fn record(&mut self, event: &PacketEvent, marked: bool) {
        self.since.get_or_insert(event.at);
        if let What::Dropped(_) = event.what {
            self.drops += 1;
            return;
        }
        self.sent.packets += 1;
        self.sent.bytes += u64::from(event.len);
        self.marks += u64::from(marked);
        self.sojourn_sum += event.sojourn;
        self.sojourn_max = self.sojourn_max.max(event.sojourn);
    }

    fn counters(&self, began: Instant) -> Counters {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let since = self.since.map(|since| since - began);
        Counters {
            since_s: since.unwrap_or_default().as_secs_f64(),
            packets: self.sent.packets,
            bytes: self.sent.bytes,
            drops: self.drops,
            marks: self.marks,
            sojourn_sum_ns: nanos(self.sojourn_sum),
            sojourn_max_ns: nanos(self.sojourn_max),
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol() {
            Some(TCP) => f.write_str("tcp")?,
            Some(UDP) => f.write_str("udp")?,
            Some(number) => write!(f, "ip-{number}")?,
            None => f.write_str("ip")?,
        }
        let [source, destination] = [self.source, self.destination].map(Host::address);
        match self.ports() {
            Some((from, to)) => {
                let from = SocketAddr::new(source, from);
                write!(f, " {from} > {}", SocketAddr::new(destination, to))
            }
            None => write!(f, " {source} > {destination}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_base::DropReason;

    use super::*;

    /// An Ethernet frame of UDP from 10.0.0.`from` to 10.0.1.1, of 1000 bytes.
    fn frame(from: u8) -> Vec<u8> {
        let mut frame = vec![0; 1000];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[23] = UDP;
        frame[26..34].copy_from_slice(&[10, 0, 0, from, 10, 0, 1, 1]);
        frame[34..38].copy_from_slice(&[0, 9, 0, 53]);
        frame
    }

    fn event(at_ms: u64, what: What, sojourn_ms: u64) -> PacketEvent {
        PacketEvent {
            at: Instant::from_millis(at_ms),
            what,
            socket: None,
            seq: 0,
            len: 1000,
            sojourn: Duration::from_millis(sojourn_ms),
        }
    }

    #[test]
    fn hosts_and_flows_are_counted_with_drops_marks_and_sojourn_times() {
        let mut talkers = Talkers::new(Medium::Ethernet, 1);
        let drop = What::Dropped(DropReason::ALL[0]);
        for (at, what, sojourn, from) in [
            (1000, What::Received, 0, 1),
            (1000, What::Born, 0, 1),
            (1001, What::Marked, 0, 1),
            (1001, What::Ringed, 4, 1),
            (1002, What::Ringed, 2, 1),
            (1003, drop, 1, 1),
            (1004, What::Ringed, 1, 2),
            (1005, What::Completed, 0, 1),
        ] {
            talkers.record(&event(at, what, sojourn), &frame(from));
        }
        // Neither IPv4 nor IPv6.
        talkers.record(&event(1006, What::Ringed, 0), &[0; 60]);
        let TopTalkers { hosts, flows } = talkers.top(Instant::from_millis(500));
        let names: Vec<_> = hosts
            .iter()
            .map(|host| (host.address.as_str(), host.end))
            .collect();
        assert_eq!(
            names,
            [
                ("10.0.0.1", End::Source),
                ("10.0.0.2", End::Source),
                ("10.0.1.1", End::Destination)
            ]
        );
        let first = Counters {
            since_s: 0.501,
            packets: 2,
            bytes: 2000,
            drops: 1,
            marks: 1,
            sojourn_sum_ns: 6_000_000,
            sojourn_max_ns: 4_000_000,
        };
        assert_eq!(hosts[0].traffic, first);
        assert_eq!(hosts[2].traffic.packets, 3);
        let flow = "udp 10.0.0.1:9 > 10.0.1.1:53".to_owned();
        assert_eq!(
            (&flows[0].flow, flows[0].traffic, flows.len()),
            (&flow, first, 2)
        );
    }

    #[test]
    fn who_has_stopped_makes_room_for_who_sends_now() {
        let mut talkers = Talkers::new(Medium::Ethernet, 1);
        for _ in 0..1000 {
            talkers.record(&event(0, What::Ringed, 0), &frame(1));
        }
        talkers.record(&event(120_000, What::Ringed, 0), &frame(2));
        let first = &talkers.top(Instant::ZERO).flows[0];
        assert_eq!(first.flow, "udp 10.0.0.2:9 > 10.0.1.1:53");
        // Nothing of the first is left after a day.
        talkers.record(&event(86_400_000, What::Ringed, 0), &frame(3));
        assert_eq!(talkers.top(Instant::ZERO).flows.len(), 1);
    }
}
