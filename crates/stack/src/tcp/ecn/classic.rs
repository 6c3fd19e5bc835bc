//! Classic feedback: one flag (RFC 3168 §6.1.2–6.1.3), and the receiver's half of DCTCP, which
//! makes the same flag follow every mark (RFC 8257 §3.2).

use std::collections::VecDeque;

use tautline_base::Ecn;

use super::AckUrgency;
use crate::wire::EcnFlags;

/// Acknowledgments of the past that may wait to be sent; marks that come and go more often than
/// that between two polls blur.
const MOST_EARLIER: usize = 64;

/// A connection with classic feedback.
#[derive(Debug)]
pub(super) struct Classic {
    echo: Echo,
    /// Data came with a codepoint: the peer is capable, so what comes without is a retransmission.
    capable: bool,
}

/// The flag to echo.
#[derive(Debug)]
enum Echo {
    /// ECE from the first mark until the sender sets CWR.
    UntilCwr { marked: bool },
    /// ECE reports the mark of the acknowledged data.
    Exact {
        marked: bool,
        earlier: Box<EarlierAcks>,
    },
}

/// Acknowledgments of the past that wait to be sent, oldest first.
#[derive(Debug, Default)]
struct EarlierAcks(VecDeque<EarlierAck>);

/// An acknowledgment of what came before the marks changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlierAck {
    /// Offset it acknowledges.
    pub(crate) next: u64,
    /// The data up to there was marked.
    pub(crate) marked: bool,
}

/// State of the receiver when data arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckState {
    /// The next offset expected, before the data.
    pub(crate) next: u64,
    /// An acknowledgment waits to be sent.
    pub(crate) owes: bool,
}

impl Classic {
    /// `exact` for DCTCP.
    pub(super) fn new(exact: bool) -> Self {
        let echo = match exact {
            false => Echo::UntilCwr { marked: false },
            true => Echo::Exact {
                marked: false,
                earlier: Box::default(),
            },
        };
        Self {
            echo,
            capable: false,
        }
    }

    /// Data arrived.
    pub(super) fn on_data(
        &mut self,
        codepoint: Ecn,
        flags: EcnFlags,
        standing: AckState,
    ) -> AckUrgency {
        let retransmission = self.capable && codepoint == Ecn::NotEct;
        self.capable |= codepoint != Ecn::NotEct;
        match &mut self.echo {
            Echo::UntilCwr { marked } => {
                // The reduction is older than a mark on the packet that announces it.
                let urgency = match (flags.cwr(), codepoint == Ecn::Ce) {
                    // After a reduction the window may be so small that a held back acknowledgment
                    // stalls it.
                    (true, _) => AckUrgency::Now,
                    (false, true) if !*marked => AckUrgency::Quick,
                    _ if retransmission => AckUrgency::Quick,
                    _ => AckUrgency::None,
                };
                *marked = codepoint == Ecn::Ce || (*marked && !flags.cwr());
                urgency
            }
            Echo::Exact { marked, .. } if *marked == (codepoint == Ecn::Ce) => AckUrgency::None,
            Echo::Exact { marked, earlier } => {
                if standing.owes && earlier.0.len() < MOST_EARLIER {
                    earlier.0.push_back(EarlierAck {
                        next: standing.next,
                        marked: *marked,
                    });
                }
                *marked = !*marked;
                AckUrgency::Now
            }
        }
    }

    /// The oldest acknowledgment of the past that waits.
    pub(super) fn earlier(&self) -> Option<EarlierAck> {
        match &self.echo {
            Echo::UntilCwr { .. } => None,
            Echo::Exact { earlier, .. } => earlier.0.front().copied(),
        }
    }

    /// It was sent.
    pub(super) fn sent_earlier_ack(&mut self) {
        if let Echo::Exact { earlier, .. } = &mut self.echo {
            earlier.0.pop_front();
        }
    }

    /// The flags of a segment that announces a reduction of the window if `cwr`.
    pub(super) fn flags(&self, cwr: bool) -> EcnFlags {
        let marked = match &self.echo {
            Echo::UntilCwr { marked } | Echo::Exact { marked, .. } => *marked,
        };
        EcnFlags::new(false, cwr, marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: AckState = AckState {
        next: 1,
        owes: false,
    };

    #[test]
    fn the_echo_lasts_from_the_first_mark_until_the_reduction_is_announced() {
        let mut classic = Classic::new(false);
        assert_eq!(
            classic.on_data(Ecn::Ect0, EcnFlags::NONE, AHEAD),
            AckUrgency::None
        );
        assert_eq!(classic.flags(false), EcnFlags::NONE);
        assert_eq!(
            classic.on_data(Ecn::Ce, EcnFlags::NONE, AHEAD),
            AckUrgency::Quick,
            "the first mark is urgent"
        );
        assert_eq!(
            classic.on_data(Ecn::Ce, EcnFlags::NONE, AHEAD),
            AckUrgency::None,
            "the second is no news"
        );
        for _ in 0..5 {
            classic.on_data(Ecn::Ect0, EcnFlags::NONE, AHEAD);
            assert_eq!(classic.flags(false), EcnFlags::ECE);
        }
        assert_eq!(
            classic.on_data(Ecn::Ect0, EcnFlags::CWR, AHEAD),
            AckUrgency::Now
        );
        assert_eq!(classic.flags(false), EcnFlags::NONE);
    }

    #[test]
    fn a_mark_on_the_very_packet_that_announces_a_reduction_counts() {
        let mut classic = Classic::new(false);
        classic.on_data(Ecn::Ce, EcnFlags::NONE, AHEAD);
        classic.on_data(Ecn::Ce, EcnFlags::CWR, AHEAD);
        assert_eq!(classic.flags(false), EcnFlags::ECE);
    }

    #[test]
    fn data_without_a_codepoint_is_a_hint_at_a_retransmission_once_there_was_one() {
        let mut classic = Classic::new(false);
        assert_eq!(
            classic.on_data(Ecn::NotEct, EcnFlags::NONE, AHEAD),
            AckUrgency::None
        );
        classic.on_data(Ecn::Ect0, EcnFlags::NONE, AHEAD);
        assert_eq!(
            classic.on_data(Ecn::NotEct, EcnFlags::NONE, AHEAD),
            AckUrgency::Quick
        );
    }

    /// RFC 8257 figure 1: a change of marks sends what was held back with the flag of the old
    /// state.
    #[test]
    fn the_exact_echo_acknowledges_what_came_before_with_the_old_flag() {
        let mut exact = Classic::new(true);
        let at = |next, owes| AckState { next, owes };
        assert_eq!(
            exact.on_data(Ecn::Ect0, EcnFlags::NONE, at(1, false)),
            AckUrgency::None
        );
        assert_eq!(
            exact.on_data(Ecn::Ce, EcnFlags::NONE, at(1001, true)),
            AckUrgency::Now
        );
        assert_eq!(
            exact.earlier(),
            Some(EarlierAck {
                next: 1001,
                marked: false
            })
        );
        assert_eq!(exact.flags(false), EcnFlags::ECE);
        assert_eq!(
            exact.on_data(Ecn::Ce, EcnFlags::CWR, at(2001, true)),
            AckUrgency::None,
            "CWR changes nothing"
        );
        assert_eq!(exact.flags(false), EcnFlags::ECE);
        exact.sent_earlier_ack();
        assert_eq!(
            exact.on_data(Ecn::Ect0, EcnFlags::NONE, at(3001, false)),
            AckUrgency::Now
        );
        assert_eq!(
            (exact.earlier(), exact.flags(false)),
            (None, EcnFlags::NONE),
            "nothing was held back"
        );
    }

    #[test]
    fn flapping_marks_do_not_grow_the_memory() {
        let mut exact = Classic::new(true);
        for next in 0..1000 {
            let codepoint = if next % 2 == 0 { Ecn::Ce } else { Ecn::Ect0 };
            exact.on_data(codepoint, EcnFlags::NONE, AckState { next, owes: true });
        }
        assert_eq!(
            std::iter::from_fn(|| exact.earlier().inspect(|_| exact.sent_earlier_ack())).count(),
            MOST_EARLIER
        );
    }
}
