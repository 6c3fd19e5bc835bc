//! `Cake`: shaper, tins, fair queues with host isolation and COBALT in one (spec/qdisc.md §10; `tc`'s `cake`).
