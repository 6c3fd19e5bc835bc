//! [`WireGuard`]: a tunnel as a device of `tautline-netstack`: one IP packet inside each datagram.
//!
//! boringtun has the protocol (Noise_IKpsk2, replay windows, rekeying, cookies; the WireGuard
//! paper, §5); this file moves its messages between the UDP socket and the stack, drives its
//! timers, and does what the paper calls cryptokey routing (§2) for a single peer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use boringtun::noise::{Tunn, TunnResult};
use tautline_netstack::Cidr;
use tautline_netstack::device::PacketIo;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::config::Config;

/// Interval of the protocol's timers, of which the shortest is a second.
const TICK: Duration = Duration::from_millis(250);
/// Longest datagram.
const LONGEST: usize = 65_535;

/// The tunnel to one peer over a UDP socket.
pub(crate) struct WireGuard {
    udp: UdpSocket,
    tunnel: Tunn,
    /// Where the last valid datagram came from, or the configured endpoint.
    peer: Option<SocketAddr>,
    allowed: Vec<Cidr>,
    mtu: usize,
    ticks: Interval,
    datagram: Box<[u8]>,
    /// Output of boringtun: a message for the peer, or a packet for the stack.
    written: Box<[u8]>,
}

impl WireGuard {
    /// Opens the tunnel's UDP socket; the first packet of the stack begins the handshake.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) async fn open(config: &Config) -> io::Result<Self> {
        let any: IpAddr = match config.endpoint {
            Some(SocketAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let udp = UdpSocket::bind((any, config.listen_port)).await?;
        let tunnel = Tunn::new(
            config.private_key.clone(),
            config.peer_key,
            config.preshared_key,
            config.keepalive,
            0,
            None,
        );
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Ok(Self {
            udp,
            tunnel,
            peer: config.endpoint,
            allowed: config.allowed_ips.clone(),
            mtu: config.mtu,
            ticks,
            datagram: vec![0; LONGEST].into(),
            written: vec![0; LONGEST].into(),
        })
    }

    /// The address of the UDP socket.
    #[cfg(test)]
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Advances the protocol's timers: handshakes, keepalives, rekeying.
    fn tick(&mut self) {
        if let TunnResult::WriteToNetwork(message) = self.tunnel.update_timers(&mut self.written) {
            send(&self.udp, self.peer, message);
        }
    }

    /// Decrypts the first `len` bytes of the datagram; returns the length of the packet for the
    /// stack, copied to `out`, if there is one.
    fn receive(&mut self, len: usize, from: SocketAddr, out: &mut [u8]) -> Option<usize> {
        let mut input = &self.datagram[..len];
        loop {
            let result = self
                .tunnel
                .decapsulate(Some(from.ip()), input, &mut self.written);
            let (packet, source): (_, IpAddr) = match result {
                TunnResult::WriteToNetwork(message) => {
                    self.peer = Some(from);
                    send(&self.udp, self.peer, message);
                    // Asks for what waited for the handshake.
                    input = &[];
                    continue;
                }
                TunnResult::WriteToTunnelV4(packet, source) => (packet, source.into()),
                TunnResult::WriteToTunnelV6(packet, source) => (packet, source.into()),
                TunnResult::Done | TunnResult::Err(_) => return None,
            };
            self.peer = Some(from);
            let is_allowed = self.allowed.iter().any(|prefix| prefix.contains(source));
            let space = out.get_mut(..packet.len()).filter(|_| is_allowed)?;
            space.copy_from_slice(packet);
            return Some(packet.len());
        }
    }
}

/// Sends a message to the peer. One that cannot be sent is lost, as in the network: TCP and the
/// protocol's timers repeat what matters.
fn send(udp: &UdpSocket, peer: Option<SocketAddr>, message: &[u8]) {
    if let Some(peer) = peer {
        let _ = udp.try_send_to(message, peer);
    }
}

impl PacketIo for WireGuard {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            while self.ticks.poll_tick(context).is_ready() {
                self.tick();
            }
            let mut buffer = ReadBuf::new(&mut self.datagram);
            // An error is that of an earlier datagram (ICMP), and concerns nobody here.
            let Ok(from) = ready!(self.udp.poll_recv_from(context, &mut buffer)) else {
                continue;
            };
            let len = buffer.filled().len();
            if let Some(len) = self.receive(len, from, out) {
                return Poll::Ready(Ok(len));
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<()>> {
        ready!(self.udp.poll_send_ready(context))?;
        match self.tunnel.encapsulate(packet, &mut self.written) {
            TunnResult::WriteToNetwork(message) => send(&self.udp, self.peer, message),
            // boringtun keeps the packet until the handshake is over.
            TunnResult::Done => {}
            _ => return Poll::Ready(Err(io::Error::other("the tunnel refuses the packet"))),
        }
        Poll::Ready(Ok(()))
    }
}
