//! Events of `tracing` on standard error, selected by the environment variable `RUST_LOG`:
//! `RUST_LOG=debug`, or by module, `RUST_LOG=tautline_rt=trace,tautline_netstack=debug`.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

const VARIABLE: &str = "RUST_LOG";

/// Installs the subscriber if `RUST_LOG` is set. A value that does not parse is reported and ignored.
pub fn start() {
    let Ok(words) = std::env::var(VARIABLE) else {
        return;
    };
    match words.parse::<Targets>() {
        Ok(selected) => {
            let lines = fmt::layer().with_writer(std::io::stderr);
            tracing_subscriber::registry()
                .with(lines.with_filter(selected))
                .init();
        }
        Err(error) => {
            eprintln!("{VARIABLE}={words}: {error}; write e.g. {VARIABLE}=tautline_rt=debug")
        }
    }
}
