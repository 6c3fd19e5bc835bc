//! [`Application`]: a program on a host, driven by an event loop or by a simulation.

use tautline_base::Instant;
use tautline_stack::Event;

/// A program on a host `H`.
pub trait Application<H> {
    /// Handles an event of the host.
    fn on_event(&mut self, host: &mut H, event: Event, now: Instant);

    /// Runs after the events and before the poll of each turn of the loop. Returns what the
    /// application waits for.
    fn turn(&mut self, host: &mut H, now: Instant) -> Next;
}

/// The next wake-up of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An event or a wake-up from another thread.
    Event,
    /// An event, a wake-up or this deadline.
    At(Instant),
    /// The application is done; the loop returns.
    Done,
}
