//! Meaning of a script's `config` lines.

use tautline_base::Bytes;
use tautline_cc::Algorithm;
use tautline_stack::{EcnMode, Keepalive, Pacing, SynCookies, TcpConfig, TsqLimit};

use crate::number::{duration, integer};
use crate::wire::Family;

/// A script's configuration. Where it differs from the defaults of the stack: Reno, neither pacing
/// nor TSQ, so that what the window allows leaves at once.
pub(crate) struct Config {
    pub(crate) tcp: TcpConfig,
    pub(crate) family: Family,
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
        let mut config = Self {
            tcp,
            family: Family::V4,
            mtu: 1500,
            peer_isn: 1_000_000,
            seed: 1,
            tolerance,
        };
        for (key, value) in settings {
            config.set(key, value)?;
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let tcp = &mut self.tcp;
        match key {
            "family" => {
                self.family = match value {
                    "ipv4" => Family::V4,
                    "ipv6" => Family::V6,
                    _ => return Err(format!("family cannot be '{value}'")),
                }
            }
            "mtu" => self.mtu = integer(value)?,
            "peer_isn" => self.peer_isn = integer(value)?,
            "seed" => self.seed = integer(value)?,
            "tolerance" => self.tolerance = duration(value)?,
            "congestion" => {
                tcp.congestion = value
                    .parse::<Algorithm>()
                    .map_err(|e| e.to_string())?
                    .factory()
            }
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
            "receive_buffer" => {
                tcp.receive_buffer = Bytes::new(integer(value)?);
                tcp.receive_start = tcp.receive_buffer;
            }
            "delayed_ack" => tcp.delayed_ack = duration(value)?,
            "retries" => tcp.retries = integer(value)?,
            "syn_retries" => tcp.syn_retries = integer(value)?,
            "time_wait" => tcp.time_wait = duration(value)?,
            "backlog" => tcp.backlog = integer(value)?,
            "fin_wait" => tcp.fin_wait = duration(value)?,
            "user_timeout" => tcp.user_timeout = Some(duration(value)?),
            "linger" => tcp.linger = Some(duration(value)?),
            "keepalive" => tcp.keepalive = Some(keepalive(value)?),
            "tlp" => tcp.loss_recovery.tail_loss_probe = switch(value)?,
            "frto" => tcp.loss_recovery.frto = switch(value)?,
            "syn_cookies" => {
                tcp.syn_cookies = match value {
                    "never" => SynCookies::Never,
                    "when-full" => SynCookies::WhenFull,
                    "always" => SynCookies::Always,
                    _ => return Err(format!("syn_cookies cannot be '{value}'")),
                }
            }
            _ => return Err(format!("nothing is called '{key}'")),
        }
        Ok(())
    }
}

/// `IDLE,INTERVAL,PROBES`.
fn keepalive(value: &str) -> Result<Keepalive, String> {
    match value.split(',').collect::<Vec<_>>()[..] {
        [idle, interval, probes] => Ok(Keepalive {
            idle: duration(idle)?,
            interval: duration(interval)?,
            probes: integer(probes)?,
        }),
        _ => Err(format!("'{value}' is no IDLE,INTERVAL,PROBES")),
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{value}' is neither on nor off")),
    }
}
