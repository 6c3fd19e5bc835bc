//! The sum and the copy with 32 bytes in a step, for processors of `x86_64` with AVX2. The only
//! `unsafe` code outside `xdp-io` and `packet-io`: without it LLVM uses vectors of half the width.
#![allow(unsafe_code, reason = "AVX2 is called once it is known")]

use core::arch::x86_64::{
    __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_unpackhi_epi64, _mm256_add_epi64,
    _mm256_and_si256, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_sub_epi64,
};

/// Bytes of a vector.
const WIDTH: usize = 32;

/// The sum of the whole vectors in `bytes` as 32-bit words, and the bytes after them; `None` if the
/// processor has no AVX2.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if !available() {
        return None;
    }
    let (vectors, rest) = bytes.as_chunks();
    // SAFETY: the processor has AVX2.
    Some((unsafe { sum_vectors(vectors) }, rest))
}

/// Copies the whole vectors in `from` to the beginning of `to`, of the same length. Returns as
/// [`sum`].
#[inline]
pub(super) fn copy<'a>(from: &'a [u8], to: &mut [u8]) -> Option<(u64, &'a [u8])> {
    if !available() {
        return None;
    }
    let (vectors, rest) = from.as_chunks();
    // SAFETY: the processor has AVX2.
    Some((unsafe { copy_vectors(vectors, to.as_chunks_mut().0) }, rest))
}

/// True if the processor has AVX2. Known at compile time only without the standard library.
#[inline]
fn available() -> bool {
    #[cfg(feature = "std")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(feature = "std"))]
    cfg!(target_feature = "avx2")
}

#[target_feature(enable = "avx2")]
fn sum_vectors(vectors: &[[u8; WIDTH]]) -> u64 {
    let (pairs, last) = vectors.as_chunks::<2>();
    let (mut one, mut other) = (Sum::zero(), Sum::zero());
    for [first, second] in pairs {
        one.add(load(first));
        other.add(load(second));
    }
    for vector in last {
        one.add(load(vector));
    }
    one.total() + other.total()
}

#[target_feature(enable = "avx2")]
fn copy_vectors(from: &[[u8; WIDTH]], to: &mut [[u8; WIDTH]]) -> u64 {
    let mut sum = Sum::zero();
    for (from, to) in from.iter().zip(to) {
        let vector = load(from);
        *to = store(vector);
        sum.add(vector);
    }
    sum.total()
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; WIDTH]) -> __m256i {
    // SAFETY: both types have 32 bytes and accept every value.
    unsafe { core::mem::transmute::<[u8; WIDTH], __m256i>(*bytes) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(vector: __m256i) -> [u8; WIDTH] {
    // SAFETY: both types have 32 bytes and accept every value.
    unsafe { core::mem::transmute::<__m256i, [u8; WIDTH]>(vector) }
}

/// Four sums as [`super::Sum`].
#[derive(Clone, Copy)]
struct Sum {
    whole: __m256i,
    upper: __m256i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero() -> Self {
        let zero = _mm256_setzero_si256();
        Self {
            whole: zero,
            upper: zero,
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, vector: __m256i) {
        self.whole = _mm256_add_epi64(self.whole, vector);
        self.upper = _mm256_add_epi64(self.upper, _mm256_srli_epi64::<32>(vector));
    }

    /// The sum of the 32-bit words.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(self) -> u64 {
        let lower = _mm256_sub_epi64(self.whole, _mm256_slli_epi64::<32>(self.upper));
        let sum = _mm256_add_epi64(halves(lower), halves(self.upper));
        let sum = _mm_add_epi64(
            _mm256_castsi256_si128(sum),
            _mm256_extracti128_si256::<1>(sum),
        );
        let sum = _mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum));
        _mm_cvtsi128_si64(sum) as u64
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(words: __m256i) -> __m256i {
    let low = _mm256_and_si256(words, _mm256_set1_epi64x(0xffff_ffff));
    _mm256_add_epi64(low, _mm256_srli_epi64::<32>(words))
}
