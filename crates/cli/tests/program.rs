//! The program `tautline` as users meet it: help, version, manual pages, completions.

mod namespace;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use namespace::unshared;

/// Runs `tautline` with these arguments to its end.
fn tautline(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tautline"))
        .args(words)
        .output()
        .expect("the program starts")
}

/// Standard output of a run that succeeds.
#[track_caller]
fn printed(words: &[&str]) -> String {
    let output = tautline(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The commands that `help` lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    listed
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect()
}

/// `--help` of a command and of every command below it.
#[cfg(feature = "lab")]
fn help_of(command: &[&str]) -> String {
    let help = printed(&[command, &["--help"]].concat());
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let title = [&["tautline"], command, &["--help"]].concat().join(" ");
    let mut text = format!("$ {title}\n{}\n", lines.join("\n"));
    for name in commands(&help) {
        text.push('\n');
        text.push_str(&help_of(&[command, &[&*name]].concat()));
    }
    text
}

/// A change of options or wording shows in the difference of one file. `TAUTLINE_BLESS=1` writes it.
#[test]
#[cfg(feature = "lab")]
fn help_is_as_recorded() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help.txt");
    let help = help_of(&[]);
    if std::env::var_os("TAUTLINE_BLESS").is_some() {
        std::fs::write(file, &help).expect("a writable file");
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_default();
    let pairs = help.lines().zip(recorded.lines());
    let other = pairs.take_while(|(new, old)| new == old).count();
    assert!(
        help == recorded,
        "line {} is now {:?}, and was {:?}; if that is meant, record it: TAUTLINE_BLESS=1 cargo test -p tautline-cli --test program help",
        other + 1,
        help.lines().nth(other).unwrap_or_default(),
        recorded.lines().nth(other).unwrap_or_default(),
    );
}

#[test]
fn every_command_has_help_a_manual_page_and_completions() {
    let directory = tempfile::tempdir().expect("a directory");
    let pages = directory.path().join("man1");
    printed(&["man", pages.to_str().expect("text")]);
    let completions = printed(&["completions", "bash"]);
    let commands = commands(&printed(&["--help"]));
    assert!(commands.iter().any(|name| name == "send"), "{commands:?}");
    for name in &commands {
        let page = pages.join(format!("tautline-{name}.1"));
        let text = std::fs::read_to_string(&page).expect("a manual page");
        assert!(text.contains(".TH"), "{name}");
        assert!(
            completions.contains(&format!("tautline__subcmd__{name}")),
            "{name}"
        );
    }
}

#[test]
fn the_version_begins_with_the_package() {
    let expected = concat!("tautline ", env!("CARGO_PKG_VERSION"));
    assert!(printed(&["--version"]).starts_with(expected));
}

#[test]
fn a_command_line_that_cannot_work_is_one_line() {
    for words in [&["sned"][..], &["send", "--iface", "none"]] {
        let output = tautline(words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn refusals_say_what_would_be_accepted() {
    let end = [
        "send",
        "--iface",
        "none",
        "--ip",
        "10.0.0.1/8",
        "--bytes",
        "1",
    ];
    let boxed = ["middlebox", "--left", "no-such-if", "--right", "nor-this"];
    for (command, rest, part) in [
        (&end[..], ["--to", "10.0.0.2"], "10.7.0.2:5001"),
        (&["iperf3"][..], ["-p", "5201"], "--server|--client"),
        (
            &["link"],
            ["--rate", "10mbit"],
            "unexpected argument '--rate'",
        ),
        (
            &boxed[..],
            ["--qdisc", "fqcodel"],
            "did you mean `fq_codel`",
        ),
    ] {
        let output = tautline(&[command, &rest].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{said}");
    }
}

#[test]
fn doctor_has_a_finding_per_line_and_a_status() {
    let output = tautline(&["doctor", "--json"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let findings: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let works = ["packet sockets", "af_xdp", "tap", "user namespaces"].map(|subject| {
        findings
            .iter()
            .any(|found| found["subject"] == subject && found["level"] != "missing")
    });
    let expected = i32::from(works == [false; 4]);
    assert_eq!(output.status.code(), Some(expected));
    assert!(
        findings
            .iter()
            .any(|finding| finding["subject"] == "kernel")
    );
    let absent = tautline(&["doctor", "--iface", "no-such-if"]);
    assert_eq!(absent.status.code(), Some(1));
}

/// Runs a script of bash in a network namespace of its own: `$0` is the program, `$1` a directory, which is
/// returned with the output. The script must succeed; otherwise the files `logs` are shown. `None` if
/// namespaces cannot be made here.
fn script(text: &str, logs: &[&str]) -> Option<(tempfile::TempDir, Output)> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let words = ["-ec", text, env!("CARGO_BIN_EXE_tautline"), path];
    let output = unshared("bash", &words)?;
    let log = |name: &&str| std::fs::read_to_string(directory.path().join(name));
    let logs: Vec<_> = logs.iter().map(log).collect();
    assert!(output.status.success(), "{output:?} {logs:?}");
    Some((directory, output))
}

/// `tautline link` with these words.
fn link(words: &[&str]) -> Option<Output> {
    unshared("true", &[])?;
    Some(tautline(&[&["link"], words].concat()))
}

#[test]
fn a_link_delays_pings_and_ends_with_the_status_of_its_command() {
    let words = [
        "--delay",
        "15ms",
        "--json",
        "--",
        "ping",
        "-c",
        "3",
        "-i",
        "0.2",
        "10.77.0.2",
    ];
    let Some(output) = link(&words) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let times = text.lines().filter_map(|line| {
        line.split("time=")
            .nth(1)?
            .split(' ')
            .next()?
            .parse::<f64>()
            .ok()
    });
    let times: Vec<_> = times.collect();
    assert_eq!(times.len(), 3, "{text}");
    assert!(times.iter().all(|time| *time >= 30.0), "{times:?}");
    let summaries = String::from_utf8_lossy(&output.stderr);
    for way in ["down", "up"] {
        let line = summaries.lines().find(|line| line.contains(way));
        let json: serde_json::Value = serde_json::from_str(line.expect("a summary")).expect("JSON");
        assert!(json["packets"].as_u64().expect("a number") >= 3, "{json}");
    }
    let failed = link(&["--", "sh", "-c", "exit 7"]).expect("it worked before");
    assert_eq!(failed.status.code(), Some(7));
    let absent = link(&["--", "/no/such/program"]).expect("it worked before");
    assert_eq!(absent.status.code(), Some(125), "{absent:?}");
}

/// Mean bytes of the packets toward COMMAND, a download of 3 MB, with these words before it.
fn packet_length(words: &[&str]) -> Option<f64> {
    let program = env!("CARGO_BIN_EXE_tautline");
    let server = format!("{program} iperf3 -s -1");
    let download = [program, "iperf3", "-R", "-c", "10.77.0.2", "-n", "3M"];
    let shared = ["--json", "--serve", &server, "--"];
    let output = link(&[words, &shared, &download].concat())?;
    let summaries = String::from_utf8_lossy(&output.stderr);
    let down = summaries.lines().find(|line| line.contains("\"down\""));
    let down: serde_json::Value = serde_json::from_str(down.expect("a summary")).expect("JSON");
    let number = |name: &str| down[name].as_f64().expect("a number");
    Some(number("mbit_per_s") * number("seconds") * 1e6 / 8.0 / number("packets"))
}

#[test]
fn a_link_carries_large_packets_with_offload_only() {
    let Some(large) = packet_length(&["--offload"]) else {
        return;
    };
    let small = packet_length(&[]).expect("it worked before");
    assert!(large > 3000.0 && small < 1515.0, "{large}, {small}");
}

#[test]
fn links_nest_and_add_their_delays() {
    let program = env!("CARGO_BIN_EXE_tautline");
    let inner = [
        program,
        "link",
        "--delay",
        "10ms",
        "--",
        "ping",
        "-c",
        "5",
        "-i",
        "0.2",
        "10.77.0.2",
    ];
    let Some(output) = link(&[&["--delay", "20ms", "--"][..], &inner].concat()) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let times = text.split("time=").skip(1).map(|rest| {
        let time = rest.split(' ').next().and_then(|time| time.parse().ok());
        time.expect("a time")
    });
    // The fastest: the machine may be busy.
    let time = times.reduce(f64::min).expect("a reply");
    assert!((60.0..200.0).contains(&time), "{text}");
}

/// A server in the outer namespace, at an address that only the gateway's sockets reach.
const INTERNET: &str = r#"
cd "$1"
ip link set lo up; ip address add 192.0.2.1/32 dev lo; ip address add 2001:db8::1/128 dev lo nodad
"$0" iperf3 -s > server.log &
server=$!
trap 'kill $server' EXIT
until ss -Hltn | grep -q :5201; do sleep 0.05; done
cat > command <<'END'
"$0" iperf3 -c 192.0.2.1 -n 300K -R -J > alone.json
for _ in $(seq 200); do if grep -q 'released.*peer' log; then break; fi; sleep 0.05; done
END
RUST_LOG=tautline_rt=debug,tautline_netstack=debug \
    "$0" link --delay 5ms --internet --pcapng one.pcapng -- bash -ec '. ./command' "$0" 2> log
"$0" link --delay 5ms --internet -- "$0" link --delay 5ms -- "$0" iperf3 -c 192.0.2.1 -n 300K -J > nested.json
"$0" link --internet -- "$0" iperf3 -c 2001:db8::1 -n 300K -R -J > alone6.json
"$0" link --internet -- "$0" link -- "$0" iperf3 -c 2001:db8::1 -n 300K -J > nested6.json
ln -s "$0" mm-delay; ln -s "$0" mm-link; seq 1 1000 > trace
./mm-delay 5 ./mm-link --uplink-log=up.log trace trace "$0" iperf3 -c 10.77.0.2 -n 300K -J > mahimahi.json
"$0" link --internet -- cat /etc/resolv.conf > resolver
if "$0" link --delay 5ms -- ping -c 1 -W 1 192.0.2.1 > /dev/null; then exit 1; fi
"#;

#[test]
fn a_link_reaches_the_network_if_asked_to_and_writes_what_passes() {
    let Some((directory, _)) = script(INTERNET, &[]) else {
        return;
    };
    let at = |name: &str| directory.path().join(name);
    for name in [
        "alone.json",
        "nested.json",
        "alone6.json",
        "nested6.json",
        "mahimahi.json",
    ] {
        let text = std::fs::read_to_string(at(name)).expect(name);
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let bytes = report["end"]["sum_received"]["bytes"].as_u64();
        assert!(bytes >= Some(300 << 10), "{name}: {text}");
    }
    let log = std::fs::read_to_string(at("log")).expect("written");
    for words in [
        ["requested", "peer=10.77.0.15:"],
        ["released", "retransmits="],
    ] {
        let has = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(log.lines().any(has), "{words:?}: {log}");
    }
    let resolver = std::fs::read_to_string(at("resolver")).expect("written");
    assert_eq!(resolver, "nameserver 10.77.0.3\n");
    let logged = std::fs::read_to_string(at("up.log")).expect("written");
    let count = |event: &str| {
        let events = logged.lines().filter(|line| !line.starts_with('#'));
        events
            .filter(|line| line.split(' ').nth(1) == Some(event))
            .count()
    };
    let (arrived, left) = (count("+"), count("-"));
    assert!(arrived >= 200 && count("#") >= left, "{logged}");
    assert!(left <= arrived && left + 5 >= arrived, "{logged}");
    let capture = std::fs::read(at("one.pcapng")).expect("written");
    assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(capture.len() > 300 << 10, "{} bytes", capture.len());
}

/// Runs in the place of `unshare`: says that it has begun, and ends when a signal arrives, or after ten
/// seconds, so that it does not outlive a test that fails.
const UNSHARE: &str = "#!/bin/sh
trap 'exit 7' TERM
: > \"$BEGUN\"
for turn in $(seq 200); do sleep 0.05; done
";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a file of another program has no event"
)]
fn a_signal_ends_a_link_that_has_no_interface_yet() {
    let directory = tempfile::tempdir().expect("a directory");
    let unshare = directory.path().join("unshare");
    std::fs::write(&unshare, UNSHARE).expect("written");
    let executable = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&unshare, executable).expect("ours");
    let begun = directory.path().join("begun");
    let path = std::env::var("PATH").unwrap_or_default();
    let link = Command::new(env!("CARGO_BIN_EXE_tautline"))
        .args(["link", "--internet", "--", "true"])
        .env("PATH", format!("{}:{path}", directory.path().display()))
        .env("BEGUN", &begun)
        .spawn();
    let mut link = link.expect("the program starts");
    for _ in 0..1000 {
        if begun.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = link.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("kill").success());
    // The child's status: the signal went on to it.
    let status = link.wait().expect("it ends");
    assert_eq!(status.code(), Some(7), "{status:?}");
}

/// Options come from a file, the command line prevails, and a running middlebox is shown and changed.
const OPERATE: &str = r#"
cd "$1"
ip link add box0 type veth peer name wire0; ip link add box1 type veth peer name wire1
for interface in box0 box1 wire0 wire1; do ip link set $interface up; done
cat > box.toml <<'END'
left = "box0"
right = "box1"
device = "packet"
qdisc = "pfifo"
to_left = "codel"
frames = 256
control = "nowhere/control"
END
tautline() { "$0" "$@"; }
"$0" middlebox --config box.toml --control ./control > log 2>&1 &
box=$!
trap 'kill $box' EXIT
for _ in $(seq 100); do [ -S control ] && break; sleep 0.05; done
tautline ctl --socket control change to_left target 10ms
tautline ctl --socket control replace to_right 'tbf rate 20mbit burst 5kb latency 1s; fq_codel'
! tautline ctl --socket control change to_right no such words || exit 1
! tautline ctl --socket control replace to_left fifoo || exit 1
! "$0" middlebox --config box.toml --control ./control 2> busy || exit 1
grep -q 'another program listens' busy
tautline ctl --socket control show
kill $box; wait $box
ip link add box2 type veth peer name box3
for interface in box2 box3; do ip link set $interface up; done
cat > pairs.toml <<'END'
device = "packet"
frames = 256
control = "./control"
[[pair]]
name = "lan"
left = "box0"
right = "box1"
[[pair]]
name = "wan"
left = "box2"
right = "box3"
END
"$0" middlebox --config pairs.toml > pairs.log 2>&1 &
box=$!
for _ in $(seq 100); do [ -S control ] && break; sleep 0.05; done
tautline ctl --socket control --pair wan replace to_left cake
! tautline ctl --socket control replace to_left cake 2> which || exit 1
grep -q 'lan, wan' which
tautline ctl --socket control show > pairs
ip link del box2
for _ in $(seq 100); do grep -q 'middlebox: pair wan:' pairs.log && break; sleep 0.05; done
tautline ctl --socket control show > lan
kill $box
! wait $box || exit 1
trap - EXIT
grep -q '1 of 2 pairs failed' pairs.log
"#;

#[test]
fn a_running_middlebox_is_shown_and_changed() {
    let Some((directory, output)) = script(OPERATE, &[]) else {
        return;
    };
    let text = String::from_utf8(output.stdout).expect("text");
    let ports: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let find = |name: &str| {
        let found = ports.iter().find(|port| port["interface"] == name);
        found.expect("a port").to_string()
    };
    assert!(find("box1").contains("\"tbf\"") && find("box1").contains("fq_codel"));
    assert!(find("box0").contains("\"target\":10"), "{text}");

    let pairs = std::fs::read_to_string(directory.path().join("pairs")).expect("written");
    let with = |words: [&str; 2]| {
        let lines = pairs.lines();
        lines
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .count()
    };
    assert_eq!(
        with(["\"pair\":\"lan\"", "\"kind\":\"fq_codel\""]),
        2,
        "{pairs}"
    );
    assert_eq!(
        with(["\"pair\":\"wan\"", "\"kind\":\"fq_codel\""]),
        1,
        "{pairs}"
    );
    assert_eq!(
        with(["\"pair\":\"wan\"", "\"kind\":\"cake\""]),
        1,
        "{pairs}"
    );
    let lan = std::fs::read_to_string(directory.path().join("lan")).expect("written");
    assert_eq!(lan.lines().count(), 2, "{lan}");
    assert!(!lan.contains("wan"), "{lan}");
}

/// Clients on our stack, which end with a signal that leaves them no time for a FIN.
const VANISH: &str = r#"
cd "$1"
ip link set lo up
for number in 1 2; do
    ip tuntap add dev tap$number mode tap; ip address add 10.7.$number.1/24 dev tap$number; ip link set tap$number up
done
"$0" iperf3 -s > server.log 2>&1 & iperf3=$!
"$0" netserver > netserver.log 2>&1 & netserver=$!
trap 'kill -9 $iperf3 $netserver $clients' EXIT
until ss -Hltn | grep -q :5201 && ss -Hltn | grep -q :12865; do sleep 0.05; done
"$0" iperf3 -c 10.7.1.1 -n 100G --device tap --iface tap1 --ip 10.7.1.2/24 > iperf3.log 2>&1 & clients=$!
"$0" netperf -H 10.7.2.1 -l 60 -D 0.2 --device tap --iface tap2 --ip 10.7.2.2/24 > netperf.log 2>&1 & clients="$clients $!"
until grep -q sec iperf3.log && grep -q INTERIM netperf.log; do sleep 0.05; done
! "$0" iperf3 -c 127.0.0.1 -n 100K > busy.log 2>&1 || exit 1
kill -9 $clients
for turn in $(seq 90); do
    if "$0" iperf3 -c 127.0.0.1 -n 100K > served.log 2>&1; then break; fi
    [ $turn != 90 ] || exit 2
    sleep 0.5
done
for turn in $(seq 90); do
    if ! ss -Htn | grep -q ':12865 '; then break; fi
    [ $turn != 90 ] || exit 3
    sleep 0.5
done
"#;

#[test]
fn a_client_that_vanishes_makes_room_for_the_next() {
    let _ran = script(
        VANISH,
        &["server.log", "iperf3.log", "netperf.log", "served.log"],
    );
}

/// A client that is there, but never ends its test.
#[test]
fn a_client_that_stops_makes_room_for_the_next() {
    let server = Command::new(env!("CARGO_BIN_EXE_tautline"))
        .args(["iperf3", "-s", "-1", "-p", "52019", "-B", "127.0.0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut server = server.expect("the program starts");
    let mut lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("listening"))));
    let connect = || {
        let mut stream = TcpStream::connect("127.0.0.1:52019").expect("it listens");
        stream.write_all(&[b'c'; 37]).expect("taken");
        stream
    };
    let mut control = connect();
    let mut state = [0];
    control.read_exact(&mut state).expect("it asks");
    let parameters = br#"{"tcp":true,"time":1,"parallel":1,"len":1000}"#;
    let length = (parameters.len() as u32).to_be_bytes();
    control.write_all(&length).expect("taken");
    control.write_all(parameters).expect("taken");
    control.read_exact(&mut state).expect("a stream");
    let _data = connect();
    let output = server.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("does not end the test"), "{said}");
}

/// An interface that is removed under its program is named.
const REMOVED: &str = r#"
cd "$1"
ends() { # PID: within ten seconds, with a failure
    for turn in $(seq 100); do
        if ! kill -0 $1 2>/dev/null; then break; fi
        sleep 0.1
    done
    ! wait $1
}
"$0" tun2socks --tun tun7 --proxy 127.0.0.1:1 2> tun2socks.log & program=$!
until ip link show tun7 > /dev/null 2>&1; do sleep 0.05; done
sleep 0.5
ip link del tun7
ends $program
"$0" iperf3 -s --device tap --iface tap7 --ip 10.7.7.2/24 > iperf3.log 2>&1 & program=$!
until grep -q 'Ctrl-C' iperf3.log; do sleep 0.05; done
ip link del tap7
ends $program
"#;

#[test]
fn an_interface_that_is_removed_is_named() {
    let Some((directory, _)) = script(REMOVED, &["tun2socks.log", "iperf3.log"]) else {
        return;
    };
    for (log, name) in [("tun2socks.log", "tun7"), ("iperf3.log", "tap7")] {
        let text = std::fs::read_to_string(directory.path().join(log)).expect("written");
        let expected = format!("interface `{name}` was removed");
        assert!(text.contains(&expected), "{log}: {text}");
    }
}

/// A writer and a reader that pause longer than an end may be silent: both hosts go on answering.
const PIPES: &str = r#"
cd "$1"
ip link add va type veth peer name vb
ip link set va up; ip link set vb up
mkfifo in out
"$0" receive --device packet --iface vb --ip 10.7.0.2/24 --listen 5001 --out out --keep 0 --silence 2 > receive.log 2>&1 & receiver=$!
"$0" send --device packet --iface va --ip 10.7.0.1/24 --to 10.7.0.2:5001 --file in --silence 2 > send.log 2>&1 & sender=$!
trap 'kill $receiver $sender' EXIT
(head -c 8M; sleep 5; exec cat) < out > received & reader=$!
(head -c 48M /dev/urandom | tee sent; sleep 5; head -c 100K /dev/urandom | tee -a sent) > in
wait $sender
wait $receiver
wait $reader
trap - EXIT
cmp sent received
"#;

#[test]
fn slow_pipes_at_both_ends_do_not_silence_a_transfer() {
    let _ran = script(PIPES, &["send.log", "receive.log"]);
}

/// The sender is stopped in the middle: the file has all that had arrived.
const STOPPED: &str = r#"
cd "$1"
ip link add va type veth peer name vb
ip link set va up; ip link set vb up
mkfifo in
head -c 3500K /dev/urandom > sent
"$0" receive --device packet --iface vb --ip 10.7.0.2/24 --listen 5001 --out received --json > receive.log 2>&1 & receiver=$!
"$0" send --device packet --iface va --ip 10.7.0.1/24 --to 10.7.0.2:5001 --file in > send.log 2>&1 & sender=$!
trap 'kill $receiver $sender' EXIT
exec 3> in
cat sent >&3
until grep -q '"bytes":3584000,' receive.log; do sleep 0.1; done
kill $sender
! wait $sender
! wait $receiver
trap - EXIT
cmp sent received
"#;

#[test]
fn a_file_has_what_arrived_before_a_transfer_failed() {
    let _ran = script(STOPPED, &["send.log", "receive.log"]);
}

#[test]
fn options_of_a_file_are_checked_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("box.toml");
    for (text, part) in [
        ("colour = 1\n", "--colour"),
        ("left = [1]\n", "`left` is no option of one value"),
        ("left = \"x\"\n", "--right"),
        ("left = \n", "TOML"),
        ("frames = 3\n", "--frames"),
    ] {
        std::fs::write(&file, text).expect("written");
        let output = tautline(&["middlebox", "--config", file.to_str().expect("text")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(part),
            "{text}: {said}"
        );
    }
}

#[test]
fn a_program_goes_on_when_nobody_reads_its_lines_any_more() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tautline"))
        .arg("doctor")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn output_that_cannot_be_written_is_one_line() {
    let run = |words: &[&str], out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
        command.args(words).stdout(out);
        let output = command.stderr(Stdio::piped()).spawn();
        output
            .and_then(std::process::Child::wait_with_output)
            .expect("it ends")
    };
    for words in [&["completions", "bash"][..], &["doctor", "--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = run(words, full.expect("a device of Linux").into());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), said.lines().count()),
            (Some(1), 1),
            "{words:?}: {said}"
        );
        assert!(said.contains("standard output: No space left"), "{said}");
        let (reader, writer) = std::io::pipe().expect("descriptors");
        drop(reader);
        let output = run(words, writer.into());
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{words:?}: {output:?}"
        );
    }
}

/// The standard streams of two transfers' ends are data; the report does not mix with them.
const STANDARD_STREAMS: &str = r#"
cd "$1"
ip link add va type veth peer name vb
ip link set va up; ip link set vb up
head -c 3M /dev/urandom > sent
"$0" receive --device packet --iface vb --ip 10.7.0.2/24 --listen 5001 --out - --json > received 2> receive.log & receiver=$!
trap 'kill $receiver' EXIT
"$0" send --device packet --iface va --ip 10.7.0.1/24 --to 10.7.0.2:5001 --file - < sent > /dev/null 2> send.log
wait $receiver
trap - EXIT
cmp sent received
grep -q '"event":"summary"' receive.log
! test -e ./-
"#;

#[test]
fn a_dash_is_a_standard_stream() {
    let _ran = script(STANDARD_STREAMS, &["send.log", "receive.log"]);
}

#[test]
fn a_datagram_too_short_for_its_time_and_number_is_refused() {
    let output = tautline(&["iperf3", "-c", "127.0.0.1", "-u", "-l", "11"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("from 16 to 65507"), "{error}");
}
