//! [`StreamService`] and [`DatagramService`]: servers with a handler per connection or datagram.
//! The failure of one connection does not affect the others.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tautline_base::SocketId;
use tautline_stack::udp::Datagram;
use tautline_stack::{CloseReason, Event, TcpConfig, UdpConfig};

use super::slab::Slab;
use super::{AppError, Application, Context};

/// The wildcard address, for both families.
pub(super) const fn anywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

/// Reads and writes a connection with state `V` as far as possible. Returns true when it is
/// finished.
pub(super) type Handler<V> = fn(&mut V, &mut Context<'_>, SocketId) -> Result<bool, AppError>;

/// Listens on a TCP port. Each connection has a state `V`.
pub(super) struct StreamService<V> {
    port: u16,
    tcp: Arc<TcpConfig>,
    handler: Handler<V>,
    listener: Option<SocketId>,
    sessions: Slab<V>,
}

impl<V: Default> StreamService<V> {
    /// `handler` is called when a connection is accepted, readable or writable, and when it has
    /// ended, with data left to read.
    pub(super) fn new(port: u16, tcp: Arc<TcpConfig>, handler: Handler<V>) -> Self {
        Self {
            port,
            tcp,
            handler,
            listener: None,
            sessions: Slab::default(),
        }
    }

    fn handle(&mut self, cx: &mut Context<'_>, socket: SocketId, token: u32) {
        let Some(session) = self.sessions.get_mut(token) else {
            return;
        };
        match (self.handler)(session, cx, socket) {
            Ok(false) => {}
            Ok(true) => self.close(cx, socket, token),
            Err(why) => {
                cx.fail(why);
                // A connection that has ended is closed all the same.
                let _ = cx.host.abort(socket);
                self.close(cx, socket, token);
            }
        }
    }

    fn close(&mut self, cx: &mut Context<'_>, socket: SocketId, token: u32) {
        cx.close(socket);
        self.sessions.remove(token);
    }
}

impl<V: Default> Application for StreamService<V> {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.listener = Some(cx.listen(self.port, Arc::clone(&self.tcp), 0)?);
        Ok(())
    }

    fn stop(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.listener
            .take()
            .into_iter()
            .for_each(|listener| cx.close(listener));
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: Event, token: u32) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                cx.measured.connections += 1;
                let token = self.sessions.insert(V::default());
                cx.own(socket, token);
                self.handle(cx, socket, token);
            }
            Event::Readable(socket) | Event::Writable(socket) => self.handle(cx, socket, token),
            Event::Closed { socket, why } => {
                self.handle(cx, socket, token);
                if why != CloseReason::Finished {
                    cx.fail(AppError::Closed(why));
                }
                self.close(cx, socket, token);
            }
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}

/// Receives datagrams on a UDP port.
pub(super) struct DatagramService<T> {
    port: u16,
    udp: UdpConfig,
    handler: T,
    socket: Option<SocketId>,
}

impl<T: FnMut(&mut Context<'_>, SocketId, Datagram)> DatagramService<T> {
    /// `handler` is called for each datagram, in the context's buffer.
    pub(super) fn new(port: u16, udp: UdpConfig, handler: T) -> Self {
        Self {
            port,
            udp,
            handler,
            socket: None,
        }
    }
}

impl<T: FnMut(&mut Context<'_>, SocketId, Datagram)> Application for DatagramService<T> {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.socket = Some(cx.bind(anywhere(self.port), self.udp, 0)?);
        Ok(())
    }

    fn stop(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        self.socket
            .take()
            .into_iter()
            .for_each(|socket| cx.close(socket));
        Ok(())
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        let Event::Readable(socket) = event else {
            return Ok(());
        };
        while let Some(datagram) = cx.recv_from(socket)? {
            (self.handler)(cx, socket, datagram);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}
