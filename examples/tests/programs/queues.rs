//! `--queues`: a host, or a direction's port, for each hardware queue.

use std::time::Duration;

use serde_json::Value;

use super::namespaces::{Pair, Running, ip};

const SENDER: &str = env!("CARGO_BIN_EXE_sender");
const RECEIVER: &str = env!("CARGO_BIN_EXE_receiver");
const MIDDLEBOX: &str = env!("CARGO_BIN_EXE_middlebox");
const KERNEL_PEER: &str = env!("CARGO_BIN_EXE_kernel_peer");
const SOON: Duration = Duration::from_secs(30);
const BYTES: u64 = 10_000_001;

/// The lines of `event` that a program printed.
fn lines(running: Running, event: &str) -> Vec<Value> {
    let lines = running.output_within(SOON);
    let lines = lines.lines().map(serde_json::from_str);
    let lines = lines.map(|line| line.expect("an object"));
    lines
        .filter(|line: &Value| line["event"] == event)
        .collect()
}

/// Sends with a connection on each of `queues` queues, and compares what arrives.
fn transfer(from: (&Pair, usize), to: (&Pair, usize), queues: u64) {
    let receive = format!(
        "--iface v --ip 10.7.0.2/24 --ip fd07::2/64 --listen 5001 --queues {queues} --json"
    );
    let receiver = to.0.start(to.1, RECEIVER, &receive, "listening");
    let send = format!(
        "--iface v --ip fd07::1/64 --to [fd07::2]:5001 --queues {queues} --json --bytes {BYTES}"
    );
    let sender = from.0.start(from.1, SENDER, &send, "sending");
    let sent = lines(sender, "summary");
    let count = |line: &Value, name: &str| line[name].as_u64().expect("a count");
    for (queue, summary) in (0..).zip(&sent) {
        assert_eq!(count(summary, "queue"), queue);
        assert!(count(summary, "dql_limit_bytes") > 0);
        assert!(count(summary, "frames_out") >= BYTES / queues / 1448);
    }
    assert_eq!(sent.len() as u64, queues);
    let bytes = sent.iter().map(|summary| count(summary, "bytes"));
    assert_eq!(bytes.sum::<u64>(), BYTES);
    let received = receiver.output_within(SOON);
    let received: Vec<Value> = received
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let digests = |lines: &[Value]| {
        let mut digests: Vec<_> = lines
            .iter()
            .filter_map(|line| Some((line["sha256"].as_str()?.to_owned(), line["bytes"].as_u64()?)))
            .collect();
        digests.sort();
        digests
    };
    assert_eq!(digests(&sent), digests(&received));
    let of_queue = |line: &&Value| line["event"] == "queue";
    let hosts: Vec<_> = received.iter().filter(of_queue).collect();
    assert_eq!(hosts.len() as u64, queues);
    // A veth delivers at the queue of the same number.
    assert!(hosts.iter().all(|host| count(host, "frames_in") > 1000));
}

#[test]
fn four_hosts_of_a_nic_carry_four_connections() {
    let Some(pair) = Pair::with_queues(4) else {
        return;
    };
    transfer((&pair, 0), (&pair, 1), 4);
    let words = "--iface v --ip 10.7.0.2/24 --listen 5001 --queues 3";
    let (good, said) = pair.start(1, RECEIVER, words, "").end_within(SOON);
    assert!(!good && said.contains("`v` has 4 queues, not 3"), "{said}");
}

/// Sixteen connections of the kernel's, while it sends now through both queues, now through the first alone: half of them move
/// between the hosts, as when `ethtool -X` changes RSS, which a veth does not have.
#[test]
fn connections_survive_a_change_of_their_queue() {
    const STREAMS: usize = 16;
    let Some(pair) = Pair::with_queues(2) else {
        return;
    };
    let [kernel, _] = &pair.namespaces;
    let ethtool = |words: &str| {
        let words = format!("netns exec {kernel} ethtool {words}");
        ip(&words);
    };
    ethtool("-K v tx off");
    ip(&format!("-n {kernel} addr add 10.7.0.1/24 dev v"));
    let file = std::env::temp_dir().join(format!("tl-queues-{}", std::process::id()));
    let contents: Vec<u8> = (0..BYTES / 2).map(|at| (at % 251) as u8).collect();
    std::fs::write(&file, contents).expect("a place for files");
    let words =
        format!("--iface v --ip 10.7.0.2/24 --listen 5001 --queues 2 --streams {STREAMS} --json");
    let receiver = pair.start(1, RECEIVER, &words, "listening");
    let words = format!("send --to 10.7.0.2:5001 --file {}", file.display());
    let senders: Vec<_> = (0..STREAMS)
        .map(|_| pair.start(0, KERNEL_PEER, &words, ""))
        .collect();
    let sent: Vec<String> = std::thread::scope(|scope| {
        let outputs = || senders.into_iter().map(|sender| sender.output_within(SOON));
        let sent = scope.spawn(|| outputs().collect());
        for queues in [1, 2].into_iter().cycle() {
            if sent.is_finished() {
                break;
            }
            ethtool(&format!("-L v tx {queues}"));
            std::thread::park_timeout(Duration::from_millis(20));
        }
        sent.join().expect("they end in time")
    });
    std::fs::remove_file(&file).expect("it is there");
    let received = receiver.output_within(SOON);
    let parse = |line| serde_json::from_str(line).expect("an object");
    let received: Vec<Value> = received.lines().map(parse).collect();
    let digest = |line: &Value| line["sha256"].as_str().map(str::to_owned);
    let digests = received.iter().filter(|line| line["event"] == "stream");
    let digests: Vec<_> = digests.map(digest).collect();
    assert_eq!(digests, vec![digest(&parse(&sent[0])); STREAMS]);
    let passed_on = received
        .iter()
        .map(|line| line["frames_passed_on"].as_u64());
    assert!(passed_on.flatten().sum::<u64>() > 0, "{received:?}");
}

#[test]
fn a_middlebox_forwards_each_queue_in_a_thread_of_its_own() {
    let (Some(left), Some(right)) = (Pair::with_queues(2), Pair::with_queues(2)) else {
        return;
    };
    let ([middle, _], [beside, _]) = (&left.namespaces, &right.namespaces);
    ip(&format!("-n {beside} link set v down"));
    ip(&format!("-n {beside} link set v netns {middle} name w"));
    ip(&format!("-n {middle} link set w up"));
    let words = "--left v --right w --queues 2 --json --qdisc fq_codel";
    let middlebox = left.start(0, MIDDLEBOX, words, "queue 1");
    transfer((&left, 1), (&right, 1), 2);
    middlebox.signal("-INT");
    let ways = lines(middlebox, "summary");
    // Slow start from ten segments takes eight round trips for these bytes, each with an acknowledgment at least; how many more
    // depends on how many segments a receiver finds at once.
    let segments = BYTES / 2 / 1448;
    for queue in [0, 1] {
        for (way, at_least) in [("to_right", segments), ("to_left", 8)] {
            let line = ways
                .iter()
                .find(|line| line["queue"] == queue && line["way"] == way);
            let packets = line.and_then(|line| line["packets"].as_u64());
            assert!(packets >= Some(at_least), "{queue} {way}: {packets:?}");
        }
    }
}
