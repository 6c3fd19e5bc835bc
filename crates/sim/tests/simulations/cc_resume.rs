//! Careful Resume at work (RFC 9959): a connection that resumes a saved path ends sooner, and one that
//! resumes a path that is no longer there retreats. Each beside the same run without it.

use std::time::Duration;

use crate::common::{MSS, ms, path, run_watched, sender_info};
use tautline_base::Bytes;
use tautline_cc::{Algorithm, Config, Factory, SavedPath};
use tautline_sim::{Outcome, Transfer};
use tautline_stack::TcpConfig;

const RTT: Duration = ms(200);
/// The bandwidth-delay product of 50 Mbit/s.
const SAVED: u64 = 1_250_000;

/// Sends 2 MB over `mbit`, as a connection that resumes the saved path or not. Also returns the
/// states of the controller in order, each with the retransmissions before it.
fn transfer(mbit: u64, resumes: bool) -> (Outcome, Vec<(&'static str, u64)>) {
    let resume = SavedPath::new(Bytes::new(SAVED), RTT, Bytes::new(10 * MSS)).filter(|_| resumes);
    assert_eq!(resume.is_some(), resumes);
    let congestion =
        Factory::new(move |config| Algorithm::Cubic.build(&Config { resume, ..*config }));
    // The peer's window is open from the beginning: it would limit the jump.
    let receiver = TcpConfig {
        receive_start: Bytes::mib(6),
        ..TcpConfig::default()
    };
    let transfer = Transfer {
        bytes: 2_000_000,
        links: path(mbit, RTT),
        sender: TcpConfig {
            congestion,
            ..TcpConfig::default()
        },
        receiver,
        ..Transfer::default()
    };
    let mut states = Vec::new();
    let outcome = run_watched(&transfer, |network| {
        if let Some(info) = sender_info(network)
            && states.last().map(|(state, _)| *state) != Some(info.model.state)
        {
            states.push((info.model.state, info.retransmits));
        }
    });
    (outcome, states)
}

#[test]
fn a_resumed_path_is_filled_in_the_second_round_trip() {
    let (plain, _) = transfer(50, false);
    let (resumed, states) = transfer(50, true);
    let states: Vec<_> = states.into_iter().map(|(state, _)| state).collect();
    assert_eq!(
        &states[..3],
        ["reconnaissance", "unvalidated", "validating"],
        "{states:?}"
    );
    assert!(!states.contains(&"safe retreat"), "{states:?}");
    assert_eq!(resumed.sender.retransmits, 0);
    assert!(
        resumed.duration + 3 * RTT < plain.duration,
        "{:?}, without {:?}",
        resumed.duration,
        plain.duration
    );
}

/// A tenth of the saved path is left: 125 kB, and as much buffer. The jump overflows the buffer, and so
/// does what it clocks out before the first loss is noticed. By the end of the retreat no
/// retransmission is lost, so they are fewer than the jump had segments.
#[test]
fn a_path_that_is_gone_is_left_at_once() {
    let (plain, _) = transfer(5, false);
    let (resumed, states) = transfer(5, true);
    let retreat = states
        .iter()
        .position(|(state, _)| *state == "safe retreat");
    let retreat = retreat.unwrap_or_else(|| panic!("{states:?}"));
    let (_, repaired) = states[retreat + 1];
    assert!(repaired * MSS < SAVED / 2, "{states:?}");
    assert!(
        resumed.duration < plain.duration + Duration::from_secs(1),
        "{:?}, without {:?}",
        resumed.duration,
        plain.duration
    );
}
