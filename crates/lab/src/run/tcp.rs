//! [`tcp`]: the TCP of a flow, from its profile, `[tcp]` and its own table.

use tautline_base::Bytes;
use tautline_cc::pacing::PacingRatios;
use tautline_cc::{Algorithm, Config, Factory};
use tautline_stack::{
    AckCompression, EcnMode, LossRecovery, PacerConfig, Pacing, TcpConfig, TsqLimit,
};

use crate::scenario::document::{EcnWord, PacingWord, Profile, Tcp};

/// Overhead that Linux charges a segment in the send buffer (`skb->truesize` less the data).
const LINUX_SEND_OVERHEAD: Bytes = Bytes::new(1280);
/// Half-open connections of a listener: all flows of a row may begin at once.
const BACKLOG: usize = 16_384;

/// The TCP that `own` describes, with the keys of `common` for those it leaves out.
pub(super) fn tcp(own: &Tcp, common: &Tcp) -> TcpConfig {
    macro_rules! setting {
        ($key:ident) => {
            own.$key.or(common.$key)
        };
    }
    let profile = setting!(profile).unwrap_or_default();
    let linux = profile != Profile::Tautline;
    let asked = setting!(congestion).map_or(Algorithm::Cubic, |word| word.0);
    let algorithm = if linux && asked == Algorithm::Cubic {
        Algorithm::CubicLinux
    } else {
        asked
    };
    let ratios = PacingRatios::default();
    let (slow_start, avoidance) = (
        setting!(pacing_ss).unwrap_or(ratios.slow_start),
        setting!(pacing_ca).unwrap_or(ratios.avoidance),
    );
    let pacing = PacingRatios {
        slow_start,
        avoidance,
    };
    let default = base(profile, algorithm);
    TcpConfig {
        congestion: Factory::new(move |config| algorithm.build(&Config { pacing, ..*config })),
        pacing: setting!(pacing).map_or(default.pacing, |word| match word {
            PacingWord::Internal => Pacing::Internal,
            PacingWord::Qdisc => Pacing::Qdisc,
            PacingWord::Off => Pacing::Off,
        }),
        tsq: setting!(tsq).map_or(default.tsq, |word| word.0),
        ecn: setting!(ecn).map_or(default.ecn, |word| match word {
            EcnWord::Off => EcnMode::Off,
            EcnWord::Request => EcnMode::Request,
            EcnWord::Accept => EcnMode::Accept,
            EcnWord::AccEcn => EcnMode::AccEcn,
        }),
        send_buffer: setting!(send_buffer).map_or(default.send_buffer, |size| size.0),
        receive_buffer: setting!(receive_buffer).map_or(default.receive_buffer, |size| size.0),
        receive_start: setting!(receive_start).map_or(default.receive_start, |size| size.0),
        nagle: setting!(nagle).unwrap_or(default.nagle),
        delayed_ack: setting!(delayed_ack).map_or(default.delayed_ack, |time| time.0),
        ..default
    }
}

/// TCP configuration of a profile.
fn base(profile: Profile, algorithm: Algorithm) -> TcpConfig {
    let tsq = match profile {
        Profile::Tautline | Profile::Paper001 => Ok(TsqLimit::default()),
        Profile::Linux510 => "linux-5.10".parse(),
        Profile::Linux61 => "linux-6.12".parse(),
        Profile::Linux616 => "linux-6.16".parse(),
    };
    let own = TcpConfig {
        backlog: BACKLOG,
        tsq: tsq.expect("the stack knows these names"),
        ..TcpConfig::default()
    };
    if profile == Profile::Tautline {
        return own;
    }
    // Linux paces only controllers that need it: its window-based controllers leave spacing to fq,
    // where there is one.
    let before_5_18 = matches!(profile, Profile::Paper001 | Profile::Linux510);
    let windowed = matches!(
        algorithm,
        Algorithm::Reno | Algorithm::Cubic | Algorithm::CubicLinux | Algorithm::Dctcp
    );
    TcpConfig {
        pacing: if windowed {
            Pacing::Off
        } else {
            Pacing::Internal
        },
        pacer: PacerConfig::linux(),
        tso_rtt_log: if before_5_18 { 0 } else { own.tso_rtt_log },
        send_overhead: LINUX_SEND_OVERHEAD,
        loss_recovery: LossRecovery::linux(),
        ack_compression: Some(AckCompression::LINUX),
        ..own
    }
}
