//! [`HashKey`]: SipHash-1-3 under a secret key, so that a peer cannot choose addresses and ports that
//! share a queue or a bucket (hash flooding).

use core::hash::{BuildHasher, Hash, Hasher};

use siphasher::sip::SipHasher13;

/// The key of a keyed hash. Its `Debug` output hides it.
///
/// ```
/// use tautline_base::HashKey;
///
/// let (one, other) = (HashKey::from_seed(1), HashKey::from_seed(2));
/// assert_eq!(one.hash(("198.51.100.7", 443)), one.hash(("198.51.100.7", 443)));
/// assert_ne!(one.hash(("198.51.100.7", 443)), other.hash(("198.51.100.7", 443)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey(u64, u64);

impl HashKey {
    /// The key derived from `seed`: a random number, or a constant where runs must repeat.
    pub fn from_seed(seed: u64) -> Self {
        let word = |which: u64| {
            let mut hasher = SipHasher13::new_with_keys(seed, which);
            hasher.write_u64(seed);
            hasher.finish()
        };
        Self(word(1), word(2))
    }

    /// An unpredictable key, from the randomness that `std` gives each process.
    #[cfg(feature = "std")]
    pub fn random() -> Self {
        let word = || std::hash::RandomState::new().hash_one(0);
        Self(word(), word())
    }

    /// The hash of `value` under this key.
    #[inline]
    pub fn hash(&self, value: impl Hash) -> u64 {
        self.hash_one(value)
    }
}

impl BuildHasher for HashKey {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(..)")
    }
}
