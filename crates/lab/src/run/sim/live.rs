//! [`watch`]: a point in virtual time with periodic snapshots, for `lab watch`.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_live::{Counted, PortState, QdiscState, Snapshot};
use tautline_qdisc::stats::Sojourn;
use tautline_sim::{Network, PortId};

use super::{build, topology, traffic};
use crate::plan::Point;
use crate::run::RunError;

/// Runs `point` and passes a snapshot of its ports to `show` every `step`, until the end of the run or
/// until `show` breaks.
///
/// # Errors
/// As [`run`](super::run).
pub(crate) fn watch(
    point: &Point,
    step: Duration,
    mut show: impl FnMut(Snapshot) -> ControlFlow<()>,
) -> Result<(), RunError> {
    let document = &point.document;
    let Some(times) = &document.run else {
        return Err(RunError::Elsewhere);
    };
    let topology = topology(document);
    let traffic = traffic(document, point.seed, |name: &str| {
        topology.address(name).map(IpAddr::from)
    })?;
    let mut network = build(point.seed, &topology, traffic.apps, ())?;
    let mut at = Duration::ZERO;
    while at < times.duration.0 {
        at = (at + step.max(Duration::from_nanos(1))).min(times.duration.0);
        network.run_before(Instant::ZERO + at)?;
        let ports = network.ports().map(|id| port(&network, id)).collect();
        if show(Snapshot { at, ports }).is_break() {
            break;
        }
    }
    Ok(())
}

fn port(network: &Network<'static, ()>, id: PortId) -> PortState {
    let (name, sample) = (network.port_name(id), network.sample(id));
    match id {
        PortId::Host(number) => PortState::of(name, network.endpoint(number).host.port()),
        PortId::Link(number) => {
            let inside = sample.backlog.packets + sample.ring.packets;
            let held = sample.backlog.bytes + sample.ring.bytes;
            PortState {
                name,
                // The bytes of dropped packets are unknown.
                taken: Counted {
                    packets: sample.sent_packets + sample.drops + inside as u64,
                    bytes: (sample.sent + held).get(),
                },
                sent: Counted {
                    packets: sample.sent_packets,
                    bytes: sample.sent.get(),
                },
                backlog: sample.backlog,
                ring: sample.ring,
                ring_limit: (sample.limit < Bytes::MAX).then_some(sample.limit),
                marks: sample.marks,
                drops: if sample.drops > 0 {
                    vec![("by the qdisc".to_owned(), sample.drops)]
                } else {
                    Vec::new()
                },
                sojourn: Sojourn {
                    last: sample.sojourn,
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
        let point = plan(&scenario, PlanOptions::default())
            .expect("a plan")
            .remove(0);
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
