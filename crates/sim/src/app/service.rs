//! [`StreamService`] and [`DatagramService`]: applications that wait on a port for whoever comes.
//! Each is told what to do with what comes; who comes, stays and goes is the same for all. One that
//! breaks is not the end of the others.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tautline_base::SocketId;
use tautline_stack::udp::Datagram;
use tautline_stack::{CloseReason, Event, TcpConfig, UdpConfig};

use super::slab::Slab;
use super::{AppError, Application, Context};

/// All addresses of the host, of both families.
pub(super) const fn anywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

/// Reads and writes a connection of which `V` is kept, as far as it goes now. True when it has
/// served its time.
pub(super) type Attend<V> = fn(&mut V, &mut Context<'_>, SocketId) -> Result<bool, AppError>;

/// Listens on a TCP port; keeps a `V` of each connection.
pub(super) struct StreamService<V> {
    port: u16,
    tcp: Arc<TcpConfig>,
    attend: Attend<V>,
    listener: Option<SocketId>,
    visits: Slab<V>,
}

impl<V: Default> StreamService<V> {
    /// `attend` is called when a connection is there, can be read or written, and at its end: what
    /// arrived before it can still be read.
    pub(super) fn new(port: u16, tcp: Arc<TcpConfig>, attend: Attend<V>) -> Self {
        Self {
            port,
            tcp,
            attend,
            listener: None,
            visits: Slab::default(),
        }
    }

    fn attend(&mut self, cx: &mut Context<'_>, socket: SocketId, token: u32) {
        let Some(visit) = self.visits.get_mut(token) else {
            return;
        };
        match (self.attend)(visit, cx, socket) {
            Ok(false) => {}
            Ok(true) => self.let_go(cx, socket, token),
            Err(why) => {
                cx.fail(why);
                // One that is over is let go in any case.
                let _ = cx.host.abort(socket);
                self.let_go(cx, socket, token);
            }
        }
    }

    fn let_go(&mut self, cx: &mut Context<'_>, socket: SocketId, token: u32) {
        cx.close(socket);
        self.visits.remove(token);
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
                let token = self.visits.insert(V::default());
                cx.own(socket, token);
                self.attend(cx, socket, token);
            }
            Event::Readable(socket) | Event::Writable(socket) => self.attend(cx, socket, token),
            Event::Closed { socket, why } => {
                self.attend(cx, socket, token);
                if why != CloseReason::Finished {
                    cx.fail(AppError::Closed(why));
                }
                self.let_go(cx, socket, token);
            }
            Event::Connected(_) | Event::Pong { .. } | Event::PingFailed { .. } => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}

/// Takes datagrams on a UDP port.
pub(super) struct DatagramService<T> {
    port: u16,
    udp: UdpConfig,
    take: T,
    socket: Option<SocketId>,
}

impl<T: FnMut(&mut Context<'_>, SocketId, Datagram)> DatagramService<T> {
    /// `take` is called for each datagram, which is in the cx's buffer then.
    pub(super) fn new(port: u16, udp: UdpConfig, take: T) -> Self {
        Self {
            port,
            udp,
            take,
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
            (self.take)(cx, socket, datagram);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}
