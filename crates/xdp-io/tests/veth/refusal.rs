//! Refusals to open, and their explanations.

use super::*;

#[test]
fn what_cannot_be_opened_is_explained() {
    let pair = veth_or_skip!();
    let end = &pair.left;
    let refusal = |config| {
        Port::open(end, config)
            .map(|_| ())
            .expect_err("must be refused")
            .to_string()
    };
    let missing = refusal(Config {
        interface: "tl-none".into(),
        ..end.config()
    });
    assert!(
        missing.contains("tl-none") && missing.contains("ip -br link"),
        "{missing}"
    );
    let generic = refusal(Config {
        bind: Bind::ZeroCopy,
        driver: Driver::Skb,
        ..end.config()
    });
    assert!(generic.contains("generic hook"), "{generic}");
    let queue = refusal(Config {
        queue: 9,
        ..end.config()
    });
    assert!(
        queue.contains("queue 9") && queue.contains("ethtool -l"),
        "{queue}"
    );
    let queue = refusal(Config {
        queue: 5000,
        ..end.config()
    });
    assert!(queue.contains("queue 5000"), "{queue}");
    let zero_copy = refusal(Config {
        bind: Bind::ZeroCopy,
        ..end.config()
    });
    assert!(
        zero_copy.contains("zero copy") && zero_copy.contains("Bind::Auto"),
        "{zero_copy}"
    );
    end.ip(&["link", "set", &end.interface, "mtu", "3000"]);
    let mtu = refusal(Config {
        bind: Bind::ZeroCopy,
        ..end.config()
    });
    assert!(mtu.contains("mtu 2022"), "{mtu}");
    end.ip(&["link", "set", &end.interface, "mtu", "9000"]);
    assert!(Port::open(end, end.config()).is_ok(), "in several chunks");
    end.ip(&["link", "set", &end.interface, "mtu", "65535"]);
    let mtu = refusal(end.config());
    assert!(
        mtu.contains("MTU of 65535") && mtu.contains("mtu 60394"),
        "{mtu}"
    );
    end.ip(&["link", "set", &end.interface, "mtu", "1500"]);
    pair.right
        .ip(&["link", "set", &pair.right.interface, "mtu", "9000"]);
    let peer = refusal(end.config());
    assert!(peer.contains("peer") && peer.contains("1500"), "{peer}");
}

/// Runs an ignored test of this file through `wrapper`; answers what it printed.
fn child(wrapper: &[&str], test: &str) -> String {
    let program = std::env::current_exe().expect("this file runs");
    let output = std::process::Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .expect("the wrapper exists");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
#[ignore = "run by the two tests below"]
fn child_is_refused() {
    let interface = std::env::var("TAUTLINE_HOLD").unwrap_or_else(|_| "lo".into());
    let take = Take::Addresses(vec!["10.77.0.2".parse().unwrap()]);
    let refusal = XdpDevice::open(Config {
        interface,
        take,
        ..Config::default()
    })
    .expect_err("must be refused");
    println!("{refusal}");
}

#[test]
fn a_missing_capability_is_named() {
    if let Some(reason) = net::blocked_by() {
        eprintln!("skipped: {reason}");
        return;
    }
    let said = child(
        &["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
        "refusal::child_is_refused",
    );
    assert!(
        said.contains("no permission") && said.contains("CAP_BPF"),
        "{said}"
    );
}

#[test]
fn too_little_lockable_memory_is_explained_with_numbers() {
    let pair = veth_or_skip!();
    let unlocked = [
        "setpriv",
        "--bounding-set=-ipc_lock,-sys_resource",
        "--inh-caps=-ipc_lock,-sys_resource",
    ];
    let limited = [
        "prlimit",
        "--memlock=65536:65536",
        "env",
        "TAUTLINE_HOLD=vleft",
    ];
    let inside = ["ip", "netns", "exec", &pair.left.namespace];
    let said = child(
        &[&inside[..], &limited, &unlocked].concat(),
        "refusal::child_is_refused",
    );
    assert!(
        said.contains("33554432 bytes")
            && said.contains("65536 bytes")
            && said.contains("ulimit -l"),
        "{said}"
    );
}
