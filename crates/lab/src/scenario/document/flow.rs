//! [`Flow`]: traffic between hosts.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Tcp;
use crate::scenario::units::{RateValue, Size, Time};

/// The first listening port: each flow has its own.
pub(crate) const FIRST_PORT: u16 = 5001;
/// Most flows of a scenario: one for each port from the first on.
pub(crate) const MOST_FLOWS_IN_ALL: usize = (u16::MAX - FIRST_PORT) as usize + 1;

/// Traffic of one kind from one host to another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name.
    pub name: String,
    pub kind: FlowKind,
    /// The host that starts it, and sends; or several, each of which does.
    pub from: Ends,
    /// The host that answers or receives, or several.
    pub to: Ends,
    /// Number of flows. Default 1.
    pub count: Option<usize>,
    /// Start time. Default 0.
    pub start: Option<Time>,
    /// Each starts at random up to so much later. Default 0.
    pub spread: Option<Time>,
    /// Stop time. Default: with the run.
    pub stop: Option<Time>,
    /// Time between requests of a ping, or from one page to the next.
    pub every: Option<Time>,
    /// Rate of UDP payload.
    pub rate: Option<RateValue>,
    /// Payload of a datagram or of an echo request; bytes that a TCP flow sends before it ends.
    pub size: Option<Size>,
    /// Bytes of one write of a TCP flow. Default 64 KiB.
    pub message: Option<Size>,
    /// TOS byte of ping and UDP. Default 0.
    pub tos: Option<u8>,
    /// Mean time that an on-off source sends.
    pub on: Option<Time>,
    /// Mean length of an off period.
    pub off: Option<Time>,
    /// Transport of an on-off source. Default UDP.
    pub over: Option<Over>,
    /// Objects of a page.
    pub objects: Option<usize>,
    /// Connections that fetch them side by side. Default 6, as browsers have.
    pub connections: Option<usize>,
    /// Measures how long each segment of a TCP connection took, from its birth in one host to its
    /// arrival at the other; for messages in place of their own one-way delay. Costs time.
    #[serde(default)]
    pub one_way: bool,
    /// TCP of this flow.
    #[serde(default)]
    pub tcp: Tcp,
}

impl Flow {
    /// Every host that starts it with every host it leads to. Flows are numbered through these,
    /// `count` of each.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.from
            .0
            .iter()
            .flat_map(|from| self.to.0.iter().map(move |to| (from.as_str(), to.as_str())))
    }
}

/// A host, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Ends(#[serde(deserialize_with = "one_or_more")] pub Vec<String>);

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a host in quotes, or several in brackets")
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<Vec<String>, E> {
            Ok(vec![name.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Vec<String>, A::Error> {
            let mut all = Vec::new();
            while let Some(name) = names.next_element()? {
                all.push(name);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(Names)
}

/// Transport of an on-off source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Datagrams.
    #[default]
    Udp,
    /// A TCP connection.
    Tcp,
}

/// Kind of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowKind {
    /// A TCP stream that always has something to send.
    Tcp,
    /// ICMP echo requests.
    Ping,
    /// Datagrams at a constant rate.
    Udp,
    /// Datagrams at a constant rate, at times.
    Onoff,
    /// Pages fetched by `from`, served by `to`.
    Web,
}

impl FlowKind {
    /// Which of its ends reads the payload that counts as goodput. `None`: replies to pings do not.
    pub(crate) fn reader<T>(self, client: T, server: T) -> Option<T> {
        match self {
            Self::Tcp | Self::Udp | Self::Onoff => Some(server),
            Self::Web => Some(client),
            Self::Ping => None,
        }
    }
}
