//! Wire sequence numbers and stream offsets (RFC 9293 §3.4).
//!
//! On the wire a position in the stream is 32 bits and wraps. Inside, it is a 64-bit *offset*: 0 is
//! the SYN, 1 the first byte of data. Wrapping arithmetic happens here and nowhere else.

/// The wire number of `offset` in a stream whose SYN carried `isn`.
pub(crate) fn to_wire(isn: u32, offset: u64) -> u32 {
    isn.wrapping_add(offset as u32)
}

/// The offset of `wire` that lies nearest to `near` (within 2³¹); `None` if that would be before
/// the SYN.
pub(crate) fn from_wire(isn: u32, near: u64, wire: u32) -> Option<u64> {
    let distance = wire.wrapping_sub(to_wire(isn, near)) as i32;
    near.checked_add_signed(i64::from(distance))
}

/// True when timestamp `a` is older than `b` (RFC 7323 §5.2: modulo comparison).
pub(crate) fn older(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_survive_the_wrap_whatever_the_initial_number() {
        for isn in [0, 1, (1 << 31) - 1, 1 << 31, u32::MAX] {
            for near in [0u64, 1, 1 << 20, (1 << 32) - 1, 1 << 32, 5 << 32] {
                for step in [-70_000i64, -1, 0, 1, 70_000, (1 << 31) - 1] {
                    let Some(offset) = near.checked_add_signed(step) else {
                        continue;
                    };
                    assert_eq!(from_wire(isn, near, to_wire(isn, offset)), Some(offset));
                }
            }
            assert_eq!(
                from_wire(isn, 0, isn.wrapping_sub(1)),
                None,
                "before the SYN"
            );
        }
    }

    /// RFC 9293 §3.4: whatever the distance, and before the SYN nothing.
    #[test]
    #[ignore = "2^33 cases: scripts/prove"]
    fn every_distance_leads_back() {
        for (isn, near) in [(u32::MAX - 7, 0), (1, 5 << 32)] {
            for distance in i32::MIN..=i32::MAX {
                let offset = 0_u64.wrapping_add_signed(near + i64::from(distance));
                let expected = (near + i64::from(distance) >= 0).then_some(offset);
                let found = from_wire(isn, near as u64, to_wire(isn, offset));
                assert_eq!(found, expected, "{distance} from {near}");
            }
        }
    }

    /// RFC 7323 §5.2: half of the numbers are newer, and no two are older than each other but those
    /// 2³¹ apart.
    #[test]
    #[ignore = "2^32 cases: scripts/prove"]
    fn every_difference_of_timestamps_is_ordered() {
        for by in 0..=u32::MAX {
            let (a, b) = (0x9abc_def0, 0x9abc_def0_u32.wrapping_add(by));
            assert_eq!(older(a, b), (1..=1 << 31).contains(&by), "{by}");
            assert_eq!(older(b, a), by >= 1 << 31, "{by}");
        }
    }

    #[test]
    fn timestamps_compare_modulo() {
        assert!(older(u32::MAX, 0));
        assert!(!older(0, u32::MAX));
        assert!(!older(7, 7));
    }
}
