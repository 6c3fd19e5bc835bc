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
    let again = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
    }
    let mut signals = Signals::new(ENDING)?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                stopper.stop();
            }
        })?;
    Ok(())
}
