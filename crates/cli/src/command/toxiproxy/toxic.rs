//! [`Toxic`]s, with the names, attributes and units of toxiproxy 2.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::refusal::Refusal;

/// Direction of a proxy's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stream {
    /// From the client to the server.
    Upstream,
    /// From the server to the client.
    #[default]
    Downstream,
}

/// A disturbance of one direction of every connection of a proxy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Toxic {
    pub(super) name: String,
    pub(super) stream: Stream,
    /// Share of the connections that are disturbed.
    pub(super) toxicity: f32,
    #[serde(flatten)]
    pub(super) effect: Effect,
}

/// The effect of a toxic. Serializes as its `type` and `attributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "attributes", rename_all = "snake_case")]
pub(super) enum Effect {
    /// Nothing.
    Noop {},
    /// Delays data by `latency` ± `jitter` milliseconds.
    Latency {
        #[serde(default)]
        latency: u32,
        #[serde(default)]
        jitter: u32,
    },
    /// Limits the rate to `rate` kB/s; 0 stops the data.
    Bandwidth {
        #[serde(default)]
        rate: u32,
    },
    /// Delays the end of the data by `delay` milliseconds.
    SlowClose {
        #[serde(default)]
        delay: u32,
    },
    /// Discards all data. Closes the connection after `timeout` milliseconds, or if that is 0 when the
    /// toxic is removed.
    Timeout {
        #[serde(default)]
        timeout: u32,
    },
    /// Resets the connection `timeout` milliseconds after the first data.
    ResetPeer {
        #[serde(default)]
        timeout: u32,
    },
    /// Cuts data into pieces of `average_size` ± `size_variation` bytes, `delay` microseconds apart.
    Slicer {
        #[serde(default)]
        average_size: u32,
        #[serde(default)]
        size_variation: u32,
        #[serde(default)]
        delay: u32,
    },
    /// Closes the connection after `bytes` bytes.
    LimitData {
        #[serde(default)]
        bytes: u64,
    },
}

const TYPES: [&str; 8] = [
    "noop",
    "latency",
    "bandwidth",
    "slow_close",
    "timeout",
    "reset_peer",
    "slicer",
    "limit_data",
];

type Attributes = BTreeMap<String, Value>;

/// A client's description of a toxic, new or changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    name: Option<String>,
    r#type: String,
    stream: Option<String>,
    toxicity: Option<f32>,
    attributes: Option<Attributes>,
}

impl Wanted {
    fn parse(body: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(body).map_err(Refusal::bad_body)
    }
}

fn effect(kind: &str, attributes: Attributes) -> Result<Effect, Refusal> {
    let described = serde_json::json!({ "type": kind, "attributes": attributes });
    serde_json::from_value(described).map_err(Refusal::bad_body)
}

impl Toxic {
    /// The toxic that a client describes. It is downstream, of every connection, and named after its
    /// type and direction unless the client says otherwise.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let wanted = Wanted::parse(body)?;
        let stream = match wanted.stream.as_deref() {
            None | Some("" | "downstream") => Stream::Downstream,
            Some("upstream") => Stream::Upstream,
            Some(_) => return Err(Refusal::INVALID_STREAM),
        };
        if !TYPES.contains(&wanted.r#type.as_str()) {
            return Err(Refusal::INVALID_TYPE);
        }
        let direction = match stream {
            Stream::Upstream => "upstream",
            Stream::Downstream => "downstream",
        };
        let name = wanted.name.filter(|name| !name.is_empty());
        Ok(Self {
            name: name.unwrap_or_else(|| format!("{}_{direction}", wanted.r#type)),
            stream,
            toxicity: wanted.toxicity.unwrap_or(1.0),
            effect: effect(&wanted.r#type, wanted.attributes.unwrap_or_default())?,
        })
    }

    /// Changes the attributes and the share of connections that a client names.
    pub(super) fn update(&mut self, body: &[u8]) -> Result<(), Refusal> {
        let wanted = Wanted::parse(body)?;
        let present = serde_json::to_value(self.effect).map_err(Refusal::bad_body)?;
        let mut attributes = match present.get("attributes") {
            Some(Value::Object(present)) => present.clone().into_iter().collect(),
            _ => Attributes::new(),
        };
        attributes.extend(wanted.attributes.unwrap_or_default());
        let kind = present.get("type").and_then(Value::as_str);
        self.effect = effect(kind.unwrap_or_default(), attributes)?;
        self.toxicity = wanted.toxicity.unwrap_or(self.toxicity);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toxic_is_written_as_toxiproxy_does_and_keeps_what_is_not_changed() {
        let body = br#"{"type":"latency","attributes":{"latency":100},"toxicity":0.5}"#;
        let mut toxic = Toxic::parse(body).expect("well-formed");
        toxic
            .update(br#"{"attributes":{"jitter":10}}"#)
            .expect("known");
        let written = serde_json::to_value(&toxic).expect("plain fields");
        let expected = serde_json::json!({
            "name": "latency_downstream",
            "stream": "downstream",
            "toxicity": 0.5,
            "type": "latency",
            "attributes": { "latency": 100, "jitter": 10 }
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn every_type_needs_no_attributes() {
        for kind in TYPES {
            let body =
                format!(r#"{{"name":"","type":"{kind}","stream":"upstream","attributes":null}}"#);
            let toxic = Toxic::parse(body.as_bytes()).expect(kind);
            assert_eq!(toxic.name, format!("{kind}_upstream"));
        }
    }

    #[test]
    fn what_is_unknown_or_out_of_range_is_refused() {
        for (body, expected) in [
            (r#"{"type":"fire"}"#, "invalid toxic type"),
            (
                r#"{"type":"noop","stream":"sideways"}"#,
                "stream was invalid",
            ),
            (
                r#"{"type":"latency","attributes":{"latency":-1}}"#,
                "bad request body",
            ),
            ("{", "bad request body"),
        ] {
            let refusal = Toxic::parse(body.as_bytes()).expect_err(body);
            assert!(
                refusal.error.starts_with(expected),
                "{body}: {}",
                refusal.error
            );
        }
    }
}
