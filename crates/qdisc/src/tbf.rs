//! `Tbf`: token bucket filter (spec/qdisc.md §12; `tc`'s `tbf`).
