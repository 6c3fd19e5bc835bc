//! [`OpenError`]: why a socket could not be opened, with the remedy; [`Failure`]: why an open one no
//! longer works.

use std::{fmt, io};

/// Why a packet socket could not be opened. `Debug` shows the message, too.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The process may not open packet sockets.
    #[error("no permission to open a packet socket: run as root, or grant CAP_NET_RAW")]
    NoPermission,
    /// No interface has this name.
    #[error("there is no interface `{interface}`: `ip link` lists them")]
    NoSuchInterface {
        /// The requested name.
        interface: String,
    },
    /// The interface is down.
    #[error("`{interface}` is down: `ip link set {interface} up`")]
    Down {
        /// Name of the interface.
        interface: String,
    },
    /// The filter compares with each address in turn; more would slow every packet.
    #[error("{count} addresses to take: at most {limit}")]
    TooManyAddresses {
        /// Number of requested addresses.
        count: usize,
        /// Most addresses.
        limit: usize,
    },
    /// Any other error of the kernel.
    #[error("cannot {doing}: {source}")]
    Os {
        /// The failed operation.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// As [`Display`](fmt::Display): a `main` that returns the error, and `expect`, print this.
impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why an open socket no longer sends or receives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The interface went down.
    #[error("interface `{0}` went down: `ip link set {0} up`, then start again")]
    Down(String),
    /// The interface was removed.
    #[error("interface `{0}` was removed")]
    Removed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_the_error_prints_the_remedy() {
        let error: Box<dyn std::error::Error> = OpenError::NoPermission.into();
        let printed = format!("{error:?}");
        assert!(printed.contains("CAP_NET_RAW"), "{printed}");
    }
}
