//! `Prio`: strict priority among children (spec/qdisc.md §15; `tc`'s `prio`).
