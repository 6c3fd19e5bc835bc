//! Processors whose vectors the compiler uses well enough.

/// No vectors: the caller sums all bytes.
pub(super) const fn sum(_: &[u8]) -> Option<(u64, &[u8])> {
    None
}
