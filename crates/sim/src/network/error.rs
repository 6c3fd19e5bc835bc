//! [`SimError`]: a simulation that cannot continue.

use std::fmt;

use tautline_base::Instant;

/// A simulation that cannot continue, and its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimError {
    /// The cause.
    pub kind: SimErrorKind,
    /// The seed that reproduces it.
    pub seed: u64,
    /// Virtual time of the error.
    pub at: Instant,
    /// Frames in flight.
    pub outstanding: usize,
    /// Message of the application that failed.
    pub why: Option<String>,
}

/// Why a simulation cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimErrorKind {
    /// No event is pending, but applications are not done: a wake is missing.
    Deadlock,
    /// Events keep coming without time advancing.
    Livelock,
    /// The limit of virtual time has passed.
    TimeLimit,
    /// An application failed.
    Failed {
        /// Its host.
        host: usize,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SimErrorKind::Deadlock => write!(f, "no event is pending, but applications wait")?,
            SimErrorKind::Livelock => write!(f, "hosts keep waking while time stands still")?,
            SimErrorKind::TimeLimit => write!(f, "not done within the limit of virtual time")?,
            SimErrorKind::Failed { host } => write!(f, "an application of host {host} failed")?,
        }
        if let Some(why) = &self.why {
            write!(f, ": {why}")?;
        }
        let Self {
            seed,
            at,
            outstanding,
            ..
        } = self;
        write!(f, " (SEED={seed}, at {at}, {outstanding} frames in flight)")
    }
}

impl std::error::Error for SimError {}
