//! The sockets of [`handle`](crate::handle) for threads that wait: no runtime, `std::io`'s traits,
//! the habits of `std::net`.
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
//! Each is a thin wrapper: the thread is parked until the handle's waker unparks it, or a timeout
//! has passed. Whatever else a handle can do is reached through `handle()`. Hosts without threads
//! or runtimes are polled: see [`Host`](tautline_stack::Host), whose own interface is that of
//! events and polls.

mod park;
mod tcp;
mod udp;

use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

/// How long a call may wait; `None` as long as it takes.
#[derive(Debug, Default)]
struct Patience(Mutex<Option<Duration>>);

impl Patience {
    /// Zero would be no time at all, and is refused, as `std` does.
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

    /// The result of `future`, if it is there in time.
    fn wait<T>(&self, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        park::block_on(future, self.get()).unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))
    }
}
