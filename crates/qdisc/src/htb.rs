//! `Htb`: hierarchical token buckets (spec/qdisc.md §13; `tc`'s `htb`).
