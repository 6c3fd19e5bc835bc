//! Relays connections and datagrams of a device to an [`Upstream`].
//!
//! A SYN is answered once the upstream connection is established: the client sees a refusal as it
//! would without a relay. Datagrams pass through one association per sender.

mod udp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tautline_rt::TcpRequest;
use tautline_stack::{Keepalive, Rejection, TcpConfig};
use tokio::io::{AsyncWriteExt, BufReader, copy_buf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use crate::{Netstack, UdpIncoming};

pub(crate) use udp::forward;

/// Bounds of a relay.
#[derive(Clone, Copy, Debug)]
pub struct RelayLimits {
    /// Time for the upstream connection; then the SYN stays unanswered, as it would without a relay. Also
    /// for opening a UDP association; then the datagrams that wait for it are dropped. Default 30 s.
    pub connect_timeout: Duration,
    /// Idle time in both directions after which a UDP association ends. Default 60 s.
    pub udp_idle: Duration,
    /// Associations at most; datagrams of further senders are dropped. Default 1024.
    pub udp_senders: usize,
    /// Bytes of datagrams that wait for their association, at most; further ones are dropped. Default
    /// 4 MiB.
    pub udp_memory: usize,
    /// Keepalive probes to silent clients, unless the stack's [`TcpConfig`] has others: a client that has
    /// vanished, such as a killed microVM, holds no connection to its destination for ever. Default
    /// Linux's, which begin after two hours.
    pub keepalive: Option<Keepalive>,
}

impl RelayLimits {
    /// Parameters of connections to clients: those of `stack`, with keepalive and without Nagle's algorithm.
    /// The far end has decided when its segments leave; a second decision would add a round trip.
    pub(crate) fn tcp(&self, stack: &Netstack) -> TcpConfig {
        let tcp = stack.handle().config().tcp.clone();
        TcpConfig {
            keepalive: tcp.keepalive.or(self.keepalive),
            nagle: false,
            ..tcp
        }
    }
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            udp_idle: Duration::from_secs(60),
            udp_senders: 1024,
            udp_memory: 4 << 20,
            keepalive: Some(Keepalive::default()),
        }
    }
}

/// Opens connections to destinations: by ordinary sockets or through a proxy.
pub(crate) trait Upstream: Associate {
    /// A connection to `to`.
    fn connect(&self, to: SocketAddr) -> impl Future<Output = Result<TcpStream, Rejection>> + Send;
}

/// Opens associations for datagrams.
pub(crate) trait Associate: Send + Sync + 'static {
    type Association: Association;

    /// Opens an association for the datagrams of one sender.
    fn associate(&self) -> impl Future<Output = io::Result<Self::Association>> + Send;
}

/// Carries the datagrams of one sender.
pub(crate) trait Association: Send + Sync {
    /// Sends a datagram to `to`.
    fn send(&self, to: SocketAddr, data: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Receives the next datagram: its sender, and the range of its data in `buffer`. Cancel safe.
    fn recv(
        &self,
        buffer: &mut [u8],
    ) -> impl Future<Output = io::Result<(SocketAddr, Range<usize>)>> + Send;
}

/// The datagrams of many senders to many destinations.
pub(crate) trait Datagrams: Send + Sync + 'static {
    /// Receives the next datagram: its length, sender and destination. Cancel safe.
    fn recv(
        &self,
        buffer: &mut [u8],
    ) -> impl Future<Output = io::Result<(usize, SocketAddr, SocketAddr)>> + Send;

    /// Sends a datagram from `from` back to `to`.
    fn send(
        &self,
        data: &[u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Datagrams for UdpIncoming {
    fn recv(
        &self,
        buffer: &mut [u8],
    ) -> impl Future<Output = io::Result<(usize, SocketAddr, SocketAddr)>> + Send {
        Self::recv(self, buffer)
    }

    fn send(
        &self,
        data: &[u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> impl Future<Output = io::Result<usize>> + Send {
        Self::send(self, data, from, to)
    }
}

/// Relays connections and datagrams of `stack` until it ends.
pub(crate) async fn run<W: Upstream>(
    upstream: W,
    limits: RelayLimits,
    stack: &Netstack,
) -> io::Result<()> {
    let hold = stack.hold();
    let incoming = stack.tcp_incoming_with(limits.tcp(stack)).await?;
    let datagrams = stack.udp_incoming().await?;
    drop(hold);
    let upstream = Arc::new(upstream);
    let forwarding = forward(Arc::clone(&upstream), limits, Arc::new(datagrams));
    let _forwarding = AbortOnDrop(tokio::spawn(forwarding));
    loop {
        let (request, upstream) = (incoming.next().await?, Arc::clone(&upstream));
        tokio::spawn(async move { serve(&*upstream, limits.connect_timeout, request).await });
    }
}

/// Connects upstream, answers the SYN, and copies both ways.
async fn serve(upstream: &impl Upstream, limit: Duration, request: TcpRequest) {
    let (client, to) = (request.peer_addr(), request.local_addr());
    let connected = timeout(limit, upstream.connect(to)).await;
    let mut server = match connected.unwrap_or(Err(Rejection::Silence)) {
        Ok(server) => server,
        Err(how) => {
            debug!(%client, %to, ?how, "not connected upstream");
            return request.reject(how);
        }
    };
    // One end that is reset resets the other.
    let Ok(mut stream) = request.accept().await else {
        let _ = server.set_zero_linger();
        return;
    };
    if copy_both(&mut stream, &mut server).await.is_err() {
        let _ = server.set_zero_linger();
        stream.abort();
    }
}

/// Copies both ways until both ends have closed their sending halves; each end learns of the other's.
/// The client's bytes go to the server's socket from where the stack has put them.
async fn copy_both(client: &mut tautline_rt::TcpStream, server: &mut TcpStream) -> io::Result<()> {
    /// As much as the stack hands over at once.
    const BUFFER: usize = 16 << 10;
    let (mut from_client, mut to_client) = client.split();
    let (from_server, mut to_server) = server.split();
    let up = async {
        copy_buf(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let down = async {
        copy_buf(
            &mut BufReader::with_capacity(BUFFER, from_server),
            &mut to_client,
        )
        .await?;
        to_client.shutdown().await
    };
    tokio::try_join!(up, down).map(|_| ())
}

/// Ends a task with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
