//! Queues at work on a terminal: what goes in and out of each port, what waits, how full its ring
//! is, how many tokens are left, how long packets stay, what is dropped and marked, and all that
//! its discipline tells of itself; as it is now, for any discipline.
//!
//! Whoever has ports gives a [`Snapshot`] of them several times a second to a [`Screen`], which
//! draws on a thread of its own: to give one costs a copy of the counters, and never waits for the
//! terminal. Rows of the papers: 004-F12.
//!
//! | module | holds |
//! |---|---|
//! | `snapshot` | [`Snapshot`], [`PortState`]: ports at one moment |
//! | `history` | [`History`]: the last minutes of them: rates, times of stay, the course of the queue |
//! | `view` | [`View`]: draws them |
//! | `screen` | [`Screen`]: the terminal, which is given back however this ends |
#![forbid(unsafe_code)]

mod history;
mod screen;
mod snapshot;
mod view;

pub use history::History;
pub use screen::Screen;
pub use snapshot::{Counted, PortState, Snapshot};
pub use view::{Key, View};
