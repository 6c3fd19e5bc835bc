//! [`transmit_frames`]: the frames of a UMEM for sending, enough for every packet of the qdisc.

use tautline_base::ConfigError;
use tautline_tc::{Report, Value};

/// Most frames for sending: 32 MiB of UMEM.
const MOST_FRAMES: u64 = 16_384;

/// Frames for sending that hold a qdisc of `limit` packets, at least `least`.
///
/// # Errors
/// If the qdisc could hold more packets than there are frames.
pub(crate) fn transmit_frames(limit: u64, least: u32) -> Result<u32, ConfigError> {
    ConfigError::check(
        limit <= MOST_FRAMES,
        "limit",
        limit,
        "at most 16384 packets, the UMEM's share for sending (give the qdisc a smaller `limit`)",
    )?;
    Ok(least.max(limit as u32))
}

/// The largest limit in packets of the qdiscs in a tree; 0 if none has one.
pub(crate) fn packet_limit(report: &Report) -> u64 {
    let own = report.options.iter().map(|option| match option {
        ("limit", Value::Packets(packets)) => *packets,
        _ => 0,
    });
    let below = report.classes.iter().chain(&report.children);
    own.chain(below.map(packet_limit)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_base::Packet;

    fn frames(qdisc: &str) -> Result<u32, String> {
        let qdisc = tautline_tc::build::<Packet<()>>(qdisc).expect("valid");
        transmit_frames(packet_limit(&qdisc.report()), 4096).map_err(|error| error.to_string())
    }

    #[test]
    fn a_qdisc_never_holds_more_packets_than_the_umem() {
        assert_eq!(frames("pfifo limit 100"), Ok(4096));
        assert_eq!(
            frames("tbf rate 1mbit burst 3kb limit 1mb; fq_codel"),
            Ok(10_240)
        );
        assert_eq!(frames("pfifo limit 16384"), Ok(16_384));
        let refused = frames("tbf rate 1mbit burst 3kb limit 1mb; pfifo limit 16385");
        assert!(
            refused
                .as_ref()
                .is_err_and(|error| error.starts_with("`limit` must be at most 16384")
                    && error.ends_with("not 16385")),
            "{refused:?}"
        );
    }
}
