//! Explicit congestion notification of one connection (RFC 3168, RFC 8257, RFC 9768, RFC 9331):
//! [`Ecn`] knows what the ends negotiated, which codepoint and flags a segment carries, and what
//! arriving marks and echoes mean.
//!
//! | module | holds |
//! |---|---|
//! | [`handshake`] | what the flags of SYN and SYN-ACK mean |
//! | [`classic`] | one flag: RFC 3168, and the exact echo of DCTCP |
//! | [`accurate`] | a count: AccECN |

mod accurate;
mod classic;
mod handshake;

use tautline_base::{Bytes, Ecn as Codepoint};
use tautline_cc::Ecn as Need;

use accurate::Accurate;
use classic::Classic;
use handshake::{EcnPolicy, Feedback};

pub(super) use accurate::NewMarks;
pub(super) use classic::{AckState, EarlierAck};

use crate::config::EcnMode;
use crate::wire::{EchoedBytes, EcnFlags, Segment};

/// SYNs that request classic ECN, and AccECN: later ones do not, in case a middlebox on the way
/// throws such SYNs away (Linux `tcp_ecn_fallback`; RFC 9768 §3.1.4.1).
const CLASSIC_REQUESTS: u8 = 1;
const ACCURATE_REQUESTS: u8 = 2;

/// Kind of ECN feedback that the SYNs negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnState {
    /// No ECN, or not yet.
    #[default]
    Off,
    /// Classic ECN (RFC 3168).
    Classic,
    /// Accurate ECN (RFC 9768).
    AccEcn,
}

impl EcnState {
    /// `off`, `classic` or `accecn`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Classic => "classic",
            Self::AccEcn => "accecn",
        }
    }
}

/// Urgency of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckUrgency {
    /// As ever.
    None,
    /// This and the next segment are acknowledged at once.
    Quick,
    /// Now.
    Now,
}

/// The distinctions between our segments that matter to ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentClass {
    Syn,
    SynAck,
    Reset,
    /// Data that was never sent before.
    NewData,
    /// Data again, or only a FIN.
    Retransmission,
    /// A probe of a window or of the peer.
    Probe,
    /// Nothing but an acknowledgment. `bare`: without SACK blocks.
    PureAck {
        bare: bool,
    },
    /// An acknowledgment of data that arrived before the marks changed, with the flag of that
    /// time.
    EarlierAck(EarlierAck),
}

/// ECN's part of a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct EcnFields {
    pub(super) flags: EcnFlags,
    pub(super) codepoint: Codepoint,
}

/// Congestion marks that an acknowledgment reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The network signals congestion.
    pub(super) congestion: bool,
    /// Marked part of the newly delivered data.
    pub(super) bytes: Bytes,
}

/// Totals for `info()`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Packets that arrived with a mark.
    pub(super) received: u64,
    /// Packets of ours that the peer reports as marked.
    pub(super) delivered: u64,
}

/// ECN of one connection.
#[derive(Debug)]
pub(super) struct Ecn {
    policy: EcnPolicy,
    need: Need,
    mode: Mode,
    /// Our data may be marked as capable.
    capable: bool,
    /// SYNs or SYN-ACKs sent.
    opened: u8,
    /// Codepoint of the peer's latest SYN.
    syn: Codepoint,
    pub(super) totals: Totals,
}

#[derive(Debug)]
enum Mode {
    Off,
    Classic(Classic),
    /// Boxed: few connections have it, and it is large.
    Accurate(Box<Accurate>),
}

impl Ecn {
    /// Before the handshake: nothing is negotiated.
    pub(super) fn new(mode: EcnMode, need: Need) -> Self {
        let policy = EcnPolicy::new(mode, need);
        let totals = Totals::default();
        Self {
            policy,
            need,
            mode: Mode::Off,
            capable: false,
            opened: 0,
            syn: Codepoint::NotEct,
            totals,
        }
    }

    /// The handshake negotiated ECN feedback of some kind.
    #[inline]
    pub(super) fn negotiated(&self) -> bool {
        !matches!(self.mode, Mode::Off)
    }

    /// The kind of feedback negotiated.
    pub(super) fn state(&self) -> EcnState {
        match self.mode {
            Mode::Off => EcnState::Off,
            Mode::Classic(_) => EcnState::Classic,
            Mode::Accurate(_) => EcnState::AccEcn,
        }
    }

    /// The part of a header that is ECN's; `cwr`: the window was reduced, and with classic ECN the
    /// next new data says so (RFC 3168 §6.1.2).
    #[inline]
    pub(super) fn fields(&self, class: SegmentClass, cwr: bool) -> EcnFields {
        // Fast path: most connections negotiate no ECN, and only a SYN then carries flags.
        if matches!(self.mode, Mode::Off) && class != SegmentClass::Syn {
            return EcnFields {
                flags: EcnFlags::NONE,
                codepoint: Codepoint::NotEct,
            };
        }
        EcnFields {
            flags: self.flags(class, cwr),
            codepoint: self.codepoint(class),
        }
    }

    /// The AccECN option that is due on a segment of this class.
    #[inline]
    pub(super) fn option(&self, class: SegmentClass) -> Option<EchoedBytes> {
        let Mode::Accurate(accurate) = &self.mode else {
            return None;
        };
        match class {
            // The first SYN-ACK tries whether options pass (RFC 9768 §3.2.3.2.1).
            SegmentClass::SynAck if self.opened == 0 => Some(accurate.all_bytes()),
            // Any acknowledgment, with data or without, if a count has changed (§3.2.3.3).
            SegmentClass::PureAck { .. } | SegmentClass::NewData | SegmentClass::Retransmission => {
                accurate.option()
            }
            _ => None,
        }
    }

    /// A SYN or SYN-ACK left. A passive end in AccECN mode that had to send one without flags
    /// cannot know what its peer makes of it: it never sends capable packets (RFC 9768 §3.1.5).
    fn sent_syn(&mut self) {
        if matches!(self.mode, Mode::Accurate(_)) && self.opened >= ACCURATE_REQUESTS {
            self.capable = false;
        }
        self.opened = self.opened.saturating_add(1);
    }

    /// The peer's first SYN crosses ours (simultaneous open): the result is what both requested,
    /// because neither SYN-ACK may promise more than the SYN did (RFC 9768 §3.1.5).
    pub(super) fn on_crossing_syn(&mut self, flags: EcnFlags, codepoint: Codepoint) {
        self.policy.accepts = self.policy.accepts.min(self.policy.requests);
        self.on_syn(flags, codepoint);
    }

    /// The peer's first SYN.
    pub(super) fn on_syn(&mut self, flags: EcnFlags, codepoint: Codepoint) {
        self.syn = codepoint;
        // RFC 3168 §6.1.1 forbids the codepoint on a SYN: where one arrives with it, the field is
        // not to be relied on (Linux). AccECN shows it: the peer learns of it.
        let mangled = codepoint != Codepoint::NotEct && self.need == Need::Classic;
        match handshake::on_syn(self.policy.accepts, flags) {
            Some(Feedback::Classic) if mangled => {}
            feedback => self.agree(feedback),
        }
    }

    /// The peer's SYN once more. False if it requests another kind of feedback: then neither end
    /// could know which of them the other one means (RFC 9768 §3.1.5).
    pub(super) fn on_syn_again(&mut self, flags: EcnFlags, codepoint: Codepoint) -> bool {
        self.syn = codepoint;
        if self.policy.accepts != Some(Feedback::Accurate) {
            return true;
        }
        match (&self.mode, handshake::on_syn(self.policy.accepts, flags)) {
            (Mode::Accurate(_), None) => {
                self.capable = false;
                true
            }
            (Mode::Accurate(_), Some(Feedback::Classic))
            | (Mode::Classic(_), Some(Feedback::Accurate)) => false,
            _ => true,
        }
    }

    /// The SYN-ACK that answers our SYN.
    pub(super) fn on_syn_ack(
        &mut self,
        flags: EcnFlags,
        option: Option<EchoedBytes>,
        codepoint: Codepoint,
    ) {
        self.agree(handshake::on_syn_ack(self.policy.requests, flags));
        if let Mode::Accurate(accurate) = &mut self.mode {
            accurate.on_syn_ack(codepoint);
            accurate.on_first_option(option);
            // Our SYN left without a codepoint.
            self.capable &=
                handshake::reflected(flags).is_none_or(|arrived| arrived == Codepoint::NotEct);
        }
    }

    /// Another SYN-ACK: our acknowledgment of the first one was lost.
    pub(super) fn on_syn_ack_again(&mut self, codepoint: Codepoint) {
        if let Mode::Accurate(accurate) = &mut self.mode {
            accurate.on_syn_ack(codepoint);
        }
    }

    /// The first acknowledgment at the passive end; `bare`: without data and SACK blocks, so that
    /// it reports the codepoint of the SYN-ACK (RFC 9768 table 4). Our SYN-ACK left without a
    /// codepoint.
    pub(super) fn on_handshake_ack(
        &mut self,
        flags: EcnFlags,
        option: Option<EchoedBytes>,
        bare: bool,
    ) {
        let Mode::Accurate(accurate) = &mut self.mode else {
            return;
        };
        accurate.on_first_option(option);
        if !bare {
            return;
        }
        if flags == EcnFlags::NONE {
            self.capable = false;
            accurate.distrust();
            return;
        }
        let arrived = handshake::reflected(flags).unwrap_or(Codepoint::NotEct);
        self.capable &= arrived == Codepoint::NotEct;
        if arrived == Codepoint::Ce {
            accurate.syn_ack_was_marked();
        }
    }

    fn agree(&mut self, feedback: Option<Feedback>) {
        self.mode = match feedback {
            None => Mode::Off,
            Some(Feedback::Classic) => Mode::Classic(Classic::new(self.need == Need::Dctcp)),
            Some(Feedback::Accurate) => Mode::Accurate(Box::new(Accurate::new())),
        };
        self.capable = match feedback {
            None => false,
            // Without a count of marks a scalable controller must not enter the queue of scalable
            // traffic, and its answer to one flag is too weak for the other queue (RFC 9331 §4.3).
            Some(Feedback::Classic) => self.need != Need::L4s,
            Some(Feedback::Accurate) => true,
        };
    }

    fn codepoint(&self, class: SegmentClass) -> Codepoint {
        let capable = match class {
            SegmentClass::Syn | SegmentClass::SynAck | SegmentClass::Reset => false,
            SegmentClass::NewData => true,
            // RFC 3168 §6.1.4–6.1.5 forbids the rest. Who answers to shares of marks is for
            // networks that mark early and drop what they cannot mark (Linux: controllers that need
            // ECN).
            SegmentClass::Retransmission | SegmentClass::Probe => self.need != Need::Classic,
            SegmentClass::PureAck { .. } | SegmentClass::EarlierAck(_) => self.need == Need::Dctcp,
        };
        match self.need {
            _ if !self.capable || !capable => Codepoint::NotEct,
            Need::L4s => Codepoint::Ect1,
            Need::Classic | Need::Dctcp => Codepoint::Ect0,
        }
    }

    fn flags(&self, class: SegmentClass, cwr: bool) -> EcnFlags {
        match (&self.mode, class) {
            (_, SegmentClass::Reset) => EcnFlags::NONE,
            (_, SegmentClass::Syn) => handshake::request(match self.policy.requests {
                Some(Feedback::Classic) if self.opened >= CLASSIC_REQUESTS => None,
                Some(Feedback::Accurate) if self.opened >= ACCURATE_REQUESTS => None,
                requests => requests,
            }),
            (Mode::Off, _) => EcnFlags::NONE,
            (Mode::Classic(_), SegmentClass::SynAck) => EcnFlags::ECE,
            (Mode::Classic(_), SegmentClass::EarlierAck(EarlierAck { marked, .. })) => {
                EcnFlags::new(false, false, marked)
            }
            (Mode::Classic(classic), _) => classic.flags(cwr && class == SegmentClass::NewData),
            // The third SYN-ACK in AccECN mode carries none (RFC 9768 §3.2.3.2.2).
            (Mode::Accurate(_), SegmentClass::SynAck) if self.opened >= ACCURATE_REQUESTS => {
                EcnFlags::NONE
            }
            (Mode::Accurate(_), SegmentClass::SynAck) => handshake::reflect(self.syn),
            (Mode::Accurate(accurate), _) => {
                accurate.flags(class == SegmentClass::PureAck { bare: true })
            }
        }
    }

    /// A segment with these fields left, and with the option that was due if `with_option`.
    #[inline]
    pub(super) fn sent(&mut self, class: SegmentClass, with_option: bool) {
        match (&mut self.mode, class) {
            (_, SegmentClass::Reset) => {}
            (_, SegmentClass::Syn | SegmentClass::SynAck) => self.sent_syn(),
            (Mode::Classic(classic), SegmentClass::EarlierAck(_)) => classic.sent_earlier_ack(),
            (Mode::Off | Mode::Classic(_), _) => {}
            (Mode::Accurate(accurate), SegmentClass::PureAck { .. }) => accurate.sent_pure_ack(),
            (Mode::Accurate(accurate), _) => accurate.sent(with_option),
        }
    }

    /// An acknowledgment of what came before the marks changed waits to be sent.
    pub(super) fn earlier(&self) -> Option<EarlierAck> {
        match &self.mode {
            Mode::Classic(classic) => classic.earlier(),
            Mode::Off | Mode::Accurate(_) => None,
        }
    }

    /// A bare acknowledgment has to go before anything else: only that reports the SYN-ACK's
    /// codepoint.
    pub(super) fn owes_reflection(&self) -> bool {
        matches!(&self.mode, Mode::Accurate(accurate) if accurate.owes_reflection())
    }

    /// An acceptable segment other than a SYN arrived: its mark must be fed back to the peer,
    /// perhaps at once.
    pub(super) fn on_segment(&mut self, segment: &Segment<'_>, state: AckState) -> AckUrgency {
        let codepoint = segment.codepoint;
        let (packets, data) = (segment.count(), segment.payload.len() as u64);
        let urgency = match &mut self.mode {
            Mode::Off => return AckUrgency::None,
            Mode::Classic(classic) if data > 0 => {
                classic.on_data(codepoint, segment.ecn_flags, state)
            }
            // RFC 3168 §6.1.4: acknowledgments are not capable, so a mark on one does not count.
            Mode::Classic(_) => return AckUrgency::None,
            Mode::Accurate(accurate) => accurate.on_packets(codepoint, (packets, data), state.owes),
        };
        if codepoint == Codepoint::Ce {
            self.totals.received += packets;
        }
        urgency
    }

    /// Evaluates the ECN feedback in an acknowledgment of our data.
    pub(super) fn on_acknowledgment(&mut self, segment: &Segment<'_>, newly: NewMarks) -> Marks {
        let flags = segment.ecn_flags;
        match &mut self.mode {
            Mode::Classic(_) if flags.ece() => {
                self.totals.delivered += newly.packets;
                Marks {
                    congestion: true,
                    bytes: newly.bytes,
                }
            }
            Mode::Off | Mode::Classic(_) => Marks::default(),
            Mode::Accurate(accurate) => {
                let marked = accurate.on_acknowledgment(flags, segment.echoed_bytes, newly);
                self.totals.delivered += marked.packets;
                self.capable &= accurate.trusted();
                Marks {
                    congestion: marked.packets > 0,
                    bytes: marked.bytes,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cwr_is_said_only_on_new_data_and_only_with_classic_feedback() {
        let mut ecn = Ecn::new(EcnMode::Request, Need::Classic);
        assert_eq!(ecn.flags(SegmentClass::NewData, true), EcnFlags::NONE);
        ecn.on_syn_ack(EcnFlags::ECE, None, Codepoint::NotEct);
        assert_eq!(ecn.flags(SegmentClass::NewData, true), EcnFlags::CWR);
        assert_eq!(ecn.flags(SegmentClass::NewData, false), EcnFlags::NONE);
        for carries in [
            SegmentClass::Retransmission,
            SegmentClass::PureAck { bare: true },
        ] {
            assert_eq!(ecn.flags(carries, true), EcnFlags::NONE);
        }
    }
}
