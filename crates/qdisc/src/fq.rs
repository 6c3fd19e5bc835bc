//! `Fq`: fair queueing with pacing and departure times (spec/qdisc.md §7; `tc`'s `fq`).
