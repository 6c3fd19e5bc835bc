//! Ctrl-C and its relatives end a loop in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::Signals;

use crate::event_loop::Stopper;

const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// From now on SIGINT, SIGTERM and SIGHUP stop the loop of `stopper`. A second one ends the process
/// at once, with the status a shell would give it.
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
