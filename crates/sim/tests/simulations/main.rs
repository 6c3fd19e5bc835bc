//! Whole transfers in virtual time: they complete, leave nothing behind, repeat exactly; and each
//! mechanism of the send path has the effect it is there for, shown by running the same scenario
//! without it.

mod air;
mod air_lte;
mod air_wifi;
mod apps;
mod attribution;
mod cc_bbr;
mod cc_bbr3;
mod cc_resume;
mod cc_window;
mod common;
mod contest;
mod ecn;
mod effect_codel;
mod effect_cwnd;
mod effect_dql;
mod effect_dyn_rlc;
mod effect_emulated_nic;
mod effect_pacing;
mod effect_reordering;
mod effect_right_sizing;
mod effect_rwnd;
mod effect_send_buffer;
mod effect_tso;
mod effect_tsq;
mod endings;
mod load;
mod local_drops;
mod networks;
mod recovery_grid;
mod ring_bursts;
mod ring_fq_codel;
mod ring_late;
mod ring_latency;
mod ring_packet_size;
mod ring_priority;
mod ring_push;
mod ring_throughput;
mod rings;
mod transfers;
