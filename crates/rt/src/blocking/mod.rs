//! Blocking sockets: those of [`handle`](crate::handle) without a runtime, with the traits of
//! `std::io` and the semantics of `std::net`.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use tautline_rt::blocking::TcpStream;
//! # fn example(stack: &tautline_rt::StackHandle) -> std::io::Result<()> {
//! let mut stream = TcpStream::connect(stack, "10.7.0.2:80".parse::<std::net::SocketAddr>().expect("an address"))?;
//! stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
//! let mut page = String::new();
//! stream.read_to_string(&mut page)?;
//! # Ok(()) }
//! ```
//!
//! Each wraps a handle: the thread is parked until the handle's waker unparks it or a timeout has
//! passed. `handle()` gives access to all other methods.

mod park;
mod tcp;
mod udp;

use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

/// Longest wait of a call; `None` is unlimited.
#[derive(Debug, Default)]
struct Timeout(Mutex<Option<Duration>>);

impl Timeout {
    /// Fails for zero, as `std` does.
    fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a timeout of zero: use the handle's `try_` methods instead",
            ));
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
        Ok(())
    }

    fn get(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks on `future` until the timeout.
    fn wait<T>(&self, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        park::block_on(future, self.get()).unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))
    }
}
