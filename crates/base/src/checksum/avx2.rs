//! The sum with 32 bytes in a step, for processors of `x86_64` with AVX2. The only
//! `unsafe` code outside `xdp-io` and `packet-io`: without it LLVM uses vectors of half the width.
#![allow(unsafe_code, reason = "AVX2 is called once it is known")]

use core::arch::x86_64::{
    __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_shuffle_epi32, _mm256_add_epi32,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_lddqu_si256, _mm256_madd_epi16,
    _mm256_set1_epi16, _mm256_setzero_si256, _mm256_xor_si256,
};

/// Bytes of a vector.
const WIDTH: usize = 32;
/// Most vectors whose words, as signed numbers, have a sum of 32 bits.
const BLOCK: usize = 1 << 11;
/// Vectors in a step of a loop.
const STEP: usize = 4;

/// The sum of the whole vectors in `bytes` as 16-bit words, and the bytes after them; `None` if the
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

/// Copies the whole vectors in `from` to the start of `to`, which is as long. Returns their sum as
/// 16-bit words and the bytes after them; `None` if the processor has no AVX2.
///
/// # Panics
/// If `to` is not as long as `from`.
#[inline]
pub(super) fn copy<'a>(from: &'a [u8], to: &mut [u8]) -> Option<(u64, &'a [u8])> {
    assert_eq!(from.len(), to.len());
    if !available() {
        return None;
    }
    let (vectors, rest) = from.as_chunks();
    let (places, _) = to.as_chunks_mut();
    if vectors.len() <= BLOCK {
        // SAFETY: the processor has AVX2.
        return Some((unsafe { copy_vectors(vectors, places) }, rest));
    }
    let blocks = vectors.chunks(BLOCK).zip(places.chunks_mut(BLOCK));
    let sum = blocks.map(|(block, places)| {
        // SAFETY: the processor has AVX2.
        unsafe { copy_vectors(block, places) }
    });
    Some((sum.sum(), rest))
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
    let mut total = 0;
    for block in vectors.chunks(BLOCK) {
        let mut sum = Sum::zero();
        let (steps, last) = block.as_chunks::<STEP>();
        for step in steps {
            for vector in step {
                sum.add(load(vector));
            }
        }
        for vector in last {
            sum.add(load(vector));
        }
        total += sum.total(block.len());
    }
    total
}

/// Copies up to [`BLOCK`] vectors to as many places and returns their sum.
#[target_feature(enable = "avx2")]
fn copy_vectors(vectors: &[[u8; WIDTH]], places: &mut [[u8; WIDTH]]) -> u64 {
    let mut sum = Sum::zero();
    let places = &mut places[..vectors.len()];
    let (steps, last) = vectors.as_chunks::<STEP>();
    let (step_places, last_places) = places.as_chunks_mut::<STEP>();
    for (step, places) in steps.iter().zip(step_places) {
        for (vector, place) in step.iter().zip(places) {
            sum.add(copy_vector(vector, place));
        }
    }
    for (vector, place) in last.iter().zip(last_places) {
        sum.add(copy_vector(vector, place));
    }
    sum.total(vectors.len())
}

/// Loads a vector and stores it at `place`.
#[inline]
#[target_feature(enable = "avx2")]
fn copy_vector(vector: &[u8; WIDTH], place: &mut [u8; WIDTH]) -> __m256i {
    // An ordinary load would let LLVM take the copy out of the loop and load every byte twice.
    // SAFETY: the pointer is to 32 bytes, which need no alignment.
    let vector = unsafe { _mm256_lddqu_si256(vector.as_ptr().cast()) };
    // SAFETY: both types have 32 bytes and accept every value.
    *place = unsafe { core::mem::transmute::<__m256i, [u8; WIDTH]>(vector) };
    vector
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; WIDTH]) -> __m256i {
    // SAFETY: both types have 32 bytes and accept every value.
    unsafe { core::mem::transmute::<[u8; WIDTH], __m256i>(*bytes) }
}

/// Sums of 16-bit words in eight lanes. The one instruction that adds words in pairs takes them as
/// signed: each counts as 2¹⁵ less than it is.
#[derive(Clone, Copy)]
struct Sum(__m256i);

impl Sum {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero() -> Self {
        Self(_mm256_setzero_si256())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, vector: __m256i) {
        let signed = _mm256_xor_si256(vector, _mm256_set1_epi16(i16::MIN));
        let pairs = _mm256_madd_epi16(signed, _mm256_set1_epi16(1));
        self.0 = _mm256_add_epi32(self.0, pairs);
    }

    /// The sum of the words of `count` vectors, at most [`BLOCK`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(self, count: usize) -> u64 {
        let sum = _mm_add_epi32(
            _mm256_castsi256_si128(self.0),
            _mm256_extracti128_si256::<1>(self.0),
        );
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum));
        let words = (count * WIDTH / 2) as i64;
        ((words << 15) + i64::from(_mm_cvtsi128_si32(sum))) as u64
    }
}
