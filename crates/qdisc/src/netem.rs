//! `Netem`: an emulated path: delay, loss, duplicates, corruption, reordering, rate (spec/qdisc.md §14; `tc`'s `netem`).
