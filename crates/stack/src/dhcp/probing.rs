//! [`Probing`]: whether another host has the address that a server grants (RFC 2131 §3.1 step 5 and
//! §4.4.1, by the probes of RFC 5227 §2.1).

use std::net::Ipv4Addr;
use std::time::Duration;

use smoltcp::wire::EthernetAddress;
use tautline_base::{Instant, Medium, Offload};

use super::Lease;
use crate::wire::{self, Addresses, Mac, Parsed};

/// Time after each probe in which another host may answer. DIVERGES: RFC 5227 §1.1 has up to 1 s before
/// the first, 1 to 2 s between two, and 2 s after the last of three.
const INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between a refusal and the next attempt (RFC 2131 §3.1 step 5).
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// A lease whose address is tested.
#[derive(Debug)]
pub(super) struct Probing {
    pub(super) lease: Lease,
    /// When the request for it was sent.
    pub(super) asked: Instant,
    /// Probes that are still to be sent.
    left: u8,
    /// One is to be sent now.
    is_due: bool,
    next: Instant,
}

impl Probing {
    pub(super) fn new(lease: Lease, asked: Instant, probes: u8, now: Instant) -> Self {
        Self {
            lease,
            asked,
            left: probes,
            is_due: false,
            next: now,
        }
    }

    /// Time of the next probe, or of the end.
    pub(super) fn deadline(&self) -> Instant {
        self.next
    }

    /// Lets time pass. True if no host has answered.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        if self.next > now {
            return false;
        }
        if self.left == 0 {
            return true;
        }
        (self.left, self.is_due, self.next) = (self.left - 1, true, now + INTERVAL);
        false
    }

    /// The frame of the probe that is due, from `mac`.
    pub(super) fn take(&mut self, mac: [u8; 6]) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        request(mac, Ipv4Addr::UNSPECIFIED, self.lease.address)
    }

    /// Whether `frame` shows that another host than the one at `mac` has the address, or is about to take
    /// it (RFC 5227 §2.1.1).
    pub(super) fn is_contradicted(&self, frame: &[u8], mac: [u8; 6]) -> bool {
        let address = self.lease.address;
        match wire::parse_over(Medium::Ethernet, frame, None, Offload::default()) {
            Ok(Parsed::Arp {
                request,
                sender_mac,
                sender,
                target,
            }) => {
                let is_probe = request && sender.is_unspecified() && target == address;
                sender_mac.0 != mac && (sender == address || is_probe)
            }
            _ => false,
        }
    }
}

/// The Ethernet frame of an ARP request for `target` from the host at `mac` with the address `sender`.
pub(super) fn request(mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Option<Vec<u8>> {
    let addresses = Addresses {
        medium: Medium::Ethernet,
        source_mac: EthernetAddress(mac),
        destination_mac: Mac::BROADCAST,
        source: sender.into(),
        destination: target.into(),
        hop_limit: 0,
        flow_label: 0,
        tos: 0,
        vlan: None,
    };
    let mut frame = vec![0; wire::ETHERNET_HEADER + wire::ARP_LEN];
    wire::write_arp(&mut frame, &addresses, true)?;
    Some(frame)
}
