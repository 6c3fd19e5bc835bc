//! Real time for a [`Host`](tautline_stack::Host): a clock, an event loop over any device with a
//! descriptor, TAP, and sockets for async programs.
//!
//! | module | holds |
//! |---|---|
//! | [`event_loop`] | [`EventLoop`]: drives a host with an [`Application`] on the calling thread |
//! | [`clock`], [`wait`], [`bell`] | what the loop is made of: time, sleeping, being woken |
//! | [`handle`], [`tokio_net`] | [`TcpStream`], [`TcpListener`]: sockets for async programs, with tokio's traits |
//! | [`blocking`] | the same sockets for threads that wait |
//! | [`host_thread`] | [`HostThread`]: a host on a thread of its own, for programs that only want sockets |
//! | [`signals`] | [`stop_on_signals`]: Ctrl-C ends a loop in order |
//! | [`bridge`] | [`Bridge`](bridge::Bridge): a bump in the wire between two devices, each way through a discipline |
//! | [`tap`] | [`Tap`]: a TAP interface as a device |
//! | [`mod@cable`] | [`cable()`]: two devices joined in memory |
//! | [`frame_device`] | [`FrameDevice`](frame_device::FrameDevice): what those two share |
//! | [`entropy`] | [`system_seed`] |
#![forbid(unsafe_code)]

pub mod bell;
pub mod blocking;
pub mod bridge;
pub mod cable;
pub mod clock;
pub mod entropy;
pub mod event_loop;
pub mod frame_device;
pub mod handle;
pub mod host_thread;
pub mod signals;
pub mod tap;
pub mod tokio_net;
pub mod wait;

pub use bell::Bell;
pub use cable::{Cable, cable};
pub use clock::Clock;
pub use entropy::system_seed;
pub use event_loop::{Application, Between, Ended, EventLoop, Idle, Next, Stopper, Turn};
pub use handle::{
    ByWords, Interest, ListenerGroup, Ready, Sockets, Stack, TcpListener, TcpStream, UdpSocket,
};
pub use host_thread::HostThread;
pub use signals::stop_on_signals;
pub use tap::{Tap, TapError};
pub use tautline_stack::ListenAt;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
