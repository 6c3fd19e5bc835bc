//! The same experiment in our own virtual time.
//!
//! As in the kernel's: hosts send full segments one by one, no device or discipline of the sender's holds TCP back (so TSQ is
//! off), CUBIC is not paced, BBR is; all of the delay lies on the way back.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tautline_base::{Bytes, HeapFrame, Pool, Rate};
use tautline_bql::{Dql, Limit, Port, Ring};
use tautline_cc::{Algorithm, Config, Factory};
use tautline_qdisc::{Ledger, PfifoFast, pfifo_fast};
use tautline_sim::{EchoRequest, Echoes, Link, LinkConfig, Network, NicConfig, SimNic};
use tautline_stack::{Cidr, Host, HostConfig, LossRecovery, PacerConfig, Pacing, TcpConfig, TsqLimit};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use crate::cell::Cell;
use crate::figures::{Figures, SKIP, period, share};
use crate::iperf::Iperf;

const PORT: u16 = 5201;
/// Time between looks at the queue.
const LOOK: Duration = Duration::from_millis(10);
/// Looks between looks at the window.
const WINDOW: u32 = 10;
/// The kernel compared with counts 100 ticks a second (`HZ`).
const TICK: Duration = Duration::from_millis(10);
/// What Linux's send buffer is charged for a full segment sent alone, beside its 1448 bytes.
const SEND_OVERHEAD: Bytes = Bytes::new(1280);
/// Looks between echo messages.
const ECHO: u32 = 2;

/// Runs `cell` with `seed`.
pub(crate) fn run(cell: &Cell, seed: u64) -> Figures {
    run_with(cell, seed, |congestion| congestion).0
}

/// Seconds since the beginning, window of the first flow and backlog, in bytes.
pub(crate) type Look = (f64, u64, u64);

/// Runs `cell` with `seed`, its controllers wrapped; what was seen each tenth of a second.
pub(crate) fn run_with(cell: &Cell, seed: u64, wrap: impl Fn(Factory) -> Factory) -> (Figures, Vec<Look>) {
    let mut seeds = Pcg32::seed_from_u64(seed);
    let there = LinkConfig { queue: cell.tree(seed).parse().expect("a tree"), ..LinkConfig::default() };
    let back = LinkConfig { delay: cell.rtt, ..LinkConfig::default() };
    let links = [there, back].map(|config| Link::new(config, Pcg32::from_rng(&mut seeds)).expect("a link"));
    let remote = SocketAddrV4::new(address(1), PORT);
    let client = Iperf::client(remote.into(), cell.rtt, cell.flows, tcp(cell, &wrap));
    let mut apps = [client, Iperf::server(PORT, tcp(cell, &|same| same))].into_iter();
    let mut network = Network::new(seed, links, Echoes::default(), |number, tap| {
        // A veth pair: nothing waits in it.
        let nic = NicConfig { rate: Rate::MAX, tx_ring: 4096, rx_ring: 4096, ..NicConfig::default() };
        let qdisc = Ledger::new(PfifoFast::new(pfifo_fast::Config::default()));
        let limit: Box<dyn Limit> = Box::new(Dql::default());
        let port = Port::new(qdisc, Ring::new(SimNic::new(nic).expect("a card"), limit));
        let pool = Pool::new((0..16_384).map(|_| HeapFrame::new()).collect());
        let config = HostConfig::new(mac(number), seeds.next_u64()).address(Cidr::new(address(number), 24));
        Ok::<_, std::convert::Infallible>((Host::new(config, port, pool, tap), apps.next().expect("two hosts")))
    })
    .unwrap_or_else(|never| match never {});

    let begin = loop {
        match network.end(0).app.begin() {
            Some(begin) => break begin,
            None => network.step().expect("streams open"),
        };
    };
    // The echoes and looks at the queue were timed by the start of the program, which then talked to its server for so long.
    let early = cell.rtt * (4 + cell.flows as u32);
    let (mut backlog, mut windows, mut series) = (Vec::new(), Vec::new(), Vec::new());
    let looks = (cell.duration.as_nanos() / LOOK.as_nanos()) as u32;
    for look in 1..=looks {
        let (since, now) = (LOOK * look, begin + LOOK * look);
        while network.next_event().is_none_or(|at| at < now) {
            network.step().expect("flows have no end");
        }
        network.check().expect("connections last");
        if look % WINDOW == 0 {
            let sender = network.end(0);
            let info = sender.app.first().and_then(|socket| sender.host.info(socket));
            let window = info.map_or(0, |info| info.cwnd.get());
            windows.push(window);
            series.push((since.as_secs_f64(), window, network.link(0).backlog().bytes.get()));
        }
        if since + early < SKIP || since + early > cell.duration {
            continue;
        }
        backlog.push(network.link(0).backlog().bytes.get() as f64);
        if look % ECHO == 0 {
            let request = EchoRequest { macs: [mac(0), mac(1)], addresses: [address(0), address(1)], tos: 0 };
            network.inject(0, &request.frame((look / ECHO) as u16), now);
        }
    }
    let delays: Vec<_> = network.recorder().delays().iter().map(|delay| (*delay + cell.rtt).as_secs_f64() * 1e3).collect();
    let figures = Figures {
        goodput: network.end(1).app.received() as f64 * 8.0 / 1e6 / (cell.duration + cell.rtt).as_secs_f64(),
        rtt_median: share(delays.clone(), 50),
        rtt_95: share(delays, 95),
        backlog: share(backlog, 50),
        drops: network.link(0).stats().drops() as f64,
        period: period(&windows),
    };
    (figures, series)
}

fn tcp(cell: &Cell, wrap: &dyn Fn(Factory) -> Factory) -> TcpConfig {
    let (algorithm, pacing) = match cell.congestion.as_str() {
        "cubic" => (Algorithm::CubicLinux, Pacing::Off),
        "bbr" => (Algorithm::Bbr, Pacing::Internal),
        other => panic!("{other} has no counterpart"),
    };
    TcpConfig {
        congestion: wrap(Factory::new(move |config| algorithm.build(&Config { tick: TICK, ..*config }))),
        pacing,
        pacer: PacerConfig::linux(),
        tsq: TsqLimit::Off,
        send_overhead: SEND_OVERHEAD,
        loss_recovery: LossRecovery::linux(),
        ..TcpConfig::default()
    }
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 91, 1, number as u8 + 1)
}

fn mac(number: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, number as u8 + 1]
}
