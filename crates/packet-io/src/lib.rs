//! Linux packet sockets whose packets carry virtio-net headers (`packet(7)`, `PACKET_VNET_HDR`;
//! virtio 1.2 §5.1.6): large packets and unfinished checksums both ways on an untouched interface.
//!
//! [`PacketSocket`] sends past the kernel's own qdisc (`PACKET_QDISC_BYPASS`), does not receive the
//! packets that this machine sends (`PACKET_IGNORE_OUTGOING`), and takes only the packets of
//! [`Take`].
//!
//! # What the kernel still sees
//! A packet socket receives a *copy*: the kernel's stack processes each packet too. It drops
//! packets to foreign addresses, silently if the interface does not forward
//! (`net.ipv4.ip_forward=0`, the default), so it never resets our connections. Hence the interface
//! must not have the addresses in [`Take::Addresses`]: put it into a network namespace, or give our
//! process an address that the kernel does not have. On a router, or to save the kernel's work,
//! drop the packets at the ingress hook, right after the socket received them:
//! ```text
//! nft add table netdev tautline
//! nft add chain netdev tautline ingress '{ type filter hook ingress device eth0 priority 0; }'
//! nft add rule netdev tautline ingress ip daddr 10.7.0.1 drop
//! ```
//! or, without nftables, `tc qdisc add dev eth0 clsact` and
//! `tc filter add dev eth0 ingress protocol ip flower dst_ip 10.7.0.1 action drop`.
//!
//! `unsafe` is confined to `sys`: system calls for which no safe wrapper exists.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

pub mod error;
pub mod socket;

mod filter;
mod sys;

pub use error::{Failure, OpenError};
pub use socket::{Config, HEADER_LEN, PacketSocket, Take};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
