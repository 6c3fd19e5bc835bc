//! [`traffic`]: the applications of each host, from the flows of a document.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_sim::app::{Flow, PingConfig, SinkConfig, UploadConfig, When};
use tautline_sim::{ConfigError, Programs};

use super::tcp::tcp;
use crate::scenario::Document;
use crate::scenario::document::{Flow as Wanted, FlowKind};
use crate::scenario::units::Time;

/// The first port that anybody listens on; each connection has one of its own, so that each is measured by itself.
const FIRST_PORT: u16 = 5001;

/// The applications of each host of `document`, in its order; `address` tells where a host is. What is random is seeded by `seed`.
///
/// # Errors
/// If an application refuses a parameter.
pub(super) fn traffic(
    document: &Document,
    seed: u64,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Result<Vec<Programs>, ConfigError> {
    let sample = document.run.as_ref().map_or(Duration::from_millis(100), |run| run.sample.0);
    let mut programs: Vec<Programs> = document.host.iter().map(|_| Programs::new(sample).strict()).collect();
    let mut rng = Pcg32::seed_from_u64(seed);
    let mut port = FIRST_PORT;
    let place = |name: &str| document.host.iter().position(|host| host.name == name);
    for flow in &document.flow {
        let (Some(from), Some(to), Some(server)) = (place(&flow.from), place(&flow.to), address(&flow.to)) else { continue };
        let count = flow.count.unwrap_or(1);
        // Flows draw from generators of their own: another flow more does not shift the luck of the next.
        let mut rng = Pcg32::from_rng(&mut rng);
        for number in 0..count {
            let called = if count == 1 { Flow::new(&flow.name) } else { Flow::numbered(&flow.name, number as u32 + 1) };
            let when = when(flow, &mut rng);
            match flow.kind {
                FlowKind::Tcp => {
                    let tcp = Arc::new(tcp(&flow.tcp, &document.tcp));
                    let remote = SocketAddr::new(server, port);
                    let default = UploadConfig::new(called.clone(), remote);
                    programs[from].upload(UploadConfig {
                        when,
                        bytes: flow.size.map(|size| size.0),
                        message: flow.message.map_or(default.message, |size| size.0),
                        tcp: Arc::clone(&tcp),
                        ..default
                    })?;
                    programs[to].sink(SinkConfig { tcp, ..SinkConfig::new(called, port) })?;
                    port = port.wrapping_add(1).max(FIRST_PORT);
                }
                FlowKind::Ping => {
                    let default = PingConfig::new(called, server);
                    programs[from].ping(PingConfig {
                        when,
                        interval: flow.every.map_or(default.interval, |time| time.0),
                        size: flow.size.map_or(default.size, |size| size.0),
                        tos: flow.tos.unwrap_or(default.tos),
                        ..default
                    })?;
                }
                FlowKind::Udp | FlowKind::Onoff | FlowKind::Web => {}
            }
        }
    }
    Ok(programs)
}

/// When one connection of `flow` is at work.
fn when(flow: &Wanted, rng: &mut Pcg32) -> When {
    let nanos = |time: Option<Time>| time.map_or(0, |time| time.0.as_nanos());
    let spread = (nanos(flow.spread) * u128::from(rng.next_u32())) >> 32;
    let start = Duration::from_nanos(u64::try_from(nanos(flow.start) + spread).unwrap_or(u64::MAX));
    When { start, stop: flow.stop.map(|time| time.0) }
}
