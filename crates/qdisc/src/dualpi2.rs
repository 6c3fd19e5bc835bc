//! `DualPi2`: two queues for L4S and classic traffic under one coupled controller (RFC 9332; `tc`'s `dualpi2`).
