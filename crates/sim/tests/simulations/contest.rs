//! Flows of different controllers that share one bottleneck, sampled every ten milliseconds.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate, SocketId};
use tautline_cc::Factory;
use tautline_sim::app::{Application, Context, SinkConfig, UploadConfig, When};
use tautline_sim::topology::HostNode;
use tautline_sim::{AppError, Applications, Flow, LinkConfig, Network, NicConfig};
use tautline_stack::{Event, TcpConfig, TcpInfo};
use tautline_tc::Tree;

use crate::common::ms;

const PORT: u16 = 5001;
const CHUNK: usize = 1 << 16;

/// One flow of a contest.
#[derive(Clone)]
pub(crate) struct Contestant {
    congestion: Factory,
    begins: Duration,
    demand: Demand,
}

/// Data that a flow has to send.
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
        Self {
            congestion: congestion.into(),
            begins: Duration::ZERO,
            demand: Demand::Endless,
        }
    }

    /// It begins after `time`.
    pub(crate) fn starting_at(self, time: Duration) -> Self {
        Self {
            begins: time,
            ..self
        }
    }

    /// It sends `bytes`, then rests, and begins again `every` so often.
    pub(crate) fn bursts(self, bytes: usize, every: Duration) -> Self {
        Self {
            demand: Demand::Bursts { bytes, every },
            ..self
        }
    }

    /// It sends on the host of `programs`.
    fn join(&self, programs: &mut Applications<'_>, number: u32) {
        let flow = Flow::numbered("contestant", number);
        let when = When {
            start: self.begins,
            stop: None,
        };
        let congestion = self.congestion.clone();
        let tcp = Arc::new(TcpConfig {
            congestion,
            send_buffer: Bytes::mib(4),
            ..TcpConfig::default()
        });
        let joined = match self.demand {
            Demand::Endless => programs.upload(UploadConfig {
                when,
                tcp,
                ..UploadConfig::new(flow, sink())
            }),
            Demand::Bursts { bytes, every } => {
                let bursts = Bursts {
                    bytes,
                    every,
                    tcp,
                    socket: None,
                    next: Instant::ZERO,
                    left: 0,
                };
                programs.add(flow, when, bursts)
            }
        };
        joined.expect("room for it");
    }
}

/// A sample of all flows.
pub(crate) struct Snapshot {
    pub(crate) at: Duration,
    /// Of each flow that has begun.
    pub(crate) flows: Vec<TcpInfo>,
    /// Bytes before the bottleneck.
    pub(crate) queue: u64,
}

/// Lets `contestants` send over `links` for `time`.
pub(crate) fn contest(
    links: &[LinkConfig; 2],
    contestants: &[Contestant],
    time: Duration,
    seed: u64,
) -> Vec<Snapshot> {
    let mut programs = [(); 2].map(|()| Applications::new(ms(10)).strict());
    contestants
        .iter()
        .zip(1..)
        .for_each(|(contestant, number)| contestant.join(&mut programs[0], number));
    programs[1]
        .sink(SinkConfig::new("contest", PORT))
        .expect("room for it");
    let nic = NicConfig {
        rate: Rate::gbit(10),
        ..NicConfig::default()
    };
    let qdisc: Tree = "fq_codel".parse().expect("a discipline");
    let node = |name| HostNode {
        nic: nic.clone(),
        qdisc: qdisc.clone(),
        ..HostNode::new(name)
    };
    let mut network =
        Network::pair(seed, ["A", "B"].map(node), links.clone(), (), programs).expect("a network");
    let mut samples = Vec::new();
    let mut look_at = Instant::ZERO;
    while look_at - Instant::ZERO < time {
        look_at += ms(10);
        network
            .run_before(look_at)
            .unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        let end = network.endpoint(0);
        let flows = end
            .apps
            .connections(&end.host)
            .map(|(_, info)| info)
            .collect();
        let queue = network.link(0).backlog().bytes.get();
        samples.push(Snapshot {
            at: look_at - Instant::ZERO,
            flows,
            queue,
        });
    }
    samples
}

/// Results of one flow in a part of a contest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Acknowledged payload over the time.
    pub(crate) goodput: Rate,
    /// Of the segments sent, the share that was sent again.
    pub(crate) retransmitted: f64,
}

/// Results of each flow from `from` to the last sample.
pub(crate) fn shares(samples: &[Snapshot], from: Duration) -> Vec<Share> {
    let before = samples
        .iter()
        .find(|sample| sample.at >= from)
        .expect("the contest was looked at");
    let after = samples.last().expect("the contest was looked at");
    assert_eq!(
        before.flows.len(),
        after.flows.len(),
        "every flow has begun"
    );
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
pub(crate) fn goodput(samples: &[Snapshot], number: usize, from: Duration, to: Duration) -> f64 {
    let at = |time| {
        samples
            .iter()
            .find(|sample| sample.at >= time)
            .or_else(|| samples.last())
            .expect("the contest was looked at")
    };
    let acked = |time| {
        at(time)
            .flows
            .get(number)
            .map_or(0, |info| info.bytes_acked)
    };
    (acked(to) - acked(from)) as f64 * 8e-6 / (at(to).at - at(from).at).as_secs_f64()
}

/// Mean of what waited before the bottleneck between `from` and the end, in bytes.
pub(crate) fn mean_queue(samples: &[Snapshot], from: Duration) -> f64 {
    let seen: Vec<_> = samples
        .iter()
        .filter(|sample| sample.at >= from)
        .map(|sample| sample.queue as f64)
        .collect();
    seen.iter().sum::<f64>() / seen.len() as f64
}

/// Where all of them send to.
fn sink() -> SocketAddr {
    (Ipv4Addr::new(10, 7, 0, 2), PORT).into()
}

/// Sends so much, rests, and begins again so often, on one connection.
struct Bursts {
    bytes: usize,
    every: Duration,
    tcp: Arc<TcpConfig>,
    socket: Option<SocketId>,
    /// When the next burst begins.
    next: Instant,
    /// Bytes of this burst that are not yet written.
    left: usize,
}

impl Bursts {
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let Some(socket) = self.socket else {
            return Ok(());
        };
        while self.left > 0 {
            let taken = cx.send(socket, &[0; CHUNK][..CHUNK.min(self.left)])?;
            if taken == 0 {
                break;
            }
            self.left -= taken;
        }
        Ok(())
    }
}

impl Application for Bursts {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.socket = Some(cx.connect(sink(), Arc::clone(&self.tcp), 0)?);
        (self.next, self.left) = (cx.now + self.every, self.bytes);
        Ok(())
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Connected(_) | Event::Writable(_) => self.write(cx),
            Event::Closed { why, .. } => Err(AppError::Closed(why)),
            _ => Ok(()),
        }
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.next > cx.now {
            return Ok(());
        }
        (self.next, self.left) = (self.next + self.every, self.bytes);
        self.write(cx)
    }

    fn deadline(&self) -> Option<Instant> {
        self.socket.map(|_| self.next)
    }

    fn is_done(&self) -> bool {
        false
    }

    fn connections(&self) -> &[SocketId] {
        self.socket.as_slice()
    }
}
