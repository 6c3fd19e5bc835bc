//! A peer, or an attacker who pretends to be one, misbehaves: each test shows one way and the
//! required reaction.

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

mod blind;
mod exhaustion;
mod floods;
mod icmp;
mod initial_sequence;
mod neighbors;
mod parsing;
#[expect(
    dead_code,
    reason = "shared with the tests of ECN, which use another part of it"
)]
mod peer;
mod receiving;
mod sending;
