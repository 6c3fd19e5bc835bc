//! What the `config` lines of a script set.

use tautline_base::Bytes;
use tautline_cc::Algorithm;
use tautline_stack::{EcnMode, Pacing, TcpConfig, TsqLimit};

use crate::number::{duration, integer};

/// A script's configuration. Where it differs from the defaults of the stack: Reno, neither pacing nor TSQ, so that what the window
/// allows leaves at once.
pub(crate) struct Config {
    pub(crate) tcp: TcpConfig,
    /// Largest IP packet of the device.
    pub(crate) mtu: usize,
    /// The peer's initial sequence number.
    pub(crate) peer_isn: u32,
    pub(crate) seed: u64,
    /// How far from its time a segment may leave.
    pub(crate) tolerance: std::time::Duration,
}

impl Config {
    pub(crate) fn new(settings: &[(String, String)]) -> Result<Self, String> {
        let tcp = TcpConfig {
            congestion: Algorithm::Reno.factory(),
            pacing: Pacing::Off,
            tsq: TsqLimit::Off,
            ..TcpConfig::default()
        };
        let tolerance = std::time::Duration::from_micros(1);
        let mut config = Self { tcp, mtu: 1500, peer_isn: 1_000_000, seed: 1, tolerance };
        for (key, value) in settings {
            config.set(key, value)?;
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let tcp = &mut self.tcp;
        match key {
            "mtu" => self.mtu = integer(value)?,
            "peer_isn" => self.peer_isn = integer(value)?,
            "seed" => self.seed = integer(value)?,
            "tolerance" => self.tolerance = duration(value)?,
            "congestion" => tcp.congestion = value.parse::<Algorithm>().map_err(|e| e.to_string())?.factory(),
            "pacing" => {
                tcp.pacing = match value {
                    "off" => Pacing::Off,
                    "internal" => Pacing::Internal,
                    "qdisc" => Pacing::Qdisc,
                    _ => return Err(format!("pacing cannot be '{value}'")),
                }
            }
            "ecn" => {
                tcp.ecn = match value {
                    "off" => EcnMode::Off,
                    "request" => EcnMode::Request,
                    "accept" => EcnMode::Accept,
                    "accecn" => EcnMode::AccEcn,
                    "accecn-request-classic" => EcnMode::AccEcnRequestClassic,
                    "accecn-accept" => EcnMode::AccEcnAccept,
                    _ => return Err(format!("ecn cannot be '{value}'")),
                }
            }
            "nagle" => tcp.nagle = switch(value)?,
            "send_buffer" => tcp.send_buffer = Bytes::new(integer(value)?),
            "receive_buffer" => tcp.receive_buffer = Bytes::new(integer(value)?),
            "delayed_ack" => tcp.delayed_ack = duration(value)?,
            "retries" => tcp.retries = integer(value)?,
            "syn_retries" => tcp.syn_retries = integer(value)?,
            "time_wait" => tcp.time_wait = duration(value)?,
            "backlog" => tcp.backlog = integer(value)?,
            _ => return Err(format!("nothing is called '{key}'")),
        }
        Ok(())
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{value}' is neither on nor off")),
    }
}
