//! Findings that remain, by rule and package. A count only shrinks: fix findings, then lower it.

pub(crate) const KNOWN: [(&str, &str, usize); 0] = [];
