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
use tautline_sim::{Applications, Coalesce, LinkConfig, Network, NicConfig};
use tautline_stack::{AckCompression, LossRecovery, PacerConfig, Pacing, TcpConfig, TsqLimit};

use crate::cell::Cell;
use crate::figures::{Figures, SKIP, mean_window, share};
use crate::iperf::{Iperf, Server};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
const PORT: u16 = 5201;
const ECHO_PORT: u16 = 7;
/// Time between inspects the queue.
const LOOK: Duration = Duration::from_millis(10);
/// Looks between inspects the window.
const WINDOW: u32 = 10;
/// The kernel compared with counts 100 ticks a second (`HZ`).
const TICK: Duration = Duration::from_millis(10);
/// Bytes that Linux charges to the send buffer for a full segment sent alone, beside its 1448
/// bytes.
const SEND_OVERHEAD: Bytes = Bytes::new(1280);
/// Send buffer of a new connection and memory around a segment of that kernel (`tb` in `ss -m`).
const SEND_START: Bytes = Bytes::new(46_080);
const SEND_HEADROOM: Bytes = Bytes::new(480);
/// Half of that kernel's `tcp_rmem[2]`, as with `tcp_adv_win_scale` 1. It is a 128th of its free
/// memory (`tcp_init`), a little less than 6 MiB: its largest windows are 23 817 units of 128 bytes.
const RECEIVE_BUFFER: Bytes = Bytes::new(3_048_576);
/// Looks between echo messages.
const ECHO: u32 = 2;
/// Time between the beginnings of successive seeds, as in `validation/linux/tcp.py`: without it
/// the seeds of a cell that makes no random decision are one run.
const PHASE: Duration = Duration::from_micros(1900);

/// Runs `cell` with `seed`.
pub(crate) fn run(cell: &Cell, seed: u64) -> Figures {
    run_with(cell, seed, |congestion| congestion).0
}

/// Seconds since the beginning, window of the first flow and backlog, in bytes.
pub(crate) type PortSample = (f64, u64, u64);

/// Runs `cell` with `seed`, its controllers wrapped; what was seen each tenth of a second.
pub(crate) fn run_with(
    cell: &Cell,
    seed: u64,
    wrap: impl Fn(Factory) -> Factory,
) -> (Figures, Vec<PortSample>) {
    let there = LinkConfig {
        queue: cell.tree(seed).parse().expect("a tree"),
        ..LinkConfig::default()
    };
    let back = LinkConfig {
        delay: cell.rtt,
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
    let period = (LOOK * ECHO).as_nanos() as u64;
    let phase = Duration::from_nanos((PHASE.as_nanos() as u64 * (seed - 1)) % period);
    let mut programs = [(); 2].map(|()| Applications::new(LOOK).strict());
    let client = Iperf::new(
        (SERVER, PORT).into(),
        cell.rtt,
        cell.flows,
        tcp(cell, &wrap),
    );
    let late = When {
        start: phase,
        stop: None,
    };
    programs[0]
        .add("iperf".into(), late, client)
        .expect("room for it");
    let server = Server::new(PORT, tcp(cell, &|same| same));
    programs[1]
        .add("iperf".into(), When::default(), server)
        .expect("room for it");
    programs[1]
        .responder(ResponderConfig::new("echo", ECHO_PORT))
        .expect("room for it");
    let nodes = ["client", "server"].map(node);
    let mut network = Network::pair(seed, nodes, [there, back], (), programs).expect("a network");

    while network.endpoint(0).apps.meter().flows()[0].connections < cell.flows as u64 {
        network.step().expect("streams open");
    }
    let begin = Iperf::begin(network.now(), cell.rtt);
    // The echoes and inspects the queue were timed by the start of the program, which then talked
    // to its server for so long.
    let early = cell.rtt * (4 + cell.flows as u32);
    let looks = (cell.duration.as_nanos() / LOOK.as_nanos()) as u32;
    let seen = |look: &u32| (SKIP..=cell.duration).contains(&(LOOK * *look + early));
    if let Some(first) = (1..=looks)
        .filter(seen)
        .find(|look| look.is_multiple_of(ECHO))
    {
        let since = begin - Instant::ZERO - phase;
        let when = When {
            start: since + LOOK * first,
            stop: Some(since + cell.duration - early),
        };
        let (pace, size) = (Pace::Every(LOOK * ECHO), Bytes::new(56));
        let requests = RequestsConfig {
            when,
            pace,
            size,
            ..RequestsConfig::new("echo", (SERVER, ECHO_PORT).into())
        };
        network
            .endpoint_mut(0)
            .apps
            .requests(requests)
            .expect("a time above zero");
    }
    let (mut backlog, mut windows, mut series) = (Vec::new(), Vec::new(), Vec::new());
    for look in 1..=looks {
        network
            .run_before(begin + LOOK * look)
            .expect("connections last");
        let queued = network.link(0).backlog().bytes.get();
        if look.is_multiple_of(WINDOW) {
            let sender = network.endpoint(0);
            let each: Vec<_> = sender
                .apps
                .connections(&sender.host)
                .map(|(_, info)| info.cwnd.get())
                .collect();
            windows.push(each.iter().sum());
            let first = each.first().copied().unwrap_or_default();
            series.push(((LOOK * look).as_secs_f64(), first, queued));
        }
        if seen(&look) {
            backlog.push(queued as f64);
        }
    }
    let echoes = network
        .endpoint(0)
        .apps
        .meter()
        .flow(&"echo".into())
        .expect("it was added");
    let delays: Vec<_> = echoes
        .round_trips
        .iter()
        .map(|sample| sample.took.as_secs_f64() * 1e3)
        .collect();
    let figures = Figures {
        goodput: network.endpoint(1).apps.meter().flows()[0].received.bytes as f64 * 8.0
            / 1e6
            / (cell.duration + cell.rtt).as_secs_f64(),
        rtt_median: share(delays.clone(), 50),
        rtt_95: share(delays, 95),
        backlog: share(backlog, 50),
        drops: network.link(0).stats().drops() as f64,
        cwnd: mean_window(&windows),
    };
    (figures, series)
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
    Factory::new(move |config| Box::new(Bbr::with(params, config).expect("parameters in range")))
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
        receive_buffer: RECEIVE_BUFFER,
        receive_charge: TcpConfig::LINUX_RECEIVE_CHARGE,
        size_on_read: true,
        delayed_ack_max: TcpConfig::LINUX_DELAYED_ACK_MAX,
        delayed_ack_tick: TICK,
        quick_acks_from_data: true,
        acks_follow_reads: true,
        loss_recovery: LossRecovery::linux(),
        ack_compression: Some(AckCompression::LINUX),
        ..TcpConfig::default()
    }
}
