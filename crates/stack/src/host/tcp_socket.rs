//! [`TcpSocket`]: calls on one connection that few applications make.

use tautline_base::SocketId;

use super::transport::Transport;
use crate::socket::{Recv, SocketError};
use crate::tcp::Connection;

/// A connection of a [`Host`](crate::Host), borrowed for a call: see [`Host::tcp`](crate::Host::tcp).
pub struct TcpSocket<'a> {
    transport: &'a mut Transport,
    id: SocketId,
}

impl<'a> TcpSocket<'a> {
    pub(super) fn new(transport: &'a mut Transport, id: SocketId) -> Result<Self, SocketError> {
        match transport.sockets.connection(id) {
            Some(_) => Ok(Self { transport, id }),
            None => Err(SocketError::NoSuchSocket),
        }
    }

    /// Copies received data, which the next [`recv`](crate::Host::recv) returns again (`MSG_PEEK`).
    ///
    /// # Errors
    /// As [`recv`](crate::Host::recv).
    pub fn peek(&mut self, out: &mut [u8]) -> Result<Recv, SocketError> {
        let connection = self.transport.sockets.connection_mut(self.id);
        connection.ok_or(SocketError::NoSuchSocket)?.read(out, true)
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
