//! SYN cookies (RFC 4987 §3.6, in the form of Linux's `net/ipv4/syncookies.c`): the sequence number
//! of the SYN-ACK encodes the state of the half-open connection, so a flood of SYNs takes no
//! memory.
//!
//! ```text
//! number = H1(connection) + peer's number + minute·2²⁴
//!          + H2(connection, minute, peer's number, MSS) mod 2²⁴
//! ```
//!
//! Both hashes are keyed, and the second one's input changes every minute, so a cookie is worthless
//! after two: 8 of 2³² guesses hit. Linux adds the index of the MSS to H2 instead: there an
//! acknowledgment a few numbers off redeems as well, and shifts the stream (DIVERGES). Window scale, SACK and ECN travel in the low six bits of our
//! timestamp, if the peer uses timestamps; else they are not used.

use tautline_base::Instant;

use crate::keyed::Key;
use crate::tcp::Tuple;

/// Seconds in the "minute" of the formula.
const PERIOD: u64 = 60;
/// Minutes for which a cookie is valid: the one it was made in and the one after.
const MINUTES: u64 = 2;
/// Bits of the hash with the MSS in it.
const HASH_BITS: u32 = 24;
const HASH_MASK: u32 = (1 << HASH_BITS) - 1;

/// Segment sizes a cookie can express: the largest that is not above the peer's counts.
const SIZES_V4: [u16; 4] = [536, 1300, 1440, 1460];
const SIZES_V6: [u16; 4] = [1220, 1420, 1440, 8940];

/// Bits of the timestamp that carry options.
const OPTION_BITS: u32 = 6;
const OPTION_MASK: u32 = (1 << OPTION_BITS) - 1;
const SCALE_MASK: u32 = 0xf;
/// In place of a scale: the peer does not scale windows.
const NO_SCALE: u32 = 0xf;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;

/// Time after the last overflow of the backlog in which an acknowledgment may redeem a cookie.
pub(crate) const VALIDITY: std::time::Duration = std::time::Duration::from_secs(PERIOD * MINUTES);

/// Options that a cookie carries besides the segment size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
}

fn sizes(tuple: &Tuple) -> &'static [u16; 4] {
    if tuple.remote.is_ipv4() {
        &SIZES_V4
    } else {
        &SIZES_V6
    }
}

fn minute(now: Instant) -> u64 {
    now.as_millis() / (PERIOD * 1000)
}

/// The initial sequence number of a SYN-ACK to a peer whose SYN had `peer_isn` and named the
/// segment size `mss`.
pub(crate) fn issue(key: &Key, tuple: &Tuple, peer_isn: u32, mss: u16, now: Instant) -> u32 {
    let sizes = sizes(tuple);
    let fitting = sizes.iter().rev().find(|size| **size <= mss);
    let size = *fitting.unwrap_or(&sizes[0]);
    let minute = minute(now);
    let hashed = key.cookie_of_minute(tuple, minute, (peer_isn, size)) & HASH_MASK;
    base(key, tuple, peer_isn, minute).wrapping_add(hashed)
}

fn base(key: &Key, tuple: &Tuple, peer_isn: u32, minute: u64) -> u32 {
    key.cookie(tuple)
        .wrapping_add(peer_isn)
        .wrapping_add((minute as u32) << HASH_BITS)
}

/// The segment size in `cookie`, if it is one that this host gave to this peer lately.
pub(crate) fn redeem(
    key: &Key,
    tuple: &Tuple,
    peer_isn: u32,
    cookie: u32,
    now: Instant,
) -> Option<u16> {
    let current = minute(now);
    (0..MINUTES.min(current + 1)).find_map(|age| {
        let minute = current - age;
        let rest = cookie.wrapping_sub(base(key, tuple, peer_isn, minute));
        if rest >> HASH_BITS != 0 {
            return None;
        }
        let mut sizes = sizes(tuple).iter().copied();
        sizes
            .find(|size| key.cookie_of_minute(tuple, minute, (peer_isn, *size)) & HASH_MASK == rest)
    })
}

/// The timestamp nearest to `clock`, and not after it, that carries `options`.
pub(crate) fn stamp(clock: u32, options: Options) -> u32 {
    let scale = options.scale.map_or(NO_SCALE, u32::from) & SCALE_MASK;
    let sack = if options.sack { SACK_BIT } else { 0 };
    let ecn = if options.ecn { ECN_BIT } else { 0 };
    let bits = scale | sack | ecn;
    let stamp = (clock & !OPTION_MASK) | bits;
    if bits > clock & OPTION_MASK {
        stamp.wrapping_sub(1 << OPTION_BITS)
    } else {
        stamp
    }
}

/// The options in the echo of a timestamp of ours.
pub(crate) fn options(echo: u32) -> Options {
    let scale = echo & SCALE_MASK;
    Options {
        scale: (scale != NO_SCALE).then_some(scale as u8),
        sack: echo & SACK_BIT != 0,
        ecn: echo & ECN_BIT != 0,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn tuple(port: u16) -> Tuple {
        let [local, remote] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)));
        Tuple {
            local,
            remote,
            local_port: 80,
            remote_port: port,
        }
    }

    fn key() -> Key {
        Key::from_seed(7)
    }

    #[test]
    fn the_table_of_segment_sizes() {
        let now = Instant::from_secs(100);
        for (mss, back) in [
            (0, 536),
            (535, 536),
            (536, 536),
            (1299, 536),
            (1300, 1300),
            (1459, 1440),
            (1460, 1460),
            (9000, 1460),
        ] {
            let cookie = issue(&key(), &tuple(9), 77, mss, now);
            assert_eq!(
                redeem(&key(), &tuple(9), 77, cookie, now),
                Some(back),
                "MSS {mss}"
            );
        }
        let [local, remote] =
            [1, 2].map(|host| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host)));
        let tuple = Tuple {
            local,
            remote,
            ..tuple(9)
        };
        for (mss, back) in [(536, 1220), (1439, 1420), (1440, 1440), (9000, 8940)] {
            let cookie = issue(&key(), &tuple, 77, mss, now);
            assert_eq!(
                redeem(&key(), &tuple, 77, cookie, now),
                Some(back),
                "MSS {mss}"
            );
        }
    }

    #[test]
    fn a_cookie_is_good_for_one_to_two_minutes() {
        for second in [0, 1, 30, 59] {
            let made = Instant::from_secs(600 + second);
            let cookie = issue(&key(), &tuple(9), 77, 1460, made);
            for age in 0..=200 {
                let redeemed = redeem(
                    &key(),
                    &tuple(9),
                    77,
                    cookie,
                    made + Duration::from_secs(age),
                );
                assert_eq!(
                    redeemed.is_some(),
                    second + age < 120,
                    "made in second {second}, {age} s old"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_carries_the_options_by_chance_is_the_stamp() {
        let wanted = Options {
            scale: Some(7),
            sack: true,
            ecn: false,
        };
        let clock = 0x12_3400 | SACK_BIT | 7;
        assert_eq!(stamp(clock, wanted), clock);
        assert_eq!(stamp(clock - 1, wanted), clock - (1 << OPTION_BITS));
    }

    /// A guess hits with probability 8 in 2³²: of a million, no guess should.
    #[test]
    fn guesses_miss() {
        let now = Instant::from_secs(1000);
        let hits = (0..1_000_000u32).filter(|guess| {
            redeem(
                &key(),
                &tuple(9),
                77,
                guess.wrapping_mul(2_654_435_761),
                now,
            )
            .is_some()
        });
        assert_eq!(hits.count(), 0);
    }

    proptest! {
        #[test]
        fn only_the_same_connection_and_number_redeem(isn: u32, port: u16, other: u16, seconds in 0u64..1 << 40, seed: u64) {
            let (now, key) = (Instant::from_secs(seconds.min(1 << 34)), Key::from_seed(seed));
            let cookie = issue(&key, &tuple(port), isn, 1460, now);
            prop_assert_eq!(redeem(&key, &tuple(port), isn, cookie, now), Some(1460));
            prop_assert_eq!(redeem(&key, &tuple(port), isn.wrapping_add(1 << 25), cookie, now), None);
            if other != port {
                prop_assert_eq!(redeem(&key, &tuple(other), isn, cookie, now), None);
            }
            // Issue 16.18: an acknowledgment or a segment a few numbers off, or both.
            for by in (1..8u32).flat_map(|by| [by, by.wrapping_neg()]) {
                prop_assert_eq!(redeem(&key, &tuple(port), isn, cookie.wrapping_add(by), now), None);
                prop_assert_eq!(redeem(&key, &tuple(port), isn.wrapping_add(by), cookie, now), None);
                let (isn, cookie) = (isn.wrapping_add(by), cookie.wrapping_add(by));
                prop_assert_eq!(redeem(&key, &tuple(port), isn, cookie, now), None);
            }
        }

        #[test]
        fn options_travel_in_a_timestamp_that_is_not_of_the_future(clock: u32, scale in prop::option::of(0u8..=14), sack: bool, ecn: bool) {
            let wanted = Options { scale, sack, ecn };
            let value = stamp(clock, wanted);
            prop_assert_eq!(options(value), wanted);
            prop_assert!(clock.wrapping_sub(value) < 2 << OPTION_BITS, "{} for {}", value, clock);
        }
    }
}
