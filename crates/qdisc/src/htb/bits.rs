//! [`Bits`]: a set of positions that finds the next member at or after any position in a few steps.

use alloc::vec::Vec;

/// A set of positions below a bound, one bit each; a second row of bits marks the nonempty words
/// of the first.
#[derive(Debug, Default)]
pub(super) struct Bits {
    places: usize,
    words: Vec<u64>,
    filled: Vec<u64>,
}

impl Bits {
    /// Inserts a position at `at`: members from there on move up by one.
    pub(super) fn open(&mut self, at: usize) {
        self.places += 1;
        self.words.resize(self.places.div_ceil(64), 0);
        let (mut carry, mut kept) = (0, (1u64 << (at % 64)) - 1);
        for word in &mut self.words[at / 64..] {
            let moving = *word & !kept;
            (*word, carry, kept) = ((*word & kept) | (moving << 1) | carry, moving >> 63, 0);
        }
        if at + 1 < self.places {
            self.refill();
        } else {
            self.filled.resize(self.words.len().div_ceil(64), 0);
        }
    }

    /// Removes the position `at`: members after it move down by one.
    pub(super) fn close(&mut self, at: usize) {
        for position in at..self.places - 1 {
            let next = self.contains(position + 1);
            self.assign(position, next);
        }
        self.places -= 1;
        self.assign(self.places, false);
        self.words.truncate(self.places.div_ceil(64));
        self.refill();
    }

    fn refill(&mut self) {
        self.filled.clear();
        self.filled.resize(self.words.len().div_ceil(64), 0);
        for (at, _) in self
            .words
            .iter()
            .enumerate()
            .filter(|(_, word)| **word != 0)
        {
            self.filled[at / 64] |= 1 << (at % 64);
        }
    }

    fn contains(&self, at: usize) -> bool {
        (self.words[at / 64] >> (at % 64)) & 1 == 1
    }

    fn assign(&mut self, at: usize, member: bool) {
        self.words[at / 64] =
            (self.words[at / 64] & !(1 << (at % 64))) | (u64::from(member) << (at % 64));
    }

    /// Adds `at`, which is below the bound.
    pub(super) fn insert(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
        self.filled[at / 4096] |= 1 << ((at / 64) % 64);
    }

    /// Removes `at`.
    pub(super) fn remove(&mut self, at: usize) {
        self.words[at / 64] &= !(1 << (at % 64));
        if self.words[at / 64] == 0 {
            self.filled[at / 4096] &= !(1 << ((at / 64) % 64));
        }
    }

    /// The first member at or after `from`.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let in_word = next_in(&self.words, from, from / 64 + 1);
        in_word.or_else(|| {
            let word = next_in(&self.filled, from / 64 + 1, self.filled.len())?;
            Some(word * 64 + self.words[word].trailing_zeros() as usize)
        })
    }

    /// True without members.
    pub(super) fn is_empty(&self) -> bool {
        self.filled.iter().all(|words| *words == 0)
    }
}

/// The first bit at or after `from` in the words before `end`.
fn next_in(words: &[u64], from: usize, end: usize) -> Option<usize> {
    let mut mask = u64::MAX << (from % 64);
    for (at, word) in words.iter().enumerate().take(end).skip(from / 64) {
        let found = word & mask;
        if found != 0 {
            return Some(at * 64 + found.trailing_zeros() as usize);
        }
        mask = u64::MAX;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// Beside a set that moves its members one by one.
        #[test]
        fn it_is_a_set_of_positions(steps in vec((0..4u8, 0..10_000usize), 0..200), places in 1..9000usize) {
            let (mut bits, mut model, mut places) = (Bits { places: places - 1, ..Bits::default() }, BTreeSet::new(), places);
            bits.open(places - 1);
            for (step, number) in steps {
                let at = number % places;
                match step {
                    0 => {
                        bits.insert(at);
                        model.insert(at);
                    }
                    1 => {
                        bits.remove(at);
                        model.remove(&at);
                    }
                    2 => {
                        bits.open(at);
                        places += 1;
                        model = model.iter().map(|&other| other + usize::from(other >= at)).collect();
                    }
                    _ if places > 1 => {
                        bits.close(at);
                        places -= 1;
                        model = model.iter().filter(|other| **other != at).map(|&other| other - usize::from(other > at)).collect();
                    }
                    _ => {}
                }
                prop_assert_eq!(bits.is_empty(), model.is_empty());
                for from in [0, at, number % places, number % places + 64, places] {
                    prop_assert_eq!(bits.next(from), model.range(from..).next().copied());
                }
            }
        }
    }
}
