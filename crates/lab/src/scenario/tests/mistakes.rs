//! Mistakes in scenario files: each error names its place and what is allowed, and no text panics.

use proptest::prelude::*;

use super::*;

#[test]
fn errors_name_file_line_column_key_and_what_is_allowed() {
    check_errors(&[
        (
            "title =",
            "titel =",
            "it.toml:2:1: there is no key `titel` here; keys: id, title, aliases, paper, ",
        ),
        (
            "title = \"A title\"\n",
            "",
            "it.toml:1:1: the key `title` is missing (cell slow)",
        ),
        (
            "paper = \"001\"",
            "paper = 1",
            "it.toml:3:9: paper: found integer `1`, wanted text in quotes",
        ),
        (
            "id = \"001-F4\"",
            "id = \"a/b\"",
            "it.toml:1:6: id: letters, digits, `.`, `+` and `-` are wanted",
        ),
        (
            "duration = \"10s\"",
            "duration = \"10\"",
            "it.toml:8:12: run.duration: \"10\" is no time: write a number with its unit, e.g. 5ms or 30s; units: ns, us, ms, s, min",
        ),
        (
            "duration = \"10s\"",
            "duration = 10",
            "it.toml:8:12: run.duration: found integer `10`, wanted a time with its unit in quotes",
        ),
        (
            "duration = \"10s\"",
            "duration = \"0s\"",
            "it.toml:8:12: run.duration: a time above 0 is wanted",
        ),
        (
            "duration = \"10s\"",
            "duration = \"10 parsec\"",
            "it.toml:8:12: run.duration: \"10 parsec\" is no time",
        ),
        (
            "warm_up = \"1s\"",
            "warm_up = \"20s\"",
            "it.toml:9:11: run.warm_up: less than the duration, 10s, is wanted",
        ),
        (
            "warm_up = \"1s\"",
            "warm_up = \"1s\"\nsample = \"1ns\"",
            "it.toml:10:10: run.sample: a time of at most 9s",
        ),
        (
            "warm_up = \"1s\"",
            "warm_up = \"1s\"\nrepetitions = 0",
            "it.toml:10:15: run.repetitions: a number from 1 to 10000",
        ),
        (
            "warm_up = \"1s\"",
            "warm_up = \"1s\"\nrepetitions = -1",
            "it.toml:10:15: run.repetitions: invalid value: integer `-1`",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "qdisk = \"pfifo_fast\"",
            "it.toml:13:1: host.client: there is no key `qdisk` here; keys: name, nic_rate, ",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "qdisc = \"fq_coddle\"",
            "it.toml:13:9: host.client.qdisc: ",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "ring = 0",
            "it.toml:13:8: host.client.ring: a number from 1 to 1048576",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "ring_limit = \"64kb\"",
            "it.toml:13:14: host.client.ring_limit: \"64kb\" is no limit of a ring: write dql, off, push, push:SIZE, ",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "ring_limit = \"dyn_rlc:0s\"",
            "it.toml:13:14: host.client.ring_limit: `target` must be above 0, not 0",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "mtu = \"9000b\"",
            "it.toml:13:7: host.client.mtu: from 576b to 2034b",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "coalesce_frames = 0",
            "it.toml:13:19: host.client.coalesce_frames: at least 1",
        ),
        (
            "name = \"router\"",
            "name = \"my-router\"",
            "it.toml:19:8: router.my-router.name: a name of letters, digits and `_`",
        ),
        (
            "name = \"router\"",
            "name = \"client\"",
            "it.toml:19:8: router.client.name: another node is named `client`",
        ),
        (
            "[\"client\", \"router\"]",
            "[\"clint\", \"router\"]",
            "it.toml:22:12: link.clint-router.between.1: no node is named `clint`; nodes: client, server, router",
        ),
        (
            "[\"client\", \"router\"]",
            "[\"client\"]",
            "it.toml:22:11: link.1.between: invalid length 1, expected a tuple of size 2",
        ),
        (
            "[\"client\", \"router\"]",
            "[\"client\", \"client\"]",
            "it.toml:22:11: link.client-client.between: a cable joins two different nodes",
        ),
        (
            "[\"client\", \"router\"]",
            "[\"client\", \"server\"]",
            "it.toml:26:11: link.router-server.between: host `server` has a cable already",
        ),
        (
            "rate = \"1gbit\"",
            "rate = \"1g\"",
            "it.toml:23:8: link.client-router.rate: \"1g\" is no rate: write a number with its unit, e.g. 10mbit or 1gbit; units: bit, kbit, mbit, gbit",
        ),
        (
            "rate = \"1gbit\"",
            "rate = \"0mbit\"",
            "it.toml:23:8: link.client-router.rate: a rate above 0",
        ),
        (
            "rate = \"1gbit\"",
            "ring = 64",
            "it.toml:23:8: link.client-router.ring: `client` is a host: its port is described by host.client.ring",
        ),
        (
            "rate = \"1gbit\"",
            "loss = \"101%\"",
            "it.toml:23:8: link.client-router.loss: ",
        ),
        (
            "qdisc = \"fq_codel\"",
            "qdisc = \"fq_codel\"\naccess_categories = \"child\"",
            "it.toml:29:21: link.router-server.access_categories: `child` needs the qdisc `mq queues 4`",
        ),
        (
            "qdisc = \"pfifo_fast\"",
            "qdisc = \"pfifo_fast\"\naccess_categories = \"root\"",
            "it.toml:14:21: host.client.access_categories: only a router's NIC has several rings",
        ),
        (
            "qdisc = \"fq_codel\"",
            "qdisc = \"fq_codel\"\naccess_categories = \"root\"\n\
             [[wifi]]\nname = \"air\"\naccess_point = \"router\"\nstations = [\"server\"]\nstandard = \"802.11n\"",
            "it.toml:29:21: link.router-server.access_categories: `server` is in the cell of `router`, whose cables have one ring at each end: leave it out",
        ),
        (
            "rate = \"1gbit\"",
            "rate = \"1gbit\"\nback = { access_categories = \"root\" }\n\
             [[wifi]]\nname = \"air\"\naccess_point = \"router\"\nstations = [\"client\"]\nstandard = \"802.11n\"",
            "it.toml:24:30: link.client-router.back.access_categories: `client` is in the cell of `router`",
        ),
        (
            "rate = \"1gbit\"",
            "back = { rate = \"0bit\" }",
            "it.toml:23:17: link.client-router.back.rate: a rate above 0",
        ),
        (
            "congestion = \"cubic\"",
            "congestion = \"cubik\"",
            "it.toml:31:14: tcp.congestion: unknown congestion control \"cubik\"; known: reno cubic",
        ),
        (
            "congestion = \"cubic\"",
            "profile = \"linux\"",
            "it.toml:31:11: tcp.profile: `linux` is not known; allowed: tautline, paper-001, linux-5.10",
        ),
        (
            "congestion = \"cubic\"",
            "pacing_ca = 0",
            "it.toml:31:13: tcp.pacing_ca: percent, from 1 to 10000",
        ),
        (
            "congestion = \"cubic\"",
            "send_buffer = \"1b\"",
            "it.toml:31:15: tcp.send_buffer: from 2kib to 1gib",
        ),
        (
            "kind = \"tcp\"",
            "kind = \"tpc\"",
            "it.toml:35:8: flow.upload.kind: `tpc` is not known; allowed: tcp, ping, udp, onoff, web",
        ),
        (
            "kind = \"tcp\"",
            "kind = \"udp\"",
            "it.toml:33:1: flow.upload: the key `rate` is missing: flows of kind udp need it",
        ),
        (
            "kind = \"tcp\"",
            "kind = \"tcp\"\ntos = 4",
            "it.toml:36:7: flow.upload.tos: flows of kind tcp have no `tos`; their own keys: size, message, one_way, tcp",
        ),
        (
            "kind = \"tcp\"",
            "kind = \"tcp\"\nstart = \"20s\"",
            "it.toml:36:9: flow.upload.start: a time before 10s, when it stops",
        ),
        (
            "kind = \"tcp\"",
            "kind = \"tcp\"\ncount = 1000000",
            "it.toml:36:9: flow.upload.count: at most 10000 flows of one name",
        ),
        (
            "kind = \"tcp\"",
            "kind = \"onoff\"\nrate = \"1mbit\"\nsize = \"160b\"\non = \"1us\"\noff = \"0s\"",
            "it.toml:38:6: flow.upload.on: at least 10µs together with `off` is wanted",
        ),
        (
            "name = \"ping\"",
            "name = \"upload\"",
            "it.toml:40:8: flow.upload.name: another flow has this name",
        ),
        (
            "name = \"ping\"",
            "name = \"total\"",
            "it.toml:40:8: flow.total.name: `total` is the name of a statistic",
        ),
        (
            "every = \"200ms\"",
            "",
            "it.toml:39:1: flow.ping: the key `every` is missing: flows of kind ping need it",
        ),
        (
            "every = \"200ms\"",
            "every = \"0s\"",
            "it.toml:44:9: flow.ping.every: at least 1us",
        ),
        (
            "\"link.router-server.rate\"",
            "\"link.router-sever.rate\"",
            "it.toml:51:9: axis.rate.slow.set.link.router-sever.rate: nothing is named `router-sever`; names: client-router, router-server",
        ),
        (
            "\"link.router-server.rate\"",
            "\"link.router-server.rat\"",
            "it.toml:51:9: link.router-server: there is no key `rat` here",
        ),
        (
            "\"link.router-server.rate\"",
            "\"titel.x\"",
            "it.toml:51:9: axis.rate.slow.set.titel.x: an axis cannot set `titel`; it can set keys of run, host, ",
        ),
        (
            "\"link.router-server.rate\"",
            "\"link..rate\"",
            "it.toml:51:9: axis.rate.slow.set.link..rate: an empty step",
        ),
        (
            "\"10mbit\"",
            "\"10 mbits\"",
            "it.toml:51:37: link.router-server.rate: \"10 mbits\" is no rate",
        ),
        (
            "name = \"fast\"",
            "name = \"slow\"",
            "it.toml:54:8: axis.rate.value.slow.name: another value of this axis has this name",
        ),
        (
            "name = \"fast\"",
            "name = \"a_b\"",
            "it.toml:54:8: axis.rate.value.a_b.name: a name of letters, digits, `.`, `+` and `-`",
        ),
        (
            "name = \"rate\"",
            "name = \"rate\"\n[[axis]]\nname = \"empty\"",
            "it.toml:46:1: axis.rate: an axis needs at least one [[axis.value]]",
        ),
        ("[run]", "[run", "it.toml:7:"),
        (
            "[run]",
            "[anova]\nmetric = 1\n[run]",
            "it.toml:7:1: anova: found map, wanted a list in brackets, or tables in double brackets",
        ),
        (
            "[run]",
            "[[anova]]\nmetric = \"ping.mean\"\nover = \"speed\"\n[run]",
            "it.toml:9:8: anova.1.over: no axis is named `speed`; axes: rate",
        ),
        (
            "paper =",
            "when = 2026-11-22\npaper =",
            "it.toml:3:8: when: no key takes a date",
        ),
        (
            "paper =",
            "much = 99999999999999999999\npaper =",
            "it.toml:3:8: much: a whole number of up to 63 bits",
        ),
        (
            "every = \"200ms\"",
            "every = \"200ms\"\nstart = \"20s\"\nstop = \"30s\"",
            "it.toml:45:9: flow.ping.start: a time before 10s, when it stops, is wanted",
        ),
        (
            "every = \"200ms\"",
            "every = \"200ms\"\nstop = \"0s\"",
            "it.toml:45:8: flow.ping.stop: a time above 0 is wanted",
        ),
        (
            "every = \"200ms\"",
            "every = \"200ms\"\nstart = \"4s\"\nspread = \"7s\"",
            "it.toml:46:10: flow.ping.spread: at most 6s is wanted, for it stops at 10s",
        ),
    ]);
}

/// A hundred hosts by a hundred, ten thousand times each, would fill the memory.
#[test]
fn flows_are_counted_over_all_pairs() {
    let flow = |count: usize| {
        let text = GOOD.replace("to = \"server\"", "to = [\"server\", \"server\"]");
        load(&text.replace(
            "kind = \"tcp\"",
            &format!("kind = \"tcp\"\ncount = {count}"),
        ))
    };
    flow(5000).expect("ten thousand");
    let error = flow(5001).expect_err("more").to_string();
    assert!(error.contains("at most 10000 flows of one name"), "{error}");
}

/// Each host allocates its frames before the run.
#[test]
fn frames_are_counted_over_all_hosts() {
    let hosts = |copies: usize, frames: &str| {
        let host = format!("name = \"server\"\ncopies = {copies}{frames}");
        load(&GOOD.replace("name = \"server\"", &host))
    };
    hosts(511, "").expect("with the client as many as fit");
    hosts(600, "\nframes = 64").expect("they are small");
    let error = hosts(512, "").expect_err("one more").to_string();
    assert!(
        error.contains("host.server512.frames: the frames of all hosts are more than 4194304"),
        "{error}"
    );
}

/// Each flow has a port of its own, from 5001 on.
#[test]
fn flows_are_counted_over_all_names() {
    let flows = |last: usize| {
        let mut text = GOOD.to_owned();
        for (number, count) in [10_000; 5].into_iter().chain([9_999, last]).enumerate() {
            text += &format!(
                "\n[[flow]]\nname = \"more{number}\"\nkind = \"tcp\"\nfrom = \"client\"\nto = \"server\"\ncount = {count}\n"
            );
        }
        load(&text)
    };
    // With an upload and a ping.
    flows(534).expect("as many as ports");
    let error = flows(535).expect_err("one more").to_string();
    assert!(
        error.contains("flow.more6.count: these are 60536 flows")
            && error.contains("at most 60535 are wanted in all"),
        "{error}"
    );
}

#[test]
fn networks_that_are_no_tree_are_refused() {
    let loops = "[[router]]\nname = \"other\"\n[[link]]\nbetween = [\"router\", \"other\"]\n[[link]]\nbetween = [\"other\", \"router\"]\n[tcp]";
    assert!(broken("[tcp]", loops).contains("link.other-router.between: this cable closes a loop"));
    let lonely = broken("[tcp]", "[[host]]\nname = \"lost\"\n[tcp]");
    assert!(
        lonely.contains("host.lost: no cables lead from `client` to `lost`: add a [[link]]"),
        "{lonely}"
    );
}

/// An edit of a file.
#[derive(Clone, Debug)]
enum Slip {
    Cut(usize, usize),
    Put(usize, String),
    Swap(usize, usize),
}

fn slip() -> impl Strategy<Value = Slip> {
    let word = prop_oneof![
        ".{0,6}",
        "[\\[\\]{}\"'=.#,\n]{1,3}",
        Just("\n[[flow]]\n".to_owned()),
        Just(" = -1".to_owned()),
        Just("9".repeat(25)),
    ];
    prop_oneof![
        (0..GOOD.len(), 1..40usize).prop_map(|(at, len)| Slip::Cut(at, len)),
        (0..GOOD.len(), word).prop_map(|(at, word)| Slip::Put(at, word)),
        (0..70usize, 0..70usize).prop_map(|(one, other)| Slip::Swap(one, other)),
    ]
}

fn slipped(text: &str, slip: &Slip) -> String {
    let chars: Vec<char> = text.chars().collect();
    match slip {
        Slip::Cut(at, len) => chars
            .iter()
            .take(*at)
            .chain(chars.iter().skip(at + len))
            .collect(),
        Slip::Put(at, word) => chars
            .iter()
            .take(*at)
            .copied()
            .chain(word.chars())
            .chain(chars.iter().skip(*at).copied())
            .collect(),
        Slip::Swap(one, other) => {
            let mut lines: Vec<&str> = text.lines().collect();
            if *one < lines.len() && *other < lines.len() {
                lines.swap(*one, *other);
            }
            lines.join("\n")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_panics(slips in prop::collection::vec(slip(), 1..4)) {
        let text = slips.iter().fold(GOOD.to_owned(), |text, slip| slipped(&text, slip));
        if let Err(error) = load(&text) {
            prop_assert!(!error.message.is_empty() && error.at.is_some(), "{}", error);
        }
    }
}
