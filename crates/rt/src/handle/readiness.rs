//! [`Interest`] and [`Ready`], as tokio's types of these names. (Those need tokio's `net` feature,
//! which this crate does without.)

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::ops::BitOr;
use std::pin::pin;
use std::task::Poll;

/// Operations that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    read: bool,
    write: bool,
}

impl Interest {
    /// Reading data or the end of the stream.
    pub const READABLE: Self = Self {
        read: true,
        write: false,
    };
    /// Writing data, or the error of a closed stream.
    pub const WRITABLE: Self = Self {
        read: false,
        write: true,
    };

    /// Whether it includes reading.
    pub const fn is_readable(self) -> bool {
        self.read
    }

    /// Whether it includes writing.
    pub const fn is_writable(self) -> bool {
        self.write
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
        }
    }
}

impl BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
            read_closed: self.read_closed || other.read_closed,
            write_closed: self.write_closed || other.write_closed,
        }
    }
}

/// Operations that would not block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) read_closed: bool,
    pub(super) write_closed: bool,
}

impl Ready {
    /// Whether neither reading nor writing is ready.
    pub const fn is_empty(self) -> bool {
        !self.is_readable() && !self.is_writable()
    }

    /// Whether reading returns data, the end of the stream or an error without blocking.
    pub const fn is_readable(self) -> bool {
        self.read || self.read_closed
    }

    /// Whether writing takes data or fails without blocking.
    pub const fn is_writable(self) -> bool {
        self.write || self.write_closed
    }

    /// Whether the receiving half has ended; buffered data stays readable.
    pub const fn is_read_closed(self) -> bool {
        self.read_closed
    }

    /// Whether the sending half has ended.
    pub const fn is_write_closed(self) -> bool {
        self.write_closed
    }

    /// The intersection with `interest`; `None` if it is empty.
    pub(super) fn of(self, interest: Interest) -> Option<Self> {
        let kept = Self {
            read: self.read && interest.read,
            write: self.write && interest.write,
            read_closed: self.read_closed && interest.read,
            write_closed: self.write_closed && interest.write,
        };
        (!kept.is_empty()).then_some(kept)
    }

    /// Runs `action` if an operation of `interest` is ready.
    pub(super) fn try_io<R>(
        self,
        interest: Interest,
        action: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        if self.of(interest).is_none() {
            return Err(ErrorKind::WouldBlock.into());
        }
        action()
    }
}

/// Waits until `read` or `write`, as far as `interest` includes it, is ready; returns what `now`
/// reports then.
pub(super) async fn wait_for<R, W>(
    interest: Interest,
    read: impl Future<Output = R>,
    write: impl Future<Output = W>,
    now: impl Fn() -> Option<Ready>,
) -> Ready {
    let (mut read, mut write) = (pin!(read), pin!(write));
    poll_fn(|context| {
        let read = interest.is_readable() && read.as_mut().poll(context).is_ready();
        let write = interest.is_writable() && write.as_mut().poll(context).is_ready();
        if read || write {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    // Another task may have been faster; then nothing is ready any more.
    now().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_counts() {
        let ready = Ready {
            write: true,
            read_closed: true,
            ..Ready::default()
        };
        assert!(
            ready.is_readable()
                && ready.is_writable()
                && ready.is_read_closed()
                && !ready.is_write_closed()
        );
        let write = ready.of(Interest::WRITABLE).expect("room");
        assert!(write.is_writable() && !write.is_readable());
        assert_eq!(
            ready.of(Interest::READABLE | Interest::WRITABLE),
            Some(ready)
        );
        assert!(
            Ready {
                write: true,
                ..Ready::default()
            }
            .of(Interest::READABLE)
            .is_none()
        );
    }

    #[test]
    fn what_is_not_ready_is_not_tried() {
        let ready = Ready {
            write: true,
            ..Ready::default()
        };
        assert_eq!(
            ready.try_io(Interest::WRITABLE, || Ok(1)).expect("tried"),
            1
        );
        let refused = ready.try_io(Interest::READABLE, || -> io::Result<()> {
            panic!("it has no chance")
        });
        assert_eq!(
            refused.expect_err("not tried").kind(),
            ErrorKind::WouldBlock
        );
    }
}
