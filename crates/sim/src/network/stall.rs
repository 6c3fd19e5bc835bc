//! [`Stall`]: a simulation that does not come to its end, and how it got stuck.

use std::fmt;

use tautline_base::Instant;

/// A simulation that does not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// What is wrong.
    pub kind: StallKind,
    /// The seed that shows it again.
    pub seed: u64,
    /// When, in virtual time.
    pub at: Instant,
    /// Frames on the way.
    pub outstanding: usize,
    /// What the program said.
    pub why: Option<String>,
}

/// How a simulation got stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallKind {
    /// Nothing is planned, and the programs are not done: somebody forgot a wake.
    Quiet,
    /// Wakes come, but time does not pass.
    Spinning,
    /// The limit of virtual time has passed.
    Deadline,
    /// A program cannot go on.
    Failed {
        /// Whose.
        host: usize,
    },
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            seed,
            at,
            outstanding,
            why,
        } = self;
        match kind {
            StallKind::Quiet => write!(f, "nothing is planned, but the programs are not done")?,
            StallKind::Spinning => write!(f, "hosts wake again and again while time stands still")?,
            StallKind::Deadline => write!(f, "not done within the limit of virtual time")?,
            StallKind::Failed { host } => write!(f, "the program on host {host} failed")?,
        }
        if let Some(why) = why {
            write!(f, ": {why}")?;
        }
        write!(
            f,
            " (SEED={seed}, at {at}, {outstanding} frames on the way)"
        )
    }
}

impl std::error::Error for Stall {}
