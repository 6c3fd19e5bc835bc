//! [`Builder`]: the settings of a stack.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use tautline_base::Bytes;
use tautline_rt::handle::Config;
use tautline_stack::{Cidr, HostConfig, Limits, Pacing, TcpConfig, UdpConfig};
use tautline_tc::Tree;

use crate::Netstack;
use crate::device::Device;
use crate::settings::Settings;

/// A stack's settings, from [`Netstack::builder`]. By default it answers for every IPv4 and IPv6
/// address.
#[derive(Debug)]
pub struct Builder<D> {
    device: D,
    host: HostConfig,
    qdisc: String,
    sockets: Config,
    limits: Limits,
    frames: usize,
}

impl<D: Device> Builder<D> {
    pub(crate) fn new(device: D) -> Self {
        // The standard library keys each hasher from the system's generator.
        let seed = RandomState::new().hash_one(std::process::id());
        let tcp = TcpConfig {
            // The timers of a task may be too coarse for pacing: see `tcp`.
            pacing: Pacing::Off,
            ..TcpConfig::default()
        };
        Self {
            device,
            host: HostConfig::over_ip(seed),
            qdisc: "fq_codel".into(),
            sockets: Config {
                tcp,
                ..Config::default()
            },
            limits: Limits {
                memory: Bytes::mib(64),
                ..Limits::default()
            },
            frames: 1024,
        }
    }

    /// Adds `address`, in the network of its prefix. With an address and without
    /// [`owns`](Self::owns) the stack answers for its addresses only, as a VPN client does.
    #[must_use]
    pub fn address(mut self, address: impl Into<Cidr>) -> Self {
        self.host = self.host.address(address);
        self
    }

    /// Answers for every address in `prefix`. Default, unless there is an
    /// [`address`](Self::address): all IPv4 and IPv6 addresses.
    #[must_use]
    pub fn owns(mut self, prefix: impl Into<Cidr>) -> Self {
        self.host = self.host.owns(prefix);
        self
    }

    /// The router to other networks, on a device that carries Ethernet frames.
    #[must_use]
    pub fn gateway(mut self, via: impl Into<IpAddr>) -> Self {
        self.host = self.host.gateway(via);
        self
    }

    /// The hardware address on a device that carries Ethernet frames. Default: on a packet socket that of
    /// the interface, else one that follows from the first [`address`](Self::address), so that stacks on
    /// one link have different ones: 02:00:0a:00:02:0f for 10.0.2.15.
    #[must_use]
    pub fn mac(mut self, mac: [u8; 6]) -> Self {
        self.host.mac = mac;
        self
    }

    /// The queueing discipline in front of the device, in `tc`'s words. Default `fq_codel`.
    #[must_use]
    pub fn qdisc(mut self, words: impl Into<String>) -> Self {
        self.qdisc = words.into();
        self
    }

    /// Parameters of every connection. Default: [`TcpConfig::default`] without pacing, since
    /// outside Linux the timers of tokio measure milliseconds; on a thread of its own
    /// ([`Tun::with_thread`](crate::device::Tun::with_thread)) pacing is worth enabling.
    #[must_use]
    pub fn tcp(mut self, tcp: TcpConfig) -> Self {
        self.sockets.tcp = tcp;
        self
    }

    /// Parameters of [`UdpIncoming`](crate::UdpIncoming), such as its buffer size.
    #[must_use]
    pub fn udp(mut self, udp: UdpConfig) -> Self {
        self.sockets.udp = udp;
        self
    }

    /// Most bytes in each of the two rings between a connection and its application. Default 64 KiB,
    /// allocated when needed.
    #[must_use]
    pub fn rings(mut self, bytes: NonZeroUsize) -> Self {
        (self.sockets.send_ring, self.sockets.receive_ring) = (bytes, bytes);
        self
    }

    /// Most bytes in the buffers of all connections together, a quarter of them in the rings between
    /// connections and applications. Default 64 MiB; the crate's documentation says what happens
    /// beyond that.
    #[must_use]
    pub fn memory_limit(mut self, most: Bytes) -> Self {
        self.limits.memory = most;
        self
    }

    /// All limits of the stack. Their `memory` replaces that of [`memory_limit`](Self::memory_limit).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Number of frames for packets on their way to the device. Default 1024; each is as large as
    /// the MTU, at least 2 KiB.
    #[must_use]
    pub fn frames(mut self, count: NonZeroUsize) -> Self {
        self.frames = count.get();
        self
    }

    /// Starts the stack. A task receives nothing from the device before the first socket or
    /// listener exists; earlier packets stay in the device.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the qdisc cannot be parsed; errors of the
    /// device; or if there is no tokio runtime. It needs timers and, for its exact timer in Linux, I/O
    /// (`enable_all`).
    pub fn build(self) -> io::Result<Netstack> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let tree: Tree = self.qdisc.parse().map_err(|error| {
            let words = &self.qdisc;
            invalid(format!("qdisc `{words}`: {error}"))
        })?;
        let qdisc = tree.build().map_err(|error| invalid(error.to_string()))?;
        let (mut host, mut device) = (self.host, self.device);
        if host.addresses.is_empty() && host.owned.is_empty() {
            host = host.owns(Cidr::ALL_IPV4).owns(Cidr::ALL_IPV6);
        }
        host.keeps_packets = true;
        device.prepare(&mut host)?;
        if host.mac == [0; 6] {
            let first = host.addresses.first();
            host.mac = hardware_address(first.map(|own| own.address()));
        }
        let (mut sockets, mut limits) = (self.sockets, self.limits);
        // The stack sheds connections at five quarters of its limit.
        sockets.ring_memory = limits.memory / 4;
        limits.memory = limits.memory * 3 / 5;
        let settings = Settings {
            host,
            qdisc,
            sockets,
            limits,
            frames: self.frames,
            start: Arc::default(),
        };
        let start = Arc::clone(&settings.start);
        let (handle, driver) = device.start(settings)?;
        Ok(Netstack::new(handle, driver, start))
    }
}

/// A locally administered hardware address for a stack with `address`. It is the same after a restart, so
/// that what neighbors have learned stays true.
fn hardware_address(address: Option<IpAddr>) -> [u8; 6] {
    let bits = match address {
        Some(IpAddr::V4(address)) => address.to_bits(),
        Some(IpAddr::V6(address)) => {
            let octets = address.octets();
            let (words, _) = octets.as_chunks();
            let words = words.iter().map(|word| u32::from_be_bytes(*word));
            words.fold(0, |all, word| all ^ word)
        }
        None => 1,
    };
    let [a, b, c, d] = bits.to_be_bytes();
    [2, 0, a, b, c, d]
}
