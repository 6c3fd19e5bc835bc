//! Opens the end of a cable as a device: AF_XDP where it is built in, else TAP.

use std::net::IpAddr;
use std::os::fd::AsFd;

use tautline_base::{Device, Frame};

use super::namespaces::Namespaces;

/// Frames of a device for sending.
const FRAMES: u32 = 8192;

/// A device on the wire.
pub(super) trait Wire: Device<Frame: Frame + Send + 'static> + AsFd + Sized {
    /// Opens the end of cable number `link` in the namespace of `node`, which the calling thread is
    /// in, with frames to send. `own`: the address whose packets come to us; without one, all do.
    /// `limit`: the most packets that the qdisc above it holds.
    fn open(
        namespaces: &Namespaces,
        node: &str,
        link: usize,
        own: Option<IpAddr>,
        limit: u64,
    ) -> Result<(Self, Vec<Self::Frame>), String>;

    /// Why it does not work any more.
    fn failure(&mut self) -> String;
}

mod tap {
    use tautline_base::HeapFrame;
    use tautline_rt::Tap;

    use super::{FRAMES, IpAddr, Namespaces, Wire};

    impl Wire for Tap {
        fn open(
            namespaces: &Namespaces,
            node: &str,
            link: usize,
            _own: Option<IpAddr>,
            _limit: u64,
        ) -> Result<(Self, Vec<HeapFrame>), String> {
            let device =
                Self::open(&namespaces.tap(node, link)?).map_err(|error| error.to_string())?;
            Ok((device, (0..FRAMES).map(|_| HeapFrame::new()).collect()))
        }

        fn failure(&mut self) -> String {
            "the TAP interface receives no more".to_owned()
        }
    }
}

#[cfg(feature = "af-xdp")]
mod af_xdp {
    use tautline_xdp_io::{Config, Take, XdpDevice};

    use super::super::namespaces::interface;
    use super::{FRAMES, IpAddr, Namespaces, Wire};

    impl Wire for XdpDevice {
        fn open(
            _namespaces: &Namespaces,
            _node: &str,
            link: usize,
            own: Option<IpAddr>,
            limit: u64,
        ) -> Result<(Self, Vec<Self::Frame>), String> {
            let take = own.map_or(Take::Everything, |own| Take::Addresses(vec![own]));
            let config = Config {
                interface: interface(link),
                take,
                transmit_frames: FRAMES,
                ..Config::default()
            };
            let config = config.holding(limit).map_err(|error| error.to_string())?;
            Self::open(config).map_err(|error| error.to_string())
        }

        fn failure(&mut self) -> String {
            Self::failure(self).map_or_else(
                || "it receives no more".to_owned(),
                |failure| failure.to_string(),
            )
        }
    }
}

/// The device that the nodes are on.
#[cfg(feature = "af-xdp")]
pub(super) type Nic = tautline_xdp_io::XdpDevice;
/// The device that the nodes are on.
#[cfg(not(feature = "af-xdp"))]
pub(super) type Nic = tautline_rt::Tap;
