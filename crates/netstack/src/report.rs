//! [`Report`]: what a stack holds and has done.

use std::fmt;

use tautline_stack::HostStats;

/// A snapshot of a stack; its text has a line for each counter that is not zero.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Counters since the stack began.
    pub counters: HostStats,
    /// Sockets, those in TIME-WAIT and SYNs that wait for an answer included.
    pub sockets: usize,
    /// Bytes in the buffers of all connections.
    pub memory: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sockets {}, buffers {} bytes", self.sockets, self.memory)?;
        for (name, count) in self.counters.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "{name}: {count}")?;
        }
        Ok(())
    }
}
