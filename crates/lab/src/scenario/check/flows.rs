//! Flows: between hosts that exist, with the keys of their kind, within the time of the run.

use std::time::Duration;

use super::super::document::{Document, Flow, FlowKind, MOST_FLOWS_IN_ALL, Over};
use super::super::error::Fault;
use super::super::node::{Step, listed};
use super::network::is_host;
use super::{Subject, check_name, tcp};

use Step::{Key, Number};

/// Most flows of one name.
const MOST_FLOWS: usize = 10_000;
/// Shortest burst and pause together: a source wakes for each, also if no message is due.
const SHORTEST_CYCLE: Duration = Duration::from_micros(10);
/// Keys that every kind has.
const COMMON: [&str; 8] = [
    "name", "kind", "from", "to", "count", "start", "spread", "stop",
];

/// Keys of one kind beyond the common ones, and which of them must be there.
const fn keys(
    kind: FlowKind,
) -> (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
) {
    match kind {
        FlowKind::Tcp => ("tcp", &["size", "message", "one_way", "tcp"], &[]),
        FlowKind::Ping => ("ping", &["every", "size", "tos"], &["every"]),
        FlowKind::Udp => ("udp", &["rate", "size", "tos"], &["rate", "size"]),
        FlowKind::Onoff => (
            "onoff",
            &["over", "rate", "size", "tos", "on", "off", "one_way", "tcp"],
            &["rate", "size", "on", "off"],
        ),
        FlowKind::Web => (
            "web",
            &["every", "objects", "size", "connections", "tcp"],
            &["objects", "size"],
        ),
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Result<(), Fault> {
    let flows = &subject.document.flow;
    subject.require(!flows.is_empty(), &[], "no traffic: add a [[flow]]")?;
    let mut all = 0usize;
    for (number, flow) in flows.iter().enumerate() {
        let path = [Key("flow"), Number(number)];
        let at = |key| [path[0], path[1], Key(key)];
        check_name(subject, &flow.name, &at("name"))?;
        // Before each of them is checked.
        let pairs = flow.from.0.len().saturating_mul(flow.to.0.len());
        let count = pairs.saturating_mul(flow.count.unwrap_or(1));
        subject.require(
            count <= MOST_FLOWS,
            &at("count"),
            format_args!(
                "at most {MOST_FLOWS} flows of one name are wanted, `count` a pair of hosts"
            ),
        )?;
        all = all.saturating_add(count);
        subject.require(
            all <= MOST_FLOWS_IN_ALL,
            &at("count"),
            format_args!(
                "these are {all} flows with those before: at most {MOST_FLOWS_IN_ALL} are wanted in all, a port for each"
            ),
        )?;
        let known = flows[..number].iter().all(|other| other.name != flow.name);
        subject.require(known, &at("name"), "another flow has this name")?;
        ends(subject, flow, number)?;
        only_its_keys(subject, flow, number)?;
        amounts(subject, flow, number)?;
        begins(subject, flow, number)?;
        one_way(subject, flow, number)?;
        tcp(subject, &flow.tcp, &at("tcp"))?;
    }
    Ok(())
}

fn ends(subject: &Subject<'_>, flow: &Flow, number: usize) -> Result<(), Fault> {
    let Document { host, router, .. } = subject.document;
    for (key, ends) in [("from", &flow.from), ("to", &flow.to)] {
        let path = [Key("flow"), Number(number), Key(key)];
        subject.require(!ends.0.is_empty(), &path, "at least one host is wanted")?;
        for name in &ends.0 {
            if is_host(subject.document, name) {
                continue;
            }
            let hosts = listed(host.iter().map(|host| &host.name));
            let what = if router.iter().any(|router| router.name == *name) {
                "a router"
            } else {
                "no host"
            };
            return Err(subject.refuse(&path, format!("`{name}` is {what}; hosts: {hosts}")));
        }
    }
    let apart = flow.pairs().all(|(from, to)| from != to);
    subject.require(
        apart,
        &[Key("flow"), Number(number), Key("to")],
        "a flow joins two different hosts",
    )
}

fn only_its_keys(subject: &Subject<'_>, flow: &Flow, number: usize) -> Result<(), Fault> {
    let (kind, own, needed) = keys(flow.kind);
    let path = [Key("flow"), Number(number)];
    let written = subject
        .root
        .at(&path)
        .and_then(|node| node.table())
        .into_iter()
        .flatten();
    for (key, _) in written {
        let fits = COMMON.contains(&key.as_str()) || own.contains(&key.as_str());
        let message = format!(
            "flows of kind {kind} have no `{key}`; their own keys: {}",
            listed(own)
        );
        subject.require(fits, &[path[0], path[1], Key(key)], message)?;
    }
    for key in needed {
        let there = subject.root.at(&[path[0], path[1], Key(key)]).is_some();
        subject.require(
            there,
            &path,
            format_args!("the key `{key}` is missing: flows of kind {kind} need it"),
        )?;
    }
    Ok(())
}

/// Only segments have a delay of their own beside the message's.
fn one_way(subject: &Subject<'_>, flow: &Flow, number: usize) -> Result<(), Fault> {
    let segments = flow.kind == FlowKind::Tcp || flow.over == Some(Over::Tcp);
    subject.require(
        !flow.one_way || segments,
        &[Key("flow"), Number(number), Key("one_way")],
        "only a flow over tcp has segments: add `over = \"tcp\"`",
    )
}

fn amounts(subject: &Subject<'_>, flow: &Flow, number: usize) -> Result<(), Fault> {
    let at = |key| [Key("flow"), Number(number), Key(key)];
    subject.above_zero(flow.rate, &at("rate"))?;
    for (key, time) in [("every", flow.every), ("on", flow.on)] {
        subject.require(
            time.is_none_or(|time| time.0.as_nanos() >= 1_000),
            &at(key),
            "at least 1us is wanted",
        )?;
    }
    if let (Some(on), Some(off)) = (flow.on, flow.off) {
        subject.require(
            on.0.saturating_add(off.0) >= SHORTEST_CYCLE,
            &at("on"),
            format_args!(
                "at least {SHORTEST_CYCLE:?} together with `off` is wanted, for each burst is an event"
            ),
        )?;
    }
    let size = flow.size.is_none_or(|size| match flow.kind {
        FlowKind::Tcp | FlowKind::Web => size.0.get() > 0,
        FlowKind::Ping | FlowKind::Udp | FlowKind::Onoff => (16..=1472).contains(&size.0.get()),
    });
    let wanted = match flow.kind {
        FlowKind::Tcp | FlowKind::Web => "at least 1b is wanted",
        FlowKind::Ping | FlowKind::Udp | FlowKind::Onoff => "from 16b to 1472b is wanted",
    };
    subject.require(size, &at("size"), wanted)?;
    let message = flow
        .message
        .is_none_or(|size| (1..=1 << 30).contains(&size.0.get()));
    subject.require(message, &at("message"), "from 1b to 1gib is wanted")?;
    let objects = flow
        .objects
        .is_none_or(|objects| (1..=10_000).contains(&objects));
    subject.require(
        objects,
        &at("objects"),
        "a number from 1 to 10000 is wanted",
    )?;
    let connections = flow
        .connections
        .is_none_or(|connections| (1..=1000).contains(&connections));
    subject.require(
        connections,
        &at("connections"),
        "a number from 1 to 1000 is wanted",
    )?;
    Ok(())
}

/// Every instance begins before it stops and before the run ends: one that never runs measures nothing.
fn begins(subject: &Subject<'_>, flow: &Flow, number: usize) -> Result<(), Fault> {
    let run = subject.document.run.as_ref().map(|run| run.duration);
    let Some(stop) = flow.stop.into_iter().chain(run).min() else {
        return Ok(());
    };
    let at = |key| [Key("flow"), Number(number), Key(key)];
    let start = flow.start.map_or(Duration::ZERO, |start| start.0);
    subject.require(!stop.0.is_zero(), &at("stop"), "a time above 0 is wanted")?;
    subject.require(
        start < stop.0,
        &at("start"),
        format_args!("a time before {stop}, when it stops, is wanted"),
    )?;
    let spread = flow.spread.map_or(Duration::ZERO, |spread| spread.0);
    subject.require(
        start.saturating_add(spread) <= stop.0,
        &at("spread"),
        format_args!(
            "at most {:?} is wanted, for it stops at {stop}",
            stop.0 - start
        ),
    )
}
