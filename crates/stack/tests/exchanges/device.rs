//! A device that completes at once and keeps what was transmitted for the runner to look at.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tautline_base::{Device, HeapFrame, Instant, Packet, Pool, Received};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::Pfifo;
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};

use crate::wire::Family;

/// The side of an exchange that is under test.
pub(crate) type Stack = Host<Pfifo<Packet<HeapFrame>>, Nic>;

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

/// The device.
pub(crate) struct Nic {
    mtu: usize,
    pub(crate) sent: VecDeque<Vec<u8>>,
    done: Vec<Packet<HeapFrame>>,
}

impl Device for Nic {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn room(&self) -> usize {
        1024 - self.done.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.sent.push_back(packet.bytes().to_vec());
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    fn announces_completions(&self) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        None
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}

/// A host on such a device.
pub(crate) fn host(mtu: usize, seed: u64, family: Family) -> Stack {
    let prefix = if family == Family::V4 { 24 } else { 64 };
    let config = HostConfig::new(OUR_MAC, seed).address(Cidr::new(ours(family), prefix));
    let nic = Nic { mtu, sent: VecDeque::new(), done: Vec::new() };
    let ring = Ring::new(nic, Dql::default());
    let qdisc = Pfifo::new(tautline_qdisc::pfifo::Config::default());
    let pool = Pool::new((0..512).map(|_| HeapFrame::new()).collect());
    Host::new(config, Port::new(qdisc, ring), pool, NoTrace)
}
