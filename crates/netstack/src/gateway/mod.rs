//! [`Gateway`]: a network for sandboxes, whose connections are made by ordinary sockets. No rights are
//! needed for it.
//!
//! Each sandbox (a microVM's socket, or a TAP interface) has a port of its own and the address that
//! goes with it: by DHCP, or set within. Frames from other addresses are dropped, and sandboxes do
//! not reach each other. Toward the clients all of them share one queueing discipline: CAKE with
//! `dual-dsthost`, or HTB with a class each.
//!
//! Over IPv6 each sandbox has a network of its own, which router advertisements name; addresses in it are
//! the sandbox's. Packets with extension headers are dropped. Ports of the host, of either family, are
//! forwarded to an address of a sandbox, of either family. The gateway answers echo requests itself,
//! whatever their destination.

mod dhcp;
mod direct;
mod forward;
mod router;
mod subnet;
mod switch;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline_rt::TcpStream;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use crate::device::PacketIo;
use crate::relay::{self, RelayLimits};
use crate::{Builder, Cidr, Netstack};
use direct::Direct;
use forward::{Inside, Outside};
use switch::Switch;

pub use subnet::Subnet;

/// The MAC address of every gateway; sandboxes do not share a link.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// How long connections wait while none can be accepted: the process is out of descriptors, for instance.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The settings of a gateway.
#[derive(Clone, Copy, Debug)]
pub struct GatewayConfig {
    /// Addresses of the gateway and its sandboxes. Default 10.0.2.0/24.
    pub subnet: Subnet,
    /// Longest packet in bytes. Default 1500.
    pub mtu: usize,
    /// The name server to which [`Subnet::resolver`] forwards. Default none.
    pub resolver: Option<SocketAddr>,
    /// Whether [`Subnet::gateway`] maps to the host's 127.0.0.1, and [`Subnet::gateway_v6`] to ::1, where
    /// servers may trust every client. Default no.
    pub host_loopback: bool,
    /// A network of IPv4 behind the first sandbox, which routes to it. Default none.
    pub behind: Option<Cidr>,
    /// A network of IPv6 behind the first sandbox, which routes to it. Default none.
    pub behind_v6: Option<Cidr>,
    /// Bounds in time and number.
    pub limits: RelayLimits,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            subnet: Subnet::default(),
            mtu: 1500,
            resolver: None,
            host_loopback: false,
            behind: None,
            behind_v6: None,
            limits: RelayLimits::default(),
        }
    }
}

/// A running gateway; dropping it ends all connections.
#[derive(Debug)]
pub struct Gateway {
    config: GatewayConfig,
    stack: Netstack,
    attach: UnboundedSender<switch::Attached>,
}

impl Gateway {
    /// Starts one within tokio's runtime. `configure` sets qdisc, memory and other properties of its
    /// stack.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn start(
        config: GatewayConfig,
        configure: impl FnOnce(Builder<Switch>) -> Builder<Switch>,
    ) -> io::Result<Self> {
        // The switch has a timer, which would panic.
        Handle::try_current().map_err(io::Error::other)?;
        let (attach, attached) = unbounded_channel();
        let switch = Switch::new(&config, attached);
        let subnet = config.subnet;
        let address = |ip| Cidr::new(ip, Subnet::PREFIX);
        let address_v6 = |ip| Cidr::new(ip, Subnet::ALL_V6);
        let builder = Netstack::builder(switch)
            .mac(MAC)
            .address(address(subnet.gateway()))
            .address(address(subnet.resolver()))
            .address(address_v6(subnet.gateway_v6()))
            .address(address_v6(subnet.resolver_v6()))
            .gateway(subnet.sandbox(0))
            .gateway(subnet.sandbox_v6(0))
            .owns(Cidr::ALL_IPV4)
            .owns(Cidr::ALL_IPV6);
        Ok(Self {
            config,
            stack: configure(builder).build()?,
            attach,
        })
    }

    /// Connects sandbox number `sandbox`, from 0, by a device of Ethernet frames, in the place of an
    /// earlier one. The end of the device leaves the port empty.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) beyond [`Subnet::SANDBOXES`].
    pub fn attach(&self, sandbox: usize, device: impl PacketIo) -> io::Result<()> {
        if sandbox >= Subnet::SANDBOXES {
            let why = format!("a subnet has addresses for {} sandboxes", Subnet::SANDBOXES);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let attached = (sandbox, Box::new(device) as Box<dyn PacketIo>);
        let ended = |_| io::ErrorKind::ConnectionAborted.into();
        self.attach.send(attached).map_err(ended)
    }

    /// Its stack.
    pub fn stack(&self) -> &Netstack {
        &self.stack
    }

    /// Connects the sandboxes to the world until the stack ends.
    ///
    /// # Errors
    /// It runs already, or the stack has ended.
    pub async fn run(&self) -> io::Result<()> {
        relay::run(Direct::new(self.config), self.config.limits, &self.stack).await
    }

    /// Forwards the connections of `listener` to `to`, an address of a sandbox, from the gateway's
    /// address of that family. A reset at either end resets the other. While the process has no descriptor
    /// left, connections wait. Runs until it is dropped.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if no sandbox has the address.
    pub async fn forward(&self, listener: TcpListener, to: SocketAddr) -> io::Result<()> {
        self.require_sandbox(to)?;
        let tcp = Arc::new(self.config.limits.tcp(&self.stack));
        loop {
            let Ok((mut outside, _)) = listener.accept().await else {
                sleep(ACCEPT_AGAIN).await;
                continue;
            };
            // The sandbox's own stack decides when its segments leave.
            let _ = outside.set_nodelay(true);
            let (stack, tcp) = (self.stack.handle().clone(), Arc::clone(&tcp));
            tokio::spawn(async move {
                // A sandbox that refuses resets the outer connection.
                let Ok(mut inside) = TcpStream::connect_with(&stack, to, tcp).await else {
                    let _ = outside.set_zero_linger();
                    return;
                };
                if copy_bidirectional(&mut outside, &mut inside).await.is_err() {
                    let _ = outside.set_zero_linger();
                    inside.abort();
                }
            });
        }
    }

    /// Forwards the datagrams that `socket` receives to `to`, an address of a sandbox, and answers from `to`
    /// back. Each client has a port of the gateway's address of that family, within the bounds of
    /// [`GatewayConfig::limits`]. Runs until it is dropped, or `socket` fails.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if no sandbox has the address.
    pub async fn forward_datagrams(&self, socket: UdpSocket, to: SocketAddr) -> io::Result<()> {
        self.require_sandbox(to)?;
        let subnet = self.config.subnet;
        let gateway: IpAddr = match to {
            SocketAddr::V4(_) => subnet.gateway().into(),
            SocketAddr::V6(_) => subnet.gateway_v6().into(),
        };
        let inside = Inside {
            stack: self.stack.handle().clone(),
            gateway: (gateway, 0).into(),
            to,
        };
        let outside = Arc::new(Outside { socket, to });
        relay::forward(Arc::new(inside), self.config.limits, outside).await;
        Ok(())
    }

    fn require_sandbox(&self, to: SocketAddr) -> io::Result<()> {
        let number = self.config.subnet.number_of(to.ip());
        let none = || {
            let why = format!("{} is the address of no sandbox", to.ip());
            io::Error::new(io::ErrorKind::InvalidInput, why)
        };
        number.map(drop).ok_or_else(none)
    }
}
