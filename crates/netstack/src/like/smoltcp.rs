//! The types of `netstack-smoltcp` 0.2.
//!
//! ```no_run
//! use tautline_netstack::like::smoltcp as netstack_smoltcp; // instead of the crate
//! use futures_util::{SinkExt, StreamExt};
//!
//! # async fn run() -> std::io::Result<()> {
//! let (stack, runner, udp_socket, tcp_listener) = netstack_smoltcp::StackBuilder::default()
//!     .enable_udp(true)
//!     .enable_tcp(true)
//!     .enable_icmp(true)
//!     .mtu(1500)
//!     .build()?;
//! let (udp_socket, mut tcp_listener) = (udp_socket.unwrap(), tcp_listener.unwrap());
//! tokio::spawn(runner.unwrap());
//! let (mut stack_sink, mut stack_stream) = stack.split();
//! # let packet_from_tun: Vec<u8> = Vec::new();
//! stack_sink.send(packet_from_tun).await?;
//! let packet_for_tun: Option<std::io::Result<Vec<u8>>> = stack_stream.next().await;
//! # drop(packet_for_tun);
//! tokio::spawn(async move {
//!     while let Some((mut stream, _local, remote)) = tcp_listener.next().await {
//!         let mut upstream = tokio::net::TcpStream::connect(remote).await?;
//!         tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut upstream).await });
//!     }
//!     std::io::Result::Ok(())
//! });
//! let (mut read_half, mut write_half) = udp_socket.split();
//! while let Some((data, local, remote)) = read_half.next().await {
//!     write_half.send((data, remote, local)).await?;
//! }
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_sink::Sink;
use tautline_rt::TcpStream;
use tokio::sync::mpsc::{OwnedPermit, Receiver, Sender, channel};

use crate::device::PacketIo;
use crate::{Netstack, TcpIncoming, UdpIncoming};

/// A packet.
pub type AnyIpPktFrame = Vec<u8>;
/// Payload, local and remote address of a datagram.
pub type UdpMsg = (Vec<u8>, SocketAddr, SocketAddr);
/// Runs the stack; spawn it.
pub type Runner = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The result of [`StackBuilder::build`].
pub type Built = (
    Stack,
    Option<Runner>,
    Option<UdpSocket>,
    Option<TcpListener>,
);
/// A place in a channel that is being waited for.
type Reserving<T> = Pin<Box<dyn Future<Output = io::Result<OwnedPermit<T>>> + Send>>;

/// Longest IP packet.
const LONGEST: usize = 65_535;

/// Settings.
#[derive(Clone, Debug)]
pub struct StackBuilder {
    packets: usize,
    datagrams: usize,
    connections: usize,
    mtu: usize,
    enables: [bool; 3],
}

impl Default for StackBuilder {
    fn default() -> Self {
        Self {
            packets: 1024,
            datagrams: 512,
            connections: 512,
            mtu: 1500,
            enables: [false; 3],
        }
    }
}

impl StackBuilder {
    /// Whether datagrams are received. Default no.
    #[must_use]
    pub fn enable_udp(mut self, enable: bool) -> Self {
        self.enables[0] = enable;
        self
    }

    /// Whether connections are accepted. Default no.
    #[must_use]
    pub fn enable_tcp(mut self, enable: bool) -> Self {
        self.enables[1] = enable;
        self
    }

    /// Has no effect but for [`build`](Self::build): echo requests are always answered.
    #[must_use]
    pub fn enable_icmp(mut self, enable: bool) -> Self {
        self.enables[2] = enable;
        self
    }

    /// Packets that wait each way. Default 1024.
    #[must_use]
    pub fn stack_buffer_size(mut self, packets: usize) -> Self {
        self.packets = packets.max(1);
        self
    }

    /// Datagrams that wait. Default 512.
    #[must_use]
    pub fn udp_buffer_size(mut self, datagrams: usize) -> Self {
        self.datagrams = datagrams.max(1);
        self
    }

    /// Connections that wait. Default 512.
    #[must_use]
    pub fn tcp_buffer_size(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Longest packet in bytes. Default 1500.
    #[must_use]
    pub fn mtu(mut self, mtu: usize) -> Self {
        self.mtu = mtu;
        self
    }

    /// The stack, what runs it, and its sockets, unless not enabled.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput): ICMP without TCP.
    pub fn build(self) -> io::Result<Built> {
        let [udp, tcp, icmp] = self.enables;
        if icmp && !tcp {
            let why = "ICMP requires TCP";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (to_host, from_sink) = channel(self.packets);
        let (to_stream, from_host) = channel(self.packets);
        let device = Channels {
            received: from_sink,
            sent: PacketSink::new(to_stream),
            mtu: self.mtu,
        };
        let (new, accepted) = channel(self.connections);
        let (received, datagrams) = channel(self.datagrams);
        let (outgoing, to_send) = channel(self.datagrams);
        let runner = async move {
            let stack = Netstack::builder(device).build()?;
            let hold = stack.hold();
            let connections = match tcp {
                true => Some(stack.tcp_incoming().await?),
                false => None,
            };
            let datagrams = match udp {
                true => Some(stack.udp_incoming().await?),
                false => None,
            };
            drop(hold);
            let connections = serve_tcp(connections, new);
            let datagrams = serve_udp(datagrams, received, to_send);
            tokio::try_join!(connections, datagrams).map(drop)
        };
        let stack = Stack {
            sink: PacketSink::new(to_host),
            packets: from_host,
        };
        let socket = UdpSocket(ReadHalf(datagrams), WriteHalf(PacketSink::new(outgoing)));
        Ok((
            stack,
            Some(Box::pin(runner) as Runner),
            udp.then_some(socket),
            tcp.then_some(TcpListener(accepted)),
        ))
    }
}

async fn serve_tcp(
    incoming: Option<TcpIncoming>,
    new: Sender<(TcpStream, SocketAddr, SocketAddr)>,
) -> io::Result<()> {
    let Some(incoming) = incoming else {
        return Ok(());
    };
    // Without a place in the queue a SYN waits in the stack, which bounds their number. Without the
    // receiver there is no listener.
    while let Ok(place) = new.clone().reserve_owned().await {
        let request = incoming.next().await?;
        tokio::spawn(async move {
            let (local, remote) = (request.peer_addr(), request.local_addr());
            if let Ok(stream) = request.accept().await {
                place.send((stream, local, remote));
            }
        });
    }
    Ok(())
}

async fn serve_udp(
    incoming: Option<UdpIncoming>,
    received: Sender<UdpMsg>,
    mut to_send: Receiver<UdpMsg>,
) -> io::Result<()> {
    let Some(incoming) = incoming else {
        return Ok(());
    };
    let mut buffer = vec![0; LONGEST];
    loop {
        tokio::select! {
            datagram = incoming.recv(&mut buffer) => {
                let (len, local, remote) = datagram?;
                // A full queue drops the datagram.
                let _ = received.try_send((buffer[..len].to_vec(), local, remote));
            }
            Some((data, from, to)) = to_send.recv() => {
                // A datagram that does not fit into a packet is dropped.
                let _ = incoming.send(&data, from, to).await;
            }
        }
    }
}

/// The packets of the stack: a sink of those from the device, a stream of those for it. Closing the sink,
/// as `forward` does at the end of a device, ends the stack, and with it the stream.
#[derive(Debug)]
pub struct Stack {
    sink: PacketSink<AnyIpPktFrame>,
    packets: Receiver<AnyIpPktFrame>,
}

impl Stream for Stack {
    type Item = io::Result<AnyIpPktFrame>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.packets.poll_recv(context).map(|packet| packet.map(Ok))
    }
}

/// New connections: the stream, the client, the destination that it wanted.
#[derive(Debug)]
pub struct TcpListener(Receiver<(TcpStream, SocketAddr, SocketAddr)>);

impl Stream for TcpListener {
    type Item = (TcpStream, SocketAddr, SocketAddr);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// The datagrams of the stack.
#[derive(Debug)]
pub struct UdpSocket(ReadHalf, WriteHalf);

impl UdpSocket {
    /// Received datagrams, and those to send.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.0, self.1)
    }
}

/// Received datagrams: payload, client, the destination that it wanted.
#[derive(Debug)]
pub struct ReadHalf(Receiver<UdpMsg>);

impl Stream for ReadHalf {
    type Item = UdpMsg;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<UdpMsg>> {
        self.0.poll_recv(context)
    }
}

/// Datagrams to send: payload, from, to.
#[derive(Debug)]
pub struct WriteHalf(PacketSink<UdpMsg>);

/// A sink over a channel.
struct PacketSink<T> {
    /// `None` once closed.
    sender: Option<Sender<T>>,
    reserving: Option<Reserving<T>>,
    permit: Option<OwnedPermit<T>>,
}

impl<T> std::fmt::Debug for PacketSink<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PacketSink")
    }
}

impl<T: Send + 'static> PacketSink<T> {
    fn new(sender: Sender<T>) -> Self {
        Self {
            sender: Some(sender),
            reserving: None,
            permit: None,
        }
    }

    fn close(&mut self) {
        (self.sender, self.reserving, self.permit) = (None, None, None);
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.permit.is_none() {
            let closed = io::ErrorKind::BrokenPipe;
            let sender = self.sender.as_ref().ok_or(closed)?;
            let reserving = self.reserving.get_or_insert_with(|| {
                let sender = sender.clone();
                Box::pin(async move {
                    let permit = sender.reserve_owned().await;
                    permit.map_err(|_| io::ErrorKind::BrokenPipe.into())
                })
            });
            let permit = ready!(reserving.as_mut().poll(context));
            self.reserving = None;
            self.permit = Some(permit?);
        }
        Poll::Ready(Ok(()))
    }

    fn start_send(&mut self, item: T) -> io::Result<()> {
        let permit = self.permit.take().ok_or(io::ErrorKind::WouldBlock)?;
        permit.send(item);
        Ok(())
    }
}

/// Implements `Sink<$item>` by the [`PacketSink`] in the field `$sink`.
macro_rules! sink {
    ($type:ty, $item:ty, $sink:tt) => {
        impl Sink<$item> for $type {
            type Error = io::Error;

            fn poll_ready(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.$sink.poll_ready(context)
            }

            fn start_send(mut self: Pin<&mut Self>, item: $item) -> io::Result<()> {
                self.$sink.start_send(item)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.$sink.close();
                Poll::Ready(Ok(()))
            }
        }
    };
}

sink!(Stack, AnyIpPktFrame, sink);
sink!(WriteHalf, UdpMsg, 0);

/// The device of a stack whose packets pass through channels.
struct Channels {
    received: Receiver<AnyIpPktFrame>,
    sent: PacketSink<AnyIpPktFrame>,
    mtu: usize,
}

impl PacketIo for Channels {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let Some(packet) = ready!(self.received.poll_recv(context)) else {
                return Poll::Ready(Ok(0));
            };
            // An empty or too long message is no packet.
            if let Some(room) = out.get_mut(..packet.len())
                && !packet.is_empty()
            {
                room.copy_from_slice(&packet);
                return Poll::Ready(Ok(packet.len()));
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, frame: &[u8]) -> Poll<io::Result<()>> {
        ready!(self.sent.poll_ready(context))?;
        Poll::Ready(self.sent.start_send(frame.to_vec()))
    }
}
