//! A point on this machine's own network: needs root and Linux, and says so where it does not run.

mod home;

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use tautline_lab::{
    Backend, PlanOptions, Point, Quantity, Run, Scenario, ScenarioDir, plan, record, run,
};

use home::home;

/// One upload and a ping through a router that shapes to 20 Mbit/s, with a short queue and with a
/// long one.
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

/// Serializes runs over veth: a process does one run at a time, and two would share the processors.
static WIRE: Mutex<()> = Mutex::new(());

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Points of a scenario over veth.
fn points(scenario: &str) -> Vec<Point> {
    let folder = home(&[("wire.toml", scenario)]);
    let scenario = Scenario::load(&ScenarioDir::Directory(folder.path().into()), "wire.toml")
        .expect("a good file");
    plan(
        &scenario,
        PlanOptions {
            path: Backend::Veth,
            ..PlanOptions::default()
        },
    )
    .expect("a plan")
}

fn mean(run: &Run, quantity: Quantity, of: &str) -> f64 {
    let series = run
        .get(quantity, of)
        .unwrap_or_else(|| panic!("no {quantity} of {of}"));
    let values: Vec<f64> = run.measured(series).map(|(_, value)| value).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Namespaces of the process `id`.
fn namespaces_of(id: u32) -> usize {
    let output = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .expect("iproute2 is installed");
    let own = format!("tl-lab-{id}-");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.starts_with(&own))
        .count()
}

#[test]
fn a_shaper_shapes_and_its_queue_delays_on_the_wire_too() {
    if !is_root() {
        println!("skipped: network namespaces need root");
        return;
    }
    let _wire = WIRE.lock().unwrap_or_else(PoisonError::into_inner);
    let runs: Vec<Run> = points(ROW)
        .iter()
        .map(|point| run(point).unwrap_or_else(|error| panic!("{error}")))
        .collect();
    assert_eq!(
        namespaces_of(std::process::id()),
        0,
        "namespaces go with the run"
    );
    for run in &runs {
        let goodput = mean(run, Quantity::Goodput, "upload");
        assert!(
            (16.0..=20.0).contains(&goodput),
            "{}: {goodput} Mbit/s through 20 Mbit/s",
            run.cell
        );
        assert!(
            run.counters["kernel_ping_count"] > 5.0,
            "the system's own ping passes the router: {:?}",
            run.counters
        );
        assert!(
            run.get(Quantity::Cwnd, "upload")
                .is_some_and(|series| series.points.len() > 20)
        );
    }
    let [short, long] = runs.as_slice() else {
        panic!("two cells")
    };
    let backlog = |run| mean(run, Quantity::Backlog, "router>server");
    assert!(
        backlog(long) > 3.0 * backlog(short),
        "{} and {} packets",
        backlog(long),
        backlog(short)
    );
    let ping = |run| mean(run, Quantity::Ping, "ping");
    assert!(
        ping(long) > 2.0 * ping(short),
        "{} and {} ms",
        ping(long),
        ping(short)
    );
}

#[test]
fn every_packet_on_the_wire_is_captured_where_it_passes() {
    if !is_root() {
        println!("skipped: network namespaces need root");
        return;
    }
    let _wire = WIRE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = home::<&str>(&[]);
    let file = folder.path().join("out/wire.pcapng");
    let run = record(&points(ROW)[0], &file).unwrap_or_else(|error| panic!("{error}"));
    let bytes = std::fs::read(&file).expect("a capture");
    let count = |text: &str| {
        bytes
            .windows(text.len())
            .filter(|window| *window == text.as_bytes())
            .count()
    };
    for place in ["qdisc-in", "ring", "completed", "received"] {
        // The host's own, and that of the router's port towards it, whose name ends so.
        for host in ["client", "server"] {
            assert_eq!(count(&format!("{host}:{place}")), 2, "{host}:{place}");
            assert_eq!(
                count(&format!("router>{host}:{place}")),
                1,
                "router>{host}:{place}"
            );
        }
    }
    assert!(
        count("verdict=pass") > 1000 && count("in_ring=") > 1000,
        "packets bear what became of them"
    );
    let dropped = run
        .of(Quantity::Drops)
        .flat_map(|series| &series.points)
        .map(|(_, drops)| drops)
        .sum::<f64>();
    let told = count("verdict=drop reason=overlimit");
    // The last sample is some time before the end, and packets are dropped until then.
    assert!(
        dropped > 0.0 && told as f64 >= dropped && (told as f64) < dropped + 50.0,
        "{told} told, {dropped} counted"
    );
}

#[test]
fn what_the_wire_cannot_be_is_refused() {
    let slow = ROW.replace(
        "between = [\"client\", \"router\"]",
        "between = [\"client\", \"router\"]\ndelay = \"20ms\"",
    );
    let error = run(&points(&slow)[0])
        .expect_err("a veth pair does not delay")
        .to_string();
    assert!(
        error.contains("client-router") && error.contains("netem delay"),
        "{error}"
    );
}

#[test]
fn one_signal_ends_the_run_the_rest_and_the_namespaces() {
    if !is_root() {
        println!("skipped: network namespaces need root");
        return;
    }
    let folder = home(&[(
        "wire.toml",
        ROW.replace("duration = \"3s\"", "duration = \"60s\""),
    )]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command
        .args(["run", "wire", "--path", "veth", "--scenarios", "."])
        .current_dir(folder.path());
    let mut child = command.spawn().expect("lab starts");
    let id = child.id();
    let begun = (0..100).any(|_| {
        let all = namespaces_of(id) == 3;
        // Signals are heard once every node is ready.
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        all
    });
    assert!(begun, "a namespace for each node");
    std::thread::park_timeout(std::time::Duration::from_secs(3));
    let signalled = Command::new("kill")
        .args(["-TERM", &id.to_string()])
        .status()
        .expect("kill runs");
    assert!(signalled.success());
    // The row's other cell would take a minute.
    let ended = (0..200).find_map(|_| {
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        child.try_wait().expect("it can be asked")
    });
    let ended = ended.unwrap_or_else(|| panic!("it goes on: {:?}", child.kill()));
    assert_eq!(ended.code(), Some(2), "an interrupted run is no result");
    assert_eq!(namespaces_of(id), 0, "namespaces go with the run");
}
