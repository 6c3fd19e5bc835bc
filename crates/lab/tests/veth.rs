//! A point on this machine's own network: needs root and Linux, and says so where it does not run.

use std::process::Command;

use tautline_lab::plan::{Ask, plan};
use tautline_lab::run::{Path, Quantity, Run, veth};
use tautline_lab::scenario::{Scenario, Shelf};

/// One upload and a ping through a router that shapes to 20 Mbit/s, with a short queue and with a long one.
const ROW: &str = r#"
id = "wire"
title = "a shaper on the wire"
paper = "none"
claim = "what a token bucket lets pass, and how long its queue is"
wire = true

[run]
duration = "3s"
warm_up = "1s"
repetitions = 1

[[host]]
name = "client"

[[router]]
name = "router"

[[host]]
name = "server"

[[link]]
between = ["client", "router"]

[[link]]
between = ["router", "server"]

[[flow]]
name = "upload"
kind = "tcp"
from = "client"
to = "server"

[[flow]]
name = "ping"
kind = "ping"
from = "client"
to = "server"
every = "50ms"

[[axis]]
name = "queue"

[[axis.value]]
name = "short"
set = { "link.router-server.qdisc" = "tbf rate 20mbit burst 10kb limit 10mb; pfifo limit 20" }

[[axis.value]]
name = "long"
set = { "link.router-server.qdisc" = "tbf rate 20mbit burst 10kb limit 10mb; pfifo limit 200" }
"#;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn mean(run: &Run, quantity: Quantity, of: &str) -> f64 {
    let series = run.get(quantity, of).unwrap_or_else(|| panic!("no {quantity} of {of}"));
    let values: Vec<f64> = run.measured(series).map(|(_, value)| value).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Namespaces of this process.
fn namespaces() -> usize {
    let output = Command::new("ip").args(["netns", "list"]).output().expect("iproute2 is installed");
    let own = format!("tl-lab-{}-", std::process::id());
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with(&own)).count()
}

#[test]
fn a_shaper_shapes_and_its_queue_delays_on_the_wire_too() {
    if !is_root() {
        println!("skipped: network namespaces need root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("wire.toml"), ROW).expect("it can be written to");
    let scenario = Scenario::load(&Shelf::Directory(folder.path().into()), "wire.toml").expect("a good file");
    let runs: Vec<Run> = plan(&scenario, Ask { path: Path::Veth, ..Ask::default() })
        .iter()
        .map(|point| veth::run(point).unwrap_or_else(|error| panic!("{error}")))
        .collect();
    assert_eq!(namespaces(), 0, "namespaces go with the run");
    for run in &runs {
        let goodput = mean(run, Quantity::Goodput, "upload");
        assert!((16.0..=20.0).contains(&goodput), "{}: {goodput} Mbit/s through 20 Mbit/s", run.cell);
        assert!(run.counters["kernel_ping_count"] > 5.0, "the system's own ping passes the router: {:?}", run.counters);
        assert!(run.get(Quantity::Cwnd, "upload").is_some_and(|series| series.points.len() > 20));
    }
    let [short, long] = runs.as_slice() else { panic!("two cells") };
    let backlog = |run| mean(run, Quantity::Backlog, "router>server");
    assert!(backlog(long) > 3.0 * backlog(short), "{} and {} packets", backlog(long), backlog(short));
    let ping = |run| mean(run, Quantity::Ping, "ping");
    assert!(ping(long) > 2.0 * ping(short), "{} and {} ms", ping(long), ping(short));
}

#[test]
fn what_the_wire_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = ROW.replace("between = [\"client\", \"router\"]", "between = [\"client\", \"router\"]\ndelay = \"20ms\"");
    std::fs::write(folder.path().join("slow.toml"), slow).expect("it can be written to");
    let scenario = Scenario::load(&Shelf::Directory(folder.path().into()), "slow.toml").expect("a good file");
    let point = &plan(&scenario, Ask { path: Path::Veth, ..Ask::default() })[0];
    let error = veth::run(point).expect_err("a veth pair does not delay").to_string();
    assert!(error.contains("client-router") && error.contains("netem delay"), "{error}");
}
