//! [`Socket`]: quinn's `AsyncUdpSocket` over a UDP socket of a userspace stack.
//!
//! Errors of single datagrams (too long for the MTU, no route, an ICMP error) are losses to QUIC:
//! RFC 9000 §14.2.1 and §21.4 let an endpoint ignore them, and quinn would end a connection, or the
//! whole endpoint, on any error that it is told. Only the end of the stack is reported.

use std::fmt;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tautline_base::Ecn;
use tautline_rt::handle::Failure;
use tautline_rt::{Interest, StackHandle, UdpSocket};
use tautline_stack::udp::Datagram;
use tautline_stack::{SendOptions, UdpConfig};

/// A UDP socket of a userspace stack, for `quinn::Endpoint::new_with_abstract_socket`.
///
/// Datagrams pass the stack's qdisc with the ECN field that QUIC gave them; a full send buffer holds
/// the connections back until half of it has left the host. The stack never fragments, so quinn
/// searches for the path's MTU. Each datagram is a packet of its own: there is no segmentation
/// offload.
///
/// Bound to `[::]` it is for both families, and IPv4 peers have mapped addresses (`::ffff:10.8.0.1`),
/// as on Linux.
#[derive(Debug)]
pub struct Socket {
    udp: UdpSocket,
    failed: AtomicU64,
}

impl Socket {
    /// Binds a socket to `local`: an unspecified address stands for all addresses of the stack, port
    /// 0 for any free port.
    ///
    /// # Errors
    /// As [`UdpSocket::bind`].
    pub async fn bind(stack: &StackHandle, local: impl Into<SocketAddr>) -> io::Result<Self> {
        UdpSocket::bind(stack, local).await.map(Self::from)
    }

    /// Like [`bind`](Self::bind), with buffers and DSCP of its own.
    ///
    /// # Errors
    /// As [`UdpSocket::bind`].
    pub async fn bind_with(
        stack: &StackHandle,
        local: impl Into<SocketAddr>,
        udp: UdpConfig,
    ) -> io::Result<Self> {
        UdpSocket::bind_with(stack, local, udp)
            .await
            .map(Self::from)
    }

    /// The socket below, for its counters.
    pub fn udp(&self) -> &UdpSocket {
        &self.udp
    }

    /// Number of datagrams that failed in this host or met an ICMP error.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// `result`, if quinn is to know it. `None`: counted as a lost datagram.
    fn filter<T>(&self, result: io::Result<T>) -> Option<io::Result<T>> {
        match result {
            Err(error) if error.kind() != ErrorKind::WouldBlock && !is_end(&error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                None
            }
            result => Some(result),
        }
    }
}

/// From a socket bound to a local address; not connected, for quinn names every destination.
impl From<UdpSocket> for Socket {
    fn from(udp: UdpSocket) -> Self {
        Self {
            udp,
            failed: AtomicU64::new(0),
        }
    }
}

/// No later call will succeed.
fn is_end(error: &io::Error) -> bool {
    let failure = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Failure>());
    matches!(failure, Some(Failure::HostGone | Failure::NotOpen))
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller {
            socket: self,
            waiting: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let local = self.udp.local_addr()?;
        let options = SendOptions {
            from: transmit.src_ip.map(|ip| SocketAddr::new(ip, local.port())),
            to: Some(transmit.destination),
            ecn: transmit.ecn.map_or(Ecn::NotEct, to_stack),
        };
        // Else the call returns the error of an earlier datagram and does not send this one.
        if self.udp.take_error()?.is_some() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let sent = self.filter(self.udp.try_send_with(transmit.contents, options));
        sent.unwrap_or(Ok(0)).map(|_| ())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let is_ipv6 = self.udp.local_addr()?.is_ipv6();
        let mut count = 0;
        while let (Some(buffer), Some(meta)) = (buffers.get_mut(count), meta.get_mut(count)) {
            let received = if count == 0 {
                ready!(self.udp.poll_recv_datagram(context, buffer))
            } else {
                self.udp.try_recv_datagram(buffer)
            };
            match self.filter(received) {
                // Longer than quinn allows any datagram to be.
                Some(Ok(datagram)) if datagram.whole > datagram.len => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                }
                Some(Ok(datagram)) => {
                    *meta = to_meta(&datagram, is_ipv6);
                    count += 1;
                }
                None => {}
                Some(Err(_)) if count > 0 => break,
                Some(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// `is_ipv6`: of a socket that is bound to an IPv6 address.
fn to_meta(datagram: &Datagram, is_ipv6: bool) -> RecvMeta {
    let shown = |address: IpAddr| match address {
        // As on Linux (`ipv6(7)`): under this address quinn knows the peer it connects to.
        IpAddr::V4(v4) if is_ipv6 => v4.to_ipv6_mapped().into(),
        address => address,
    };
    RecvMeta {
        addr: SocketAddr::new(shown(datagram.from.ip()), datagram.from.port()),
        len: datagram.len,
        stride: datagram.len,
        ecn: EcnCodepoint::from_bits(datagram.ecn.bits()),
        dst_ip: Some(shown(datagram.to.ip())),
    }
}

fn to_stack(codepoint: EcnCodepoint) -> Ecn {
    Ecn::of_tos(codepoint as u8)
}

type Writable = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// One task's wait for space in the send buffer.
struct Poller {
    socket: Arc<Socket>,
    /// Never locked: quinn wants `Sync`, and a future need not be.
    waiting: Option<Mutex<Writable>>,
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting.is_none()
            && self
                .socket
                .udp
                .try_io(Interest::WRITABLE, || Ok(()))
                .is_ok()
        {
            return Poll::Ready(Ok(()));
        }
        let socket = self.socket.clone();
        let waiting = self.waiting.get_or_insert_with(|| {
            Mutex::new(Box::pin(async move { socket.udp.writable().await }))
        });
        let future = waiting.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ready = ready!(future.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(ready)
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}
