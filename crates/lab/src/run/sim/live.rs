//! [`watch`]: a point in virtual time with periodic snapshots, for `lab watch`.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_live::{Counted, PortState, QdiscState, Snapshot};
use tautline_qdisc::stats::Sojourn;
use tautline_sim::PortId;

use super::{World, build, topology, traffic};
use crate::plan::Point;
use crate::run::RunError;

/// Runs `point` and shows its ports to `look` every `step`, until its time is over or `look` has
/// seen enough.
///
/// # Errors
/// As [`run`](super::run).
pub(crate) fn watch(
    point: &Point,
    step: Duration,
    mut look: impl FnMut(Snapshot) -> ControlFlow<()>,
) -> Result<(), RunError> {
    let document = &point.document;
    let Some(times) = &document.run else {
        return Err(RunError::Elsewhere);
    };
    let topology = topology(document);
    let (programs, _) = traffic(document, point.seed, |name: &str| {
        topology.address(name).map(IpAddr::from)
    })?;
    let mut network: World<()> = build(point.seed, &topology, programs, ())?;
    let mut at = Duration::ZERO;
    while at < times.duration.0 {
        at = (at + step.max(Duration::from_nanos(1))).min(times.duration.0);
        network.run_before(Instant::ZERO + at)?;
        let ports = network.ports().map(|id| port(&network, id)).collect();
        if look(Snapshot { at, ports }).is_break() {
            break;
        }
    }
    Ok(())
}

fn port(network: &World<()>, id: PortId) -> PortState {
    let (name, look) = (network.port_name(id), network.sample(id));
    match id {
        PortId::Host(number) => PortState::of(name, network.endpoint(number).host.port()),
        PortId::Link(number) => {
            let inside = look.backlog.packets + look.ring.packets;
            let held = look.backlog.bytes + look.ring.bytes;
            PortState {
                name,
                // The bytes of dropped packets are unknown.
                taken: Counted {
                    packets: look.sent_packets + look.drops + inside as u64,
                    bytes: (look.sent + held).get(),
                },
                sent: Counted {
                    packets: look.sent_packets,
                    bytes: look.sent.get(),
                },
                backlog: look.backlog,
                ring: look.ring,
                ring_limit: (look.limit < Bytes::MAX).then_some(look.limit),
                marks: look.marks,
                drops: if look.drops > 0 {
                    vec![("by the qdisc".to_owned(), look.drops)]
                } else {
                    Vec::new()
                },
                sojourn: Sojourn {
                    last: look.sojourn,
                    ..Sojourn::default()
                },
                qdisc: QdiscState::of(&network.link(number).report()),
                hosts: Vec::new(),
                flows: Vec::new(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanOptions, plan};
    use crate::scenario::{Scenario, ScenarioDir};

    #[test]
    fn ports_are_seen_step_by_step_until_somebody_has_seen_enough() {
        let scenario_dir = ScenarioDir::Directory(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flent"),
        );
        let scenario = Scenario::load(&scenario_dir, "tcp-nup.toml").expect("a scenario");
        let point = plan(&scenario, PlanOptions::default()).remove(0);
        let mut seen = Vec::new();
        let enough = |snapshot: Snapshot| {
            seen.push(snapshot);
            if seen.len() == 20 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        watch(&point, Duration::from_millis(100), enough).expect("it runs");
        assert_eq!((seen.len(), seen[19].at), (20, Duration::from_secs(2)));
        let names: Vec<&str> = seen[19]
            .ports
            .iter()
            .map(|port| port.name.as_str())
            .collect();
        assert!(
            names.contains(&"client") && names.contains(&"router>server"),
            "{names:?}"
        );
        for name in ["client", "router>server"] {
            let port = seen[19]
                .ports
                .iter()
                .find(|port| port.name == name)
                .expect("it is there");
            assert!(
                port.sent.packets > 100 && port.taken.packets >= port.sent.packets,
                "{name}: {port:?}"
            );
        }
    }
}
