//! [`Pattern`]: a reproducible stream of random bytes, and [`Check`], which compares received data
//! with it.

use std::io::{self, Read};

use rand_core::Rng;
use rand_pcg::Pcg32;

const BLOCK: usize = 4096;

/// A stream of random bytes, independent of the sizes of reads.
pub struct Pattern {
    rng: Pcg32,
    left: u64,
    block: Box<[u8; BLOCK]>,
    used: usize,
}

impl Pattern {
    /// `length` bytes drawn from `rng`.
    pub fn new(rng: Pcg32, length: u64) -> Self {
        Self {
            rng,
            left: length,
            block: Box::new([0; BLOCK]),
            used: BLOCK,
        }
    }
}

impl Read for Pattern {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == BLOCK {
            self.rng.fill_bytes(&mut self.block[..]);
            self.used = 0;
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let count = out.len().min(BLOCK - self.used).min(left);
        out[..count].copy_from_slice(&self.block[self.used..][..count]);
        self.used += count;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Compares a stream with an expected one.
pub struct Check {
    expected: Pattern,
    part: Box<[u8; BLOCK]>,
    equal: bool,
}

impl Check {
    /// Expects the bytes of `expected`.
    pub fn new(expected: Pattern) -> Self {
        Self {
            expected,
            part: Box::new([0; BLOCK]),
            equal: true,
        }
    }

    /// Compares the next bytes.
    pub fn compare(&mut self, mut got: &[u8]) {
        while !got.is_empty() && self.equal {
            let wanted = got.len().min(BLOCK);
            let count = self.expected.read(&mut self.part[..wanted]).unwrap_or(0);
            self.equal = count > 0 && self.part[..count] == got[..count];
            got = &got[count..];
        }
    }

    /// True if exactly the expected bytes have arrived.
    pub fn is_equal(&self) -> bool {
        self.equal && self.expected.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(length: u64) -> Pattern {
        Pattern::new(Pcg32::new(1, 2), length)
    }

    #[test]
    fn cuts_do_not_matter_but_every_byte_does() {
        let mut whole = Vec::new();
        pattern(10_000)
            .read_to_end(&mut whole)
            .expect("never fails");
        assert_eq!(whole.len(), 10_000);
        let verdict = |data: &[u8], cut| {
            let mut check = Check::new(pattern(10_000));
            data.chunks(cut).for_each(|part| check.compare(part));
            check.is_equal()
        };
        assert!(verdict(&whole, 1) && verdict(&whole, 777) && verdict(&whole, 9_999));
        assert!(!verdict(&whole[..9_999], 100), "one byte short");
        whole[5_000] ^= 1;
        assert!(!verdict(&whole, 100), "one bit wrong");
        whole[5_000] ^= 1;
        whole.push(0);
        assert!(!verdict(&whole, 100), "one byte more");
    }
}
