//! TCP from a TUN interface: `stack KIND` terminates every connection, `load` measures them with the
//! kernel's sockets. `scripts/bench-netstack` runs both in a network namespace.
//!
//! The stacks: ours with and without segmentation offload, ours over a device of packets as the
//! others get it, `ipstack`, `netstack-smoltcp`, and the kernel's own TCP for `scripts/bench-path-shape`. The packet devices are the same `tun-rs` device
//! for all.

mod device;
mod load;
mod service;
mod stacks;

use std::error::Error;
use std::time::Duration;

use clap::Parser;

use stacks::Kind;

#[derive(Parser)]
enum Command {
    /// Terminates every connection to a TUN interface until it is killed.
    Stack {
        kind: Kind,
        /// The interface, which must exist.
        #[arg(long, default_value = "tun0")]
        interface: String,
    },
    /// Measures a stack; prints one line per row.
    Load {
        /// An address behind the interface.
        #[arg(long, default_value = "10.99.0.2")]
        to: std::net::IpAddr,
        /// The stack's process, for its memory and processor time.
        #[arg(long)]
        pid: u32,
        /// Seconds per row.
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
        /// Only rows whose name begins so.
        #[arg(long, default_value = "")]
        only: String,
        /// Instead of the rows: requests on so many connections, without and beside a download.
        #[arg(long)]
        neighbors: Option<usize>,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    match Command::parse() {
        Command::Stack { kind, interface } => stacks::run(kind, &interface),
        Command::Load {
            to,
            pid,
            seconds,
            only,
            neighbors,
        } => {
            let span = Duration::from_secs_f64(seconds);
            match neighbors {
                Some(count) => load::neighbors(to, count, span),
                None => load::run(to, pid, span, &only),
            }
            .map_err(Into::into)
        }
    }
}
