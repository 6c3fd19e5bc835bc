//! The messages on the control socket, one JSON object per line.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::capture::Wanted;
use super::state::State;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The state of both directions.
    Show,
    /// Changes parameters, as `tc qdisc change` does.
    Change {
        /// The pair of interfaces, if the middlebox has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pair: Option<String>,
        /// Direction of the qdisc.
        way: Way,
        /// tc's words.
        words: String,
    },
    /// Replaces the qdisc.
    Replace {
        /// The pair of interfaces, if the middlebox has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pair: Option<String>,
        /// Direction of the qdisc.
        way: Way,
        /// tc's words.
        words: String,
    },
    /// Streams packets as pcapng.
    Capture(Wanted),
}

impl Request {
    /// The name of the pair of interfaces that it is about.
    pub fn pair(&self) -> Option<&str> {
        match self {
            Self::Show => None,
            Self::Change { pair, .. } | Self::Replace { pair, .. } => pair.as_deref(),
            Self::Capture(wanted) => wanted.pair.as_deref(),
        }
    }
}

/// A direction through a middlebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Leaves at the right interface.
    #[value(name = "to_right")]
    ToRight,
    /// Leaves at the left interface.
    #[value(name = "to_left")]
    ToLeft,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Absent if the request was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Both directions, for `show`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<State>,
}

impl Answer {
    /// The outcome of a change.
    pub fn of(outcome: Result<(), String>) -> Self {
        Self {
            error: outcome.err(),
            ports: Vec::new(),
        }
    }
}

/// Writes a message.
///
/// # Errors
/// As the stream.
pub(super) fn write_line(mut stream: impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}
