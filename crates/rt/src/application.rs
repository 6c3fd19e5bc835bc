//! [`Application`]: a program on a host, driven by an event loop or by a simulation.

use tautline_base::{Device, Instant, Packet, Wake};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{Event, Host, Tracer};

use crate::log;

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

/// Delivers events, runs the application's turn, polls; repeats while the poll brings events.
/// The middle of each turn of a loop that drives a host: after the receive, before the wait.
pub fn serve<Q, D, T, L, A>(
    host: &mut Host<Q, D, T, L>,
    application: &mut A,
    now: Instant,
) -> (Option<Wake>, Next)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
    A: Application<Host<Q, D, T, L>>,
{
    let mut pending = host.next_event();
    loop {
        while let Some(event) = pending {
            log::report(host, &event);
            application.on_event(host, event, now);
            pending = host.next_event();
        }
        let next = application.turn(host, now);
        let wake = host.poll(now);
        pending = host.next_event();
        if pending.is_none() || next == Next::Done {
            return (wake, next);
        }
    }
}
