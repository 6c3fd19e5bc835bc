//! The XDP program: our own IPv4 packets and the ARP requests for our addresses go to the AF_XDP socket of their queue, all
//! else goes on to the kernel.
//!
//! The program that libxdp would load takes every packet of the queue, which cuts the machine off its own network. This
//! one leaves the kernel its traffic, so a machine reached over the same interface stays reachable. A queue without a
//! socket, and a socket that has just been closed, also leave the packet to the kernel.
//!
//! In C it would read:
//! ```c
//! if (data + 14 > data_end) return XDP_PASS;
//! if (ethertype == IPV4) { if (data + 34 > data_end) return XDP_PASS; address = ip->daddr; }
//! else if (ethertype == ARP) { if (data + 42 > data_end) return XDP_PASS; address = arp->target_protocol_address; }
//! else return XDP_PASS;
//! if (address is one of ours) return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
//! return XDP_PASS;
//! ```

use std::net::Ipv4Addr;

use crate::assembler::Register::{R0, R1, R2, R3, R4, R6};
use crate::assembler::{Assembler, Instruction, Register, Width};

/// The program compares with each address in turn; more would slow every packet.
pub(crate) const MAX_ADDRESSES: usize = 64;

// Offsets in `struct xdp_md`, what R1 points to at the start.
const CTX_DATA: i16 = 0;
const CTX_DATA_END: i16 = 4;
const CTX_QUEUE: i16 = 16;

// Offsets in the frame (IEEE 802.3, RFC 791 §3.1, RFC 826).
const ETHERTYPE: i16 = 12;
const IPV4_DESTINATION: i16 = 14 + 16;
const ARP_TARGET_ADDRESS: i16 = 14 + 24;
const ETHERNET_END: i32 = 14;
const IPV4_END: i32 = 14 + 20;
const ARP_END: i32 = 14 + 28;

/// Verdict: go on to the kernel.
const XDP_PASS: i32 = 2;
/// Helper: R1 = map, R2 = key, R3 = verdict if the map has no such entry.
const REDIRECT_MAP: i32 = 51;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Ipv4,
    Compare,
    Ours,
    Pass,
}

/// The program for `addresses`, redirecting into the XSKMAP behind `map_fd`.
pub(crate) fn redirect_ours(addresses: &[Ipv4Addr], map_fd: i32) -> Vec<Instruction> {
    let mut asm = Assembler::new();
    // The context moves to R6, which survives; R2 = start of the frame, R3 = its end.
    asm.copy(R6, R1);
    asm.load(Width::Word, R2, R6, CTX_DATA);
    asm.load(Width::Word, R3, R6, CTX_DATA_END);
    pass_if_shorter(&mut asm, ETHERNET_END);
    asm.load(Width::Half, R0, R2, ETHERTYPE);
    asm.jump_if_equal(R0, as_loaded([0x08, 0x00]), Label::Ipv4);
    asm.jump_if_different(R0, as_loaded([0x08, 0x06]), Label::Pass);

    pass_if_shorter(&mut asm, ARP_END);
    asm.load(Width::Word, R0, R2, ARP_TARGET_ADDRESS);
    asm.jump(Label::Compare);

    asm.label(Label::Ipv4);
    pass_if_shorter(&mut asm, IPV4_END);
    asm.load(Width::Word, R0, R2, IPV4_DESTINATION);

    asm.label(Label::Compare);
    for address in addresses {
        asm.jump_if_equal(R0, u32::from_ne_bytes(address.octets()), Label::Ours);
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

/// Redirects to the socket of the packet's queue, whose context is in R6; where there is none the kernel keeps the packet.
fn redirect(asm: &mut Assembler<Label>, map_fd: i32) {
    asm.load(Width::Word, R2, R6, CTX_QUEUE);
    asm.load_map(R1, map_fd);
    asm.set(R3, XDP_PASS);
    asm.call(REDIRECT_MAP);
    asm.exit();
}

/// The bounds check that the verifier wants before bytes up to `end` are read.
fn pass_if_shorter(asm: &mut Assembler<Label>, end: i32) {
    const LIMIT: Register = R4;
    asm.copy(LIMIT, R2);
    asm.add(LIMIT, end);
    asm.jump_if_greater(LIMIT, R3, Label::Pass);
}

/// Two bytes of the wire as a half-word load on this machine sees them.
fn as_loaded(bytes: [u8; 2]) -> u32 {
    u32::from(u16::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests;
