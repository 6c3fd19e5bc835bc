//! `Red`: random early detection with Floyd's uniform spacing; gentle, adaptive, with ECN (spec/qdisc.md §4; `tc`'s `red`).
