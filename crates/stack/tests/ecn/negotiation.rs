//! RFC 3168 §6.1.1: request, agreement, and the fallback after an unanswered SYN.

use std::time::Duration;

use tautline_stack::{EcnMode, EcnState};

use crate::peer::*;
use crate::{config, data, opened_by_peer, opening, options, syn_ack};

#[test]
fn a_listener_agrees_by_default_and_does_not_when_told_so() {
    for (mode, flags, agreed) in [
        (EcnMode::Accept, ECE, EcnState::Classic),
        (EcnMode::Request, ECE, EcnState::Classic),
        (EcnMode::AccEcn, ECE, EcnState::Classic),
        (EcnMode::Off, 0, EcnState::Off),
    ] {
        let (mut peer, answer) = opened_by_peer(config(mode), ECE | CWR, 0, 0);
        assert_eq!(
            (answer.flags, answer.ecn),
            (SYN | ACK | flags, 0),
            "{mode:?}: a SYN-ACK is never ECN-capable"
        );
        assert_eq!(peer.info().ecn, agreed, "{mode:?}");
        let sent = peer.host_writes(1000);
        assert_eq!(
            data(&sent)[0].ecn,
            if agreed == EcnState::Off { 0 } else { ECT0 },
            "{mode:?}"
        );
    }
}

#[test]
fn half_a_request_is_none() {
    for flags in [0, ECE, CWR, AE] {
        let (peer, answer) = opened_by_peer(config(EcnMode::Accept), flags, 0, 0);
        assert_eq!(
            (answer.flags, peer.info().ecn),
            (SYN | ACK, EcnState::Off),
            "{flags:#x}"
        );
    }
}

/// Linux: a SYN must not carry a codepoint (RFC 3168 §6.1.1), so one that does has been mangled on
/// the way.
#[test]
fn a_syn_that_arrives_with_a_codepoint_is_not_agreed_with() {
    for ecn in [ECT0, ECT1, CE] {
        let (peer, answer) = opened_by_peer(config(EcnMode::Accept), ECE | CWR, ecn, 0);
        assert_eq!(
            (answer.flags, peer.info().ecn),
            (SYN | ACK, EcnState::Off),
            "{ecn:02b}"
        );
    }
}

#[test]
fn an_active_end_asks_only_when_told_to() {
    for (mode, flags) in [
        (EcnMode::Accept, 0),
        (EcnMode::Off, 0),
        (EcnMode::AccEcnAccept, 0),
        (EcnMode::Request, ECE | CWR),
        (EcnMode::AccEcnRequestClassic, ECE | CWR),
        (EcnMode::AccEcn, ECE | CWR | AE),
    ] {
        let (_, syn) = opening(config(mode));
        assert_eq!((syn.flags, syn.ecn), (SYN | flags, 0), "{mode:?}");
    }
}

#[test]
fn only_the_echo_flag_alone_agrees() {
    for (flags, agreed) in [
        (ECE, EcnState::Classic),
        (0, EcnState::Off),
        (ECE | CWR, EcnState::Off),
        (CWR, EcnState::Off),
    ] {
        let (mut peer, _) = opening(config(EcnMode::Request));
        syn_ack(&mut peer, flags, 0);
        assert_eq!(peer.info().ecn, agreed, "{flags:#x}");
        let sent = peer.host_writes(1000);
        assert_eq!(
            data(&sent)[0].ecn,
            if agreed == EcnState::Off { 0 } else { ECT0 },
            "{flags:#x}"
        );
    }
    // Nobody asked.
    let (mut peer, _) = opening(config(EcnMode::Accept));
    syn_ack(&mut peer, ECE, 0);
    assert_eq!(peer.info().ecn, EcnState::Off);
}

/// RFC 3168 §6.1.1.1 and Linux's `tcp_ecn_fallback`.
#[test]
fn a_syn_sent_again_does_not_ask_but_an_answer_to_the_first_one_counts() {
    for flags in [ECE, 0] {
        let (mut peer, syn) = opening(config(EcnMode::Request));
        assert_eq!(syn.flags, SYN | ECE | CWR);
        let again = peer.run_for(Duration::from_millis(1100));
        assert_eq!(
            again
                .iter()
                .map(|segment| segment.flags)
                .collect::<Vec<_>>(),
            [SYN],
            "one second later, without"
        );
        syn_ack(&mut peer, flags, 0);
        assert_eq!(
            peer.info().ecn,
            if flags == ECE {
                EcnState::Classic
            } else {
                EcnState::Off
            }
        );
    }
}

/// Simultaneous open: each end answers the other one's SYN, and neither promises more than its own
/// SYN asked for.
#[test]
fn crossing_syns_agree_on_what_both_asked_for() {
    for (mode, asked, answer, agreed) in [
        (EcnMode::Accept, ECE | CWR, 0, EcnState::Off),
        (EcnMode::Request, ECE | CWR, ECE, EcnState::Classic),
        (EcnMode::Request, 0, 0, EcnState::Off),
        (
            EcnMode::AccEcnRequestClassic,
            AE | ECE | CWR,
            ECE,
            EcnState::Classic,
        ),
        (EcnMode::AccEcn, ECE | CWR, ECE, EcnState::Classic),
        (EcnMode::AccEcn, AE | ECE | CWR, CWR, EcnState::AccEcn),
    ] {
        let (mut peer, _) = opening(config(mode));
        let answers = peer.send(&Segment {
            flags: SYN | asked,
            seq: ISN,
            ack: 0,
            options: options(),
            ..peer.ack()
        });
        assert_eq!(
            answers
                .iter()
                .map(|segment| segment.flags)
                .collect::<Vec<_>>(),
            [SYN | ACK | answer],
            "{mode:?}"
        );
        assert_eq!(peer.info().ecn, agreed, "{mode:?}");
    }
}
