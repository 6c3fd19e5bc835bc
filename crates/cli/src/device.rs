//! [`ProgramDevice`]: what a program asks of its device, whichever kind that is, and what happened to it.

use std::fmt;
use std::os::fd::AsFd;

use serde::Serialize;
use tautline_base::Device;
use tautline_rt::Tap;
use tautline_rt::packet_device::PacketDevice;

/// A device that says how it is.
pub trait ProgramDevice: Device + AsFd + Send {
    /// Why it does not work any more.
    fn failure(&mut self) -> Option<String>;

    /// Its events that the user should know of.
    fn condition(&self) -> Condition;
}

/// A device of any kind with frames `F`. The kind is known at run time only, so a program is compiled once
/// for each kind of frame; a packet costs a few indirect calls.
pub type BoxedDevice<F> = Box<dyn ProgramDevice<Frame = F>>;

/// Events of a device that the user should know of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Resets after which the device works again.
    pub rebinds: u64,
    /// Packets that the kernel lost on the way to AF_XDP sockets.
    pub receive_losses: Option<ReceiveLosses>,
    /// Frames passed on to the host of another queue.
    pub passed_on: u64,
    /// The ends of the packets put into AF_XDP rings.
    pub ring: Option<RingCounts>,
    /// One line about the last event.
    pub notice: Option<String>,
}

/// The kernel's counters of AF_XDP sockets (`XDP_STATISTICS`) for packets that did not arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReceiveLosses {
    /// Packets dropped for another reason, such as their length.
    pub dropped: u64,
    /// Packets dropped because the receive ring was full.
    pub ring_full: u64,
    /// Times that a frame was needed and the fill ring was empty.
    pub fill_ring_empty: u64,
}

impl ReceiveLosses {
    /// True if something was lost.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// The packets put into the transmit rings of AF_XDP sockets, by how they left: `put` is the sum of the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RingCounts {
    /// Packets put into a ring.
    pub put: u64,
    /// Packets that the kernel completed.
    pub completed: u64,
    /// Packets that a reset of the device took back.
    pub reset: u64,
    /// Packets still in the ring.
    pub left: u64,
}

impl fmt::Display for RingCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            put,
            completed,
            reset,
            left,
        } = self;
        write!(
            f,
            "{put} packets put into the ring, {completed} completed, {reset} taken back by resets, {left} left"
        )
    }
}

impl ProgramDevice for Tap {
    fn failure(&mut self) -> Option<String> {
        Self::failure(self).map(|failure| failure.to_string())
    }

    fn condition(&self) -> Condition {
        Condition::default()
    }
}

impl ProgramDevice for PacketDevice {
    fn failure(&mut self) -> Option<String> {
        Self::failure(self).map(|failure| failure.to_string())
    }

    /// Whether it had to cut large packets, and whether frames of VLANs arrive.
    fn condition(&self) -> Condition {
        let cut = "it takes no packets of several segments, so they are cut in software: \
                   `ethtool -K IFACE tx on tso on`, and no XDP program on the other end of a veth pair";
        let tagged = "frames with a VLAN tag arrive, and a packet socket drops them: for VLAN 5 \
                      `ip link add link IFACE name IFACE.5 type vlan id 5`, and --iface IFACE.5";
        let notices = [(self.counters().cut, cut), (self.tagged(), tagged)];
        let notices = notices.into_iter().filter(|(count, _)| *count > 0);
        let notices: Vec<_> = notices.map(|(_, notice)| notice).collect();
        Condition {
            notice: (!notices.is_empty()).then(|| notices.join("; ")),
            ..Condition::default()
        }
    }
}

#[cfg(feature = "af-xdp")]
mod af_xdp {
    use tautline_base::Device;
    use tautline_offload::SoftwareOffload;
    use tautline_rt::steer::Steered;
    use tautline_xdp_io::XdpQueues;

    use super::{Condition, ProgramDevice, ReceiveLosses, RingCounts};

    impl ProgramDevice for XdpQueues {
        fn failure(&mut self) -> Option<String> {
            Self::failure(self).map(|failure| failure.to_string())
        }

        fn condition(&self) -> Condition {
            let (rebinds, kernel, counters) = (self.rebinds(), self.kernel(), self.counters());
            Condition {
                ring: Some(RingCounts {
                    put: counters.transmitted,
                    completed: counters.completed,
                    reset: counters.dropped,
                    left: self.in_flight() as u64,
                }),
                receive_losses: Some(ReceiveLosses {
                    dropped: kernel.receive_dropped,
                    ring_full: kernel.receive_ring_full,
                    fill_ring_empty: kernel.fill_ring_empty,
                }),
                rebinds: rebinds.count,
                notice: rebinds.any().then(|| rebinds.to_string()),
                passed_on: 0,
            }
        }
    }

    impl ProgramDevice for SoftwareOffload<XdpQueues> {
        fn failure(&mut self) -> Option<String> {
            ProgramDevice::failure(self.inner_mut())
        }

        fn condition(&self) -> Condition {
            self.inner().condition()
        }
    }

    impl ProgramDevice for Steered<XdpQueues> {
        fn failure(&mut self) -> Option<String> {
            ProgramDevice::failure(self.inner_mut())
        }

        fn condition(&self) -> Condition {
            Condition {
                passed_on: self.passed(),
                ..self.inner().condition()
            }
        }
    }
}
