//! The host under test, on a device that keeps transmitted frames for the runner.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tautline_base::{HeapFrame, Packet, Pool, Tso};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Pfifo;
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};

use crate::wire::Family;
use tautline_testkit::MemoryDevice;

/// The side of an exchange that is under test.
pub(crate) type Stack = Host<Pfifo<Packet<HeapFrame>>, MemoryDevice>;

/// Our address.
pub(crate) fn ours(family: Family) -> IpAddr {
    address(family, 1)
}

/// The scripted peer's.
pub(crate) fn theirs(family: Family) -> IpAddr {
    address(family, 2)
}

fn address(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 7, 0, number).into(),
        Family::V6 => Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, number.into()).into(),
    }
}

pub(crate) const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const THEIR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A host on such a device, which cuts packets of up to 64 KiB if it `is_large`.
pub(crate) fn host(mtu: usize, seed: u64, family: Family, is_large: bool) -> Stack {
    let prefix = if family == Family::V4 { 24 } else { 64 };
    let config = HostConfig::new(OUR_MAC, seed).address(Cidr::new(ours(family), prefix));
    let nic = MemoryDevice {
        mtu,
        ring: 1024,
        announces: true,
        tso: is_large.then_some(Tso::MOST),
        ..MemoryDevice::default()
    };
    let ring = Ring::new(nic, Dql::default());
    let qdisc = Pfifo::new(tautline_qdisc::pfifo::Config::default());
    let pool = Pool::new((0..512).map(|_| HeapFrame::new()).collect());
    let pool = if is_large {
        let large = |_| HeapFrame::with_len(Tso::MOST.frame_len());
        pool.with_large((0..16).map(large).collect())
    } else {
        pool
    };
    Host::new(config, Port::new(qdisc, ring), pool, NoTrace)
}
