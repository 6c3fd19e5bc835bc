//! Shell lines of scripts: `sysctl` settings become fields of [`TcpConfig`]; a few commands have no
//! effect here; anything else is not supported, and its script is skipped.

use std::time::Duration;

use tautline_base::Bytes;
use tautline_cc::Algorithm;
use tautline_stack::{
    AckCompression, EcnMode, Keepalive, LossRecovery, MtuProbing, PacerConfig, Pacing, SynCookies,
    TcpConfig, TsqLimit,
};

/// Settings whose value changes nothing that a script could see here.
const WITHOUT_EFFECT: [&str; 12] = [
    "tcp_no_metrics_save",
    "tcp_min_tso_segs",
    "tcp_autocorking",
    "tcp_adv_win_scale",
    "ip_local_port_range",
    "tcp_abc",
    "tcp_moderate_rcvbuf",
    "tcp_tso_win_divisor",
    "tcp_tso_rtt_log",
    "tcp_max_tw_buckets",
    "tcp_tw_reuse",
    "tcp_stdurg",
];
/// Switches that this stack always has on.
const ALWAYS_ON: [&str; 2] = ["tcp_dsack", "tcp_slow_start_after_idle"];

/// Configuration of a socket before the script sets anything: Linux's behavior, unpaced, with
/// the buffers that packetdrill's public scripts set (`tcp_rmem` 15 MB, so a window scale of 8).
pub(crate) fn linux_config() -> TcpConfig {
    TcpConfig {
        congestion: Algorithm::CubicLinux.factory(),
        pacing: Pacing::Off,
        pacer: PacerConfig::linux(),
        tsq: TsqLimit::Off,
        receive_buffer: Bytes::new(15_728_640),
        loss_recovery: LossRecovery::linux(),
        ack_compression: Some(AckCompression::LINUX),
        ..TcpConfig::default()
    }
}

/// Applies the lines of a shell command.
///
/// # Errors
/// A command or setting that is not supported.
pub(crate) fn apply(command: &str, config: &mut TcpConfig) -> Result<(), String> {
    for line in command.lines().flat_map(|line| line.split(';')) {
        let line = line.split('#').next().unwrap_or(line).trim();
        let mut words = line.split_whitespace();
        match words.next() {
            None | Some("true" | "sleep" | "sync") => {}
            Some("sysctl") => settings(line, config)?,
            Some(program) if program.ends_with("defaults.sh") => {}
            Some(program) if program.ends_with("set_sysctls.py") => {
                words.try_for_each(|setting| {
                    assignment(setting.trim_start_matches("/proc/sys/"), config)
                })?;
            }
            Some(program) => return Err(format!("command `{program}`")),
        }
    }
    Ok(())
}

/// `sysctl -q [-w] NAME=VALUE`, the value with or without quotes.
fn settings(line: &str, config: &mut TcpConfig) -> Result<(), String> {
    let arguments = line.trim_start_matches("sysctl").trim();
    let arguments = arguments
        .trim_start_matches("-q")
        .trim()
        .trim_start_matches("-w")
        .trim();
    assignment(arguments, config)
}

fn assignment(text: &str, config: &mut TcpConfig) -> Result<(), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("setting `{text}`"))?;
    let name = name.trim().replace('/', ".");
    let name = name
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .trim_matches(['"', '\'']);
    set(name, value.trim().trim_matches(['"', '\'']), config)
        .ok_or_else(|| format!("setting {name}={value}"))
}

/// Sets one value; `None` if that is not supported.
fn set(name: &str, value: &str, config: &mut TcpConfig) -> Option<()> {
    if WITHOUT_EFFECT.contains(&name) {
        return Some(());
    }
    if ALWAYS_ON.contains(&name) {
        return (value != "0").then_some(());
    }
    let count = || value.parse::<u32>().ok();
    let seconds = || Some(Duration::from_secs(value.parse().ok()?));
    match name {
        "tcp_sack" => config.negotiation.sack = value != "0",
        "tcp_timestamps" => config.negotiation.timestamps = value != "0",
        "tcp_window_scaling" => config.negotiation.window_scaling = value != "0",
        "tcp_congestion_control" => config.congestion = algorithm(value)?,
        "tcp_ecn" => {
            config.ecn = match value {
                "0" => EcnMode::Off,
                "1" => EcnMode::Request,
                "2" => EcnMode::Accept,
                "3" => EcnMode::AccEcn,
                "4" => EcnMode::AccEcnRequestClassic,
                "5" => EcnMode::AccEcnAccept,
                _ => return None,
            }
        }
        "tcp_retries2" => config.retries = count()?,
        "tcp_syn_retries" => config.syn_retries = count()?,
        "tcp_synack_retries" => config.syn_ack_retries = count()?,
        "tcp_fin_timeout" => config.fin_wait = seconds()?,
        "tcp_early_retrans" => config.loss_recovery.tail_loss_probe = value != "0",
        "tcp_frto" => config.loss_recovery.frto = value != "0",
        // Client and server, each with cookies, if the socket asks for it.
        "tcp_fastopen" => (value == "3").then_some(())?,
        "tcp_recovery" => (value != "0").then_some(())?,
        "tcp_reordering" => (value == "3").then_some(())?,
        "tcp_mtu_probing" => {
            config.mtu_probing = match value {
                "0" => MtuProbing::Off,
                "1" => MtuProbing::BlackHole,
                "2" => MtuProbing::Always,
                _ => return None,
            }
        }
        "tcp_syncookies" => {
            config.syn_cookies = match value {
                "0" => SynCookies::Never,
                "1" => SynCookies::WhenFull,
                _ => SynCookies::Always,
            }
        }
        "tcp_rmem" => config.receive_buffer = Bytes::new(third(value)?),
        "tcp_wmem" => config.send_buffer = Bytes::new(third(value)?),
        "tcp_notsent_lowat" => config.notsent_lowat = value.parse().ok().map(Bytes::new),
        "tcp_keepalive_time" => keepalive(config).idle = seconds()?,
        "tcp_keepalive_intvl" => keepalive(config).interval = seconds()?,
        "tcp_keepalive_probes" => keepalive(config).probes = count()?,
        _ => return None,
    }
    Some(())
}

/// The controller that Linux calls `name`.
pub(crate) fn algorithm(name: &str) -> Option<tautline_cc::Factory> {
    let name = if name == "cubic" { "cubic-linux" } else { name };
    Some(name.parse::<Algorithm>().ok()?.factory())
}

/// The keepalive of `config`; Linux's defaults if it had no keepalive.
pub(crate) fn keepalive(config: &mut TcpConfig) -> &mut Keepalive {
    config.keepalive.get_or_insert_default()
}

/// The maximum of `least default most`.
fn third(value: &str) -> Option<u64> {
    value.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_fields() {
        let mut config = linux_config();
        apply(
            "sysctl -q net.ipv4.tcp_ecn=1; sysctl -q -w net.ipv4.tcp_retries2=3",
            &mut config,
        )
        .expect("known");
        apply(
            "sysctl -q net.ipv4.tcp_rmem=\"4096 16384 30000\"",
            &mut config,
        )
        .expect("known");
        apply(
            "../common/set_sysctls.py /proc/sys/net/ipv4/tcp_frto=0",
            &mut config,
        )
        .expect("known");
        assert_eq!((config.ecn, config.retries), (EcnMode::Request, 3));
        assert_eq!(config.receive_buffer, Bytes::new(30000));
        assert!(!config.loss_recovery.frto);
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let mut config = linux_config();
        assert!(apply("sysctl -q net.ipv4.tcp_dsack=0", &mut config).is_err());
        assert!(apply("tc qdisc add dev tun0 root fq", &mut config).is_err());
    }
}
