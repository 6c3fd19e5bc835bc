//! Asynchronous sockets: handles on any thread that communicate with the thread of their host.
//!
//! ```text
//!   TcpStream                                    Sockets
//!   WriteHalf  ── bytes, bounded ring ────────▶  host.send      on the host's thread,
//!   ReadHalf   ◀──────── bytes, bounded ring ──  host.recv      driven by its event loop
//!              ── one Serve per connection ──▶   and a wake-up of that thread
//!              ◀──────────────────────── waker ──
//! ```
//! Nothing here reads a clock or needs a runtime: the handles poll (`std::task`), and the host's
//! thread is woken by a [`Waker`]. So the same code runs in virtual time. No byte passes through a
//! lock that the host's thread takes. [`tokio_net`](crate::tokio_net) adds tokio's traits.

mod byte_ring;
mod command;
mod connection;
mod datagram_ring;
pub mod failure;
pub mod group;
pub mod halves;
pub mod listener;
mod listener_host;
mod notify;
mod oneshot;
mod options;
pub mod readiness;
pub mod rebuild;
pub mod request;
pub mod sockets;
pub mod stream;
pub mod udp;
mod udp_host;
mod waiters;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::Waker;

use tautline_stack::{HostStats, TcpConfig, UdpConfig};

pub use failure::Failure;
pub use group::ListenerGroup;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
pub use listener::TcpListener;
pub use readiness::{Interest, Ready};
pub use rebuild::{ByWords, Fixed, Rebuild};
pub use request::TcpRequest;
pub use sockets::Sockets;
pub use stream::TcpStream;
pub use udp::UdpSocket;

use command::Command;
use oneshot::oneshot;

/// How sockets behave that are opened through a [`StackHandle`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The host's end of each connection.
    pub tcp: TcpConfig,
    /// The host's end of each datagram socket.
    pub udp: UdpConfig,
    /// Most bytes on their way from the application to the host, per connection; they are allocated
    /// when needed. Default 64 KiB: the host has a buffer of its own ([`TcpConfig::send_buffer`]),
    /// this only has to cover the time until its thread runs.
    pub send_ring: NonZeroUsize,
    /// Most bytes on their way from the host to the application, per connection; they are allocated
    /// when needed. Default 64 KiB.
    pub receive_ring: NonZeroUsize,
    /// Connections a listener holds that nobody has accepted; further ones are reset. Default 1024
    /// (tokio's backlog).
    pub accept_queue: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        const RING: NonZeroUsize = NonZeroUsize::new(64 << 10).expect("not zero");
        const QUEUE: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");
        Self {
            tcp: TcpConfig::default(),
            udp: UdpConfig::default(),
            send_ring: RING,
            receive_ring: RING,
            accept_queue: QUEUE,
        }
    }
}

/// A handle to a host on another thread: what [`TcpStream::connect`] and [`TcpListener::bind`]
/// need. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StackHandle {
    commands: Sender<Command>,
    host: Waker,
    config: Arc<Config>,
}

impl StackHandle {
    /// A handle for the applications and the side that belongs to the host. `host` wakes the thread
    /// that drives it, which then gives [`Sockets`] a turn: `Waker::from(event_loop.event_fd())` does
    /// for an [`EventLoop`](crate::EventLoop).
    pub fn new(config: Config, host: Waker) -> (Self, Sockets) {
        let (commands, queue) = channel();
        let stack = Self {
            commands,
            host,
            config: Arc::new(config),
        };
        (stack, Sockets::new(queue))
    }

    /// How sockets opened through this handle behave.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The host's counters, its sockets, and the bytes in their buffers.
    ///
    /// # Errors
    /// [`Failure::HostGone`].
    pub async fn stats(&self) -> io::Result<(HostStats, usize, u64)> {
        let (reply, receiver) = oneshot();
        self.command(Command::HostStats(reply));
        Ok(receiver.received().await?)
    }

    /// Puts a command into the queue and wakes the host's thread. A command that finds the thread
    /// gone is dropped, and with it its end of the socket, which tells the waiting application.
    fn command(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.host.wake_by_ref();
        }
    }
}
