//! [`StreamService`] and [`DatagramService`]: applications that wait on a port for whoever comes.
//! Each is told what to do with what comes; who comes, stays and goes is the same for all. One that
//! breaks is not the end of the others.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tautline_base::SocketId;
use tautline_stack::udp::Datagram;
use tautline_stack::{CloseReason, Event, TcpConfig, UdpConfig};

use super::slab::Slab;
use super::{AppError, Application, Scene};

/// All addresses of the host, of both families.
pub(super) const fn anywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

/// Reads and writes a connection of which `V` is kept, as far as it goes now. True when it has
/// served its time.
pub(super) type Attend<V> = fn(&mut V, &mut Scene<'_>, SocketId) -> Result<bool, AppError>;

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

    fn attend(&mut self, scene: &mut Scene<'_>, socket: SocketId, token: u32) {
        let Some(visit) = self.visits.get_mut(token) else {
            return;
        };
        match (self.attend)(visit, scene, socket) {
            Ok(false) => {}
            Ok(true) => self.let_go(scene, socket, token),
            Err(why) => {
                scene.fail(why);
                // One that is over is let go in any case.
                let _ = scene.host.abort(socket);
                self.let_go(scene, socket, token);
            }
        }
    }

    fn let_go(&mut self, scene: &mut Scene<'_>, socket: SocketId, token: u32) {
        scene.close(socket);
        self.visits.remove(token);
    }
}

impl<V: Default> Application for StreamService<V> {
    fn start(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        self.listener = Some(scene.listen(self.port, Arc::clone(&self.tcp), 0)?);
        Ok(())
    }

    fn stop(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        self.listener
            .take()
            .into_iter()
            .for_each(|listener| scene.close(listener));
        Ok(())
    }

    fn on_event(
        &mut self,
        scene: &mut Scene<'_>,
        event: Event,
        token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                scene.measured.connections += 1;
                let token = self.visits.insert(V::default());
                scene.own(socket, token);
                self.attend(scene, socket, token);
            }
            Event::Readable(socket) | Event::Writable(socket) => self.attend(scene, socket, token),
            Event::Closed { socket, why } => {
                self.attend(scene, socket, token);
                if why != CloseReason::Finished {
                    scene.fail(AppError::Closed(why));
                }
                self.let_go(scene, socket, token);
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

impl<T: FnMut(&mut Scene<'_>, SocketId, Datagram)> DatagramService<T> {
    /// `take` is called for each datagram, which is in the scene's buffer then.
    pub(super) fn new(port: u16, udp: UdpConfig, take: T) -> Self {
        Self {
            port,
            udp,
            take,
            socket: None,
        }
    }
}

impl<T: FnMut(&mut Scene<'_>, SocketId, Datagram)> Application for DatagramService<T> {
    fn start(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        self.socket = Some(scene.bind(anywhere(self.port), self.udp, 0)?);
        Ok(())
    }

    fn stop(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        self.socket
            .take()
            .into_iter()
            .for_each(|socket| scene.close(socket));
        Ok(())
    }

    fn on_event(
        &mut self,
        scene: &mut Scene<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        let Event::Readable(socket) = event else {
            return Ok(());
        };
        while let Some(datagram) = scene.recv_from(socket)? {
            (self.take)(scene, socket, datagram);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}
