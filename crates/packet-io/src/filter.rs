//! The classic BPF program of a socket: packets to the host's addresses, ARP requests and neighbor
//! solicitations for them, and announcements of neighbors.
//!
//! A neighbor that has moved, such as a router that takes over, announces itself to all: by ARP with its own
//! address as the target (RFC 5227 §3), or by a neighbor advertisement (RFC 4861 §7.2.6).
//!
//! A load beyond the end of a frame ends the program with a drop (`bpf(4)`), so lengths need no
//! checks. A frame with a VLAN tag is not delivered: the kernel has moved the tag out of it. Its first byte is,
//! by which the socket counts it.

use std::net::IpAddr;

use libc::{
    BPF_ABS, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGT, BPF_JMP, BPF_K, BPF_LD,
    BPF_LDX, BPF_MISC, BPF_RET, BPF_TAX, BPF_W, BPF_X, sock_filter,
};

use crate::error::OpenError;
use crate::socket::Take;

/// Most addresses of a filter.
const MAX_ADDRESSES: usize = 64;

// Offsets in the frame (IEEE 802.3, RFC 791 §3.1, RFC 826, RFC 8200 §3, RFC 4861 §4.3).
const ETHERTYPE: u32 = 12;
const IPV4_DESTINATION: u32 = 14 + 16;
const ARP_SENDER: u32 = 14 + 14;
const ARP_TARGET: u32 = 14 + 24;
const IPV6_NEXT_HEADER: u32 = 14 + 6;
const IPV6_DESTINATION: u32 = 14 + 24;
const ICMPV6_TYPE: u32 = 14 + 40;
const SOLICITATION_TARGET: u32 = 14 + 40 + 8;

const IPV4: u32 = 0x0800;
const ARP: u32 = 0x0806;
const IPV6: u32 = 0x86dd;
/// ICMPv6, with the hop limit that proves a packet comes from this link (RFC 4861 §7.1.1).
const ICMPV6_FROM_THIS_LINK: u32 = 0x3aff;
/// Type and code of a neighbor solicitation, and of an advertisement.
const NEIGHBOR_SOLICITATION: u32 = 135 << 8;
const NEIGHBOR_ADVERTISEMENT: u32 = 136 << 8;

/// Loads of metadata (`SKF_AD_OFF`, include/uapi/linux/filter.h): kind of the packet, and whether it
/// had a VLAN tag.
const PACKET_KIND: u32 = 0xffff_f000 + 4;
const HAD_VLAN_TAG: u32 = 0xffff_f000 + 48;
/// `PACKET_MULTICAST`; above it are packets for other hosts and packets that leave.
const LAST_KIND_FOR_US: u32 = 2;

/// Return values: drop, or keep all bytes.
const DROP: u32 = 0;
const KEEP: u32 = u32::MAX;
/// Keep one byte, as of no frame: the mark of one with a VLAN tag.
pub(crate) const TAGGED: usize = 1;

/// The program that accepts the packets of `take`, and marks those of the same hosts with a VLAN tag if
/// `counts_tagged`.
pub(crate) fn program(take: &Take, counts_tagged: bool) -> Result<Vec<sock_filter>, OpenError> {
    let tagged = match take {
        _ if !counts_tagged => vec![ret(DROP)],
        Take::Everything => vec![ret(TAGGED as u32)],
        Take::Addresses(_) => vec![
            load(BPF_B | BPF_ABS, PACKET_KIND),
            jump(BPF_JGT, LAST_KIND_FOR_US, 0, 1),
            ret(DROP),
            ret(TAGGED as u32),
        ],
    };
    let mut code = vec![
        load(BPF_B | BPF_ABS, HAD_VLAN_TAG),
        jump(BPF_JEQ, 0, tagged.len() as u8, 0),
    ];
    code.extend(tagged);
    let Take::Addresses(addresses) = take else {
        code.push(ret(KEEP));
        return Ok(code);
    };
    if addresses.len() > MAX_ADDRESSES {
        return Err(OpenError::TooManyAddresses {
            count: addresses.len(),
            limit: MAX_ADDRESSES,
        });
    }
    let (ipv4, ipv6) = (compare_ipv4(addresses), compare_ipv6(addresses));
    code.extend([
        load(BPF_B | BPF_ABS, PACKET_KIND),
        jump(BPF_JGT, LAST_KIND_FOR_US, 4, 0),
        load(BPF_H | BPF_ABS, ETHERTYPE),
        // X: offset of the address to compare.
        jump(BPF_JEQ, IPV4, 3, 0),
        jump(BPF_JEQ, ARP, 4, 0),
        jump(BPF_JEQ, IPV6, 9, 0),
        ret(DROP),
        index(IPV4_DESTINATION),
        skip(15),
        load(BPF_W | BPF_ABS, ARP_SENDER),
        instruction(BPF_MISC | BPF_TAX, 0, 0, 0),
        load(BPF_W | BPF_ABS, ARP_TARGET),
        instruction(BPF_JMP | BPF_JEQ | BPF_X, 7, 0, 0),
        index(ARP_TARGET),
        skip(9),
        load(BPF_H | BPF_ABS, IPV6_NEXT_HEADER),
        index(IPV6_DESTINATION),
        jump(BPF_JEQ, ICMPV6_FROM_THIS_LINK, 0, 5),
        load(BPF_H | BPF_ABS, ICMPV6_TYPE),
        jump(BPF_JEQ, NEIGHBOR_ADVERTISEMENT, 0, 1),
        ret(KEEP),
        jump(BPF_JEQ, NEIGHBOR_SOLICITATION, 0, 1),
        index(SOLICITATION_TARGET),
    ]);
    code.push(skip(ipv4.len() as u32));
    code.extend(ipv4);
    code.extend(ipv6);
    Ok(code)
}

fn compare_ipv4(addresses: &[IpAddr]) -> Vec<sock_filter> {
    let mut code = vec![load(BPF_W | BPF_IND, 0)];
    for address in addresses {
        if let IpAddr::V4(address) = address {
            code.extend([jump(BPF_JEQ, address.to_bits(), 0, 1), ret(KEEP)]);
        }
    }
    code.push(ret(DROP));
    code
}

fn compare_ipv6(addresses: &[IpAddr]) -> Vec<sock_filter> {
    let mut code = Vec::new();
    for address in addresses {
        if let IpAddr::V6(address) = address {
            for (number, word) in (0u8..).zip(address.octets().as_chunks::<4>().0) {
                // After the fourth word comes the return, then the next address.
                let to_next = 2 * (3 - number) + 1;
                code.extend([
                    load(BPF_W | BPF_IND, 4 * u32::from(number)),
                    jump(BPF_JEQ, u32::from_be_bytes(*word), 0, to_next),
                ]);
            }
            code.push(ret(KEEP));
        }
    }
    code.push(ret(DROP));
    code
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

fn load(mode: u32, offset: u32) -> sock_filter {
    instruction(BPF_LD | mode, 0, 0, offset)
}

fn index(value: u32) -> sock_filter {
    instruction(BPF_LDX | BPF_IMM, 0, 0, value)
}

fn jump(condition: u32, value: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(BPF_JMP | condition | BPF_K, then, otherwise, value)
}

fn skip(count: u32) -> sock_filter {
    instruction(BPF_JMP | BPF_JA, 0, 0, count)
}

fn ret(value: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, 0, 0, value)
}

#[cfg(test)]
mod tests;
