//! Live queues on a terminal. Per port: rates in and out, queue length over time, ring occupancy,
//! tokens, sojourn times, drops by reason, marks, every counter of the qdisc tree, and the hosts and
//! flows that carry most.
//!
//! The owner of the ports sends a [`Snapshot`] several times a second to a [`Screen`], which draws
//! on its own thread. Sending costs a copy of the counters and never waits for the terminal. Figure
//! 12 of paper 004 is reproduced with it.
#![forbid(unsafe_code)]

mod amounts;
mod history;
mod screen;
mod snapshot;
mod tree;
mod view;

pub use history::History;
pub use screen::Screen;
pub use snapshot::{Bucket, Counted, PortState, QdiscState, Snapshot, Talker};
pub use view::{Key, View};
