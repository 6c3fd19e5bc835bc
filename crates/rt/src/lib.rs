//! Real time for a [`Host`](tautline_stack::Host): a clock, an event loop over any device with a
//! descriptor, TAP, and sockets for async and blocking programs.
//!
//! The sockets ([`handle`], [`blocking`], [`tokio_net`]) and the [`bridge`] build on every platform.
//! The event loop and its devices need eventfd (Linux, Android), [`Tap`] needs Linux.
#![forbid(unsafe_code)]

pub mod application;
mod auto_traits;
pub mod blocking;
pub mod bridge;
pub mod clock;
pub mod handle;
mod log;
pub mod tokio_net;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod cable;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod entropy;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod event_fd;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod event_loop;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod frame_device;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod host_thread;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod kept_memory;
#[cfg(target_os = "linux")]
pub mod packet_device;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod signals;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod steer;
#[cfg(target_os = "linux")]
pub mod tap;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod tun_fd;
#[cfg(target_os = "linux")]
mod virtio;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod wait;

pub use application::{Application, Next};
pub use clock::Clock;
pub use handle::{
    ByWords, Interest, ListenerGroup, Ready, Sockets, StackHandle, TcpListener, TcpRequest,
    TcpStream, UdpSocket,
};
pub use tautline_stack::ListenAt;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use self::{
    cable::{Cable, cable},
    entropy::system_seed,
    event_fd::EventFd,
    event_loop::{Ended, EventLoop, Forwarder, Idle, Progress, Stopper},
    host_thread::HostThread,
    signals::stop_on_signals,
    tun_fd::TunFd,
};
#[cfg(target_os = "linux")]
pub use {
    packet_device::{PacketDevice, PacketIo},
    tap::{Tap, TapError},
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
