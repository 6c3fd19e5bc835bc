//! [`traffic`]: the applications of each host, from the flows of a document.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tautline_base::{Bytes, Rate};
use tautline_sim::app::{
    DatagramSinkConfig, DatagramsConfig, Flow, MessagesConfig, OnOff, Page, Period, PingConfig,
    SinkConfig, Traffic, UploadConfig, WebConfig, WebServerConfig, When,
};
use tautline_sim::{Applications, ConfigError};
use tautline_stack::{TcpConfig, UdpConfig};

use super::tcp::tcp;
use crate::scenario::Document;
use crate::scenario::document::{Flow as FlowKeys, FlowKind, Over, Tcp};
use crate::scenario::units::Time;

/// The first listening port. Each connection has its own, so that each is measured by itself.
const FIRST_PORT: u16 = 5001;

/// The applications of each host of `document`, in its order, and the flows whose segments are
/// measured, by port. `address` gives the address of a host; `seed` seeds all random numbers.
///
/// # Errors
/// If an application refuses a parameter.
pub(super) fn traffic(
    document: &Document,
    seed: u64,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Result<(Vec<Applications<'static>>, BTreeMap<u16, String>), ConfigError> {
    let sample = document
        .run
        .as_ref()
        .map_or(Duration::from_millis(100), |run| run.sample.0);
    let mut apps: Vec<Applications<'static>> = document
        .host
        .iter()
        .map(|_| Applications::new(sample).strict())
        .collect();
    let mut rng = Pcg32::seed_from_u64(seed);
    let (mut port, mut measured) = (FIRST_PORT, BTreeMap::new());
    let number_of = |name: &str| document.host.iter().position(|host| host.name == name);
    for flow in &document.flow {
        // Each flow has its own generator: adding a flow does not change the random numbers of the
        // next.
        let mut rng = Pcg32::from_rng(&mut rng);
        let all: Vec<_> = flow
            .pairs()
            .flat_map(|pair| std::iter::repeat_n(pair, flow.count.unwrap_or(1)))
            .collect();
        for (number, (from, to)) in all.iter().enumerate() {
            let (Some(from), Some(to), Some(server)) =
                (number_of(from), number_of(to), address(to))
            else {
                continue;
            };
            let called = if all.len() == 1 {
                Flow::new(&flow.name)
            } else {
                Flow::numbered(&flow.name, number as u32 + 1)
            };
            if flow.one_way {
                measured.insert(port, called.to_string());
            }
            let ends = Ends {
                from,
                to,
                server,
                port,
                called,
            };
            add(&mut apps, flow, ends, &document.tcp, &mut rng)?;
            port = port.wrapping_add(1).max(FIRST_PORT);
        }
    }
    Ok((apps, measured))
}

/// One instance of a flow: indexes of its hosts, address and port of its server, and its name.
struct Ends {
    from: usize,
    to: usize,
    server: IpAddr,
    port: u16,
    called: Flow,
}

impl Ends {
    /// Address and port of the server.
    fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.server, self.port)
    }
}

/// Adds the applications of both ends of a flow.
fn add(
    apps: &mut [Applications<'static>],
    flow: &FlowKeys,
    ends: Ends,
    defaults: &Tcp,
    rng: &mut Pcg32,
) -> Result<(), ConfigError> {
    let when = when(flow, rng);
    let remote = ends.remote();
    match flow.kind {
        FlowKind::Tcp => upload(apps, flow, when, ends, defaults)?,
        FlowKind::Ping => {
            let default = PingConfig::new(ends.called, ends.server);
            apps[ends.from].ping(PingConfig {
                when,
                interval: flow.every.map_or(default.interval, |time| time.0),
                size: flow.size.map_or(default.size, |size| size.0),
                tos: flow.tos.unwrap_or(default.tos),
                ..default
            })?;
        }
        FlowKind::Onoff if flow.over == Some(Over::Tcp) => {
            let tcp = without_nagle(flow, defaults);
            let tcp = Arc::new(TcpConfig {
                tos: flow.tos.unwrap_or(tcp.tos),
                ..tcp
            });
            let traffic = datagrams(flow, rng);
            let default = MessagesConfig::new(ends.called.clone(), remote, traffic);
            apps[ends.from].messages(MessagesConfig {
                when,
                tcp: Arc::clone(&tcp),
                ..default
            })?;
            apps[ends.to].message_sink(SinkConfig {
                tcp,
                ..SinkConfig::new(ends.called, ends.port)
            })?;
        }
        FlowKind::Udp | FlowKind::Onoff => {
            let traffic = datagrams(flow, rng);
            let default = UdpConfig::default();
            let udp = UdpConfig {
                tos: flow.tos.unwrap_or(default.tos),
                ..default
            };
            apps[ends.from].datagrams(DatagramsConfig {
                when,
                udp,
                ..DatagramsConfig::new(ends.called.clone(), remote, traffic)
            })?;
            apps[ends.to].datagram_sink(DatagramSinkConfig::new(ends.called, ends.port))?;
        }
        FlowKind::Web => web(apps, flow, when, ends, defaults)?,
    }
    Ok(())
}

fn upload(
    apps: &mut [Applications<'static>],
    flow: &FlowKeys,
    when: When,
    ends: Ends,
    defaults: &Tcp,
) -> Result<(), ConfigError> {
    let remote = ends.remote();
    let tcp = Arc::new(tcp(&flow.tcp, defaults));
    let default = UploadConfig::new(ends.called.clone(), remote);
    apps[ends.from].upload(UploadConfig {
        when,
        bytes: flow.size.map(|size| size.0),
        message: flow.message.map_or(default.message, |size| size.0),
        tcp: Arc::clone(&tcp),
        ..default
    })?;
    apps[ends.to].sink(SinkConfig {
        tcp,
        ..SinkConfig::new(ends.called, ends.port)
    })?;
    Ok(())
}

fn web(
    apps: &mut [Applications<'static>],
    flow: &FlowKeys,
    when: When,
    ends: Ends,
    defaults: &Tcp,
) -> Result<(), ConfigError> {
    let remote = ends.remote();
    let tcp = Arc::new(without_nagle(flow, defaults));
    let total = flow.size.map_or(Bytes::new(1), |size| size.0);
    let default = WebConfig::new(ends.called.clone(), remote);
    apps[ends.from].web(WebConfig {
        when,
        page: Page::falling(flow.objects.unwrap_or(1), total),
        connections: flow.connections.unwrap_or(default.connections),
        pause: flow.every.map_or(default.pause, |time| time.0),
        tcp: Arc::clone(&tcp),
        ..default
    })?;
    apps[ends.to].web_server(WebServerConfig {
        tcp,
        ..WebServerConfig::new(ends.called, ends.port)
    })?;
    Ok(())
}

/// TCP of a flow of small messages, which disables Nagle's algorithm by default.
fn without_nagle(flow: &FlowKeys, defaults: &Tcp) -> TcpConfig {
    let own = Tcp {
        nagle: flow.tcp.nagle.or(Some(false)),
        ..flow.tcp.clone()
    };
    tcp(&own, defaults)
}

/// The send pattern of a source of datagrams or messages.
fn datagrams(flow: &FlowKeys, rng: &mut Pcg32) -> Traffic {
    let rate = flow.rate.map_or(Rate::ZERO, |rate| rate.0);
    let bursts = flow.on.zip(flow.off).map(|(on, off)| OnOff {
        on: Period::Exponential(on.0),
        off: Period::Exponential(off.0),
    });
    let size = flow.size.map_or(Bytes::ZERO, |size| size.0);
    Traffic {
        size,
        bursts,
        seed: rng.next_u64(),
        ..Traffic::new(rate)
    }
}

/// Start and stop time of one connection of `flow`.
fn when(flow: &FlowKeys, rng: &mut Pcg32) -> When {
    let nanos = |time: Option<Time>| time.map_or(0, |time| time.0.as_nanos());
    let spread = (nanos(flow.spread) * u128::from(rng.next_u32())) >> 32;
    let start = Duration::from_nanos(u64::try_from(nanos(flow.start) + spread).unwrap_or(u64::MAX));
    When {
        start,
        stop: flow.stop.map(|time| time.0),
    }
}
