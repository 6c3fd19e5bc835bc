//! [`Test`]: the part of a test that both ends have: data flow, and this end reports about it.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tautline_base::Instant;
use tautline_rt::Clock;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Iperf3;
use super::flow::{Budget, Carrier, Flow, Sample};
use super::protocol::{Params, Results, StreamResult};
use super::report::Report;

/// Between samples of the RTT.
const TICK: Duration = Duration::from_millis(100);

/// A test whose streams are open.
pub(super) struct Test {
    pub(super) params: Params,
    pub(super) flows: Vec<Flow>,
    pub(super) budget: Arc<Budget>,
    /// Asked at the start: at the end the peer may have closed.
    congestion: Option<String>,
    pub(super) report: Report,
    clock: Clock,
    /// When the counted part began.
    begun: Instant,
    /// The counters then.
    base: Vec<Sample>,
    cpu: Cpu,
    pumps: JoinSet<io::Result<()>>,
    /// The counters when the last interval ended, and when that was.
    before: (Vec<Sample>, Instant),
    /// The counters at the end, and the time that the counted part took.
    after: Option<(Vec<Sample>, Duration)>,
}

impl Test {
    pub(super) async fn new(args: &Iperf3, params: Params, flows: Vec<Flow>) -> Self {
        let clock = Clock::start();
        let begun = clock.now();
        let budget = Arc::new(Budget::new(params.amount()));
        let base = samples(&flows).await;
        let congestion = match flows.first().map(|flow| &flow.carrier) {
            Some(Carrier::Tcp(stream)) => stream.congestion().await,
            _ => None,
        };
        Self {
            report: Report::new(args, &params, &flows),
            budget,
            congestion,
            clock,
            begun,
            cpu: Cpu::now(begun),
            pumps: JoinSet::new(),
            before: (base.clone(), begun),
            base,
            after: None,
            params,
            flows,
        }
    }

    /// Lets data flow and reports until `ended` is ready.
    pub(super) async fn run<T>(
        &mut self,
        period: Duration,
        ended: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut ended = pin!(ended);
        self.start();
        let mut tick = interval(TICK.min(period.max(Duration::from_millis(1))));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut omit = Duration::from_secs(self.params.omit);
        let mut due = self.begun + period;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut ended => break outcome?,
                Some(pump) = self.pumps.join_next() => pump??,
                _ = tick.tick() => {
                    let now = self.clock.now();
                    let omitted = !omit.is_zero();
                    if now >= due && !period.is_zero() {
                        self.interval(now, omitted).await;
                        due += period;
                    } else {
                        self.report.sample_rtt(&samples(&self.flows).await, omitted);
                    }
                    if omitted && now >= self.begun + omit {
                        omit = Duration::ZERO;
                        self.begin_again(now).await;
                        due = now + period;
                    }
                }
            }
        };
        self.pumps.shutdown().await;
        let now = self.clock.now();
        // Less than a part of an interval is no row of its own.
        let last = self.before.1;
        if !period.is_zero() && (last == self.begun || now - last > period / 20) {
            self.interval(now, !omit.is_zero()).await;
        }
        self.after = Some((samples(&self.flows).await, now - self.begun));
        Ok(outcome)
    }

    fn start(&mut self) {
        let mut served = false;
        for flow in self.flows.clone() {
            let (params, budget) = (self.params.clone(), Arc::clone(&self.budget));
            if flow.sends {
                self.pumps.spawn(flow.send(params, budget));
                continue;
            }
            // A server's socket for datagrams serves all streams that arrive at it.
            let shared = |other: &&Flow| match (&other.carrier, &flow.carrier) {
                (Carrier::Udp(one), Carrier::Udp(other)) => Arc::ptr_eq(one, other),
                _ => false,
            };
            let peers: BTreeMap<_, _> = self
                .flows
                .iter()
                .filter(shared)
                .map(|flow| (flow.peer, Arc::clone(&flow.counters)))
                .collect();
            if peers.len() > 1 && std::mem::replace(&mut served, true) {
                continue;
            }
            self.pumps.spawn(flow.receive(params, budget, peers));
        }
    }

    async fn interval(&mut self, now: Instant, omitted: bool) {
        let samples = samples(&self.flows).await;
        let (before, since) = std::mem::replace(&mut self.before, (samples.clone(), now));
        let times = (since - self.begun, now - self.begun);
        self.report.interval(&before, &samples, times, omitted);
    }

    /// Starts the counted part: the omitted one is over.
    async fn begin_again(&mut self, now: Instant) {
        self.base = samples(&self.flows).await;
        self.before = (self.base.clone(), now);
        self.begun = now;
        self.cpu = Cpu::now(now);
    }

    /// This end's results.
    pub(super) fn results(&self) -> Results {
        let Some((after, time)) = &self.after else {
            return Results::default();
        };
        let (cpu_util_user, cpu_util_system) = self.cpu.percent(self.clock.now());
        let streams = self.flows.iter().zip(&self.base).zip(after);
        let streams: Vec<_> = streams
            .map(|((flow, base), after)| {
                let retransmits = |sample: &Sample| sample.tcp.map(|tcp| tcp.retransmits as f64);
                let retransmits = retransmits(after).zip(retransmits(base));
                StreamResult {
                    id: flow.id,
                    bytes: after.bytes - base.bytes,
                    retransmits: retransmits.map_or(-1.0, |(after, base)| after - base),
                    jitter: after.jitter.as_secs_f64(),
                    errors: after.lost.saturating_sub(base.lost) as f64,
                    packets: after.packets - base.packets,
                    start_time: 0.0,
                    end_time: time.as_secs_f64(),
                }
            })
            .collect();
        let counts = streams.iter().any(|stream| stream.retransmits >= 0.0);
        Results {
            cpu_util_total: cpu_util_user + cpu_util_system,
            cpu_util_user,
            cpu_util_system,
            sender_has_retransmits: if counts { 1.0 } else { -1.0 },
            congestion_used: self.congestion.clone(),
            streams,
        }
    }
}

async fn samples(flows: &[Flow]) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(flows.len());
    for flow in flows {
        samples.push(flow.sample().await);
    }
    samples
}

/// Processor time of this process, up to a point in time.
struct Cpu {
    at: Instant,
    user: f64,
    system: f64,
}

impl Cpu {
    fn now(at: Instant) -> Self {
        // proc_pid_stat(5): fields 14 and 15, in clock ticks (100 a second on every platform); the second field may hold spaces.
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |number: usize| {
            let ticks = rest.split_whitespace().nth(number - 3);
            ticks
                .and_then(|ticks| ticks.parse::<f64>().ok())
                .unwrap_or(0.0)
                / 100.0
        };
        Self {
            at,
            user: field(14),
            system: field(15),
        }
    }

    /// User and system time since then, in percent of the elapsed time.
    fn percent(&self, now: Instant) -> (f64, f64) {
        let (time, then) = ((now - self.at).as_secs_f64().max(1e-6), Self::now(now));
        let percent = |used: f64| 100.0 * used / time;
        (
            percent(then.user - self.user),
            percent(then.system - self.system),
        )
    }
}
