//! Nodes and cables: names that exist, once; a network that is a tree with hosts at its ends; ports
//! only where there is one.

use tautline_tc::Kind;

use super::super::document::{Document, Host, Port, Wake};
use super::super::error::Fault;
use super::super::node::{Step, listed};
use super::{Subject, check_name};

use Step::{Key, Number};

/// Most descriptors of a ring.
const LARGEST_RING: usize = 1 << 20;
/// Most frames of a host: two gibibytes.
const MOST_FRAMES: usize = 1 << 20;
/// Most frames of all hosts: eight gibibytes.
const MOST_FRAMES_IN_ALL: usize = 1 << 22;
/// Frames of a host that does not say how many.
const FRAMES: usize = 8192;
/// Keys of a port, in the order of validation.
const PORT: [&str; 11] = [
    "qdisc",
    "ring",
    "ring_bytes",
    "ring_limit",
    "restart",
    "copy",
    "framing",
    "coalesce_frames",
    "coalesce_time",
    "late",
    "access_categories",
];

pub(super) fn check(subject: &Subject<'_>) -> Result<(), Fault> {
    nodes(subject)?;
    links(subject)?;
    tree(subject)
}

fn nodes(subject: &Subject<'_>) -> Result<(), Fault> {
    let Document { host, router, .. } = subject.document;
    let mut seen: Vec<&str> = Vec::new();
    let hosts = host
        .iter()
        .map(|host| host.name.as_str())
        .enumerate()
        .map(|(number, name)| ("host", number, name));
    let routers = router
        .iter()
        .map(|router| router.name.as_str())
        .enumerate()
        .map(|(number, name)| ("router", number, name));
    for (kind, number, name) in hosts.chain(routers) {
        let path = [Key(kind), Number(number), Key("name")];
        check_name(subject, name, &path)?;
        subject.require(
            !seen.contains(&name),
            &path,
            format_args!("another node is named `{name}`"),
        )?;
        seen.push(name);
    }
    subject.require(
        host.len() >= 2,
        &[Key("host")],
        "at least two tables [[host]] are wanted",
    )?;
    let mut all = 0usize;
    for (number, host) in host.iter().enumerate() {
        let path = [Key("host"), Number(number)];
        let at = |key| [path[0], path[1], Key(key)];
        all = all.saturating_add(host.frames.unwrap_or(FRAMES));
        subject.require(
            all <= MOST_FRAMES_IN_ALL,
            &at("frames"),
            format_args!(
                "the frames of all hosts are more than {MOST_FRAMES_IN_ALL}, which take 8 GiB: say fewer than {FRAMES}, the default"
            ),
        )?;
        subject.above_zero(host.nic_rate, &at("nic_rate"))?;
        let mtu = host
            .mtu
            .is_none_or(|mtu| (576..=2034).contains(&mtu.0.get()));
        subject.require(mtu, &at("mtu"), "from 576b to 2034b is wanted")?;
        let frames = host
            .frames
            .is_none_or(|frames| (64..=MOST_FRAMES).contains(&frames));
        subject.require(
            frames,
            &at("frames"),
            format_args!("a number from 64 to {MOST_FRAMES} is wanted"),
        )?;
        port(subject, host.port(), &path, 1)?;
        router_only(subject, host, &path)?;
    }
    Ok(())
}

/// Keys of a port that only a router has.
fn router_only(subject: &Subject<'_>, host: &Host, path: &[Step<'_>; 2]) -> Result<(), Fault> {
    for (key, written, what) in [
        ("copy", host.copy.is_some(), "driver takes time"),
        ("late", host.late.is_some(), "driver can be late"),
        (
            "access_categories",
            host.access_categories.is_some(),
            "NIC has several rings",
        ),
    ] {
        subject.require(
            !written,
            &[path[0], path[1], Key(key)],
            format_args!("only a router's {what}: say it of a link"),
        )?;
    }
    Ok(())
}

fn links(subject: &Subject<'_>) -> Result<(), Fault> {
    let document = subject.document;
    for (number, link) in document.link.iter().enumerate() {
        let path = [Key("link"), Number(number)];
        let at = |key| [path[0], path[1], Key(key)];
        let ends = [&link.between.0, &link.between.1];
        for (end, name) in ends.iter().enumerate() {
            let path = [path[0], path[1], Key("between"), Number(end)];
            if !is_node(document, name) {
                let nodes = nodes_of(document);
                let message = format!("no node is named `{name}`; nodes: {nodes}");
                return Err(subject.refuse(&path, message));
            }
        }
        subject.require(
            ends[0] != ends[1],
            &at("between"),
            "a cable joins two different nodes",
        )?;
        let back = link.back.as_ref();
        subject.above_zero(link.rate, &at("rate"))?;
        subject.above_zero(
            back.and_then(|back| back.rate),
            &[path[0], path[1], Key("back"), Key("rate")],
        )?;
        one_way(subject, ends[0], link.port(), &path)?;
        if let Some(back) = back {
            one_way(subject, ends[1], back.port(), &at("back"))?;
        }
    }
    Ok(())
}

/// The port at the beginning of a direction: only routers have theirs here.
fn one_way(
    subject: &Subject<'_>,
    from: &str,
    keys: Port<'_>,
    path: &[Step<'_>],
) -> Result<(), Fault> {
    if is_host(subject.document, from) {
        let written = PORT.into_iter().zip([
            keys.qdisc.is_some(),
            keys.ring.is_some(),
            keys.ring_bytes.is_some(),
            keys.ring_limit.is_some(),
            keys.restart.is_some(),
            keys.copy.is_some(),
            keys.framing.is_some(),
            keys.coalesce_frames.is_some(),
            keys.coalesce_time.is_some(),
            keys.late.is_some(),
            keys.access_categories.is_some(),
        ]);
        for (key, written) in written {
            let path = [path, &[Key(key)]].concat();
            subject.require(
                !written,
                &path,
                format_args!("`{from}` is a host: its port is described by host.{from}.{key}"),
            )?;
        }
    }
    port(subject, keys, path, 0)
}

fn port(
    subject: &Subject<'_>,
    port: Port<'_>,
    path: &[Step<'_>],
    smallest: usize,
) -> Result<(), Fault> {
    let at = |key| [path, &[Key(key)]].concat();
    let ring = port
        .ring
        .is_none_or(|ring| (smallest..=LARGEST_RING).contains(&ring));
    subject.require(
        ring,
        &at("ring"),
        format_args!("a number from {smallest} to {LARGEST_RING} is wanted"),
    )?;
    let bytes = port.ring_bytes.is_none_or(|bytes| bytes.0.get() >= 2048);
    subject.require(bytes, &at("ring_bytes"), "at least 2kib is wanted")?;
    let restart = port
        .restart
        .is_none_or(|restart| (1..=port.ring.unwrap_or(256)).contains(&restart));
    subject.require(
        restart,
        &at("restart"),
        "a number from 1 to the length of the ring is wanted",
    )?;
    let framing = port.framing.is_none_or(|framing| framing.0.get() <= 1000);
    subject.require(framing, &at("framing"), "at most 1000b are wanted")?;
    let frames = port.coalesce_frames.is_none_or(|frames| frames > 0);
    subject.require(frames, &at("coalesce_frames"), "at least 1 is wanted")?;
    let child_of_each = || {
        let root = port.qdisc.map(|tree| tree.0.root());
        matches!(root, Some(Kind::Mq(config)) if config.queues == 4)
    };
    subject.require(
        port.access_categories != Some(Wake::Child) || child_of_each(),
        &at("access_categories"),
        "`child` needs the qdisc `mq queues 4`",
    )?;
    subject.require(
        port.access_categories.is_none() || port.ring != Some(0),
        &at("access_categories"),
        "without a NIC there are no rings: leave ring = 0 out",
    )
}

/// All nodes hang together without a loop, and a host has one cable.
fn tree(subject: &Subject<'_>) -> Result<(), Fault> {
    let document = subject.document;
    let hosts = document.host.iter().map(|host| host.name.as_str());
    let names: Vec<&str> = hosts
        .chain(document.router.iter().map(|router| router.name.as_str()))
        .collect();
    let place = |name: &str| {
        names
            .iter()
            .position(|known| *known == name)
            .expect("names were checked")
    };
    // Nodes that hang together have the same number.
    let mut part: Vec<usize> = (0..names.len()).collect();
    let mut cables = vec![0; names.len()];
    for (number, link) in document.link.iter().enumerate() {
        let path = [Key("link"), Number(number), Key("between")];
        let [from, to] = [place(&link.between.0), place(&link.between.1)];
        let (one, other) = (part[from], part[to]);
        subject.require(
            one != other,
            &path,
            "this cable closes a loop: the network must be a tree, so leave one cable out",
        )?;
        part.iter_mut()
            .filter(|part| **part == other)
            .for_each(|part| *part = one);
        for end in [from, to] {
            cables[end] += 1;
            let fits = end >= document.host.len() || cables[end] == 1;
            subject.require(
                fits,
                &path,
                format_args!(
                    "host `{}` has a cable already: put a router there",
                    names[end]
                ),
            )?;
        }
    }
    let lonely = (0..names.len()).find(|node| part[*node] != part[0]);
    let Some(lonely) = lonely else { return Ok(()) };
    let (kind, number) = if lonely < document.host.len() {
        ("host", lonely)
    } else {
        ("router", lonely - document.host.len())
    };
    let message = format!(
        "no cables lead from `{}` to `{}`: add a [[link]]",
        names[0], names[lonely]
    );
    Err(subject.refuse(&[Key(kind), Number(number)], message))
}

pub(super) fn is_host(document: &Document, name: &str) -> bool {
    document.host.iter().any(|host| host.name == name)
}

pub(super) fn is_node(document: &Document, name: &str) -> bool {
    is_host(document, name) || document.router.iter().any(|router| router.name == name)
}

fn nodes_of(document: &Document) -> String {
    let hosts = document.host.iter().map(|host| &host.name);
    listed(hosts.chain(document.router.iter().map(|router| &router.name)))
}
