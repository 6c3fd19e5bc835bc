//! The state machine of RFC 9293 §3.3.2 as a peer sees it, and the limits that keep an idle, dead
//! or greedy peer from holding what it should not.
//!
//! | module | holds |
//! |---|---|
//! | [`opening`] | handshakes, crossing ones too |
//! | [`closing`] | half-close, both ends at once, linger, orphans, TIME-WAIT |
//! | [`liveness`] | keepalive and user timeout |
//! | [`next_hop`] | a next hop that is gone |
//! | [`validation`] | what a segment must pass, in order (RFC 9293 §3.10.7.4, RFC 5961, RFC 7323) |

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;
#[path = "../hostile/peer.rs"]
#[expect(
    dead_code,
    reason = "shared with other tests, which use another part of it"
)]
mod peer;

mod closing;
mod liveness;
mod next_hop;
mod opening;
mod validation;
