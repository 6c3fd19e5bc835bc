//! [`Failure`]: every way a program can end badly, as one line with the remedy where there is one.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tautline_rt::TapError;
use tautline_sim::{ConfigError, TransferError};
use tautline_stack::dhcp::Lost;
use tautline_stack::{CloseReason, ConnectError, ListenError, SocketError};

use crate::check::Unusable;
use crate::report::all_printed;

/// Why a program ends with a failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The AF_XDP device could not be opened.
    #[cfg(feature = "af-xdp")]
    #[error(transparent)]
    AfXdp(#[from] tautline_xdp_io::OpenError),
    /// The program was built without AF_XDP.
    #[cfg(not(feature = "af-xdp"))]
    #[error(
        "this program was built without AF_XDP: use --device packet, or build with the feature `af-xdp` (scripts/setup first)"
    )]
    NoAfXdp,
    /// The TAP interface could not be opened.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// The packet socket could not be opened.
    #[error(transparent)]
    Packet(#[from] tautline_rt::packet_device::OpenError),
    /// The qdisc was refused.
    #[error(transparent)]
    Qdisc(#[from] tautline_tc::ParseError),
    /// The limit was refused.
    #[error(transparent)]
    Limit(#[from] tautline_base::ConfigError),
    /// The peer cannot be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The port cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A socket call was refused.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The connection ended before the transfer did.
    #[error("{0}")]
    Closed(CloseReason),
    /// The peer has become silent.
    #[error("the peer has been silent for {0:?} in the middle of the transfer")]
    Silent(Duration),
    /// The peer has never said anything.
    #[error("no answer for {0:?}: check that the address is right and the receiver is reachable")]
    NoAnswer(Duration),
    /// The receiver broke the connection off.
    #[error(
        "the receiver reset the connection before it confirmed the transfer: its own message says why"
    )]
    Unconfirmed,
    /// The command line cannot work.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// Another program failed.
    #[error("{0}")]
    Refused(String),
    /// A signal ended the program.
    #[error("interrupted; the connection was reset")]
    Interrupted,
    /// The device stopped working.
    #[error("the device failed: {0}")]
    Device(String),
    /// The host of a queue has ended, or its pair of ports; the others went on.
    #[error("queue {queue}: {source}")]
    Queue {
        /// The hardware queue.
        queue: u32,
        /// The cause.
        source: Box<Self>,
    },
    /// Streams ended before their end; the report says which.
    #[error("{0} of the streams ended early: see the report above")]
    CutShort(usize),
    /// A thread panicked.
    #[error("its thread panicked, which is a bug: please report it with the message above")]
    Panicked,
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path or name.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The received data cannot be written.
    #[error(
        "cannot write what was received: {0}; a reset notifies the sender. Free space, or choose another --out"
    )]
    Store(io::Error),
    /// No DHCP server has answered.
    #[error(
        "no DHCP server on {interface} has offered an address within {timeout:?}: check that one serves this link, or name an address with --ip"
    )]
    NoLease {
        /// The interface.
        interface: String,
        /// How long it was asked for.
        timeout: Duration,
    },
    /// The lease of our address has ended.
    #[error("the lease of {address} has ended: {why}; start again for another address")]
    LeaseLost {
        /// The address.
        address: Ipv4Addr,
        /// The cause.
        why: Lost,
    },
    /// The system refused something else.
    #[error(transparent)]
    Os(#[from] io::Error),
    /// A parameter of the simulation was refused.
    #[error(transparent)]
    Simulation(#[from] ConfigError),
    /// The simulated transfer did not come to its end.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The received data differ from the sent data.
    #[error("what was received differs from what was sent: SHA-256 {received}, not {sent}")]
    Differs {
        /// Digest at the sender.
        sent: String,
        /// Digest at the receiver.
        received: String,
    },
}

impl Failure {
    /// For use with `map_err` on file operations.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// The end of `main`: a failure is one line on standard error and a non-zero status; a shell's for
/// an interrupt. A report that could not be printed is a failure, too.
pub fn exit_code(program: &str, result: Result<(), Failure>) -> ExitCode {
    match result.and_then(|()| all_printed()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{program}: {failure}");
            if matches!(failure, Failure::Interrupted) {
                ExitCode::from(130)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
