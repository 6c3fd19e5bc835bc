//! [`Config`]: the parameters of a device; [`Mode`]: how the kernel bound it.

use core::fmt;
use std::net::IpAddr;

use tautline_base::ConfigError;

use crate::error::OpenError;
use crate::program::MAX_ADDRESSES;
use crate::umem::ZERO_COPY_MTU;

/// Parameters of an AF_XDP device. Ring sizes are powers of two. Frames and entries are counted in packets:
/// where the MTU needs several buffers for a packet, there are as many times more.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the network interface, in the network namespace of the calling thread. No default.
    pub interface: String,
    /// Hardware queue to serve. Default 0.
    pub queue: u32,
    /// The packets that the device receives; the kernel keeps all others. No default.
    pub take: Take,
    /// Frames handed to the caller for sending, the most packets that it can queue. Default 4096: two
    /// full transmit rings.
    pub transmit_frames: u32,
    /// Frames that wait in the fill ring for packets. Default 4096: a full receive ring.
    pub receive_frames: u32,
    /// Entries of the transmit ring. Default 2048, as libxdp's `XSK_RING_PROD__DEFAULT_NUM_DESCS`.
    pub transmit_ring: u32,
    /// Entries of the receive ring. Default 4096: a thread that is not scheduled for 10 ms loses nothing
    /// of 400 000 packets a second (libxdp's `XSK_RING_CONS__DEFAULT_NUM_DESCS` is 2048).
    pub receive_ring: u32,
    /// Whether packets are copied between UMEM and driver. Default [`Bind::Auto`].
    pub bind: Bind,
    /// The hook of the XDP program in the kernel. Default [`Driver::Auto`].
    pub driver: Driver,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interface: String::new(),
            queue: 0,
            take: Take::Addresses(Vec::new()),
            transmit_frames: 4096,
            receive_frames: 4096,
            transmit_ring: 2048,
            receive_ring: 4096,
            bind: Bind::Auto,
            driver: Driver::Auto,
        }
    }
}

/// Most transmit frames that [`Config::holding`] requests: 64 MiB of UMEM.
const MOST_TRANSMIT_FRAMES: u64 = 16_384;

impl Config {
    /// Raises [`transmit_frames`](Self::transmit_frames) to `packets`, the limit of the qdisc above
    /// the device, so that a standing queue leaves frames to send with.
    ///
    /// # Errors
    /// If the qdisc could hold more than 16 384 packets, the share of the UMEM for sending.
    pub fn holding(self, packets: u64) -> Result<Self, ConfigError> {
        ConfigError::check(
            packets <= MOST_TRANSMIT_FRAMES,
            "limit",
            packets,
            "at most 16384 packets, the UMEM's share for sending (give the qdisc a smaller `limit`)",
        )?;
        Ok(Self {
            transmit_frames: self.transmit_frames.max(packets as u32),
            ..self
        })
    }
}

/// The packets of an interface that go to the AF_XDP sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Packets to these addresses, and ARP requests and neighbor solicitations for them, as an end
    /// host needs; at least one address.
    Addresses(Vec<IpAddr>),
    /// All packets, as a bump in the wire needs; the interface becomes promiscuous. The kernel receives nothing
    /// on it.
    Everything,
}

/// Whether the driver reads and writes the UMEM itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// Zero copy if the driver supports it and the MTU is at most 2022, else copy;
    /// [`XdpDevice::copy_reason`](crate::XdpDevice::copy_reason) explains a copy.
    #[default]
    Auto,
    /// The kernel copies each packet. Works with every driver.
    Copy,
    /// The driver uses the UMEM directly; an error if it does not support that. An MTU above 2022, the
    /// most that fits one receive buffer of every driver, needs a driver that uses several for a packet.
    ZeroCopy,
}

/// The hook in which the XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// In the driver if it has a hook, else in the generic hook.
    #[default]
    Auto,
    /// In the driver only.
    Native,
    /// In the generic hook, after the kernel has built a socket buffer. Slow, works everywhere.
    Skb,
}

/// The mode of an open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The XDP program runs in the driver, not in the generic hook.
    pub native: bool,
    /// The driver uses the UMEM without copies.
    pub zero_copy: bool,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = if self.native {
            "native driver mode"
        } else {
            "generic (SKB) mode"
        };
        let copies = if self.zero_copy { "zero copy" } else { "copy" };
        write!(f, "{hook}, {copies}")
    }
}

/// Why a device copies packets instead of sharing its UMEM with the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyReason {
    /// [`Bind::Copy`] was requested.
    Requested,
    /// The XDP program runs in the generic hook.
    GenericHook,
    /// The MTU exceeds the receive buffers that a driver may make of a chunk.
    Mtu {
        /// MTU of the interface in bytes.
        mtu: usize,
    },
    /// The driver has no zero copy, or refused it for this queue.
    Driver,
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("copies were requested"),
            Self::GenericHook => f.write_str("the generic hook has no zero copy"),
            Self::Mtu { mtu } => write!(
                f,
                "zero copy carries an MTU of {ZERO_COPY_MTU} at most, not {mtu}"
            ),
            Self::Driver => f.write_str("the driver declines zero copy"),
        }
    }
}

impl CopyReason {
    /// The reason to request copies, known before the driver is asked.
    pub(crate) fn before_bind(bind: Bind, native: bool, mtu: usize) -> Option<Self> {
        match bind {
            Bind::ZeroCopy => None,
            Bind::Copy => Some(Self::Requested),
            Bind::Auto if !native => Some(Self::GenericHook),
            Bind::Auto => (mtu > ZERO_COPY_MTU).then_some(Self::Mtu { mtu }),
        }
    }
}

impl Config {
    /// Refuses values that no kernel accepts, naming the parameter.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        self.take.check()?;
        check_frames("transmit_frames", self.transmit_frames)?;
        check_frames("receive_frames", self.receive_frames)?;
        check_ring("transmit_ring", self.transmit_ring)?;
        check_ring("receive_ring", self.receive_ring)
    }
}

impl Take {
    /// Limits the number of addresses: the XDP program compares with each in turn.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let problem = match self {
            Self::Addresses(none) if none.is_empty() => {
                "is empty, so no packet could be received; name at least one".to_owned()
            }
            Self::Addresses(many) if many.len() > MAX_ADDRESSES => {
                format!(
                    "holds {} addresses, at most {MAX_ADDRESSES} fit the XDP program",
                    many.len()
                )
            }
            Self::Addresses(_) | Self::Everything => return Ok(()),
        };
        Err(OpenError::Config {
            parameter: "addresses",
            problem,
        })
    }
}

/// At most 2²⁰ frames of a kind, as many as the largest ring has entries.
fn check_frames(parameter: &'static str, frames: u32) -> Result<(), OpenError> {
    if (1..=1 << 20).contains(&frames) {
        return Ok(());
    }
    Err(OpenError::Config {
        parameter,
        problem: format!("is {frames}, must be 1 to {}", 1 << 20),
    })
}

/// The kernel masks ring positions, so a ring has a power of two of entries.
fn check_ring(parameter: &'static str, entries: u32) -> Result<(), OpenError> {
    if entries.is_power_of_two() && entries <= 1 << 20 {
        return Ok(());
    }
    Err(OpenError::Config {
        parameter,
        problem: format!("is {entries}, must be a power of two up to {}", 1 << 20),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            take: Take::Addresses(vec![IpAddr::from([10, 7, 0, 1])]),
            ..Config::default()
        }
    }

    fn refused(config: Config) -> &'static str {
        match config.check() {
            Err(OpenError::Config { parameter, .. }) => parameter,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    #[test]
    fn a_qdisc_never_holds_more_packets_than_the_umem() {
        let frames = |limit| {
            let held = Config::default()
                .holding(limit)
                .map_err(|error| error.to_string());
            held.map(|config| config.transmit_frames)
        };
        assert_eq!(frames(100), Ok(4096));
        assert_eq!(frames(10_240), Ok(10_240));
        assert_eq!(frames(16_384), Ok(16_384));
        let refused = frames(16_385).expect_err("too many");
        assert!(
            refused.starts_with("`limit` must be at most 16384") && refused.ends_with("not 16385"),
            "{refused}"
        );
    }

    #[test]
    fn copies_have_a_reason() {
        let reason = CopyReason::before_bind;
        assert_eq!(reason(Bind::Auto, true, 1500), None);
        assert_eq!(reason(Bind::Auto, true, ZERO_COPY_MTU), None);
        let large = reason(Bind::Auto, true, 3000).expect("too large");
        assert_eq!(
            large.to_string(),
            "zero copy carries an MTU of 2022 at most, not 3000"
        );
        assert_eq!(
            reason(Bind::Auto, false, 1500),
            Some(CopyReason::GenericHook)
        );
        assert_eq!(reason(Bind::Copy, true, 1500), Some(CopyReason::Requested));
        assert_eq!(reason(Bind::ZeroCopy, true, 1500), None);
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        assert!(config().check().is_ok());
        assert_eq!(refused(Config::default()), "addresses");
        assert_eq!(
            refused(Config {
                take: Take::Addresses(vec![IpAddr::from([127, 0, 0, 1]); MAX_ADDRESSES + 1]),
                ..config()
            }),
            "addresses"
        );
        assert_eq!(
            refused(Config {
                transmit_frames: 0,
                ..config()
            }),
            "transmit_frames"
        );
        assert_eq!(
            refused(Config {
                receive_frames: u32::MAX,
                ..config()
            }),
            "receive_frames"
        );
        assert_eq!(
            refused(Config {
                transmit_ring: 0,
                ..config()
            }),
            "transmit_ring"
        );
        assert_eq!(
            refused(Config {
                receive_ring: 1000,
                ..config()
            }),
            "receive_ring"
        );
    }
}
