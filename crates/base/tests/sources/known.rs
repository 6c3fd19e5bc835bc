//! Findings that remain, by rule and package. A count only shrinks: fix findings, then lower it.

/// Sizes: `Connection` has more than 60 methods. Prose: the axis `card` of
/// row 002-F5.5 is a key of recorded results.
pub(crate) const KNOWN: [(&str, &str, usize); 2] =
    [("sizes", "crates/stack", 1), ("prose", "crates/lab", 3)];
