//! Connections from birth to end, on a perfect or a selectively lossy wire.

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

mod ending;
mod opening;
mod sending;

use pair::Pair;

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

/// The TCP header of a frame: flags byte and payload length.
fn tcp(frame: &[u8]) -> Option<(u8, usize)> {
    if frame.get(12..14)? != [8, 0] || *frame.get(23)? != 6 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let header = usize::from(frame[46] >> 4) * 4;
    Some((frame[47], total - 20 - header))
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

fn nothing_left(pair: &Pair) {
    for host in &pair.hosts {
        assert_eq!(host.outstanding(), 0, "every frame is back");
    }
}
