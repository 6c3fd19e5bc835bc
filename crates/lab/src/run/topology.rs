//! [`topology`]: the simulated network that a document describes.

mod air;

use std::time::Duration;

use tautline_base::{Rate, Tso};
use tautline_bql::Waking;
use tautline_sim::topology::{Cable, HostNode, Topology};
use tautline_sim::{
    Buffer, Coalesce, Impairments, LinkConfig, LinkNicConfig, NicConfig, Probability, RingLimit,
};
use tautline_tc::{Kind, Tree};

use crate::scenario::Document;
use crate::scenario::document::{Back, Host, Link, Port, Wake};
use crate::scenario::units::{FromWords, RateValue, Time};

/// The network of `document`, which has been checked.
pub(super) fn topology(document: &Document) -> Topology {
    Topology {
        hosts: document.host.iter().map(host).collect(),
        routers: document
            .router
            .iter()
            .map(|router| router.name.clone())
            .collect(),
        cables: document
            .link
            .iter()
            .map(|link| cable(document, link))
            .collect(),
        cells: document
            .wifi
            .iter()
            .map(air::wifi)
            .chain(document.lte.iter().map(air::lte))
            .collect(),
    }
}

pub(super) fn host(host: &Host) -> HostNode {
    let port = host.port();
    let default = NicConfig::default();
    let nic = NicConfig {
        mtu: host.mtu.map_or(default.mtu, |size| size.0.as_usize()),
        tx_ring: port.ring.unwrap_or(default.tx_ring),
        ring_bytes: port.ring_bytes.map_or(default.ring_bytes, |size| size.0),
        restart: port.restart.unwrap_or(default.restart),
        framing: port.framing.map_or(default.framing, |size| size.0),
        rate: host.nic_rate.map_or(Rate::MAX, |rate| rate.0),
        coalesce: coalesce(port),
        rx_delay: host.rx_delay.map_or(default.rx_delay, |time| time.0),
        tx_packet_time: host
            .tx_packet_time
            .map_or(default.tx_packet_time, |time| time.0),
        rx_frame_time: host
            .rx_frame_time
            .map_or(default.rx_frame_time, |time| time.0),
        tso: host.tso.unwrap_or(false).then_some(Tso::MOST),
        ..default
    };
    let node = HostNode::new(host.name.clone());
    HostNode {
        qdisc: qdisc(port),
        ring_limit: ring_limit(port),
        nic,
        frames: host.frames.unwrap_or(node.frames),
        bulk_dequeue: host.bulk_dequeue.unwrap_or(node.bulk_dequeue),
        ..node
    }
}

fn cable(document: &Document, link: &Link) -> Cable {
    let (from, to) = &link.between;
    let router = |name: &String| document.router.iter().any(|router| router.name == *name);
    let wire = |of: Wire| LinkConfig {
        rate: of.rate,
        delay: of.delay,
        impair: of.impair,
        ..LinkConfig::default()
    };
    let there = Wire::of(WireKeys::from(link), Wire::PERFECT);
    let back = link.back.as_ref();
    let and_back = back.map_or(there, |back| Wire::of(WireKeys::from(back), there));
    let nothing = Port::default();
    let links = [
        with_port(wire(there), router(from), link.port()),
        with_port(wire(and_back), router(to), back.map_or(nothing, Back::port)),
    ];
    Cable {
        between: [from.clone(), to.clone()],
        links,
    }
}

/// A router's egress port has a queue and a NIC; a host has its own.
fn with_port(wire: LinkConfig, router: bool, port: Port<'_>) -> LinkConfig {
    if !router {
        return wire;
    }
    let default = LinkNicConfig::default();
    let ring = port.ring.unwrap_or(default.ring);
    let nic = LinkNicConfig {
        ring,
        ring_bytes: port.ring_bytes.map_or(default.ring_bytes, |size| size.0),
        restart: port.restart.unwrap_or(default.restart),
        copy: port.copy.map_or(default.copy, |time| time.0),
        coalesce: coalesce(port),
        late: port.late.map_or(default.late, |time| time.0),
        limit: ring_limit(port),
        access_categories: port.access_categories.map(|wake| match wake {
            Wake::Child => Waking::Child,
            Wake::Root => Waking::Root,
        }),
    };
    let framing = port.framing.map_or(wire.framing, |size| size.0);
    LinkConfig {
        queue: Buffer::Qdisc(qdisc(port)),
        nic: (ring > 0).then_some(nic),
        framing,
        ..wire
    }
}

pub(super) fn qdisc(port: Port<'_>) -> Tree {
    port.qdisc.map_or_else(
        || Kind::PfifoFast(Default::default()).into(),
        |words| words.0.clone(),
    )
}

pub(super) fn ring_limit(port: Port<'_>) -> RingLimit {
    port.ring_limit
        .map_or_else(RingLimit::default, |word| word.0)
}

fn coalesce(port: Port<'_>) -> Coalesce {
    let default = Coalesce::default();
    let frames = port.coalesce_frames.unwrap_or(default.frames);
    Coalesce {
        frames,
        time: port.coalesce_time.map_or(default.time, |time| time.0),
    }
}

/// One direction of a cable, without the port before it.
#[derive(Clone, Copy)]
struct Wire {
    rate: Rate,
    delay: Duration,
    impair: Impairments,
}

/// The keys of a direction of a cable.
struct WireKeys {
    rate: Option<RateValue>,
    delay: Option<Time>,
    impair: [Option<FromWords<Probability>>; 4],
    reorder_delay: Option<Time>,
}

macro_rules! wire_keys {
    ($($table:ty)*) => { $(
        impl From<&$table> for WireKeys {
            fn from(table: &$table) -> Self {
                let impair = [table.loss, table.duplicate, table.corrupt, table.reorder];
                Self { rate: table.rate, delay: table.delay, impair, reorder_delay: table.reorder_delay }
            }
        }
    )* };
}

wire_keys! { Link Back }

impl Wire {
    const PERFECT: Self = Self {
        rate: Rate::MAX,
        delay: Duration::ZERO,
        impair: Impairments {
            loss: Probability::NEVER,
            duplicate: Probability::NEVER,
            corrupt: Probability::NEVER,
            reorder: Probability::NEVER,
            reorder_delay: Duration::from_millis(1),
        },
    };

    /// The wire that `keys` describe, with `default` for what they leave out.
    fn of(keys: WireKeys, default: Self) -> Self {
        let [loss, duplicate, corrupt, reorder] = keys.impair.map(|word| word.map(|word| word.0));
        let impair = Impairments {
            loss: loss.unwrap_or(default.impair.loss),
            duplicate: duplicate.unwrap_or(default.impair.duplicate),
            corrupt: corrupt.unwrap_or(default.impair.corrupt),
            reorder: reorder.unwrap_or(default.impair.reorder),
            reorder_delay: keys
                .reorder_delay
                .map_or(default.impair.reorder_delay, |time| time.0),
        };
        let rate = keys.rate.map_or(default.rate, |rate| rate.0);
        Self {
            rate,
            delay: keys.delay.map_or(default.delay, |time| time.0),
            impair,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanOptions, plan};
    use crate::scenario::{Scenario, ScenarioDir};
    use tautline_sim::topology::{Cell, Radio};

    #[test]
    fn what_a_station_has_of_its_own_reaches_the_network() {
        let scenario = Scenario::load(&ScenarioDir::Shipped, "003-up.toml")
            .expect("it comes with the program");
        let points = plan(&scenario, PlanOptions::default()).expect("a plan");
        for (own, tso) in [(true, true), (true, false), (false, true)] {
            let mut document = (*points[0].document).clone();
            document.host[0].tso = Some(tso);
            document.host[1].tso = None;
            if !own {
                document.wifi[0].station_driver = None;
            }
            let Topology { hosts, cells, .. } = topology(&document);
            assert_eq!(
                (hosts[0].nic.tso, hosts[1].nic.tso),
                (tso.then_some(Tso::MOST), None),
                "only where the file says so"
            );
            let [
                Cell {
                    radio: Radio::Wifi { config, .. },
                    ..
                },
            ] = cells.as_slice()
            else {
                panic!("one cell of Wi-Fi")
            };
            assert!(config.driver.is_some());
            assert_eq!(config.station_driver.is_some(), own);
        }
    }
}
