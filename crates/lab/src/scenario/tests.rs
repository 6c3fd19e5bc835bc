use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A small scenario that is right.
const GOOD: &str = r#"id = "001-F4"
title = "A title"
paper = "001"
claim = "A claim"
table = ["goodput.upload.total"]

[run]
duration = "10s"
warm_up = "1s"

[[host]]
name = "client"
qdisc = "pfifo_fast"

[[host]]
name = "server"

[[router]]
name = "router"

[[link]]
between = ["client", "router"]
rate = "1gbit"

[[link]]
between = ["router", "server"]
rate = "100mbit"
qdisc = "fq_codel"

[tcp]
congestion = "cubic"

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
every = "200ms"

[[axis]]
name = "rate"

[[axis.value]]
name = "slow"
set = { "link.router-server.rate" = "10mbit", "tcp.tsq" = "off" }

[[axis.value]]
name = "fast"

[[shape]]
says = "fast is faster"
check = 'cell["fast"].goodput.total > cell["slow"].goodput.total'
"#;

/// A directory with these files.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("a file");
    }
    directory
}

fn load(text: &str) -> Result<Scenario, ScenarioError> {
    let directory = directory(&[("it.toml", text)]);
    Scenario::load(&ScenarioDir::Directory(directory.path().into()), "it.toml")
}

/// The error without its directory.
fn error(files: &[(&str, &str)]) -> String {
    let directory = directory(files);
    let scenario_dir = ScenarioDir::Directory(directory.path().into());
    let error = Scenario::load(&scenario_dir, files[0].0).expect_err("something is wrong");
    error
        .to_string()
        .replace(&format!("{}/", directory.path().display()), "")
}

/// The error when `from` is written as `to`.
fn broken(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from:?} occurs once");
    error(&[("it.toml", &GOOD.replace(from, to))])
}

#[test]
fn axes_multiply_and_set_what_they_name() {
    let scenario = load(GOOD).expect("it is right");
    assert_eq!(
        scenario.axes,
        [(
            "rate".to_owned(),
            vec!["slow".to_owned(), "fast".to_owned()]
        )]
    );
    let [slow, fast] = &scenario.cells[..] else {
        panic!("two cells")
    };
    let rate = |variation: &Variation| variation.document.link[1].rate.expect("it is written").0;
    assert_eq!(
        (rate(slow), rate(fast)),
        (
            tautline_base::Rate::mbit(10),
            tautline_base::Rate::mbit(100)
        )
    );
    assert_eq!(
        (slow.cell.to_string(), fast.document.tcp.tsq),
        ("slow".to_owned(), None)
    );
    assert_eq!(scenario.shapes[0].line, 58, "the line of the expression");
    assert_ne!(slow.resolved, fast.resolved);
}

#[test]
fn what_a_run_depends_on_is_not_changed_by_words() {
    let [one, other] = [
        GOOD,
        &GOOD
            .replace("A claim", "Another")
            .replace("[run]\n", "[run]\n# why\n"),
    ];
    let [one, other] = [one, other].map(|text| load(text).expect("it is right"));
    assert_eq!(one.cells[0].resolved, other.cells[0].resolved);
}

#[test]
fn the_quick_form_has_times_of_its_own() {
    let with = |quick: &str, form| {
        let directory = directory(&[("it.toml", &format!("{GOOD}\n[quick]\n{quick}\n"))]);
        let directory = ScenarioDir::Directory(directory.path().into());
        Scenario::load_in(&directory, "it.toml", form)
    };
    let quick = Form {
        quick: true,
        ..Form::default()
    };
    let seconds = |form| {
        let scenario = with("duration = \"4s\"", form).expect("it is right");
        let run = scenario.header().run.as_ref().expect("it is written");
        (run.duration.0.as_secs(), run.warm_up.0.as_secs())
    };
    assert_eq!(seconds(Form::default()), (10, 1));
    assert_eq!(seconds(quick), (4, 1));
    let refused = |quick, form| with(quick, form).expect_err("it is wrong").to_string();
    let short = refused("duration = \"1s\"", quick);
    assert!(short.contains("less than the duration"), "{short}");
    for form in [Form::default(), quick] {
        let unknown = refused("sample = \"1s\"", form);
        assert!(unknown.contains("quick"), "{unknown}");
    }
}

#[test]
fn a_base_gives_what_is_not_said() {
    let own = "id = \"002\"\nbase = \"base.toml\"\ntitle = \"Other\"\n[run]\nduration = \"5s\"\n\
               [[host]]\nname = \"server\"\nring = 64\n[[flow]]\nname = \"more\"\nkind = \"tcp\"\nfrom = \"server\"\nto = \"client\"\n\
               [[link]]\nbetween = [\"router\", \"server\"]\nring = 128\n";
    let base = GOOD.replace("id = \"001-F4\"\n", "");
    let directory = directory(&[("it.toml", own), ("base.toml", &base)]);
    let scenario = Scenario::load(&ScenarioDir::Directory(directory.path().into()), "it.toml")
        .expect("it is right");
    let header = scenario.header();
    let run = header.run.as_ref().expect("it is written");
    assert_eq!(
        (
            header.id.as_str(),
            header.title.as_str(),
            header.claim.as_str()
        ),
        ("002", "Other", "A claim")
    );
    assert_eq!(
        (run.duration.0.as_secs(), run.warm_up.0.as_secs()),
        (5, 1),
        "tables merge"
    );
    let hosts: Vec<_> = header
        .host
        .iter()
        .map(|host| (host.name.as_str(), host.ring))
        .collect();
    assert_eq!(
        hosts,
        [("client", None), ("server", Some(64))],
        "entries of one name merge"
    );
    assert_eq!(
        (
            header.link[1].ring,
            header.link[1].rate.is_some(),
            header.link.len()
        ),
        (Some(128), true, 2)
    );
    assert_eq!(
        header
            .flow
            .iter()
            .map(|flow| flow.name.as_str())
            .collect::<Vec<_>>(),
        ["upload", "ping", "more"]
    );
    assert!(
        scenario.shapes[0].file.ends_with("base.toml"),
        "{}",
        scenario.shapes[0].file
    );
    let ids = |text| Scenario::ids_of(text, "x").expect("it is TOML");
    assert_eq!((ids(own), ids(&base)), (vec!["002".to_owned()], Vec::new()));
    assert_eq!(ids("id = \"1\"\naliases = [\"2\", \"3\"]"), ["1", "2", "3"]);
}

#[test]
fn errors_name_file_line_column_key_and_what_is_allowed() {
    let mut wrong = Vec::new();
    for (from, to, expected) in [
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
        (
            "goodput.upload.total",
            "goodput.uplaod.total",
            "it.toml:5:10: table.1: `goodput` has no `uplaod`; it has upload",
        ),
        (
            "goodput.upload.total",
            "goodputs.total",
            "it.toml:5:10: table.1: nothing is measured as `goodputs` here; there is backlog, ",
        ),
        (
            "goodput.upload.total",
            "ping.p51",
            "it.toml:5:10: table.1: `p51` is no number of `ping`; there is count, mean, sd, min, p10, ",
        ),
        (
            "says = \"fast is faster\"",
            "says = \"\"",
            "it.toml:57:8: shape.1.says: the shape in words is wanted",
        ),
        (
            "cell[\"fast\"]",
            "cell[\"fats\"]",
            "it.toml:58:9: shape.1.check: axis `rate` has no value `fats`; it has slow, fast",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.totl >",
            "it.toml:58:9: shape.1.check: `totl` is no number of `goodput`; there is count, ",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].pong.p50 >",
            "it.toml:58:9: shape.1.check: nothing is measured as `pong` here",
        ),
        (
            "cell[\"fast\"].goodput.total > cell[\"slow\"].goodput.total",
            "1 > 2",
            "it.toml:58:9: shape.1.check: it names no number: write e.g. cell[\"slow\"].ping.p50",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.total +",
            "it.toml:58:9: shape.1.check: it must say yes or no",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.total > x +",
            "it.toml:58:9: shape.1.check: Undeclared reference to 'x'",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.total > >",
            "it.toml:58:9: shape.1.check: the expression is not understood: at column ",
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
        (
            "[run]",
            "[[figure]]\nkind = \"bars\"\nshow = [\"goodput.uplod.total\"]\n[run]",
            "it.toml:9:9: figure.1.show.1: `goodput` has no `uplod`; it has upload",
        ),
        (
            "[run]",
            "[[figure]]\nkind = \"bars\"\nshow = [\"goodput\"]\n[run]",
            "it.toml:9:9: figure.1.show.1: `goodput` names no number: write e.g. ping.p50",
        ),
        (
            "[run]",
            "[[figure]]\nkind = \"box\"\nshow = [\"ping.p50\"]\n[run]",
            "it.toml:9:9: figure.1.show.1: `ping` has no `p50`; it has ping",
        ),
        (
            "table = [\"goodput.upload.total\"]",
            "table = [\"counters.retransmit\"]",
            "it.toml:5:10: table.1: nothing is counted as `retransmit`; there is fast_recoveries, ",
        ),
    ] {
        let error = broken(from, to);
        if !error.starts_with(expected) {
            wrong.push(format!("{to:?}\n  gives  {error}\n  not    {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An application that sends over a connection is measured as one, and a page's bytes are counted.
#[test]
fn figures_show_what_the_flows_will_have() {
    let flows = "[[flow]]\nname = \"voice\"\nkind = \"onoff\"\nover = \"tcp\"\nfrom = \"client\"\nto = \"server\"\nrate = \"64kbit\"\nsize = \"160b\"\non = \"1s\"\noff = \"1s\"\n\
                 [[flow]]\nname = \"pages\"\nkind = \"web\"\nfrom = \"client\"\nto = \"server\"\nobjects = 3\nsize = \"9kib\"\n";
    let shown = "show = [\"rtt.voice\", \"one_way.voice\", \"goodput.pages\", \"cwnd.upload-1\", \"backlog.router>server\"]";
    let figure = format!("[[figure]]\nkind = \"series\"\n{shown}\n");
    load(&format!("{GOOD}{flows}{figure}")).expect("all of it is measured");
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

#[test]
fn files_that_are_missing_or_their_own_base_are_named() {
    let with_base = |base: &str| format!("base = \"{base}\"\n{GOOD}");
    let missing = error(&[("it.toml", &with_base("nowhere.toml"))]);
    assert!(
        missing.starts_with("it.toml:1:8: base: nowhere.toml: No such file"),
        "{missing}"
    );
    let own = error(&[("it.toml", &with_base("it.toml"))]);
    assert_eq!(own, "it.toml:1:8: base: it.toml would be its own base");
    let there = Scenario::load(&ScenarioDir::Directory("/nowhere".into()), "it.toml")
        .expect_err("no such directory");
    assert!(
        there
            .to_string()
            .starts_with("/nowhere/it.toml: No such file"),
        "{there}"
    );
    let shipped = Scenario::load(&ScenarioDir::Shipped, "it.toml").expect_err("no such file");
    assert_eq!(
        shipped.to_string(),
        "scenarios/it.toml: no such file came with the program"
    );
}

/// The first scenario of `docs/lab.md` can be copied as it stands.
#[test]
fn the_first_scenario_of_the_documentation_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab.md");
    let text = std::fs::read_to_string(path).expect("the documentation");
    let after = text.split("```toml\n").nth(1).expect("a scenario");
    let example = after.split("```").next().expect("its end");
    let directory = directory(&[("mine.toml", example)]);
    let directory = ScenarioDir::Directory(directory.path().into());
    let scenario = Scenario::load(&directory, "mine.toml").expect("it is right");
    assert_eq!((scenario.cells.len(), scenario.shapes.len()), (2, 1));
}

#[test]
fn a_base_may_have_come_with_the_program() {
    let own =
        "id = \"mine\"\nbase = \"001-f4.toml\"\ntitle = \"Mine\"\n[tcp]\ncongestion = \"bbr\"\n";
    let directory = directory(&[("it.toml", own)]);
    let mine = Scenario::load(&ScenarioDir::Directory(directory.path().into()), "it.toml")
        .expect("a base that is not beside the file is looked for in the program");
    let theirs = Scenario::load(&ScenarioDir::Shipped, "001-f4.toml").expect("it came with it");
    assert_eq!(
        (mine.header().id.as_str(), mine.cells.len()),
        ("mine", theirs.cells.len())
    );
    assert!(mine.header().tcp.congestion.is_some() && theirs.header().tcp != mine.header().tcp);
}

#[test]
fn errors_in_a_base_name_the_base() {
    let own = GOOD
        .replace("[tcp]\ncongestion = \"cubic\"\n", "")
        .replace("id =", "base = \"base.toml\"\nid =");
    let error = error(&[
        ("it.toml", &own),
        ("base.toml", "\n[tcp]\ncongestion = \"cubik\"\n"),
    ]);
    assert!(
        error.starts_with("base.toml:3:14: tcp.congestion: unknown congestion control"),
        "{error}"
    );
}

#[test]
fn every_scenario_that_comes_with_the_program_is_right() {
    let names = ScenarioDir::Shipped.names().expect("the program has them");
    assert!(!names.is_empty());
    let wrong = |name: &String| {
        let text = ScenarioDir::Shipped.read(name).expect("it is listed");
        match Scenario::ids_of(&text, name) {
            Ok(ids) if ids.is_empty() => None,
            Ok(_) => Scenario::load(&ScenarioDir::Shipped, name)
                .err()
                .map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    };
    let errors: Vec<_> = names.iter().filter_map(wrong).collect();
    assert!(errors.is_empty(), "{}", errors.join("; "));
}

/// The work and the memory of an expression grow exponentially with nesting.
#[test]
fn an_expression_that_would_take_too_long_is_refused() {
    let with = |check: &str| {
        GOOD.replace(
            "cell[\"fast\"].goodput.total > cell[\"slow\"].goodput.total",
            check,
        )
    };
    let nested = |depth: usize, pairs: usize| {
        let list = vec!["\"slow\", \"fast\""; pairs].join(", ");
        let open = format!("[{list}].all(x, ").repeat(depth);
        format!("{open}cell[x].goodput.total > 0.0{}", ")".repeat(depth))
    };
    let doubled = |times: usize| {
        let doubled = ".map(x, x + x)".repeat(times);
        format!("cell[\"slow\"].goodput.total > [[1.0]]{doubled}[0][0]")
    };
    for text in [nested(3, 1), doubled(3)] {
        load(&with(&text)).expect("a few steps");
    }
    for text in [nested(7, 4), doubled(18)] {
        let error = load(&with(&text)).expect_err("too many").message;
        assert!(error.contains("more than 100000 steps"), "{error}");
    }
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

#[test]
fn a_candidate_takes_the_place_of_the_one_in_the_file() {
    let with = |cc| {
        let form = Form {
            candidate: Some(cc),
            ..Form::default()
        };
        Scenario::load_in(&ScenarioDir::Shipped, "rfc9743.toml", form)
    };
    let scenario = with("bbr").expect("a controller");
    let resolved: serde_json::Value =
        serde_json::from_str(&scenario.cells[0].resolved).expect("JSON");
    assert_eq!(resolved["flow"][0]["tcp"]["congestion"], "bbr");
    let unknown = with("bbr9").expect_err("no such controller").to_string();
    assert!(
        unknown.starts_with("--cc bbr9: flow.candidate") && unknown.contains("bbr3"),
        "{unknown}"
    );
    let form = Form {
        candidate: Some("bbr"),
        ..Form::default()
    };
    let other = Scenario::load_in(&ScenarioDir::Shipped, "001-f4.toml", form);
    let other = other.expect_err("it has another flow").to_string();
    assert_eq!(
        other,
        "--cc bbr: 001-f4.toml has no flow `candidate`; rfc9743 has one"
    );
}
