//! ECN negotiation: the flags of SYN and SYN-ACK (RFC 3168 §6.1.1, RFC 9768 §3.1 with its tables 2
//! to 4).

use tautline_base::Ecn;
use tautline_cc::Ecn as Need;

use crate::config::EcnMode;
use crate::wire::EcnFlags;

/// How a receiver feeds marks back to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feedback {
    /// One flag, at most one signal per round trip (RFC 3168).
    Classic,
    /// A count of marked packets (RFC 9768).
    Accurate,
}

/// Kinds of feedback that this end accepts and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EcnPolicy {
    /// The best feedback this end agrees to when the peer asks.
    pub(super) accepts: Option<Feedback>,
    /// The requested feedback.
    pub(super) requests: Option<Feedback>,
}

impl EcnPolicy {
    /// The configuration's, raised to what the controller cannot do without, unless the
    /// configuration forbids all ECN.
    pub(super) fn new(mode: EcnMode, need: Need) -> Self {
        let (accepts, requests) = match mode {
            EcnMode::Off => {
                return Self {
                    accepts: None,
                    requests: None,
                };
            }
            EcnMode::Request => (Feedback::Classic, Some(Feedback::Classic)),
            EcnMode::Accept => (Feedback::Classic, None),
            EcnMode::AccEcn => (Feedback::Accurate, Some(Feedback::Accurate)),
            EcnMode::AccEcnRequestClassic => (Feedback::Accurate, Some(Feedback::Classic)),
            EcnMode::AccEcnAccept => (Feedback::Accurate, None),
        };
        let needed = match need {
            Need::Classic => None,
            Need::Dctcp => Some(Feedback::Classic),
            Need::L4s => Some(Feedback::Accurate),
        };
        Self {
            accepts: Some(accepts).max(needed),
            requests: requests.max(needed),
        }
    }
}

/// The flags of a SYN that requests `feedback`.
pub(super) fn request(feedback: Option<Feedback>) -> EcnFlags {
    match feedback {
        None => EcnFlags::NONE,
        Some(Feedback::Classic) => EcnFlags::CLASSIC_SETUP,
        Some(Feedback::Accurate) => EcnFlags::ACCURATE_SETUP,
    }
}

/// The feedback that a passive end agrees to when a SYN arrives with `flags`; `accepts`: the best
/// one it supports.
pub(super) fn on_syn(accepts: Option<Feedback>, flags: EcnFlags) -> Option<Feedback> {
    match accepts? {
        // An RFC 3168 implementation ignores the third flag, which is reserved there.
        Feedback::Classic => (flags.cwr() && flags.ece()).then_some(Feedback::Classic),
        Feedback::Accurate => match flags {
            EcnFlags::NONE => None,
            EcnFlags::CLASSIC_SETUP => Some(Feedback::Classic),
            // Undefined combinations count as a request (RFC 9768 §3.1.3).
            _ => Some(Feedback::Accurate),
        },
    }
}

/// The feedback that the active end uses after requesting `requested` and receiving a SYN-ACK with
/// `flags`.
pub(super) fn on_syn_ack(requested: Option<Feedback>, flags: EcnFlags) -> Option<Feedback> {
    match requested? {
        // Both flags set is the answer of an end that echoes what it does not know.
        Feedback::Classic => (flags.ece() && !flags.cwr()).then_some(Feedback::Classic),
        Feedback::Accurate => match flags {
            EcnFlags::NONE | EcnFlags::ACCURATE_SETUP => None,
            EcnFlags::ECE => Some(Feedback::Classic),
            _ => Some(Feedback::Accurate),
        },
    }
}

/// How an end in AccECN mode reports the codepoint on which the peer's SYN or SYN-ACK arrived (RFC
/// 9768 tables 2 and 3).
pub(super) fn reflect(codepoint: Ecn) -> EcnFlags {
    EcnFlags::from_bits(match codepoint {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    })
}

/// The codepoint that `flags` reflect. `None` for values without a meaning yet: taken for "arrived
/// as it was sent".
pub(super) fn reflected(flags: EcnFlags) -> Option<Ecn> {
    match flags.bits() {
        0b010 => Some(Ecn::NotEct),
        0b011 => Some(Ecn::Ect1),
        0b100 => Some(Ecn::Ect0),
        0b110 => Some(Ecn::Ce),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(ae: u8, cwr: u8, ece: u8) -> EcnFlags {
        EcnFlags::new(ae == 1, cwr == 1, ece == 1)
    }

    const CLASSIC: Option<Feedback> = Some(Feedback::Classic);
    const ACCURATE: Option<Feedback> = Some(Feedback::Accurate);

    /// RFC 9768 table 2, row by row: what A asks for and B can do, the flags there and back, what A
    /// ends up with.
    #[test]
    fn the_negotiation_table() {
        let rows = [
            (ACCURATE, ACCURATE, (1, 1, 1), (0, 1, 0), ACCURATE),
            (ACCURATE, ACCURATE, (1, 1, 1), (0, 1, 1), ACCURATE),
            (ACCURATE, ACCURATE, (1, 1, 1), (1, 0, 0), ACCURATE),
            (ACCURATE, ACCURATE, (1, 1, 1), (1, 1, 0), ACCURATE),
            (ACCURATE, CLASSIC, (1, 1, 1), (0, 0, 1), CLASSIC),
            (ACCURATE, None, (1, 1, 1), (0, 0, 0), None),
            (CLASSIC, ACCURATE, (0, 1, 1), (0, 0, 1), CLASSIC),
            (CLASSIC, CLASSIC, (0, 1, 1), (0, 0, 1), CLASSIC),
            (None, ACCURATE, (0, 0, 0), (0, 0, 0), None),
        ];
        let codepoints = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (row, (a, b, syn, syn_ack, negotiated)) in rows.into_iter().enumerate() {
            let (syn, syn_ack) = (
                flags(syn.0, syn.1, syn.2),
                flags(syn_ack.0, syn_ack.1, syn_ack.2),
            );
            assert_eq!(request(a), syn, "row {row}");
            assert_eq!(on_syn(b, syn), negotiated, "row {row}");
            if negotiated == ACCURATE {
                assert_eq!(reflect(codepoints[row]), syn_ack, "row {row}");
                assert_eq!(reflected(syn_ack), Some(codepoints[row]), "row {row}");
            }
            assert_eq!(on_syn_ack(a, syn_ack), negotiated, "row {row}");
        }
        // Reserved, and taken for an agreement (§3.1.3); broken, and taken for none.
        assert_eq!(
            (
                on_syn_ack(ACCURATE, flags(1, 0, 1)),
                reflected(flags(1, 0, 1))
            ),
            (ACCURATE, None)
        );
        assert_eq!(on_syn_ack(ACCURATE, flags(1, 1, 1)), None);
        assert_eq!(on_syn_ack(CLASSIC, flags(0, 1, 1)), None);
    }

    #[test]
    fn a_syn_of_the_future_is_answered_as_a_request_for_accurate_feedback() {
        for bits in [0b001, 0b010, 0b100, 0b101, 0b110] {
            assert_eq!(
                on_syn(ACCURATE, EcnFlags::from_bits(bits)),
                ACCURATE,
                "{bits:03b}"
            );
            assert_eq!(
                on_syn(CLASSIC, EcnFlags::from_bits(bits)),
                None,
                "{bits:03b}"
            );
            assert_eq!(on_syn(None, EcnFlags::from_bits(bits)), None, "{bits:03b}");
        }
        assert_eq!(on_syn(CLASSIC, EcnFlags::ACCURATE_SETUP), CLASSIC);
    }

    /// The columns of Linux's `net.ipv4.tcp_ecn`, and what a controller adds to them.
    #[test]
    fn the_modes() {
        let rows = [
            (EcnMode::Off, None, None),
            (EcnMode::Request, CLASSIC, CLASSIC),
            (EcnMode::Accept, CLASSIC, None),
            (EcnMode::AccEcn, ACCURATE, ACCURATE),
            (EcnMode::AccEcnRequestClassic, ACCURATE, CLASSIC),
            (EcnMode::AccEcnAccept, ACCURATE, None),
        ];
        for (mode, accepts, requests) in rows {
            assert_eq!(
                EcnPolicy::new(mode, Need::Classic),
                EcnPolicy { accepts, requests },
                "{mode:?}"
            );
        }
        assert_eq!(
            EcnPolicy::new(EcnMode::Accept, Need::Dctcp),
            EcnPolicy {
                accepts: CLASSIC,
                requests: CLASSIC
            }
        );
        assert_eq!(
            EcnPolicy::new(EcnMode::AccEcn, Need::Dctcp),
            EcnPolicy {
                accepts: ACCURATE,
                requests: ACCURATE
            }
        );
        assert_eq!(
            EcnPolicy::new(EcnMode::Accept, Need::L4s),
            EcnPolicy {
                accepts: ACCURATE,
                requests: ACCURATE
            }
        );
        assert_eq!(
            EcnPolicy::new(EcnMode::Off, Need::L4s),
            EcnPolicy {
                accepts: None,
                requests: None
            }
        );
    }
}
