//! The program run by a small interpreter, which also refuses what the verifier would: reads
//! outside the frame, unset registers, falling off the end.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::assembler as op;

const FRAME_AT: u64 = 0x1_0000;
const CTX_AT: u64 = 0x100;
const MAP_FD: i32 = 77;
const QUEUE: u32 = 3;

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Redirect {
        map: u64,
        queue: u64,
        otherwise: u64,
    },
}

struct Machine<'a> {
    registers: [Option<u64>; 11],
    frame: &'a [u8],
}

impl Machine<'_> {
    fn read(&self, address: u64, width: u64) -> u64 {
        let end = FRAME_AT + self.frame.len() as u64;
        let word = match address.wrapping_sub(CTX_AT) {
            0 => return FRAME_AT,
            4 => return end,
            16 => return u64::from(QUEUE),
            _ => {
                assert!(
                    address >= FRAME_AT && address + width <= end,
                    "read of {width} at {address:#x} outside the frame"
                );
                let at = (address - FRAME_AT) as usize;
                &self.frame[at..at + width as usize]
            }
        };
        match word {
            [a, b] => u64::from(u16::from_ne_bytes([*a, *b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([*a, *b, *c, *d])),
            _ => unreachable!("only half-words and words are loaded"),
        }
    }

    fn get(&self, register: u8) -> u64 {
        self.registers[register as usize].expect("register read before it was set")
    }
}

fn run(code: &[Instruction], frame: &[u8]) -> Verdict {
    let mut m = Machine {
        registers: [None; 11],
        frame,
    };
    m.registers[1] = Some(CTX_AT);
    let mut redirected = None;
    let mut at = 0usize;
    for _ in 0..10_000 {
        let Instruction {
            opcode,
            registers,
            offset,
            immediate,
        } = code[at];
        let (low, high) = (registers & 0xf, registers >> 4);
        let (to, from) = if cfg!(target_endian = "little") {
            (low, high)
        } else {
            (high, low)
        };
        let constant = i64::from(immediate).cast_unsigned();
        let mut jump = false;
        match opcode {
            0x61 => {
                m.registers[to as usize] =
                    Some(m.read(m.get(from).wrapping_add_signed(offset.into()), 4))
            }
            0x69 => {
                m.registers[to as usize] =
                    Some(m.read(m.get(from).wrapping_add_signed(offset.into()), 2))
            }
            op::LOAD_WIDE => {
                assert_eq!(from, op::MAP_BY_FD);
                m.registers[to as usize] = Some(constant);
                at += 1;
            }
            op::MOVE => m.registers[to as usize] = Some(m.get(from)),
            op::MOVE_CONSTANT => m.registers[to as usize] = Some(constant),
            op::ADD_CONSTANT => m.registers[to as usize] = Some(m.get(to).wrapping_add(constant)),
            op::JUMP => jump = true,
            op::JUMP_IF_GREATER => jump = m.get(to) > m.get(from),
            op::JUMP_IF_EQUAL => jump = m.get(to) as u32 == immediate.cast_unsigned(),
            op::JUMP_IF_DIFFERENT => jump = m.get(to) as u32 != immediate.cast_unsigned(),
            op::CALL => {
                assert_eq!(immediate, REDIRECT_MAP);
                redirected = Some(Verdict::Redirect {
                    map: m.get(1),
                    queue: m.get(2),
                    otherwise: m.get(3),
                });
                m.registers[1..=5].fill(None);
                m.registers[0] = Some(4);
            }
            op::EXIT => {
                let verdict = m.get(0);
                return redirected.unwrap_or_else(|| {
                    assert_eq!(verdict, XDP_PASS as u64);
                    Verdict::Pass
                });
            }
            other => panic!("unknown opcode {other:#x}"),
        }
        at = at.wrapping_add_signed(1 + if jump { isize::from(offset) } else { 0 });
    }
    panic!("the program does not end");
}

const OURS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 7, 0, 1), Ipv4Addr::new(200, 255, 0, 129)];
const OUR_IPV6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 7, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0xa, 0xb, 0xc, 0xffff),
];

/// Of both families in turn.
fn ours() -> Vec<IpAddr> {
    OURS.into_iter()
        .zip(OUR_IPV6)
        .flat_map(|(v4, v6)| [v4.into(), v6.into()])
        .collect()
}

fn verdict(frame: &[u8]) -> Verdict {
    run(&redirect_ours(&ours(), MAP_FD), frame)
}

fn redirected() -> Verdict {
    Verdict::Redirect {
        map: MAP_FD as u64,
        queue: u64::from(QUEUE),
        otherwise: XDP_PASS as u64,
    }
}

fn frame(ethertype: [u8; 2], address_at: usize, address: Ipv4Addr, len: usize) -> Vec<u8> {
    let mut frame = vec![0xa5; len];
    frame[12..14].copy_from_slice(&ethertype);
    frame[address_at..address_at + 4].copy_from_slice(&address.octets());
    frame
}

fn ipv4(to: Ipv4Addr) -> Vec<u8> {
    frame([8, 0], 30, to, 60)
}

fn arp(target: Ipv4Addr) -> Vec<u8> {
    frame([8, 6], 38, target, 42)
}

fn ipv6(next_header: u8, hop_limit: u8, to: Ipv6Addr) -> Vec<u8> {
    let mut frame = vec![0xa5; 90];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame[20..22].copy_from_slice(&[next_header, hop_limit]);
    frame[38..54].copy_from_slice(&to.octets());
    frame
}

/// To the multicast group that `target` belongs to.
fn solicitation(target: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    let mut frame = ipv6(58, 255, group.into());
    frame[54..56].copy_from_slice(&[135, 0]);
    frame[62..78].copy_from_slice(&target.octets());
    frame
}

#[test]
fn our_ipv6_and_solicitations_are_redirected() {
    for address in OUR_IPV6 {
        assert_eq!(verdict(&ipv6(6, 64, address)), redirected());
        assert_eq!(
            verdict(&ipv6(58, 255, address)),
            redirected(),
            "an advertisement, or an echo with a large hop limit"
        );
        assert_eq!(
            verdict(&ipv6(58, 255, address)[..62]),
            redirected(),
            "an empty echo"
        );
        assert_eq!(verdict(&solicitation(address)), redirected());
    }
}

#[test]
fn the_kernels_ipv6_passes() {
    let mut words = OUR_IPV6[1].segments();
    for (number, at) in [(7, 0), (1, 2), (1, 4), (0xfffe, 7)] {
        let before = std::mem::replace(&mut words[at], number);
        let other = Ipv6Addr::from(words);
        assert_eq!(verdict(&ipv6(6, 64, other)), Verdict::Pass, "{other}");
        assert_eq!(verdict(&solicitation(other)), Verdict::Pass, "{other}");
        words[at] = before;
    }
    // The kernel shares our group: only the target tells whom it asks for.
    let mut shared = solicitation(OUR_IPV6[1]);
    shared[62..78].copy_from_slice(&Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 0xffff).octets());
    assert_eq!(verdict(&shared), Verdict::Pass);
    let mut forwarded = solicitation(OUR_IPV6[0]);
    forwarded[21] = 64;
    assert_eq!(verdict(&forwarded), Verdict::Pass, "not from this link");
}

#[test]
fn our_ipv4_and_arp_are_redirected() {
    for address in OURS {
        assert_eq!(verdict(&ipv4(address)), redirected());
        assert_eq!(verdict(&arp(address)), redirected());
    }
}

#[test]
fn everything_else_passes() {
    let others = [
        Ipv4Addr::new(10, 7, 0, 2),
        Ipv4Addr::new(1, 0, 7, 10),
        Ipv4Addr::BROADCAST,
        Ipv4Addr::UNSPECIFIED,
    ];
    for address in others {
        assert_eq!(verdict(&ipv4(address)), Verdict::Pass);
        assert_eq!(verdict(&arp(address)), Verdict::Pass);
    }
    for ethertype in [[0x81, 0x00], [0x00, 0x08], [0x08, 0x01], [0, 0]] {
        for at in [30, 38] {
            assert_eq!(verdict(&frame(ethertype, at, OURS[0], 60)), Verdict::Pass);
        }
    }
}

#[test]
fn our_address_elsewhere_in_the_packet_does_not_count() {
    assert_eq!(
        verdict(&frame([8, 0], 26, OURS[0], 60)),
        Verdict::Pass,
        "source address"
    );
    assert_eq!(
        verdict(&frame([8, 6], 28, OURS[0], 60)),
        Verdict::Pass,
        "sender protocol address"
    );
}

#[test]
fn truncated_frames_pass_and_are_never_read_past_their_end() {
    let (ipv6, solicitation) = (ipv6(6, 64, OUR_IPV6[0]), solicitation(OUR_IPV6[0]));
    for (whole, needed) in [
        (ipv4(OURS[0]), 34),
        (arp(OURS[0]), 42),
        (ipv6, 54),
        (solicitation, 78),
    ] {
        for len in 0..whole.len() {
            let expected = if len < needed {
                Verdict::Pass
            } else {
                redirected()
            };
            assert_eq!(verdict(&whole[..len]), expected, "{len} bytes");
        }
    }
}

#[test]
fn the_largest_program_still_works() {
    let addresses: Vec<_> = (0..MAX_ADDRESSES as u8)
        .map(|i| Ipv4Addr::new(10, 0, 0, i).into())
        .collect();
    let code = redirect_ours(&addresses, MAP_FD);
    assert_eq!(run(&code, &ipv4(Ipv4Addr::new(10, 0, 0, 63))), redirected());
    assert_eq!(
        run(&code, &ipv4(Ipv4Addr::new(10, 0, 0, 64))),
        Verdict::Pass
    );
    let addresses: Vec<_> = (0..MAX_ADDRESSES as u16)
        .map(|i| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, i).into())
        .collect();
    let code = redirect_ours(&addresses, MAP_FD);
    assert_eq!(
        run(
            &code,
            &ipv6(6, 64, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 63))
        ),
        redirected()
    );
    assert_eq!(
        run(
            &code,
            &ipv6(6, 64, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 64))
        ),
        Verdict::Pass
    );
}

#[test]
fn a_bump_in_the_wire_takes_everything() {
    let code = redirect_all(MAP_FD);
    for packet in [
        ipv4(OURS[0]),
        ipv4(Ipv4Addr::BROADCAST),
        arp(Ipv4Addr::UNSPECIFIED),
        vec![0; 14],
        Vec::new(),
    ] {
        assert_eq!(run(&code, &packet), redirected());
    }
}
