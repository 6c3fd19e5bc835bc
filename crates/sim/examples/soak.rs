//! Random networks with random transfers, seed by seed: every byte arrives once and in order, nothing
//! stalls, and nothing is left behind. `scripts/soak` runs it.
//!
//! `soak --seeds N | --minutes N [--seed FIRST] [--times N] [--show]` prints a line with the next seed
//! at the end. `--times` multiplies the length of each transfer. A failure prints its seed, the
//! command that repeats it and, with `--show`, its case.

use std::cell::RefCell;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant as WallClock};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Instant, Rate, Tso};
use tautline_cc::Algorithm;
use tautline_qdisc::{Ledger, Stats};
use tautline_sim::app::When;
use tautline_sim::network::topology::{Cable, HostNode};
use tautline_sim::network::{Network, Topology};
use tautline_sim::{
    Applications, BulkReceiver, BulkSender, Check, Impairments, LinkConfig, Pattern, Probability,
    Schedule,
};
use tautline_stack::{EcnMode, Pacing, SocketOption, TcpConfig, TsqLimit};
use tautline_tc::Tree;

/// Words of the hosts' and routers' qdiscs.
const QDISCS: [&str; 12] = [
    "pfifo limit 200",
    "pfifo_fast",
    "fq_codel",
    "fq",
    "codel ecn",
    "pie ecn",
    "fq_pie ecn",
    "red limit 400000 min 30000 max 90000 avpkt 1000 ecn",
    "sfq",
    "cake",
    "dualpi2",
    "cobalt",
];
const PORT: u16 = 5001;
/// A transfer that receives nothing for so long has stalled: longer than several backed-off timeouts.
const STALL: Duration = Duration::from_secs(900);
/// Time for everything to end after the last byte.
const LAST: Duration = Duration::from_secs(3600);
/// Time between two samples of progress, and between changes.
const STEP: Duration = Duration::from_millis(200);

type Net<'a> = Network<'a, ()>;

#[expect(
    clippy::disallowed_methods,
    reason = "a soak is as long as the clock on the wall says"
)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let first = value("--seed").unwrap_or(1);
    let limit = value("--minutes").map(|minutes| Duration::from_secs(60 * minutes));
    let count = value("--seeds").unwrap_or_else(|| if limit.is_some() { u64::MAX } else { 1 });
    let times = value("--times").unwrap_or(1).max(1);
    let start = WallClock::now();
    let (mut seed, mut bytes, mut time) = (first, 0, Duration::ZERO);
    while seed - first < count && limit.is_none_or(|limit| start.elapsed() < limit) {
        let case = Case::draw(seed, times);
        match case.run() {
            Ok(took) => time += took,
            Err(why) => {
                println!("seed {seed}: {why}");
                if arguments.iter().any(|argument| argument == "--show") {
                    println!("{case:#?}");
                }
                println!("reproduce: scripts/soak --seeds 1 --seed {seed} --times {times}");
                return ExitCode::FAILURE;
            }
        }
        bytes += case.flows.iter().map(|flow| flow.bytes).sum::<u64>();
        seed += 1;
    }
    println!(
        "{} seeds, {bytes} bytes in {} s of virtual time, {} s; next seed {seed}",
        seed - first,
        time.as_secs(),
        start.elapsed().as_secs()
    );
    ExitCode::SUCCESS
}

/// A network and its traffic.
#[derive(Debug)]
struct Case {
    seed: u64,
    routers: usize,
    flows: Vec<Flow>,
    nodes: Vec<HostNode>,
    cables: Vec<Cable>,
    /// Probability of a change per step, in percent.
    changes: u64,
}

/// A transfer from one host to another.
#[derive(Debug)]
struct Flow {
    ipv6: bool,
    bytes: u64,
    start: Duration,
    reads_from: Duration,
    sender: TcpConfig,
    receiver: TcpConfig,
}

/// Draws parameters.
struct Draw(Pcg32);

impl Draw {
    fn in_range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.0.next_u64() % (range.end - range.start)
    }

    /// Whether an event of `percent` happens.
    fn happens(&mut self, percent: u64) -> bool {
        self.in_range(0..100) < percent
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.in_range(0..from.len() as u64) as usize].clone()
    }

    /// Uniform in the logarithm.
    fn magnitude(&mut self, range: Range<u64>) -> u64 {
        let bits = self.in_range(u64::from(range.start.ilog2())..u64::from(range.end.ilog2()));
        (1 << bits) + self.in_range(0..1 << bits)
    }

    fn micros(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.magnitude(range))
    }

    fn tree(&mut self) -> Tree {
        self.pick(&QDISCS).parse().expect("the words of a qdisc")
    }

    /// A probability of up to `most` tenths of a percent, often none.
    fn probability(&mut self, most: u64) -> Probability {
        let tenths = if self.happens(50) {
            0
        } else {
            self.in_range(0..most)
        };
        Probability::percent(tenths as f64 / 10.0).expect("below one hundred")
    }

    /// Impairments of a link. Only one link of a path flips bits: two flips can leave the Internet
    /// checksum as it was (RFC 1071), which no stack detects.
    fn impairments(&mut self, leaves_host: bool) -> Impairments {
        let corrupt = self.probability(10);
        Impairments {
            loss: self.probability(30),
            duplicate: self.probability(20),
            corrupt: if leaves_host {
                corrupt
            } else {
                Probability::NEVER
            },
            reorder: self.probability(50),
            reorder_delay: self.micros(64..16_384),
        }
    }

    fn link(&mut self, from_router: bool) -> LinkConfig {
        let rate = Rate::kbit(self.magnitude(512..1 << 20));
        let mut link = LinkConfig {
            rate,
            delay: self.micros(16..65_536),
            impair: self.impairments(!from_router),
            ..LinkConfig::default()
        };
        if self.happens(30) {
            let steps = (1..=4).map(|n| {
                let rate = Rate::kbit(self.magnitude(512..1 << 20));
                (Duration::from_millis(n * 700), rate)
            });
            link.schedule = Schedule::Steps(steps.collect());
        }
        if from_router && self.happens(60) {
            link.queue = self.pick(&QDISCS).parse().expect("the words of a qdisc");
        }
        link
    }

    fn tcp(&mut self) -> TcpConfig {
        let default = TcpConfig::default();
        TcpConfig {
            congestion: self.pick(&Algorithm::ALL).factory(),
            pacing: self.pick(&[Pacing::Off, Pacing::Internal, Pacing::Qdisc]),
            tsq: self.pick(&[TsqLimit::Off, TsqLimit::default()]),
            nagle: self.happens(50),
            ecn: self.pick(&[
                EcnMode::Off,
                EcnMode::Request,
                EcnMode::Accept,
                EcnMode::AccEcn,
            ]),
            send_buffer: Bytes::new(self.magnitude(4096..1 << 23)),
            receive_buffer: Bytes::new(self.magnitude(4096..1 << 23)),
            delayed_ack: Duration::from_millis(self.pick(&[0, 1, 40, 200])),
            // A network may drop 15 in a row: where two packets take longer than PIE's target, it drops all
            // that find more, and one flow then shuts out another. `STALL` says when nothing moves any more.
            retries: u32::MAX,
            ..default
        }
    }

    fn flow(&mut self) -> Flow {
        Flow {
            ipv6: self.happens(50),
            bytes: self.magnitude(1..1 << 22),
            start: Duration::from_millis(self.in_range(0..500)),
            reads_from: Duration::from_millis(if self.happens(20) {
                self.in_range(0..20_000)
            } else {
                0
            }),
            sender: self.tcp(),
            receiver: self.tcp(),
        }
    }

    fn node(&mut self, name: String) -> HostNode {
        let mut node = HostNode::new(name);
        node.qdisc = self.tree();
        node.nic.mtu = self.pick(&[576, 1280, 1500, 1500, 2000]);
        node.nic.tx_ring = self.pick(&[2, 16, 256, 4096]);
        node.nic.rx_ring = 4096;
        node.nic.tso = self.happens(50).then_some(Tso::MOST);
        node.nic.rx_delay = Duration::from_micros(self.pick(&[0, 0, 20, 200]));
        node.frames = self.pick(&[64, 512, 8192]);
        node
    }
}

impl Case {
    /// The case of `seed`, its transfers `times` as long.
    fn draw(seed: u64, times: u64) -> Self {
        let mut draw = Draw(Pcg32::seed_from_u64(seed));
        let routers = draw.in_range(1..4) as usize;
        let mut flows: Vec<Flow> = (0..draw.in_range(1..4)).map(|_| draw.flow()).collect();
        for flow in &mut flows {
            flow.bytes = flow.bytes.saturating_mul(times);
        }
        let (mut nodes, mut cables) = (Vec::new(), Vec::new());
        let first = "r0".to_owned();
        let last = format!("r{}", routers - 1);
        for number in 0..flows.len() {
            for (side, router) in [("s", &first), ("d", &last)] {
                let name = format!("{side}{number}");
                let links = [draw.link(false), draw.link(true)];
                cables.push(Cable::new([&name, router], links));
                nodes.push(draw.node(name));
            }
        }
        for number in 1..routers {
            let ends = [format!("r{}", number - 1), format!("r{number}")];
            let links = [draw.link(true), draw.link(true)];
            cables.push(Cable::new([&ends[0], &ends[1]], links));
        }
        Self {
            seed,
            routers,
            flows,
            nodes,
            cables,
            changes: draw.pick(&[0, 0, 2, 10]),
        }
    }

    /// Runs the case; its virtual time.
    ///
    /// # Errors
    /// The oracle that failed, in words.
    fn run(&self) -> Result<Duration, String> {
        let checks: Vec<_> = (0..self.flows.len())
            .map(|flow| Rc::new(RefCell::new(Received::new(self.pattern(flow)))))
            .collect();
        let topology = Topology {
            hosts: self.nodes.clone(),
            routers: (0..self.routers)
                .map(|number| format!("r{number}"))
                .collect(),
            cables: self.cables.clone(),
            cells: Vec::new(),
        };
        let mut network = topology
            .build(self.seed, (), |_, number| {
                self.applications(&topology, number, &checks)
            })
            .map_err(in_words)?;
        self.play(&mut network, &checks)?;
        let took = network.now() - Instant::ZERO;
        network.run_dry(LAST).map_err(in_words)?;
        let sockets: usize = network
            .endpoints()
            .iter()
            .map(|end| end.host.socket_count())
            .sum();
        match (network.outstanding(), sockets) {
            (0, 0) => {}
            (frames, sockets) => {
                return Err(format!("left behind: {frames} frames, {sockets} sockets"));
            }
        }
        let wrong = checks.iter().position(|got| !got.borrow().check.is_equal());
        wrong.map_or(Ok(took), |flow| Err(format!("flow {flow}: wrong bytes")))
    }

    /// Steps of time until all applications are done, with changes between them.
    fn play(&self, network: &mut Net<'_>, checks: &[Rc<RefCell<Received>>]) -> Result<(), String> {
        let mut draw = Draw(Pcg32::seed_from_u64(!self.seed));
        let received = || checks.iter().map(|got| got.borrow().bytes).sum::<u64>();
        let (mut last, mut since) = (0, Instant::ZERO);
        while !network.endpoints().iter().all(|end| end.apps.is_done()) {
            let end = network.now().max(since) + STEP;
            let before = network.now();
            network.run_before(end).map_err(in_words)?;
            if network.now() == before {
                // The next event is further away than a step.
                network.step().map_err(in_words)?;
            }
            if received() > last || network.now() < since {
                (last, since) = (received(), network.now());
            }
            if network.now() - since > STALL {
                return Err(format!("stalled after {last} bytes at {:?}", network.now()));
            }
            if draw.happens(self.changes) {
                change(network, &mut draw);
            }
        }
        Ok(())
    }

    fn pattern(&self, flow: usize) -> Pattern {
        let seed = self.seed ^ (flow as u64) << 56;
        Pattern::new(Pcg32::seed_from_u64(seed), self.flows[flow].bytes)
    }

    /// The address of host `number`, for its flow. Links of IPv6 carry 1280 bytes.
    fn address(&self, topology: &Topology, number: usize) -> IpAddr {
        let ends = &self.nodes[number - number % 2..][..2];
        if self.flows[number / 2].ipv6 && ends.iter().all(|node| node.nic.mtu >= 1280) {
            return Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, number as u16 + 1).into();
        }
        let address = topology.address(&self.nodes[number].name);
        address.expect("a host of the topology").into()
    }

    /// Applications of host `number`: senders are even, their receivers follow.
    fn applications<'a>(
        &self,
        topology: &Topology,
        number: usize,
        checks: &[Rc<RefCell<Received>>],
    ) -> Applications<'a> {
        let (at, is_sender) = (number / 2, number.is_multiple_of(2));
        let flow = &self.flows[at];
        let mut apps = Applications::new(Duration::from_secs(3600)).strict();
        let name = "transfer".into();
        let added = if is_sender {
            let remote = SocketAddr::new(self.address(topology, number + 1), PORT);
            let when = When {
                start: flow.start,
                ..When::default()
            };
            let sender = BulkSender::new(remote, flow.sender.clone(), self.pattern(at));
            apps.add(name, when, sender)
        } else {
            let got = Rc::clone(&checks[at]);
            let sink = move |bytes: &[u8]| got.borrow_mut().compare(bytes);
            let receiver = BulkReceiver::new(PORT, flow.receiver.clone(), sink)
                .reading_from(Instant::ZERO + flow.reads_from);
            apps.add(name, When::default(), receiver)
        };
        added.expect("the first application of its name");
        apps
    }
}

/// Bytes of a flow that arrived.
struct Received {
    check: Check,
    bytes: u64,
}

impl Received {
    fn new(expected: Pattern) -> Self {
        Self {
            check: Check::new(expected),
            bytes: 0,
        }
    }

    fn compare(&mut self, bytes: &[u8]) {
        self.check.compare(bytes);
        self.bytes += bytes.len() as u64;
    }
}

/// Changes a link, a qdisc or a connection while it is in use, or resets a device.
fn change(network: &mut Net<'_>, draw: &mut Draw) {
    let now = network.now();
    let host = draw.in_range(0..network.endpoints().len() as u64) as usize;
    match draw.in_range(0..4) {
        0 => {
            let link = draw.in_range(0..network.links().len() as u64) as usize;
            // Cables of hosts come first, and the first link of a cable leaves its host.
            let leaves_host = link.is_multiple_of(2) && link / 2 < network.endpoints().len();
            let impairments = draw.impairments(leaves_host);
            network.link_mut(link).set_impairments(impairments);
            return;
        }
        1 => {
            let qdisc = draw
                .tree()
                .with_hash_key(0)
                .build()
                .expect("the words of a qdisc");
            let qdisc = Stats::new(Ledger::new(qdisc));
            let _ = network.endpoint_mut(host).host.set_qdisc(qdisc, now);
        }
        2 => network.endpoint_mut(host).host.reset_device(now),
        _ => {
            let end = network.endpoint_mut(host);
            let sockets: Vec<_> = end.apps.sockets().map(|(_, socket)| socket).collect();
            for socket in sockets {
                let option = match draw.pick(&[0, 1, 2]) {
                    0 => SocketOption::Congestion(draw.pick(&Algorithm::ALL).factory()),
                    1 => SocketOption::Cork(draw.happens(50)),
                    _ => SocketOption::Nodelay(draw.happens(50)),
                };
                let _ = end.host.set_option(socket, option);
            }
        }
    }
    network.mark_runnable(host);
}

fn in_words(error: impl fmt::Display) -> String {
    error.to_string()
}
