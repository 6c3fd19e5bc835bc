//! `Cobalt`: CoDel and BLUE in one, the AQM of CAKE (spec/qdisc.md §10.7).
