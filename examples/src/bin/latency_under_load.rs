//! The round trip of a ping beside an upload over 20 Mbit/s, as the mechanisms of the send path are
//! switched on, in virtual time: `cargo run --release -p tautline-examples --no-default-features
//! --bin latency_under_load`. `examples/bufferbloat.toml` is the same experiment for the lab.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use tautline_base::{Instant, Rate};
use tautline_bql::LimitKind;
use tautline_sim::app::{PingConfig, SinkConfig, UploadConfig, When};
use tautline_sim::topology::{Cable, HostNode, Topology};
use tautline_sim::{Applications, LinkConfig};
use tautline_stack::{Pacing, TcpConfig, TsqLimit};

const PORT: u16 = 5001;
const RUN: Instant = Instant::from_secs(20);
/// When the upload starts and stops.
const UPLOAD: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(18)];

/// A configuration of the client's send path.
struct Path {
    name: &'static str,
    qdisc: &'static str,
    ring_limit: LimitKind,
    tcp: TcpConfig,
}

fn paths() -> [Path; 3] {
    let unbounded = || TcpConfig {
        tsq: TsqLimit::Off,
        pacing: Pacing::Off,
        ..TcpConfig::default()
    };
    [
        Path {
            name: "a FIFO of 1000 packets above a ring of 256",
            qdisc: "pfifo limit 1000",
            ring_limit: LimitKind::Unlimited,
            tcp: unbounded(),
        },
        Path {
            name: "fq_codel above the ring",
            qdisc: "fq_codel",
            ring_limit: LimitKind::Unlimited,
            tcp: unbounded(),
        },
        Path {
            name: "fq_codel, dynamic queue limit, TSQ, pacing",
            qdisc: "fq_codel",
            ring_limit: LimitKind::default(),
            tcp: TcpConfig::default(),
        },
    ]
}

/// Goodput, and the sorted round trips of the pings during the upload.
fn run(path: &Path) -> Result<(Rate, Vec<Duration>), Box<dyn Error>> {
    let wire = LinkConfig {
        rate: Rate::mbit(20),
        delay: Duration::from_millis(10),
        ..LinkConfig::default()
    };
    let client = HostNode {
        qdisc: path.qdisc.parse()?,
        ring_limit: path.ring_limit.into(),
        ..HostNode::new("client")
    };
    let topology = Topology {
        hosts: vec![client, HostNode::new("server")],
        cables: vec![Cable::new(["client", "server"], [wire.clone(), wire])],
        ..Topology::default()
    };
    let server = IpAddr::from(topology.address("server").ok_or("no server")?);

    let mut uploading = Applications::new(Duration::from_millis(100));
    uploading.upload(UploadConfig {
        when: When {
            start: UPLOAD[0],
            stop: Some(UPLOAD[1]),
        },
        tcp: path.tcp.clone().into(),
        ..UploadConfig::new("upload", (server, PORT).into())
    })?;
    uploading.ping(PingConfig {
        interval: Duration::from_millis(100),
        ..PingConfig::new("ping", server)
    })?;
    let mut sink = Applications::new(Duration::from_millis(100));
    sink.sink(SinkConfig::new("upload", PORT))?;

    let mut applications = [Some(uploading), Some(sink)];
    let mut network = topology.build(1, (), |_, host| {
        applications[host].take().expect("each host is built once")
    })?;
    network.run_before(RUN)?;

    let [client, server] = [0, 1].map(|host| network.endpoint(host).apps.meter());
    let [start, stop] = UPLOAD.map(|time| Instant::ZERO + time);
    let received = server.flow(&"upload".into()).ok_or("no upload")?;
    let goodput = Rate::from_amount(received.received_between(start, stop), stop - start);
    let pings = client.flow(&"ping".into()).ok_or("no ping")?;
    let mut round_trips: Vec<_> = pings
        .round_trips
        .iter()
        .filter(|ping| (start..stop).contains(&ping.at))
        .map(|ping| ping.took)
        .collect();
    round_trips.sort();
    Ok((goodput, round_trips))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("An upload over 20 Mbit/s, 20 ms away, and a ping beside it:\n");
    println!(
        "{:<44} {:>12} {:>9} {:>9}",
        "", "goodput", "ping p50", "p95"
    );
    for path in paths() {
        let (goodput, round_trips) = run(&path)?;
        let [p50, p95] = [50, 95].map(|percent| {
            let at = (round_trips.len() * percent / 100).min(round_trips.len().saturating_sub(1));
            round_trips
                .get(at)
                .map_or(0.0, |ping| ping.as_secs_f64() * 1e3)
        });
        println!(
            "{:<44} {goodput:>12} {p50:>6.0} ms {p95:>6.0} ms",
            path.name
        );
    }
    Ok(())
}
