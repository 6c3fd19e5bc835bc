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
//! thread is woken by a [`Waker`]. So the same code runs in virtual time. The host's thread
//! waits for an application only while that adds to a chunk of 16 KiB at most, or peeks.
//! [`tokio_net`](crate::tokio_net) adds tokio's traits.
//!
//! # Without threads, in virtual time
//! A driver of your own polls the program, lets each host receive and [serves](crate::application::serve)
//! it, until nothing happens any more; then time moves to the next deadline. The same inputs give the same
//! packets. A device with a delay has a deadline of its own: the arrival of its next frame.
//!
#![cfg_attr(any(target_os = "linux", target_os = "android"), doc = "```")]
#![cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    doc = "```ignore"
)]
//! use std::pin::pin;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::task::{Context, Poll, Wake, Waker};
//! use tautline_rt::application::serve;
//! use tautline_rt::handle::Config;
//! use tautline_rt::{Cable, StackHandle, TcpListener, TcpStream, cable};
//! use tautline_qdisc::{Pfifo, pfifo};
//! use tautline_stack::{Cidr, Dql, Host, HostConfig, Instant, NoTrace, Pool, Port, Ring};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! /// Set when the program or a handle wakes somebody.
//! #[derive(Default)]
//! struct Woken(AtomicBool);
//!
//! impl Wake for Woken {
//!     fn wake(self: Arc<Self>) {
//!         self.0.store(true, Ordering::Release);
//!     }
//! }
//!
//! let woken = Arc::new(Woken::default());
//! let waker = Waker::from(Arc::clone(&woken));
//! let host = |device: Cable, number: u8| {
//!     let config = HostConfig::new([2, 0, 0, 0, 0, number], 1).address(Cidr::new([10, 0, 0, number], 24));
//!     let port = Port::new(Pfifo::new(pfifo::Config::default()), Ring::new(device, Dql::default()));
//!     let (handle, sockets) = StackHandle::new(Config::default(), waker.clone());
//!     (handle, (Host::new(config, port, Pool::heap(256, None), NoTrace), sockets))
//! };
//! let [left, right] = cable()?; // or devices of your own
//! let ((client, near), (server, far)) = (host(left, 1), host(right, 2));
//! let mut hosts = [near, far];
//!
//! let mut program = pin!(async {
//!     let listener = TcpListener::bind(&server, 7).await?;
//!     let connecting = TcpStream::connect(&client, ([10, 0, 0, 2], 7));
//!     let (mut near, (mut far, _)) = tokio::try_join!(connecting, listener.accept())?;
//!     near.write_all(b"hello").await?;
//!     near.shutdown().await?;
//!     let mut text = String::new();
//!     far.read_to_string(&mut text).await?;
//!     std::io::Result::Ok(text)
//! });
//! let mut now = Instant::from_secs(1);
//! let text = loop {
//!     if let Poll::Ready(text) = program.as_mut().poll(&mut Context::from_waker(&waker)) {
//!         break text?;
//!     }
//!     let (mut received, mut deadline) = (0, None);
//!     for (host, sockets) in &mut hosts {
//!         received += host.receive(now);
//!         let (wake, _) = serve(host, sockets, now);
//!         deadline = deadline.into_iter().chain(wake.map(|wake| wake.at)).min();
//!     }
//!     if received == 0 && !woken.0.swap(false, Ordering::AcqRel) {
//!         now = now.max(deadline.expect("the program waits for a host"));
//!     }
//! };
//! assert_eq!(text, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```

mod byte_queue;
mod command;
mod connection;
mod datagram_ring;
mod debug;
pub mod failure;
pub mod group;
pub mod halves;
#[cfg(all(test, tautline_loom))]
mod interleavings;
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
mod sync;
pub mod udp;
mod udp_host;
mod waiters;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::Waker;

use tautline_base::Bytes;
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

use byte_queue::Budget;
use command::Command;
use oneshot::oneshot;

/// Settings of the sockets opened through a [`StackHandle`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The host's end of each connection.
    pub tcp: TcpConfig,
    /// The host's end of each datagram socket.
    pub udp: UdpConfig,
    /// Capacity in bytes of the ring from application to host, per connection; it takes memory for
    /// the bytes in it only. Default 64 KiB: it only covers the time until the host's thread runs, because the
    /// host has its own buffer ([`TcpConfig::send_buffer`]).
    pub send_ring: NonZeroUsize,
    /// Capacity in bytes of the ring from host to application, per connection. A large packet that needs no
    /// copy enters whole if half of it fits, so that half as much again may be in the ring; it waits while more
    /// than half of the ring is unread, unless the reader peeks for more. Default 64 KiB.
    pub receive_ring: NonZeroUsize,
    /// Most bytes in the rings of all connections together. Beyond it an empty ring takes 512
    /// bytes, and one that holds bytes nothing. Default 1 GiB.
    pub ring_memory: Bytes,
    /// Most connections of a listener that are not yet accepted; further ones are reset. Default
    /// 1024 (tokio's backlog).
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
            ring_memory: Bytes::mib(1024),
            accept_queue: QUEUE,
        }
    }
}

/// A handle to a host on another thread, for [`TcpStream::connect`] and [`TcpListener::bind`].
/// Cheap to clone.
#[derive(Clone)]
pub struct StackHandle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    commands: Sender<Command>,
    host: Waker,
    config: Config,
    /// As in `config`, shared by the connections.
    tcp: Arc<TcpConfig>,
    budget: Arc<Budget>,
}

impl StackHandle {
    /// Returns a handle for the applications and the [`Sockets`] that the host's thread serves.
    /// `host` wakes that thread: `Waker::from(event_loop.event_fd())` for an
    /// [`EventLoop`](crate::EventLoop).
    pub fn new(config: Config, host: Waker) -> (Self, Sockets) {
        let (commands, queue) = channel();
        let inner = Inner {
            commands,
            host,
            budget: Arc::new(Budget::new(config.ring_memory.get())),
            tcp: Arc::new(config.tcp.clone()),
            config,
        };
        (Self(Arc::new(inner)), Sockets::new(queue))
    }

    /// Settings of the sockets opened through this handle.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The host's counters, its number of sockets, and the bytes in their buffers and rings.
    ///
    /// # Errors
    /// [`Failure::HostGone`].
    pub async fn stats(&self) -> io::Result<(HostStats, usize, u64)> {
        let (reply, receiver) = oneshot();
        let budget = Arc::clone(&self.0.budget);
        self.command(Command::HostStats(reply, budget));
        Ok(receiver.received().await?)
    }

    /// Waits until the host has ended, with it [`Failure::HostGone`] for every socket. Cancel safe.
    pub async fn ended(&self) {
        let (reply, receiver) = oneshot();
        self.command(Command::End(reply));
        // It has no other outcome.
        let _ = receiver.received().await;
    }

    /// Whether the host still has something to deliver for streams that were dropped, or shut down, or packets
    /// that have not left.
    ///
    /// # Errors
    /// [`Failure::HostGone`].
    pub async fn is_delivering(&self) -> io::Result<bool> {
        let (reply, receiver) = oneshot();
        self.command(Command::IsDelivering(reply));
        Ok(receiver.received().await?)
    }

    /// Queues a command and wakes the host's thread. If the thread is gone, the command is dropped
    /// with its end of the channel, so the waiting application gets an error.
    fn command(&self, command: Command) {
        if self.0.commands.send(command).is_ok() {
            self.0.host.wake_by_ref();
        }
    }
}
