//! [`TcpSocket`]: calls on one connection that few applications make.

use std::fmt;

use tautline_base::{Instant, SocketId};

use super::transport::Transport;
use crate::kept_bytes::KeptBytes;
use crate::socket::{Recv, SocketError};
use crate::tcp::{AppData, Boundary, Connection, Reading};

/// A connection of a [`Host`](crate::Host), borrowed for a call: see [`Host::tcp`](crate::Host::tcp).
pub struct TcpSocket<'a> {
    transport: &'a mut Transport,
    id: SocketId,
    now: Instant,
}

impl<'a> TcpSocket<'a> {
    pub(super) fn new(
        transport: &'a mut Transport,
        id: SocketId,
        now: Instant,
    ) -> Result<Self, SocketError> {
        match transport.sockets.connection(id) {
            Some(_) => Ok(Self { transport, id, now }),
            None => Err(SocketError::NoSuchSocket),
        }
    }

    /// Copies received data, which the next [`recv`](crate::Host::recv) returns again (`MSG_PEEK`).
    ///
    /// # Errors
    /// As [`recv`](crate::Host::recv).
    pub fn peek(&mut self, out: &mut [u8]) -> Result<Recv, SocketError> {
        let connection = self.transport.sockets.connection_mut(self.id);
        let connection = connection.ok_or(SocketError::NoSuchSocket)?;
        connection.read(Reading::Copied { out, stays: true }, self.now)
    }

    /// [`send`](crate::Host::send) without the copy into the send buffer: takes as much of `data` as fits,
    /// and keeps it until it is acknowledged, or the connection ends, and no packet with it is left in this
    /// host: a device that [gathers](tautline_base::Device::gathers) reads large packets from it. Few large buffers are better
    /// than many small ones. A part of less than 4 KiB is copied all the same, if the rest does not fit: it
    /// would keep the whole buffer.
    ///
    /// # Errors
    /// As [`send`](crate::Host::send).
    pub fn send_owned(&mut self, data: &mut bytes::Bytes) -> Result<usize, SocketError> {
        self.transport
            .write(self.id, AppData::Owned(data), Boundary::None, self.now)
    }

    /// [`send`](crate::Host::send) with `count` zeros, which take no memory while nothing else is queued:
    /// for measurements.
    ///
    /// # Errors
    /// As [`send`](crate::Host::send).
    pub fn send_zeros(&mut self, count: usize) -> Result<usize, SocketError> {
        self.transport
            .write(self.id, AppData::Zeros(count), Boundary::None, self.now)
    }

    /// [`send`](crate::Host::send) that announces more data (`MSG_MORE`): what does not fill a segment waits
    /// for the next write, for at most 200 ms once nothing is in flight.
    ///
    /// # Errors
    /// As [`send`](crate::Host::send).
    pub fn send_more(&mut self, data: &[u8]) -> Result<usize, SocketError> {
        self.transport
            .write(self.id, AppData::Bytes(data), Boundary::More, self.now)
    }

    /// [`send`](crate::Host::send) of a record's end (`MSG_EOR`): no segment holds bytes of `data` and of
    /// later writes, if all of `data` is taken.
    ///
    /// # Errors
    /// As [`send`](crate::Host::send).
    pub fn send_record(&mut self, data: &[u8]) -> Result<usize, SocketError> {
        self.transport
            .write(self.id, AppData::Bytes(data), Boundary::Record, self.now)
    }

    /// [`recv`](crate::Host::recv) without the copy out of the receive buffer: lends received data to `read`, which returns how
    /// many of the bytes it has consumed. There may be more behind them.
    ///
    /// # Errors
    /// As [`recv`](crate::Host::recv).
    pub fn recv_with(&mut self, mut read: impl FnMut(&[u8]) -> usize) -> Result<Recv, SocketError> {
        self.transport
            .read(self.id, Reading::Lent(&mut read), self.now)
    }

    /// Takes the next bytes without a copy if the receive buffer keeps them in the memory they arrived in,
    /// and their number `fits`: the rest of a large packet, on a host that [keeps
    /// them](crate::HostConfig::keeps_packets). `None` otherwise: [`recv`](crate::Host::recv) reads
    /// what there is, and finds the end. The packet's memory is held until all of the result is dropped; it
    /// no longer counts as the host's.
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`].
    pub fn recv_owned(
        &mut self,
        mut fits: impl FnMut(usize) -> bool,
    ) -> Result<Option<KeptBytes>, SocketError> {
        let mut packet = None;
        let mut take = |kept: &KeptBytes| {
            packet = fits(kept.bytes.len()).then(|| kept.clone());
            packet.is_some()
        };
        self.transport
            .read(self.id, Reading::Kept(&mut take), self.now)?;
        Ok(packet)
    }

    /// Closes the receiving half (`SHUT_RD`): a read returns the end of the stream once all that
    /// has arrived is read. As on Linux the peer is not notified. While the sending half is open,
    /// what arrives is acknowledged and can still be read; after that it resets the connection (RFC
    /// 1122 §4.2.2.13).
    ///
    /// # Errors
    /// [`SocketError::NoSuchSocket`].
    pub fn shutdown_receive(&mut self) -> Result<(), SocketError> {
        self.transport
            .with_connection(self.id, Connection::shutdown_receive)
    }
}

impl fmt::Debug for TcpSocket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
