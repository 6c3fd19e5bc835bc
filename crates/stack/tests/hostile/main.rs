//! A peer, or somebody who pretends to be one, does what it should not: each test is one way, and
//! what must come of it.
//!
//! | module | rows |
//! |---|---|
//! | [`parsing`] | headers that lie, options, checksums, addresses, fragments |
//! | [`initial_sequence`] | streams whose numbers wrap at every place that has been got wrong somewhere |
//! | [`blind`] | RFC 5961: resets, SYNs, acknowledgements and data of somebody who guesses |
//! | [`floods`] | SYNs and acknowledgements without end: SYN cookies, the accept queue, limits per peer |
//! | [`exhaustion`] | what a peer may hold for ever: memory, orphans, TIME-WAIT, ports |
//! | [`icmp`] | errors of somebody who guesses; what is answered with errors |
//! | [`neighbours`] | neighbour discovery of somebody who lies |
//! | [`receiving`] | tiny segments, overlaps, FINs, windows, urgent data |
//! | [`sending`] | lies in SACK, acknowledgement tricks, window tricks |

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
mod neighbours;
mod parsing;
#[expect(
    dead_code,
    reason = "shared with the tests of ECN, which use another part of it"
)]
mod peer;
mod receiving;
mod sending;
