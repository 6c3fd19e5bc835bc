//! Flows of different controllers that share one bottleneck, looked at every ten milliseconds.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Bytes, HeapFrame, Instant, Packet, Pool, Rate, SocketId};
use tautline_bql::{LimitKind, Port, Ring};
use tautline_cc::Factory;
use tautline_qdisc::{Kind, Ledger, Qdisc};
use tautline_sim::LinkEvent;
use tautline_sim::{App, AppError, Flows, Link, LinkConfig, Network, NicConfig, Program, Record, SimHost, SimNic};
use tautline_stack::{Cidr, Event, Host, HostConfig, PacketEvent, TcpConfig, TcpInfo};

use crate::common::ms;

const PORT: u16 = 5001;
const CHUNK: usize = 1 << 16;

/// One flow of a contest.
#[derive(Clone)]
pub(crate) struct Contestant {
    congestion: Factory,
    begins: Instant,
    demand: Demand,
}

/// What a flow has to send.
#[derive(Clone, Copy)]
enum Demand {
    Endless,
    /// So much, so often.
    Bursts {
        bytes: usize,
        every: Duration,
    },
}

impl Contestant {
    /// A flow without end from the beginning.
    pub(crate) fn new(congestion: impl Into<Factory>) -> Self {
        Self { congestion: congestion.into(), begins: Instant::ZERO, demand: Demand::Endless }
    }

    /// It begins after `time`.
    pub(crate) fn after(self, time: Duration) -> Self {
        Self { begins: Instant::ZERO + time, ..self }
    }

    /// It sends `bytes`, then rests, and begins again `every` so often.
    pub(crate) fn bursts(self, bytes: usize, every: Duration) -> Self {
        Self { demand: Demand::Bursts { bytes, every }, ..self }
    }
}

/// What was seen at one moment.
pub(crate) struct Look {
    pub(crate) at: Duration,
    /// Of each flow that has begun.
    pub(crate) flows: Vec<TcpInfo>,
    /// Bytes before the bottleneck.
    pub(crate) queue: u64,
}

/// Lets `contestants` send over `links` for `time`.
pub(crate) fn contest(links: &[LinkConfig; 2], contestants: &[Contestant], time: Duration, seed: u64) -> Vec<Look> {
    let mut seeds = Pcg32::seed_from_u64(seed);
    let links = links.clone().map(|link| Link::new(link, Pcg32::from_rng(&mut seeds)).expect("a link"));
    let source = Source { flows: contestants.iter().cloned().map(Flow::from).collect(), failure: None };
    let mut apps = [Side::Source(source), Side::Sink(Box::new(Flows::sink(PORT, TcpConfig::default())))].into_iter();
    let network = Network::new(seed, links, Nothing, |number, tap| {
        let nic = SimNic::new(NicConfig { rate: Rate::gbit(10), ..NicConfig::default() }).expect("a card");
        let qdisc = Ledger::new(Kind::FqCodel(Default::default()).build().expect("a discipline"));
        let ring = Ring::new(nic, LimitKind::default().build().expect("a limit"));
        let pool = Pool::new((0..8192).map(|_| HeapFrame::new()).collect());
        let mac = [2, 0, 0, 0, 0, number as u8 + 1];
        let config = HostConfig::new(mac, seeds.next_u64()).address(Cidr::new(address(number), 24));
        Ok::<_, AppError>((Host::new(config, Port::new(qdisc, ring), pool, tap), apps.next().expect("two programs")))
    });
    let mut network = network.unwrap_or_else(|error| panic!("{error}"));
    let mut looks = Vec::new();
    let mut look_at = Instant::ZERO;
    while look_at - Instant::ZERO < time {
        look_at += ms(10);
        while network.next_event().is_some_and(|at| at < look_at) {
            network.step().unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        }
        network.check().unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        let end = network.end(0);
        let Side::Source(source) = &end.app else { continue };
        let flows = source.flows.iter().filter_map(|flow| end.host.info(flow.socket?)).collect();
        let queue = network.link(0).backlog().bytes.get();
        looks.push(Look { at: look_at - Instant::ZERO, flows, queue });
    }
    looks
}

/// What one flow achieved in a part of a contest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Acknowledged payload over the time.
    pub(crate) goodput: Rate,
    /// Of the segments sent, the share that was sent again.
    pub(crate) retransmitted: f64,
}

/// What each flow achieved from `from` to the last look.
pub(crate) fn shares(looks: &[Look], from: Duration) -> Vec<Share> {
    let before = looks.iter().find(|look| look.at >= from).expect("the contest was looked at");
    let after = looks.last().expect("the contest was looked at");
    assert_eq!(before.flows.len(), after.flows.len(), "every flow has begun");
    let time = after.at - before.at;
    let share = |(before, after): (&TcpInfo, &TcpInfo)| {
        let sent = (after.segments_out - before.segments_out) as f64;
        Share {
            goodput: Rate::from_amount(Bytes::new(after.bytes_acked - before.bytes_acked), time),
            retransmitted: (after.retransmits - before.retransmits) as f64 / sent.max(1.0),
        }
    };
    before.flows.iter().zip(&after.flows).map(share).collect()
}

/// Payload that flow `number` delivered between `from` and `to`, over the time.
pub(crate) fn goodput(looks: &[Look], number: usize, from: Duration, to: Duration) -> f64 {
    let at = |time| looks.iter().find(|look| look.at >= time).or_else(|| looks.last()).expect("the contest was looked at");
    let acked = |time| at(time).flows.get(number).map_or(0, |info| info.bytes_acked);
    (acked(to) - acked(from)) as f64 * 8e-6 / (at(to).at - at(from).at).as_secs_f64()
}

/// Mean of what waited before the bottleneck between `from` and the end, in bytes.
pub(crate) fn mean_queue(looks: &[Look], from: Duration) -> f64 {
    let seen: Vec<_> = looks.iter().filter(|look| look.at >= from).map(|look| look.queue as f64).collect();
    seen.iter().sum::<f64>() / seen.len() as f64
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 7, 0, number as u8 + 1)
}

/// Keeps no record.
struct Nothing;

impl Record for Nothing {
    fn on_host(&mut self, _host: usize, _event: &PacketEvent, _frame: &[u8]) {}

    fn on_link(&mut self, _link: usize, _event: &LinkEvent, _frame: &[u8]) {}
}

enum Side {
    Source(Source),
    Sink(Box<Flows>),
}

struct Source {
    flows: Vec<Flow>,
    failure: Option<AppError>,
}

struct Flow {
    contestant: Contestant,
    socket: Option<SocketId>,
    /// When the next burst begins.
    next: Instant,
    /// Bytes it may still send.
    left: usize,
}

impl From<Contestant> for Flow {
    fn from(contestant: Contestant) -> Self {
        let left = match contestant.demand {
            Demand::Endless => usize::MAX,
            Demand::Bursts { bytes, .. } => bytes,
        };
        Self { next: contestant.begins, contestant, socket: None, left }
    }
}

impl Source {
    fn begin<Q: Qdisc<Packet<HeapFrame>>, R: Record>(
        &mut self,
        host: &mut SimHost<Q, R>,
        now: Instant,
    ) -> Result<(), AppError> {
        for flow in &mut self.flows {
            if flow.socket.is_none() && flow.contestant.begins <= now {
                let congestion = flow.contestant.congestion.clone();
                let config = TcpConfig { congestion, send_buffer: Bytes::mib(4), ..TcpConfig::default() };
                flow.socket = Some(host.connect(SocketAddrV4::new(address(1), PORT), config, now)?);
            }
            if let Demand::Bursts { bytes, every } = flow.contestant.demand
                && flow.next <= now
            {
                flow.next = now + every;
                flow.left = bytes;
                if flow.next > flow.contestant.begins + every {
                    flow.fill(host)?;
                }
            }
        }
        Ok(())
    }

    fn react<Q: Qdisc<Packet<HeapFrame>>, R: Record>(
        &mut self,
        host: &mut SimHost<Q, R>,
        event: Event,
    ) -> Result<(), AppError> {
        match event {
            Event::Connected(socket) | Event::Writable(socket) => {
                self.flows.iter_mut().filter(|flow| flow.socket == Some(socket)).try_for_each(|flow| flow.fill(host))
            }
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
        }
    }
}

impl Flow {
    fn fill<Q: Qdisc<Packet<HeapFrame>>, R: Record>(&mut self, host: &mut SimHost<Q, R>) -> Result<(), AppError> {
        let Some(socket) = self.socket else { return Ok(()) };
        while self.left > 0 {
            let taken = host.send(socket, &[0; CHUNK][..CHUNK.min(self.left)])?;
            if taken == 0 {
                break;
            }
            if let Demand::Bursts { .. } = self.contestant.demand {
                self.left -= taken;
            }
        }
        Ok(())
    }

    fn call_at(&self) -> Option<Instant> {
        match self.contestant.demand {
            Demand::Endless => self.socket.is_none().then_some(self.contestant.begins),
            Demand::Bursts { .. } => Some(self.next),
        }
    }
}

impl<Q: Qdisc<Packet<HeapFrame>>, R: Record> App<SimHost<Q, R>> for Side {
    fn start(&mut self, host: &mut SimHost<Q, R>, now: Instant) {
        match self {
            Self::Source(source) => source.failure = source.begin(host, now).err(),
            Self::Sink(sink) => sink.start(host, now),
        }
    }

    fn on_event(&mut self, host: &mut SimHost<Q, R>, event: Event, now: Instant) {
        match self {
            Self::Source(source) => {
                if let Err(error) = source.react(host, event) {
                    source.failure = Some(error);
                }
            }
            Self::Sink(sink) => sink.on_event(host, event, now),
        }
    }

    fn on_call(&mut self, host: &mut SimHost<Q, R>, now: Instant) {
        if let Self::Source(source) = self
            && let Err(error) = source.begin(host, now)
        {
            source.failure = Some(error);
        }
    }
}

impl Program for Side {
    fn call_at(&self) -> Option<Instant> {
        match self {
            Self::Source(source) => source.flows.iter().filter_map(Flow::call_at).min(),
            Self::Sink(_) => None,
        }
    }

    fn is_done(&self) -> bool {
        false
    }

    fn failure(&self) -> Option<&AppError> {
        match self {
            Self::Source(source) => source.failure.as_ref(),
            Self::Sink(sink) => sink.failure(),
        }
    }
}
