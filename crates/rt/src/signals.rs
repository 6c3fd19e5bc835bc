//! [`stop_on_signals`]: stops a loop on SIGINT, SIGTERM or SIGHUP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::Signals;

use crate::event_loop::Stopper;

const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Lets SIGINT, SIGTERM and SIGHUP stop the loop of `stopper`. A second signal ends the process at
/// once with status 128 + signal number.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    stop_on_signals_after(stopper, || ())
}

/// Calls `registered` between the registrations, where a signal may arrive.
fn stop_on_signals_after(stopper: Stopper, registered: impl FnOnce()) -> io::Result<()> {
    // The first registration takes the place of the kernel's response, which ends the process. So it is
    // the one that keeps the signal for the thread.
    let mut signals = Signals::new(ENDING)?;
    registered();
    let again = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
    }
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                stopper.stop();
            }
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use signal_hook::low_level::raise;
    use tautline_base::Instant;

    use super::*;
    use crate::clock::Clock;
    use crate::event_loop::{Ended, EventLoop, Forwarder, Idle, Progress};

    /// Waits for a signal, but not for ever.
    struct Idling {
        device: std::io::PipeReader,
        until: Instant,
    }

    impl Forwarder for Idling {
        fn turn(&mut self, now: Instant) -> Progress {
            if now < self.until {
                Progress::Wait(Some(self.until))
            } else {
                Progress::Done
            }
        }

        fn devices(&self) -> [std::os::fd::BorrowedFd<'_>; 2] {
            use std::os::fd::AsFd;
            [self.device.as_fd(), self.device.as_fd()]
        }
    }

    #[test]
    fn a_signal_between_the_registrations_stops_the_loop() {
        let event_loop = EventLoop::new(Clock::start(), Idle::Sleep).expect("descriptors");
        let raised = || raise(SIGHUP).expect("a signal of this process");
        stop_on_signals_after(event_loop.stopper(), raised).expect("handlers");
        let (device, _writer) = std::io::pipe().expect("descriptors");
        let until = event_loop.clock().now() + std::time::Duration::from_secs(20);
        let ended = event_loop.run_forwarder(&mut Idling { device, until });
        assert_eq!(ended.expect("the kernel waits"), Ended::Stopped);
    }
}
