//! The sum whose complement is the checksum of IPv4, TCP, UDP and ICMP (RFC 1071).
//!
//! The sum is computed in native words of eight bytes, in a loop that the compiler vectorizes: word
//! size and byte order do not change the result, except for its own byte order (RFC 1071 §2 (B),
//! (C)).

// A target without vector registers in its calling convention (x86_64-unknown-none) cannot enable AVX2 in a function.
#[cfg_attr(
    all(target_arch = "x86_64", target_feature = "sse2"),
    path = "checksum/avx2.rs"
)]
#[cfg_attr(
    not(all(target_arch = "x86_64", target_feature = "sse2")),
    path = "checksum/portable.rs"
)]
mod vectors;

/// Fewer bytes than this are faster without vectors.
const SMALL: usize = 96;

/// The one's complement sum of `bytes` as 16-bit words in network byte order, padded with a zero
/// byte if odd. Zero only if every byte is zero.
///
/// ```
/// use tautline_base::checksum::{fold, sum};
///
/// // RFC 1071 §3.
/// assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
/// assert_eq!(fold(0x2_ddf0), 0xddf2);
/// ```
pub fn sum(bytes: &[u8]) -> u16 {
    let (wide, rest) = if bytes.len() < SMALL {
        (0, bytes)
    } else {
        vectors::sum(bytes).unwrap_or_else(|| sum_words(bytes))
    };
    with_rest(wide, rest)
}

/// Adds the last bytes to the `wide` sum of those before them.
#[inline]
fn with_rest(wide: u64, rest: &[u8]) -> u16 {
    let (words, rest) = rest.as_chunks();
    let words = words.iter().fold(0, |sum, word| carry(sum, *word));
    u16::from_be(fold(wide + halves(end(words, rest))))
}

/// The sum of the whole words of `bytes`, for processors without vectors, and the bytes after them.
fn sum_words(bytes: &[u8]) -> (u64, &[u8]) {
    let (words, rest) = bytes.as_chunks();
    // Two independent sums use the processor's parallelism (3/4 of the time of one).
    let (first, second) = words.split_at(words.len() / 2);
    let (mut one, mut other) = (Sum::default(), Sum::default());
    for (word, second_word) in first.iter().zip(second) {
        one.add(*word);
        other.add(*second_word);
    }
    if let Some(odd) = second.get(first.len()) {
        one.add(*odd);
    }
    (one.halves() + other.halves(), rest)
}

/// Copies `from` to `to`, of the same length, and returns the [`sum`]. With vectors each byte is
/// loaded once.
///
/// # Panics
/// If the lengths differ.
///
/// ```
/// use tautline_base::checksum::{copy, sum};
///
/// let mut frame = [0; 5];
/// assert_eq!(copy(b"bytes", &mut frame), sum(b"bytes"));
/// assert_eq!(&frame, b"bytes");
/// ```
pub fn copy(from: &[u8], to: &mut [u8]) -> u16 {
    if from.len() >= SMALL
        && let Some((wide, rest)) = vectors::copy(from, to)
    {
        // The rest, after bytes that are there already: of a known length, so without a call.
        if let (Some(last), Some(place)) = (from.last_chunk::<32>(), to.last_chunk_mut()) {
            *place = *last;
        }
        return with_rest(wide, rest);
    }
    to.copy_from_slice(from);
    // Not of the copy: reading it back would wait for the stores.
    sum(from)
}

/// Copies `parts` to `to`, one after the other, and returns their [`sum`] before it is
/// [folded](fold). After an odd number of bytes, the next count with swapped places (RFC 1071 §2 (B)).
///
/// # Panics
/// If the parts are longer than `to`.
///
/// ```
/// use tautline_base::checksum::{copy_parts, fold, sum};
///
/// let mut frame = [0; 8];
/// let parts: [&[u8]; 3] = [b"odd", b"", b" and."];
/// assert_eq!(fold(copy_parts(parts, &mut frame)), sum(b"odd and."));
/// assert_eq!(&frame, b"odd and.");
/// ```
pub fn copy_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>, to: &mut [u8]) -> u64 {
    let (mut sum, mut at) = (0, 0);
    for part in parts {
        let of_part = copy(part, &mut to[at..at + part.len()]);
        let is_odd = at % 2 == 1;
        sum += u64::from(if is_odd {
            of_part.swap_bytes()
        } else {
            of_part
        });
        at += part.len();
    }
    sum
}

/// Adds a word with end-around carry.
#[inline]
fn carry(sum: u64, word: [u8; 8]) -> u64 {
    let (sum, carry) = sum.overflowing_add(u64::from_ne_bytes(word));
    sum + u64::from(carry)
}

/// Adds the bytes after the last whole word.
#[inline]
fn end(sum: u64, rest: &[u8]) -> u64 {
    if rest.is_empty() {
        return sum;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    carry(sum, last)
}

/// Adds the upper half of a word to its lower half.
#[inline]
const fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// A wrapping sum of words, and the sum of their upper halves, which does not wrap below 2³² words and
/// recovers the carries: two additions and a shift per word.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    whole: u64,
    upper: u64,
}

impl Sum {
    #[inline]
    fn add(&mut self, word: [u8; 8]) {
        let word = u64::from_ne_bytes(word);
        self.whole = self.whole.wrapping_add(word);
        self.upper = self.upper.wrapping_add(word >> 32);
    }

    /// The sum of the halves of all words, with headroom for more.
    #[inline]
    fn halves(self) -> u64 {
        halves(self.whole.wrapping_sub(self.upper << 32)) + halves(self.upper)
    }
}

/// Folds the carries of a sum of 16-bit words. A number plus itself with its halves exchanged has
/// their sum with end-around carry in its upper half (Linux `csum_fold`).
#[inline]
pub const fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Word by word, as RFC 1071 §4.1 does it.
    fn plain(bytes: &[u8]) -> u16 {
        let word =
            |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        bytes.chunks(2).map(word).fold(0, |sum, word| {
            ((sum + word) & 0xffff) + ((sum + word) >> 16)
        }) as u16
    }

    #[test]
    fn the_largest_words_carry_everywhere() {
        for len in 0..400 {
            for byte in [0, 1, 0x80, 0xff] {
                let bytes: Vec<u8> = core::iter::repeat_n(byte, len).collect();
                assert_eq!(sum(&bytes), plain(&bytes), "{len} of {byte}");
                let mut copied = alloc::vec![1; len];
                assert_eq!(copy(&bytes, &mut copied), plain(&bytes), "{len} of {byte}");
            }
        }
        for byte in [0, 0x7f, 0x80, 0xff] {
            let bytes = alloc::vec![byte; 200_003];
            assert_eq!(sum(&bytes), plain(&bytes), "of {byte}");
            let mut copied = alloc::vec![1; bytes.len()];
            assert_eq!(copy(&bytes, &mut copied), plain(&bytes), "of {byte}");
        }
    }

    /// Bytes without a pattern, from every alignment.
    #[test]
    fn it_is_that_of_16_bit_words() {
        let mut state = 1u64;
        let bytes: Vec<u8> = core::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .take(3000)
        .collect();
        for from in 0..9 {
            for len in (0..200).chain([1448, 1480, 1481, 2900]) {
                let bytes = &bytes[from..from + len];
                let mut copied = alloc::vec![0; len];
                assert_eq!(sum(bytes), plain(bytes), "{len} from {from}");
                assert_eq!(copy(bytes, &mut copied), plain(bytes), "{len} from {from}");
                assert_eq!(copied, bytes);
            }
        }
    }

    #[test]
    #[ignore = "2^32 cases: scripts/prove"]
    fn every_sum_of_32_bits_folds_to_its_remainder() {
        for sum in 0..=u64::from(u32::MAX) {
            let folded = u64::from(fold(sum));
            assert_eq!((folded % 0xffff, folded == 0), (sum % 0xffff, sum == 0));
        }
    }

    /// Every word, at each place of the blocks that are summed at once.
    #[test]
    fn every_word_counts_at_every_place() {
        for place in (0..68).step_by(2) {
            let mut bytes = [0; 70];
            for word in 0..=u16::MAX {
                bytes[place..place + 2].copy_from_slice(&word.to_be_bytes());
                assert_eq!(sum(&bytes), word, "at {place}");
            }
        }
    }

    #[test]
    fn folding_keeps_the_remainder_and_gives_zero_for_zero_only() {
        for shift in 0..64 {
            for near in [0, 1, 0xfffe, 0xffff, 0x1_0000, u64::MAX] {
                let sum = (1u64 << shift).wrapping_add(near);
                assert_eq!(
                    (u64::from(fold(sum)) % 0xffff, fold(sum) == 0),
                    (sum % 0xffff, sum == 0),
                    "{sum:x}"
                );
            }
        }
        assert_eq!(fold(0), 0);
    }
}
