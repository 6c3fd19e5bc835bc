//! [`traffic`]: the applications of each host, from the flows of a document.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::scenario::document::{
    FIRST_PORT, Flow as FlowKeys, FlowKind, MOST_FLOWS_IN_ALL, Over, Tcp,
};
use crate::scenario::units::Time;

/// The applications of a document's hosts.
pub(super) struct HostTraffic {
    /// Those of each host, in the document's order.
    pub(super) apps: Vec<Applications<'static>>,
    /// Names of the flows whose payload each host reads. Replies to pings are no payload.
    pub(super) read_by: Vec<BTreeSet<String>>,
    /// The flows whose segments are measured, by port.
    pub(super) measured: BTreeMap<u16, String>,
}

/// The applications of each host of `document`. `address` gives the address of a host; `seed` seeds
/// all random numbers.
///
/// # Errors
/// If an application refuses a parameter, or there are more flows than ports.
pub(super) fn traffic(
    document: &Document,
    seed: u64,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Result<HostTraffic, ConfigError> {
    let mut traffic = HostTraffic::idle(document);
    let mut rng = Pcg32::seed_from_u64(seed);
    // Each flow has a port of its own, so that each is measured by itself.
    let mut ports = FIRST_PORT..=u16::MAX;
    let number_of = |name: &str| document.host.iter().position(|host| host.name == name);
    for keys in &document.flow {
        // Each flow has its own generator: adding a flow does not change the random numbers of the
        // next.
        let mut rng = Pcg32::from_rng(&mut rng);
        let all: Vec<_> = keys
            .pairs()
            .flat_map(|pair| std::iter::repeat_n(pair, keys.count.unwrap_or(1)))
            .collect();
        for (number, (from, to)) in all.iter().enumerate() {
            let (Some(client), Some(server), Some(address)) =
                (number_of(from), number_of(to), address(to))
            else {
                continue;
            };
            let name = if all.len() == 1 {
                Flow::new(&keys.name)
            } else {
                Flow::numbered(&keys.name, number as u32 + 1)
            };
            let port = ports.next().ok_or_else(|| {
                let allowed = format!("at most {MOST_FLOWS_IN_ALL}, a port for each");
                let refused = tautline_base::ConfigError::new("flows", "more", allowed);
                ConfigError::from(refused)
            })?;
            if let Some(reader) = keys.kind.reader(client, server) {
                traffic.read_by[reader].insert(name.to_string());
            }
            if keys.one_way {
                traffic.measured.insert(port, name.to_string());
            }
            let instance = Instance {
                keys,
                document,
                when: when(keys, &mut rng),
                name,
                client,
                server,
                remote: SocketAddr::new(address, port),
            };
            instance.add(&mut traffic.apps, &mut rng)?;
        }
    }
    Ok(traffic)
}

impl HostTraffic {
    /// Hosts without applications.
    fn idle(document: &Document) -> Self {
        let times = document.run.as_ref();
        let sample = times.map_or(Duration::from_millis(100), |run| run.sample.0);
        let apps = || Applications::new(sample).strict();
        let count = document.host.len();
        Self {
            apps: std::iter::repeat_with(apps).take(count).collect(),
            read_by: vec![BTreeSet::new(); count],
            measured: BTreeMap::new(),
        }
    }
}

/// One instance of a flow.
struct Instance<'a> {
    keys: &'a FlowKeys,
    document: &'a Document,
    when: When,
    name: Flow,
    /// Numbers of its hosts.
    client: usize,
    server: usize,
    /// Address and port of the server.
    remote: SocketAddr,
}

impl Instance<'_> {
    /// Adds the applications of both ends.
    fn add(self, apps: &mut [Applications<'static>], rng: &mut Pcg32) -> Result<(), ConfigError> {
        let keys = self.keys;
        match keys.kind {
            FlowKind::Tcp => self.upload(apps),
            FlowKind::Ping => self.ping(apps),
            FlowKind::Onoff if keys.over == Some(Over::Tcp) => {
                self.messages(apps, source(keys, rng))
            }
            FlowKind::Udp | FlowKind::Onoff => self.datagrams(apps, source(keys, rng)),
            FlowKind::Web => self.web(apps),
        }
    }

    fn upload(self, apps: &mut [Applications<'static>]) -> Result<(), ConfigError> {
        let keys = self.keys;
        let tcp = Arc::new(tcp(&keys.tcp, &self.document.tcp));
        let default = UploadConfig::new(self.name.clone(), self.remote);
        apps[self.client].upload(UploadConfig {
            when: self.when,
            bytes: keys.size.map(|size| size.0),
            message: keys.message.map_or(default.message, |size| size.0),
            tcp: Arc::clone(&tcp),
            ..default
        })?;
        apps[self.server].sink(SinkConfig {
            tcp,
            ..SinkConfig::new(self.name, self.remote.port())
        })?;
        Ok(())
    }

    fn ping(self, apps: &mut [Applications<'static>]) -> Result<(), ConfigError> {
        let keys = self.keys;
        let default = PingConfig::new(self.name, self.remote.ip());
        let times = self.document.run.as_ref();
        apps[self.client].ping(PingConfig {
            when: self.when,
            interval: keys.every.map_or(default.interval, |time| time.0),
            timeout: times.map_or(default.timeout, |run| run.ping_timeout.0),
            size: keys.size.map_or(default.size, |size| size.0),
            tos: keys.tos.unwrap_or(default.tos),
            ..default
        })?;
        Ok(())
    }

    fn messages(
        self,
        apps: &mut [Applications<'static>],
        source: Traffic,
    ) -> Result<(), ConfigError> {
        let tcp = self.without_nagle();
        let tcp = Arc::new(TcpConfig {
            tos: self.keys.tos.unwrap_or(tcp.tos),
            ..tcp
        });
        apps[self.client].messages(MessagesConfig {
            when: self.when,
            tcp: Arc::clone(&tcp),
            ..MessagesConfig::new(self.name.clone(), self.remote, source)
        })?;
        apps[self.server].message_sink(SinkConfig {
            tcp,
            ..SinkConfig::new(self.name, self.remote.port())
        })?;
        Ok(())
    }

    fn datagrams(
        self,
        apps: &mut [Applications<'static>],
        source: Traffic,
    ) -> Result<(), ConfigError> {
        let default = UdpConfig::default();
        let udp = UdpConfig {
            tos: self.keys.tos.unwrap_or(default.tos),
            ..default
        };
        apps[self.client].datagrams(DatagramsConfig {
            when: self.when,
            udp,
            ..DatagramsConfig::new(self.name.clone(), self.remote, source)
        })?;
        let sink = DatagramSinkConfig::new(self.name, self.remote.port());
        apps[self.server].datagram_sink(sink)?;
        Ok(())
    }

    fn web(self, apps: &mut [Applications<'static>]) -> Result<(), ConfigError> {
        let keys = self.keys;
        let tcp = Arc::new(self.without_nagle());
        let total = keys.size.map_or(Bytes::new(1), |size| size.0);
        let default = WebConfig::new(self.name.clone(), self.remote);
        apps[self.client].web(WebConfig {
            when: self.when,
            page: Page::falling(keys.objects.unwrap_or(1), total),
            connections: keys.connections.unwrap_or(default.connections),
            pause: keys.every.map_or(default.pause, |time| time.0),
            tcp: Arc::clone(&tcp),
            ..default
        })?;
        apps[self.server].web_server(WebServerConfig {
            tcp,
            ..WebServerConfig::new(self.name, self.remote.port())
        })?;
        Ok(())
    }

    /// TCP of small messages, which disables Nagle's algorithm by default.
    fn without_nagle(&self) -> TcpConfig {
        let own = Tcp {
            nagle: self.keys.tcp.nagle.or(Some(false)),
            ..self.keys.tcp.clone()
        };
        tcp(&own, &self.document.tcp)
    }
}

/// The send pattern of a source of datagrams or messages.
fn source(keys: &FlowKeys, rng: &mut Pcg32) -> Traffic {
    let rate = keys.rate.map_or(Rate::ZERO, |rate| rate.0);
    let bursts = keys.on.zip(keys.off).map(|(on, off)| OnOff {
        on: Period::Exponential(on.0),
        off: Period::Exponential(off.0),
    });
    let size = keys.size.map_or(Bytes::ZERO, |size| size.0);
    Traffic {
        size,
        bursts,
        seed: rng.next_u64(),
        ..Traffic::new(rate)
    }
}

/// Start and stop time of one instance of a flow.
fn when(keys: &FlowKeys, rng: &mut Pcg32) -> When {
    let nanos = |time: Option<Time>| time.map_or(0, |time| time.0.as_nanos());
    let spread = (nanos(keys.spread) * u128::from(rng.next_u32())) >> 32;
    let start = Duration::from_nanos(u64::try_from(nanos(keys.start) + spread).unwrap_or(u64::MAX));
    When {
        start,
        stop: keys.stop.map(|time| time.0),
    }
}
