//! [`HeldLease`]: a DHCP lease that a program holds.

use tautline_base::Instant;
use tautline_rt::Clock;
use tautline_stack::dhcp::Lease;

/// A lease, and the clock by which it began.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    pub(crate) lease: Lease,
    pub(crate) clock: Clock,
    /// Time of that clock at which it began.
    pub(crate) since: Instant,
    /// Time of that clock at which its address was first announced.
    pub(crate) announced: Instant,
    /// Hardware address that it was granted to.
    pub(crate) mac: [u8; 6],
}
