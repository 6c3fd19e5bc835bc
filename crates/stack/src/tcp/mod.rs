//! TCP (RFC 9293): one connection, without any I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`tuple`] | the two ends of a connection |
//! | [`connection`] | the state of one connection and what the application does to it |
//! | [`input`] | what an arriving segment does (RFC 9293 §3.10.7) |
//! | [`acknowledge`] | what an acknowledgement does to the sender: delivery, loss, recovery, the controller |
//! | [`repair`], [`recovery`] | between a loss and its repair; its phases, proportional rate reduction, what undoes it |
//! | [`tail_probe`], [`duplicates`] | probes of the tail; segments the peer received twice |
//! | [`output`] | what to send next: the plan, its commitment and its header |
//! | [`segmentation`] | how many segments leave in one packet |
//! | [`succession`] | what is taken over from a cookie and left to TIME-WAIT |
//! | [`timers`], [`deadlines`] | the timers of a connection; what their expiry does |
//! | [`liveness`] | user timeout and keepalive |
//! | [`memory`] | what its buffers hold |
//! | [`segments`] | the retransmission queue, SACK scoreboard and RACK |
//! | [`ecn`], [`marks`] | explicit congestion notification; where it meets the connection |
//! | [`complaints`] | what ICMP says of our segments |
//! | [`receiver`] | reassembly, window, delayed acknowledgements |
//! | [`ack_delay`] | how long they are delayed |
//! | [`path_mtu`] | how long a packet the path carries |
//! | [`right_sizing`] | how large the receive window shall be |
//! | [`pages`] | received bytes at their places |
//! | [`standing`] | which obstacle the sender stands before |
//! | [`send_buffer`], [`rtt`], [`info`] | unacknowledged bytes; the RTT estimator; what a user may look at |

mod ack_delay;
pub(crate) mod acknowledge;
mod complaints;
pub(crate) mod connection;
pub(crate) mod deadlines;
mod duplicates;
pub(crate) mod ecn;
pub(crate) mod info;
pub(crate) mod input;
mod liveness;
mod marks;
mod memory;
pub(crate) mod output;
mod pages;
mod path_mtu;
mod receiver;
pub(crate) mod recovery;
mod repair;
mod right_sizing;
mod rtt;
mod segmentation;
mod segments;
mod send_buffer;
mod send_space;
mod standing;
mod succession;
mod tail_probe;
mod timers;
mod tuple;
mod validation;

pub(crate) use connection::{Connection, Opening, State};
pub(crate) use input::Reply;
pub(crate) use tuple::Tuple;
