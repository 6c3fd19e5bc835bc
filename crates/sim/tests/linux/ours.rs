//! The same experiment in our own virtual time.
//!
//! As in the kernel's: hosts send full segments one by one, no device or qdisc of the sender's
//! holds TCP back (so TSQ is off), CUBIC is not paced, BBR is; all of the delay lies on the way
//! back.

use std::net::Ipv4Addr;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{Algorithm, Bbr, Config, Factory, bbr};
use tautline_sim::app::{Pace, RequestsConfig, ResponderConfig, When};
use tautline_sim::topology::HostNode;
use tautline_sim::{Applications, Coalesce, LinkConfig, Network, NicConfig, Record};
use tautline_stack::{
    AckCompression, LossRecovery, PacerConfig, Pacing, RackRtt, SocketOption, TcpConfig, TsqLimit,
};

use crate::cell::Cell;
use crate::figures::{Figures, SKIP, mean_window, share};
use crate::iperf::{Iperf, Processor, Server};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
const PORT: u16 = 5201;
const ECHO_PORT: u16 = 7;
/// Interval between samples of the queue.
const INTERVAL: Duration = Duration::from_millis(10);
/// Samples of the queue for each of the windows.
const WINDOW: u32 = 10;
/// The kernel compared with counts 100 ticks a second (`HZ`).
const TICK: Duration = Duration::from_millis(10);
/// Bytes that Linux charges to the send buffer for a full segment sent alone, beside its 1448
/// bytes.
const SEND_OVERHEAD: Bytes = Bytes::new(1280);
/// Send buffer of a new connection and memory around a segment of that kernel (`tb` in `ss -m`).
const SEND_START: Bytes = Bytes::new(46_080);
const SEND_HEADROOM: Bytes = Bytes::new(576);
/// Half of that kernel's `tcp_rmem[2]`, as with `tcp_adv_win_scale` 1. It is a 128th of its free
/// memory (`tcp_init`), a little less than 6 MiB: its largest windows are 23 817 units of 128 bytes.
const RECEIVE_BUFFER: Bytes = Bytes::new(3_048_576);
/// Samples of the queue for each echo message.
const ECHO: u32 = 2;
/// Time between the beginnings of successive seeds, as in `validation/linux/tcp.py`: without it
/// the seeds of a cell that makes no random decision are one run.
const PHASE: Duration = Duration::from_micros(1900);
/// First seed of the random numbers in the network, hash keys among them: with keys like those of seed 2, which are one in a
/// hundred, two of four streams share a queue of FQ-CoDel, as in none of the recordings.
const KEYS: u64 = 100;
/// Time that a round trip takes beside its delay: the kernel reads the clock for each segment that arrives at either
/// end, which costs 256 ns of simulated time.
const READINGS: Duration = Duration::from_nanos(512);
/// Microseconds after a tick when the echoes begin, as captured: for round trips of 1, 20 and 100 ms, below HTB and in CAKE
/// of 10 and of 100 Mbit/s. Three pings come before, and commands that read the clock.
const STARTS: [[u64; 3]; 3] = [[3111, 3145, 3115], [757, 769, 739], [773, 785, 755]];
/// How long the echoes run alone, as in the recordings: the client's packets need not wait for addresses.
const ALONE: Duration = Duration::from_millis(500);
/// Time from an echo, beyond the phase of the seed, until the client opens its first connection, as captured for
/// these round trips.
const FORKING: [Duration; 3] = [
    Duration::from_micros(35),
    Duration::from_micros(34),
    Duration::from_micros(48),
];

/// Runs `cell` with `seed`.
pub(crate) fn run(cell: &Cell, seed: u64) -> Figures {
    run_with(cell, seed, |congestion| congestion, ()).figures
}

/// Results of a run.
pub(crate) struct Run<R> {
    pub(crate) figures: Figures,
    /// One for each tenth of a second.
    pub(crate) samples: Vec<WindowSample>,
    pub(crate) recorder: R,
}

/// The bottleneck and the first flow at one time.
pub(crate) struct WindowSample {
    /// Seconds since the beginning.
    pub(crate) at: f64,
    /// Window of the flow in bytes.
    pub(crate) window: u64,
    /// Backlog in bytes.
    pub(crate) backlog: u64,
}

/// Runs `cell` with `seed`, its controllers wrapped and its packets recorded.
pub(crate) fn run_with<R: Record>(
    cell: &Cell,
    seed: u64,
    wrap: impl Fn(Factory) -> Factory,
    recorder: R,
) -> Run<R> {
    let period = (INTERVAL * ECHO).as_nanos() as u64;
    let phase = Duration::from_nanos((PHASE.as_nanos() as u64 * (seed - 1)) % period);
    let mut network = network(cell, seed, phase, &wrap, recorder);
    while network.endpoint(0).apps.meter().flows()[0].connections < cell.flows as u64 {
        network.step().expect("streams open");
    }
    let begin = Iperf::begin(network.now(), cell.rtt);
    let (mut backlog, mut windows, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for (at, sampled) in sample_times(cell, begin) {
        network.run_before(at).expect("connections last");
        let queued = network.link(0).backlog().bytes.get();
        if sampled == Sampled::Queue {
            backlog.push(queued as f64);
            continue;
        }
        let sender = network.endpoint(0);
        let each: Vec<_> = sender
            .apps
            .connections(&sender.host)
            .map(|(_, info)| info.cwnd.get())
            .collect();
        windows.push(each.iter().sum());
        samples.push(WindowSample {
            at: (at - begin).as_secs_f64(),
            window: each.first().copied().unwrap_or_default(),
            backlog: queued,
        });
    }
    let delays = echo_delays(&network, cell);
    let received = network.endpoint(1).apps.meter().flows()[0].received.bytes;
    let figures = Figures {
        goodput: received as f64 * 8.0 / 1e6 / (cell.duration + cell.rtt).as_secs_f64(),
        rtt_median: share(delays.clone(), 50),
        rtt_95: share(delays, 95),
        backlog: share(backlog, 50),
        drops: network.link(0).stats().drops() as f64,
        cwnd: mean_window(&windows),
    };
    Run {
        figures,
        samples,
        recorder: network.into_parts().1,
    }
}

/// When the echoes begin.
fn start(cell: &Cell) -> Instant {
    let setup = match cell.cake_mbit() {
        None => 0,
        Some(..=10) => 1,
        Some(_) => 2,
    };
    Instant::from_micros(STARTS[path(cell)][setup])
}

/// Index of a path among those with round trips of 1, 20 and 100 ms.
fn path(cell: &Cell) -> usize {
    match cell.rtt.as_millis() {
        ..=1 => 0,
        2..=20 => 1,
        _ => 2,
    }
}

/// Subject of one sample.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sampled {
    Queue,
    Windows,
}

/// Times of the samples: a program that starts with the echoes samples the queue; the client, whose clock begins with its
/// data, the windows.
fn sample_times(cell: &Cell, begin: Instant) -> Vec<(Instant, Sampled)> {
    let every = INTERVAL * WINDOW;
    let times = |every: Duration| (1..).map(move |number| every * number);
    let queue = times(INTERVAL).take_while(|at| *at < cell.duration);
    let queue = queue.filter(|at| *at > SKIP);
    let windows = times(every).take_while(|at| *at <= cell.duration);
    let mut samples: Vec<_> = queue
        .map(|at| (start(cell) + ALONE + at, Sampled::Queue))
        .chain(windows.map(|at| (begin + at, Sampled::Windows)))
        .collect();
    samples.sort();
    samples
}

/// Client and server of iperf3, and a responder for echoes; the client starts `phase` later than that of the first seed.
fn network<R: Record>(
    cell: &Cell,
    seed: u64,
    phase: Duration,
    wrap: &dyn Fn(Factory) -> Factory,
    recorder: R,
) -> Network<'static, R> {
    let there = LinkConfig {
        queue: cell.tree(seed).parse().expect("a tree"),
        ..LinkConfig::default()
    };
    let back = LinkConfig {
        delay: cell.rtt + READINGS,
        ..LinkConfig::default()
    };
    // A veth pair: nothing waits in it.
    let nic = NicConfig {
        rate: Rate::MAX,
        tx_ring: 4096,
        rx_ring: 4096,
        coalesce: Coalesce::OFF,
        ..NicConfig::default()
    };
    let node = |name| HostNode {
        nic: nic.clone(),
        frames: 16_384,
        ..HostNode::new(name)
    };
    let mut apps = [(); 2].map(|()| Applications::new(INTERVAL).strict());
    let remote = (SERVER, PORT).into();
    let test = (cell.flows, cell.congestion.as_str());
    let processor = Processor::default();
    let client = Iperf::new(remote, test, client_tcp(cell, wrap), processor.clone());
    let late = When {
        start: start(cell) - Instant::ZERO + ALONE + phase + FORKING[path(cell)],
        stop: None,
    };
    apps[0]
        .add("iperf".into(), late, client)
        .expect("room for it");
    let server = Server::new(PORT, test, tcp(cell, &|same| same), processor);
    apps[1]
        .add("iperf".into(), When::default(), server)
        .expect("room for it");
    apps[1]
        .responder(ResponderConfig::new("echo", ECHO_PORT))
        .expect("room for it");
    let echoes = RequestsConfig {
        when: When {
            start: start(cell) - Instant::ZERO,
            stop: None,
        },
        pace: Pace::Every(INTERVAL * ECHO),
        size: Bytes::new(56),
        ..RequestsConfig::new("echo", (SERVER, ECHO_PORT).into())
    };
    apps[0].requests(echoes).expect("a time above zero");
    let nodes = ["client", "server"].map(node);
    Network::pair(KEYS + seed, nodes, [there, back], recorder, apps).expect("a network")
}

/// Round trips of the echoes in milliseconds, between the warm-up and the end.
fn echo_delays<R: Record>(network: &Network<'static, R>, cell: &Cell) -> Vec<f64> {
    let meter = network.endpoint(0).apps.meter();
    let echoes = meter.flow(&"echo".into()).expect("it was added");
    let begin = start(cell) + ALONE;
    let measured = begin + SKIP..begin + cell.duration;
    let delays = echoes.round_trips.iter();
    delays
        .filter(|sample| measured.contains(&sample.at))
        .map(|sample| sample.took.as_secs_f64() * 1e3)
        .collect()
}

fn cubic() -> Factory {
    Factory::new(|config| {
        Algorithm::CubicLinux.build(&Config {
            tick: TICK,
            ..*config
        })
    })
}

fn bbr() -> Factory {
    let params = bbr::Params {
        count_packets: true,
        ..bbr::Params::default()
    };
    Factory::new(move |config| {
        let config = Config {
            tick: TICK,
            ..*config
        };
        Box::new(Bbr::with(params, &config).expect("parameters in range"))
    })
}

/// iperf3 sets the controller when the connection is open: the first send buffer is that of CUBIC, the
/// kernel's default.
fn client_tcp(cell: &Cell, wrap: &dyn Fn(Factory) -> Factory) -> (TcpConfig, Vec<SocketOption>) {
    let tcp = tcp(cell, wrap);
    if cell.congestion == "cubic" {
        return (tcp, Vec::new());
    }
    let options = vec![
        SocketOption::Congestion(tcp.congestion.clone()),
        SocketOption::Pacing(tcp.pacing),
    ];
    let opening = TcpConfig {
        congestion: cubic(),
        pacing: Pacing::Off,
        ..tcp
    };
    (opening, options)
}

fn tcp(cell: &Cell, wrap: &dyn Fn(Factory) -> Factory) -> TcpConfig {
    let (congestion, pacing) = match cell.congestion.as_str() {
        "cubic" => (cubic(), Pacing::Off),
        "bbr" => (bbr(), Pacing::Internal),
        other => panic!("{other} has no counterpart"),
    };
    TcpConfig {
        congestion: wrap(congestion),
        pacing,
        pacer: PacerConfig::linux(),
        tsq: TsqLimit::Off,
        send_start: Some(SEND_START),
        send_headroom: SEND_HEADROOM,
        send_overhead: SEND_OVERHEAD,
        send_whole_segments: true,
        push_writes: true,
        receive_buffer: RECEIVE_BUFFER,
        receive_charge: 50,
        receive_overhead: TcpConfig::LINUX_RECEIVE_OVERHEAD,
        size_on_read: true,
        delayed_ack_max: TcpConfig::LINUX_DELAYED_ACK_MAX,
        timer_tick: TICK,
        quick_acks_from_data: true,
        acks_follow_reads: true,
        loss_recovery: LossRecovery {
            rack_rtt: RackRtt::LastTaken,
            prr_credit_on_timer: true,
            ..LossRecovery::linux()
        },
        ack_compression: Some(AckCompression::LINUX),
        ..TcpConfig::default()
    }
}
