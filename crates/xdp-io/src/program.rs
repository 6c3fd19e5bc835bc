//! The XDP program: packets to the host's addresses, and ARP requests and neighbor solicitations for
//! them, go to the AF_XDP socket of their queue; all other packets go to the kernel.
//!
//! libxdp's default program takes every packet of the queue, which cuts the machine off its own
//! network. With this one a machine reached over the same interface stays reachable. Packets of a
//! queue without a socket, or whose socket was just closed, go to the kernel too.
//!
//! The program in C:
//! ```c
//! if (data + 14 > data_end) return XDP_PASS;
//! if (ethertype == IPV4) { if (data + 34 > data_end) return XDP_PASS; address = ip->daddr; }
//! else if (ethertype == ARP) { if (data + 42 > data_end) return XDP_PASS; address = arp->target_protocol_address; }
//! else if (ethertype == IPV6) {
//!     if (data + 54 > data_end) return XDP_PASS;
//!     address = ip6->daddr;
//!     if (ip6->nexthdr == ICMPV6 && ip6->hop_limit == 255 && data + 78 <= data_end && icmp6->type == NEIGHBOR_SOLICITATION)
//!         address = icmp6->target;
//! }
//! else return XDP_PASS;
//! if (address is one of ours) return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
//! return XDP_PASS;
//! ```
//! A solicitation goes to a multicast group of the last 24 bits of the address, which the kernel's own
//! address may share (its link-local address does, if both derive from the same hardware address).
//! Hence the target decides, as in ARP.
//!
//! Announcements of neighbors that have moved (RFC 5227 §3, RFC 4861 §7.2.6) are for every host on the link, the
//! kernel of this machine included, and a program at this hook cannot copy a packet. They go to the kernel,
//! whose connections would break otherwise. A host over AF_XDP finds a neighbor that has moved by asking
//! again once what it knows is stale.

use std::net::IpAddr;

use crate::assembler::Register::{R0, R1, R2, R3, R4, R6};
use crate::assembler::{Assembler, Instruction, Register, Width};

/// The program compares with each address in turn; more would slow every packet.
pub(crate) const MAX_ADDRESSES: usize = 64;

// Offsets in `struct xdp_md`, to which R1 points at the start.
const CTX_DATA: i16 = 0;
const CTX_DATA_END: i16 = 4;
const CTX_QUEUE: i16 = 16;

// Offsets in the frame (IEEE 802.3, RFC 791 §3.1, RFC 826, RFC 8200 §3, RFC 4861 §4.3).
const ETHERTYPE: i16 = 12;
const IPV4_DESTINATION: i16 = 14 + 16;
const ARP_TARGET_ADDRESS: i16 = 14 + 24;
const IPV6_NEXT_HEADER: i16 = 14 + 6;
const IPV6_DESTINATION: i16 = 14 + 24;
const ICMPV6_TYPE: i16 = 14 + 40;
const SOLICITATION_TARGET: i16 = 14 + 40 + 8;
const ETHERNET_END: i32 = 14;
const IPV4_END: i32 = 14 + 20;
const ARP_END: i32 = 14 + 28;
const IPV6_END: i32 = 14 + 40;
const SOLICITATION_END: i32 = 14 + 40 + 24;

/// ICMPv6, with the hop limit that proves a packet comes from this link (RFC 4861 §7.1.1).
const ICMPV6_FROM_THIS_LINK: [u8; 2] = [58, 255];
/// Type and code of a neighbor solicitation.
const NEIGHBOR_SOLICITATION: [u8; 2] = [135, 0];

/// Verdict: pass to the kernel.
const XDP_PASS: i32 = 2;
/// Helper: R1 = map, R2 = key, R3 = verdict if the map has no such entry.
const REDIRECT_MAP: i32 = 51;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Ipv4,
    Ipv6,
    Compare,
    CompareIpv6,
    /// The packet has another address than the IPv6 address of this number.
    Differs(usize),
    Ours,
    Pass,
}

/// The program for `addresses`, redirecting into the XSKMAP behind `map_fd`.
pub(crate) fn redirect_ours(addresses: &[IpAddr], map_fd: i32) -> Vec<Instruction> {
    let mut asm = Assembler::new();
    // The context moves to R6, which survives; R2 = start of the frame, R3 = its end.
    asm.copy(R6, R1);
    asm.load(Width::Word, R2, R6, CTX_DATA);
    asm.load(Width::Word, R3, R6, CTX_DATA_END);
    jump_if_shorter(&mut asm, ETHERNET_END, Label::Pass);
    asm.load(Width::Half, R0, R2, ETHERTYPE);
    asm.jump_if_equal(R0, as_loaded([0x08, 0x00]), Label::Ipv4);
    asm.jump_if_equal(R0, as_loaded([0x86, 0xdd]), Label::Ipv6);
    asm.jump_if_different(R0, as_loaded([0x08, 0x06]), Label::Pass);

    jump_if_shorter(&mut asm, ARP_END, Label::Pass);
    asm.load(Width::Word, R0, R2, ARP_TARGET_ADDRESS);
    asm.jump(Label::Compare);

    asm.label(Label::Ipv4);
    jump_if_shorter(&mut asm, IPV4_END, Label::Pass);
    asm.load(Width::Word, R0, R2, IPV4_DESTINATION);

    asm.label(Label::Compare);
    for address in addresses {
        if let IpAddr::V4(address) = address {
            asm.jump_if_equal(R0, u32::from_ne_bytes(address.octets()), Label::Ours);
        }
    }
    asm.jump(Label::Pass);

    asm.label(Label::Ipv6);
    jump_if_shorter(&mut asm, IPV6_END, Label::Pass);
    asm.load(Width::Half, R0, R2, IPV6_NEXT_HEADER);
    asm.jump_if_different(R0, as_loaded(ICMPV6_FROM_THIS_LINK), Label::CompareIpv6);
    jump_if_shorter(&mut asm, SOLICITATION_END, Label::CompareIpv6);
    asm.load(Width::Half, R0, R2, ICMPV6_TYPE);
    asm.jump_if_different(R0, as_loaded(NEIGHBOR_SOLICITATION), Label::CompareIpv6);
    // From here on the target is at the offset of the destination.
    asm.add(R2, i32::from(SOLICITATION_TARGET - IPV6_DESTINATION));

    asm.label(Label::CompareIpv6);
    for (number, address) in addresses.iter().enumerate() {
        if let IpAddr::V6(address) = address {
            for (offset, word) in (0..).step_by(4).zip(address.octets().as_chunks::<4>().0) {
                asm.load(Width::Word, R0, R2, IPV6_DESTINATION + offset);
                asm.jump_if_different(R0, u32::from_ne_bytes(*word), Label::Differs(number));
            }
            asm.jump(Label::Ours);
            asm.label(Label::Differs(number));
        }
    }

    asm.label(Label::Pass);
    asm.set(R0, XDP_PASS);
    asm.exit();

    asm.label(Label::Ours);
    redirect(&mut asm, map_fd);
    asm.finish()
}

/// The program that takes every packet.
pub(crate) fn redirect_all(map_fd: i32) -> Vec<Instruction> {
    let mut asm = Assembler::<Label>::new();
    asm.copy(R6, R1);
    redirect(&mut asm, map_fd);
    asm.finish()
}

/// Redirects to the socket of the packet's queue, whose context is in R6; without a socket the packet
/// goes to the kernel.
fn redirect(asm: &mut Assembler<Label>, map_fd: i32) {
    asm.load(Width::Word, R2, R6, CTX_QUEUE);
    asm.load_map(R1, map_fd);
    asm.set(R3, XDP_PASS);
    asm.call(REDIRECT_MAP);
    asm.exit();
}

/// The bounds check that the verifier requires before reads up to `end`.
fn jump_if_shorter(asm: &mut Assembler<Label>, end: i32, label: Label) {
    const LIMIT: Register = R4;
    asm.copy(LIMIT, R2);
    asm.add(LIMIT, end);
    asm.jump_if_greater(LIMIT, R3, label);
}

/// Two bytes of the wire as a half-word load returns them on this machine.
fn as_loaded(bytes: [u8; 2]) -> u32 {
    u32::from(u16::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests;
