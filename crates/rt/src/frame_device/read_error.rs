//! [`ReadError`]: why nothing more is read from a device.

use std::io;

use rustix::io::Errno;

/// Why nothing more is read from a descriptor whose interface was not removed. Every message ends in the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Reads return 0 bytes.
    #[error(
        "reads from the device return nothing: the other end of its descriptor was closed, or it is not that of an \
         interface; open the interface again, for a new stack"
    )]
    EndOfFile,
    /// Reads fail with this number of the system.
    #[error(
        "reads from the device fail ({}): the interface has failed, or the descriptor is not that of a TUN or TAP \
         interface without packet information; open it again, for a new stack",
        io::Error::from_raw_os_error(*.0)
    )]
    Os(i32),
}

impl ReadError {
    /// Classifies the error of a read; `None` if there is only no frame now.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        if error.kind() == io::ErrorKind::WouldBlock {
            return None;
        }
        let unknown = Errno::IO.raw_os_error();
        Some(Self::Os(error.raw_os_error().unwrap_or(unknown)))
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::EndOfFile => io::ErrorKind::UnexpectedEof,
            ReadError::Os(number) => Self::from_raw_os_error(number).kind(),
        };
        Self::new(kind, error)
    }
}
