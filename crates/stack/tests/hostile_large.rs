//! The tests of `hostile` to a host whose device takes packets of several segments and cuts them.

#[path = "pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

#[path = "hostile/blind.rs"]
mod blind;
#[path = "hostile/exhaustion.rs"]
mod exhaustion;
#[path = "hostile/floods.rs"]
mod floods;
#[path = "hostile/icmp.rs"]
mod icmp;
#[path = "hostile/parsing.rs"]
mod parsing;
#[path = "hostile/peer.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of ECN, which use another part of it"
)]
mod peer;
#[path = "hostile/receiving.rs"]
mod receiving;
#[path = "hostile/sending.rs"]
mod sending;
