//! Losses and their repair, written as traces: one end is the host under test, the other one the
//! test plays segment by segment.
//!
//! | module | follows |
//! |---|---|
//! | [`tail`] | RFC 8985 §7: probes of the tail |
//! | [`reordering_timer`] | RFC 8985 §6.2: the end of the reordering window |
//! | [`timeout`] | RFC 6298, RFC 5682: timeouts, spurious ones |
//! | [`duplicates`] | RFC 2883, RFC 3522, RFC 3708: needless retransmissions, and what undoes them |
//! | [`successive`] | RFC 6675 §5, Linux: what a recovery leaves behind |
//! | [`without_sack`] | RFC 5681, RFC 3042, RFC 6582: peers that do not say what arrived |

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

#[path = "../hostile/peer.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of hostile peers, which use another part of it"
)]
mod peer;

mod duplicates;
mod reordering_timer;
mod successive;
mod tail;
mod timeout;
mod without_sack;

use std::time::Duration;

use tautline_base::Instant;
use tautline_stack::{LossRecovery, Pacing, TcpConfig};

use peer::*;

/// Payload of a full segment.
const MSS: u32 = 1000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A host that neither paces nor waits with small segments.
fn config(loss_recovery: LossRecovery) -> TcpConfig {
    TcpConfig {
        loss_recovery,
        pacing: Pacing::Off,
        nagle: false,
        ..TcpConfig::default()
    }
}

/// A connection with SACK to a host with `loss_recovery`; its handshake took 10 ms.
fn connected(loss_recovery: LossRecovery) -> Peer {
    Peer::connected(
        config(loss_recovery),
        [mss(MSS as u16), sack_permitted()].concat(),
    )
}

/// Offsets of the host's stream that carry payload in `segments`, in segments.
fn numbers(peer: &Peer, segments: &[Segment]) -> Vec<u32> {
    let carries = segments
        .iter()
        .filter(|segment| !segment.payload.is_empty());
    carries
        .map(|segment| segment.seq.wrapping_sub(peer.host_at(0)) / MSS)
        .collect()
}

/// An acknowledgment of the first `count` segments that reports others, given as ranges of their
/// numbers.
fn sacks(peer: &Peer, count: u32, blocks: &[(u32, u32)]) -> Segment {
    let blocks: Vec<_> = blocks
        .iter()
        .map(|(from, to)| (peer.host_at(from * MSS), peer.host_at(to * MSS)))
        .collect();
    let options = if blocks.is_empty() {
        Vec::new()
    } else {
        sack(&blocks)
    };
    Segment {
        options,
        ..peer.acknowledges(count * MSS)
    }
}

/// Lets time pass until the host sends payload, at most `limit`: what, and when.
fn next_payload(peer: &mut Peer, limit: Duration) -> Option<(Vec<u32>, Instant)> {
    let end = peer.pair.now + limit;
    while peer.pair.now < end {
        let sent = peer.run_for(Duration::from_micros(100));
        let numbers = numbers(peer, &sent);
        if !numbers.is_empty() {
            return Some((numbers, peer.pair.now));
        }
    }
    None
}
