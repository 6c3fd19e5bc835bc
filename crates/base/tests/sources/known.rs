//! Findings that remain, by rule and package. A count only shrinks: fix findings, then lower it.

/// Sizes: `Connection` has more than 60 methods.
pub(crate) const KNOWN: [(&str, &str, usize); 1] = [("sizes", "crates/stack", 1)];
