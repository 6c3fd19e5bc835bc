//! Runs the filter program in a small interpreter of classic BPF.

use super::*;

/// Runs `code` on `frame` with this packet type and VLAN tag; true if it keeps the packet whole.
fn keeps(code: &[sock_filter], frame: &[u8], kind: u32, tagged: bool) -> bool {
    kept(code, frame, kind, tagged) == KEEP
}

/// The same; the number of bytes that it keeps.
fn kept(code: &[sock_filter], frame: &[u8], kind: u32, tagged: bool) -> u32 {
    let (mut at, mut a, mut x) = (0, 0u32, 0u32);
    let bytes = |offset: u32, len: usize| {
        let bytes = frame.get(offset as usize..offset as usize + len)?;
        Some(
            bytes
                .iter()
                .fold(0, |all, byte| all << 8 | u32::from(*byte)),
        )
    };
    loop {
        let sock_filter { code, jt, jf, k } = code[at];
        at += 1;
        let branch = |holds| usize::from(if holds { jt } else { jf });
        let loaded = match u32::from(code) {
            code if code == BPF_RET | BPF_K => return k,
            code if code == BPF_LDX | BPF_IMM => {
                x = k;
                continue;
            }
            code if code == BPF_JMP | BPF_JA => {
                at += k as usize;
                continue;
            }
            code if code == BPF_MISC | BPF_TAX => {
                x = a;
                continue;
            }
            code if code == BPF_JMP | BPF_JEQ | BPF_X => {
                at += branch(a == x);
                continue;
            }
            code if code == BPF_JMP | BPF_JEQ | BPF_K => {
                at += branch(a == k);
                continue;
            }
            code if code == BPF_JMP | BPF_JGT | BPF_K => {
                at += branch(a > k);
                continue;
            }
            _ if k == PACKET_KIND => Some(kind),
            _ if k == HAD_VLAN_TAG => Some(tagged.into()),
            code if code == BPF_LD | BPF_H | BPF_ABS => bytes(k, 2),
            code if code == BPF_LD | BPF_W | BPF_ABS => bytes(k, 4),
            code if code == BPF_LD | BPF_W | BPF_IND => bytes(x + k, 4),
            code => panic!("{code:#x}"),
        };
        match loaded {
            Some(loaded) => a = loaded,
            None => return DROP,
        }
    }
}

fn frame(ethertype: u16, address: IpAddr, offset: u32) -> Vec<u8> {
    let mut frame = vec![0; 86];
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    frame[offset as usize..][..octets.len()].copy_from_slice(&octets);
    frame
}

fn addresses(words: &str) -> Vec<IpAddr> {
    words
        .split(' ')
        .map(|word| word.parse().expect("an address"))
        .collect()
}

#[test]
fn packets_to_our_addresses_are_kept_and_no_others() {
    let ours = addresses("10.7.0.1 fd07::1 10.7.0.3 fd07::3");
    let code = program(&Take::Addresses(ours.clone()), true).expect("few addresses");
    let keep = |frame: &[u8]| keeps(&code, frame, 0, false);
    let others = addresses("10.7.0.2 fd07::2 fd08::1 10.7.1.1");
    for (address, is_ours) in ours
        .iter()
        .map(|a| (*a, true))
        .chain(others.iter().map(|a| (*a, false)))
    {
        let to = if address.is_ipv4() {
            frame(0x0800, address, IPV4_DESTINATION)
        } else {
            frame(0x86dd, address, IPV6_DESTINATION)
        };
        assert_eq!(keep(&to), is_ours, "{address}");
        assert!(!keeps(&code, &to, 3, false), "for another host");
        assert!(!keeps(&code, &to, 0, true), "with a VLAN tag");
        assert!(keeps(&code, &to, 2, false) == is_ours, "by multicast");
        assert!(!keep(&to[..30]), "truncated");
        let asked = if address.is_ipv4() {
            frame(0x0806, address, ARP_TARGET)
        } else {
            let mut asked = frame(0x86dd, address, SOLICITATION_TARGET);
            asked[20..22].copy_from_slice(&[58, 255]);
            asked[54] = 135;
            asked
        };
        assert_eq!(keep(&asked), is_ours, "asked for {address}");
    }
    let foreign = frame(0x8863, ours[0], IPV4_DESTINATION);
    assert!(!keep(&foreign));
    let everything = program(&Take::Everything, true).expect("no addresses");
    assert!(keeps(&everything, &foreign, 3, false) && !keeps(&everything, &foreign, 0, true));
}

/// A neighbor that has moved is found again at once: redundant routers rely on that.
#[test]
fn announcements_of_neighbors_are_kept() {
    let code =
        program(&Take::Addresses(addresses("10.7.0.1 fd07::1")), true).expect("few addresses");
    let [neighbor, other] = ["10.7.0.9", "10.7.0.8"].map(|text| text.parse().expect("an address"));
    let mut announced = frame(0x0806, neighbor, ARP_TARGET);
    announced[ARP_SENDER as usize..][..4].copy_from_slice(&[10, 7, 0, 9]);
    assert!(keeps(&code, &announced, 1, false));
    assert!(!keeps(&code, &announced, 1, true), "with a VLAN tag");
    assert!(!keeps(&code, &announced[..41], 1, false), "truncated");
    let mut asked = frame(0x0806, other, ARP_TARGET);
    asked[ARP_SENDER as usize..][..4].copy_from_slice(&[10, 7, 0, 9]);
    assert!(!keeps(&code, &asked, 1, false), "a question of others");
    let all_nodes = "ff02::1".parse().expect("an address");
    let mut advertised = frame(0x86dd, all_nodes, IPV6_DESTINATION);
    (advertised[20], advertised[21], advertised[54]) = (58, 255, 136);
    assert!(keeps(&code, &advertised, 2, false));
    assert!(!keeps(&code, &advertised, 3, false), "for another host");
    advertised[21] = 64;
    assert!(!keeps(&code, &advertised, 2, false), "from another link");
}

#[test]
fn frames_with_a_vlan_tag_are_marked_while_they_count() {
    let ours = Take::Addresses(addresses("10.7.0.1"));
    let to_us = frame(0x0800, [10, 7, 0, 1].into(), IPV4_DESTINATION);
    for (take, kind, expected) in [
        (&ours, 0, TAGGED as u32),
        (&ours, 3, DROP),
        (&Take::Everything, 3, TAGGED as u32),
    ] {
        let [counting, silent] =
            [true, false].map(|counts| program(take, counts).expect("few addresses"));
        assert_eq!(kept(&counting, &to_us, kind, true), expected);
        assert_eq!(kept(&silent, &to_us, kind, true), DROP);
        let untagged = [&counting, &silent].map(|code| keeps(code, &to_us, 0, false));
        assert_eq!(untagged, [true; 2]);
    }
}

#[test]
fn the_largest_filter_fits_the_kernels_limit() {
    let many = |count: u16| {
        Take::Addresses(
            (0..count)
                .map(|n| IpAddr::from([0xfd07, 0, 0, 0, 0, 0, 0, n]))
                .collect(),
        )
    };
    assert!(program(&many(64), true).is_ok_and(|code| code.len() < 4096));
    assert!(matches!(
        program(&many(65), true),
        Err(OpenError::TooManyAddresses {
            count: 65,
            limit: 64
        })
    ));
}
