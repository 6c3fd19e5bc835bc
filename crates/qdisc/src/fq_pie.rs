//! `FqPie`: flow queueing with PIE on every queue (`tc`'s `fq_pie`).
