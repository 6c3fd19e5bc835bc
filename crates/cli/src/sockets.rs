//! [`with_sockets`]: a program that only wants sockets, on a stack on any device.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::channel;
use std::task::Waker;
use std::time::Duration;

use tautline_base::Frame;
use tautline_rt::handle::Config;
use tautline_rt::{Ended, StackHandle};
use tautline_stack::{Cidr, TcpConfig};

use crate::args::StackArgs;
use crate::failure::Failure;
use crate::open::{Job, Opened, with_device};
use crate::session::Session;

/// Time limit for the host to deliver what the program has written to sockets that it has dropped.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// A program's handle to its sockets.
#[derive(Debug)]
pub struct Sockets {
    /// The handle that opens them.
    pub stack: StackHandle,
    /// Our own addresses.
    pub addresses: Vec<IpAddr>,
}

/// Runs `program` on its own thread beside the stack, until it returns or a signal arrives. If it
/// will call `peer`, that must be another, reachable host. Connections that it still holds
/// then are reset; those that it has dropped deliver what is left.
///
/// # Errors
/// Those of the device and of the program.
pub fn with_sockets<P>(
    args: &StackArgs,
    peer: Option<SocketAddr>,
    program: P,
) -> Result<(), Failure>
where
    P: FnOnce(Sockets) -> io::Result<()> + Send + 'static,
{
    let mut args = args.clone();
    args.obtain_lease()?;
    peer.map_or(Ok(()), |peer| args.check_peer(peer))?;
    let program = Box::new(program);
    with_device(&args.clone(), Beside { args, program })
}

/// The configuration of a program with many connections. Their send buffers follow the congestion
/// window, as Linux's do: a peer that never reads costs what its path can carry, not 4 MiB.
pub fn many_sockets(tcp: TcpConfig) -> Config {
    Config {
        tcp: TcpConfig {
            send_start: Some(TcpConfig::LINUX_SEND_START),
            ..tcp
        },
        ..Config::default()
    }
}

/// Not generic in the program, so that the stack is compiled here and not in each program.
struct Beside {
    args: StackArgs,
    program: Box<dyn FnOnce(Sockets) -> io::Result<()> + Send>,
}

impl Job for Beside {
    fn run<F: Frame + Send + 'static>(self, opened: Opened<F>) -> Result<(), Failure> {
        let Self { args, program } = self;
        let mut session = Session::new(opened, &args)?;
        session.announce("sockets");
        let (stopper, addresses) = (
            session.event_loop.stopper(),
            args.own().map(Cidr::address).collect(),
        );
        let (tell, told) = channel();
        serve(&mut session, &args, move |stack| {
            std::thread::spawn(move || {
                // Nobody listens if a signal came first.
                let _ = tell.send(program(Sockets { stack, addresses }));
                stopper.stop();
            });
        })?;
        told.try_recv()
            .map_or(Err(Failure::Interrupted), |end| end.map_err(Failure::Os))
    }
}

/// Drives the host of `session`, whose sockets `ready` takes, until the loop is stopped; then resets
/// the connections that are still held, and lets the others deliver what is left.
///
/// # Errors
/// If the device fails.
pub fn serve<F: Frame + Send + 'static>(
    session: &mut Session<F>,
    args: &StackArgs,
    ready: impl FnOnce(StackHandle),
) -> Result<(), Failure> {
    let config = many_sockets(args.tcp.config());
    let waker = Waker::from(session.event_loop.event_fd());
    let (stack, mut sockets) = StackHandle::new(config, waker);
    ready(stack);
    let ended = session.drive(&mut sockets, |_| None)?;
    session.check_lease()?;
    let now = session.event_loop.clock().now();
    sockets.abort_all(&mut session.host, now);
    // Pending socket operations fail with "host gone", and the program ends.
    drop(sockets);
    session.event_loop.drain(&mut session.host, DRAIN_TIME)?;
    match ended {
        Ended::DeviceFailed => Err(session.explain(Failure::Silent(Duration::ZERO))),
        Ended::Application | Ended::Stopped => Ok(()),
    }
}
