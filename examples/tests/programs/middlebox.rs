//! The counters of the middlebox: each packet once.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::namespaces::{Pair, ip};

const MIDDLEBOX: &str = env!("CARGO_BIN_EXE_middlebox");
const PINGS: u64 = 100;

#[test]
fn defect_16_18_the_middlebox_counts_each_packet_once() {
    let Some(pair) = Pair::new() else { return };
    let [a, b] = &pair.namespaces;
    // Loses one packet in two on its way back.
    let words = "--device tap --left tl0 --right tl1 --json --seconds 60 --to-left netem~loss~50%";
    let middlebox = pair.start(0, MIDDLEBOX, words, "listening");
    ip(&format!("-n {a} link set dev tl1 netns {b}"));
    ip(&format!("-n {b} link set dev tl1 up"));
    ip(&format!("-n {a} link set dev tl0 up"));
    ip(&format!("-n {a} addr add 10.7.0.1/24 dev tl0"));
    ip(&format!("-n {b} addr add 10.7.0.2/24 dev tl1"));
    // A lost ARP reply would be asked for again a second later.
    let [left, right] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
    for (namespace, dev, mac, peer, at) in [
        (a, "tl0", left, "10.7.0.2", right),
        (b, "tl1", right, "10.7.0.1", left),
    ] {
        ip(&format!("-n {namespace} link set dev {dev} address {mac}"));
        ip(&format!(
            "-n {namespace} neigh add {peer} lladdr {at} dev {dev}"
        ));
    }
    let pings = PINGS.to_string();
    let ping = ["netns", "exec", a, "ping", "-q", "-i", "0.01", "-c", &pings];
    let mut pinged = Command::new("ip");
    let pinged = pinged.args(ping).args(["-W", "1", "10.7.0.2"]);
    let pinged = pinged.stdout(Stdio::null()).status();
    pinged.expect("ping is installed");
    middlebox.signal("-INT");
    let said = middlebox.output_within(Duration::from_secs(20));
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    for way in ["to_right", "to_left"] {
        let count = |event: &str, name: &str| -> u64 {
            let of = |line: &&Value| line["event"] == event && line["way"] == way;
            let counts = lines.iter().filter(of).map(|line| line[name].as_u64());
            counts.map(|count| count.expect("a count")).sum()
        };
        for event in ["interval", "summary"] {
            let out = ["packets", "drops", "no_memory", "too_long"].map(|name| count(event, name));
            let received = count(event, "received");
            assert_eq!(received, out.iter().sum::<u64>(), "{way} {event}");
            assert!(received <= count("summary", "received"), "{way} {event}");
        }
        // The kernels also say a little of their own: address resolution, listeners.
        let received = count("summary", "received");
        assert!((PINGS..PINGS + 60).contains(&received), "{way}: {received}");
    }
}
