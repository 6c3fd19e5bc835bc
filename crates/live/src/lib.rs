//! Live queues on a terminal. Per port: rates in and out, queue length over time, ring occupancy,
//! tokens, sojourn times, drops by reason, marks, and every counter of the qdisc tree.
//!
//! The owner of the ports sends a [`Snapshot`] several times a second to a [`Screen`], which draws
//! on its own thread. Sending costs a copy of the counters and never waits for the terminal. Figure
//! 12 of paper 004 is reproduced with it.
#![forbid(unsafe_code)]

mod history;
mod screen;
mod snapshot;
mod view;

pub use history::History;
pub use screen::Screen;
pub use snapshot::{Counted, PortState, Snapshot};
pub use view::{Key, View};
