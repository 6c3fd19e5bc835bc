//! Wireshark's extcap interface: tshark lists a running middlebox and a link, and captures from them.

mod namespace;

use std::process::{Command, Output};

use namespace::unshared;

/// A middlebox between `wire0` and `wire1` whose way to the right marks or drops every packet, and a
/// place where tshark finds the program: as root it ignores WIRESHARK_EXTCAP_DIR.
const MIDDLEBOX: &str = r#"
program=$0
cd "$1"
export HOME=$PWD XDG_RUNTIME_DIR=$PWD/run XDG_CONFIG_HOME=$PWD/config
for place in config/wireshark/extcap .local/lib/wireshark/extcap; do
    mkdir -p $place
    ln -s "$program" $place/tautline-extcap
done
extcap=$PWD/config/wireshark/extcap/tautline-extcap
ip link set lo up
ip link add box0 type veth peer name wire0; ip link add box1 type veth peer name wire1
for interface in box0 box1 wire0 wire1; do ip link set $interface addrgenmode none up; done
ip addr add 10.9.0.1/24 dev wire0
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev wire0 nud permanent
"$program" middlebox --left box0 --right box1 --device packet --frames 256 --control ./control \
    --to-right 'netem delay 5ms loss 100% ecn' > log 2>&1 &
box=$!
trap 'kill $box; wait' EXIT
for _ in $(seq 100); do [ -S run/tautline/box0-box1 ] && break; sleep 0.05; done
"#;

/// Standard output of a script after [`MIDDLEBOX`]; nothing if it cannot run here.
fn with_middlebox(script: &str, needs: &str) -> Option<String> {
    if Command::new(needs).arg("--version").output().is_err() {
        eprintln!("not tested: {needs} is not installed (scripts/setup --tests)");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let script = format!("{MIDDLEBOX}\n{script}");
    let words = ["-ec", &script, env!("CARGO_BIN_EXE_tautline"), path];
    Some(text(&unshared("bash", &words)?))
}

#[track_caller]
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Captures by tshark of packets that the qdisc marks, drops, and that were marked before. Each ends once it has its packets,
/// without traffic that would break its pipe, and leaves no process and no capture behind.
const CAPTURED: &str = r#"
tshark -D 2>/dev/null | grep tautline
fields='-T fields -E separator=| -e frame.interface_name -e ip.dsfield.ecn -e frame.comment -e ip.dst'
for service in 2 0 3; do
    (
        # The pipe exists before tshark captures from it: packets come until it has enough.
        while [ ! -e done ]; do ping -q -c 1 -W 0.1 -Q $service 10.9.0.2 > /dev/null || true; done
    ) &
    pings=$!
    timeout 30 tshark -i tautline-box0-box1 -c 3 $fields 2>/dev/null
    touch done; wait $pings; rm done
    for _ in $(seq 50); do pgrep -f "$extcap" > /dev/null || break; sleep 0.1; done
    ! pgrep -fa "$extcap"
done
"$program" ctl --socket control show > /dev/null
"#;

#[test]
fn tshark_lists_a_middlebox_and_captures_marks_and_drops() {
    let Some(text) = with_middlebox(CAPTURED, "tshark") else {
        return;
    };
    let lines: Vec<_> = text.lines().collect();
    let listed = "tautline-box0-box1 (tautline middlebox box0 <-> box1)";
    assert!(lines[0].ends_with(listed), "{text}");
    assert_eq!(lines.len(), 10, "{text}");
    let expected = [
        ("box1:ring", "3", "verdict=CE"),
        ("box1:drop", "0", "verdict=drop reason=loss"),
        ("box1:ring", "3", "verdict=pass"),
    ];
    for (lines, (place, ecn, verdict)) in lines[1..].chunks(3).zip(expected) {
        for line in lines {
            let fields: Vec<_> = line.split('|').collect();
            assert_eq!(fields[..2], [place, ecn], "{text}");
            assert_eq!(fields[3], "10.9.0.2", "{text}");
            assert!(fields[2].starts_with("sojourn="), "{text}");
            assert!(fields[2].ends_with(verdict), "{text}");
        }
    }
}

/// A reader that does not read during a flood of more than the ring and all pipes hold, then reads the
/// rest of the capture and closes its pipe.
const SLOW: &str = r#"
"$program" ctl --socket control replace to_right 'pfifo'
{
    "$program" ctl --socket control capture --points all
    echo $? > status
} | {
    dd bs=1 count=28 of=header status=none
    while [ ! -e read ]; do sleep 0.05; done
    timeout 2 cat header - > taken || true
} &
capture=$!
while [ ! -s header ]; do sleep 0.05; done
for _ in $(seq 60); do
    dd if=/dev/zero bs=1400 count=150 status=none > /dev/udp/10.9.0.2/9
    sleep 0.01
done
touch read
sleep 0.5
ping -q -c 2 -i 0.2 -W 0.1 10.9.0.2 > /dev/null || true
wait $capture
cat status
tshark -r taken -T fields -e frame.drop_count 2>/dev/null > drops
wc -l < drops
grep . drops
"$program" ctl --socket control show | grep box1
"#;

#[test]
fn a_slow_reader_loses_records_and_delays_no_packet() {
    let Some(text) = with_middlebox(SLOW, "tshark") else {
        return;
    };
    let lines: Vec<_> = text.lines().collect();
    let [status, captured, drops @ .., port] = lines.as_slice() else {
        panic!("{text}");
    };
    assert_eq!(*status, "0", "{text}");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let lost: u64 = drops.iter().map(|count| number(count)).sum();
    assert!(lost > 0, "{text}");
    let port: serde_json::Value = serde_json::from_str(port).expect("JSON");
    let packets = port["taken"]["packets"].as_u64().expect("a number");
    assert_eq!(port["sent"]["packets"].as_u64(), Some(packets), "{text}");
    // Each packet arrives, enters the qdisc and leaves; one that finds no frame on a slow machine only
    // arrives.
    let drops = port["drops"].as_array().expect("a list").iter();
    let refused: u64 = drops.filter_map(|drop| drop[1].as_u64()).sum();
    assert_eq!(number(captured) + lost, 3 * packets + refused, "{text}");
    let longest = port["sojourn_last_max_ns"][1].as_u64().expect("a number");
    assert!(longest < 500_000_000, "{text}");
}

/// Within a link: it is listed, and its packets are captured without tshark.
const LINK: &str = r#"
extcap() { "$0" extcap "$@"; }
name=$(extcap --extcap-interfaces | sed -n 's/interface {value=\([^}]*\)}.*/\1/p')
extcap --extcap-interface "$name" --capture --fifo out &
for _ in $(seq 100); do [ -s out ] && break; sleep 0.05; done
ping -q -c 2 -i 0.2 10.77.0.2 > /dev/null
sleep 0.2
kill $!
extcap --extcap-interfaces
tr -c '[:print:]' '\n' < out | grep -E '^(up|down):|^sojourn='
! extcap --extcap-interface tautline-none --capture --fifo none 2> refused
cat refused
"#;

#[test]
fn a_link_is_captured_from_within() {
    let program = env!("CARGO_BIN_EXE_tautline");
    let directory = tempfile::tempdir().expect("a directory");
    let Some(_) = unshared("true", &[]) else {
        return;
    };
    let words = ["link", "--delay", "5ms", "--", "bash", "-ec", LINK, program];
    let output = Command::new(program)
        .args(words)
        .current_dir(&directory)
        .env("XDG_RUNTIME_DIR", directory.path())
        .output();
    let text = text(&output.expect("it starts"));
    assert!(text.contains("interface {value=tautline-link-"), "{text}");
    for part in [
        "up:ring",
        "down:ring",
        "verdict=pass",
        "no running middlebox or link",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let left = std::fs::read_dir(directory.path().join("tautline"));
    assert_eq!(left.expect("made by the link").count(), 0);
}
