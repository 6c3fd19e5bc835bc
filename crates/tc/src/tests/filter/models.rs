//! Random packets: nothing panics, and naive models agree.

use core::net::IpAddr;

use proptest::prelude::*;

use super::*;

/// Rules of every kind, linking back and forth.
fn zoo() -> Filters {
    rules(&[
        "prio 1 handle 1: u32 divisor 4",
        "prio 1 handle 2: u32 divisor 256",
        "prio 1 protocol ip u32 match ip protocol 6 0 link 1: offset at 0 mask 0x0f00 shift 6 eat hashkey mask 0x300 at 8",
        "prio 1 u32 match u32 1 1 at -16 link 2: offset at 2 mask 0xffff plus 65535 hashkey mask 0xff000000 at 0",
        "prio 1 u32 ht 1:1: match u8 1 1 at 2 link 2: offset at 2 mask 0xffff",
        "prio 1 u32 ht 1:2: match tcp dst 1 1 classid 1:1",
        "prio 1 u32 ht 2:45: match tcp dst 1 1 classid 1:2",
        "prio 2 flower dst_port 80 classid 1:3",
        "prio 2 flower ip_proto tcp tcp_flags 2/2 src_ip 10.0.0.0/8 classid 1:4",
        "prio 2 flower dst_ip ::/1 vlan_id 1 classid 1:5 action skbedit mark 1 continue",
        "prio 3 matchall action police rate 1mbit burst 2k mtu 9000 conform-exceed reclassify/continue",
    ])
}

/// A packet with bytes like those of real ones in places, cut anywhere.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let junk = proptest::collection::vec(
        prop_oneof![any::<u8>(), Just(0u8), Just(44), Just(51), Just(60)],
        0..120,
    );
    let ethertype = prop_oneof![
        Just(0x0800u16),
        Just(0x86dd),
        Just(0x8100),
        Just(0x88a8),
        any::<u16>()
    ];
    (ethertype, any::<u8>(), junk, any::<bool>()).prop_map(|(ethertype, first, junk, plain)| {
        if plain {
            junk
        } else {
            frame(
                ethertype,
                &[
                    &[first & 0xf | if ethertype == 0x0800 { 0x40 } else { 0x60 }][..],
                    &junk,
                ]
                .concat(),
            )
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_packet_panics(packets in proptest::collection::vec((bytes(), any::<(u8, u32, u64)>()), 1..20)) {
        let mut filters = zoo();
        for (bytes, (tos, mark, now)) in packets {
            let mut packet = Probe::new(1).with_headers(bytes).tos(tos).marked(mark);
            filters.classify(&mut packet, Instant::from_nanos(now));
        }
    }

}

proptest! {
    /// `u32` against a model that compares bit by bit.
    #[test]
    fn words_are_compared_as_the_model_does(
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        keys in proptest::collection::vec((-4i32..16, any::<(u32, u32)>(), any::<bool>()), 0..4),
    ) {
        // Not IP, so that the bytes are all there is.
        let packet = probe(0x1234, &payload);
        let keys: Vec<Key> = keys
            .into_iter()
            .map(|(at, (value, mask), copy)| {
                // Half of the words are copied from the packet: random ones hardly ever match.
                let from = (14 + 4 * at).max(0) as usize;
                let found = packet.headers().get(from..from + 4).map_or(value, |found| {
                    u32::from_be_bytes(found.try_into().expect("four bytes"))
                });
                Key { at: 4 * at, behind: false, word: Masked::new(if copy { found } else { value }, mask) }
            })
            .collect();
        let bit = |at: i32, index: i32| {
            let place = 14 + at + index / 8;
            if place < 0 { return Some(false) }
            packet.headers().get(place as usize).map(|byte| byte >> (7 - index % 8) & 1 == 1)
        };
        let expected = keys.iter().all(|key| {
            (0..32).all(|index| {
                let (asked, wanted) = (key.word.mask >> (31 - index) & 1 == 1, key.word.value >> (31 - index) & 1 == 1);
                bit(key.at, index).is_some_and(|found| !asked || found == wanted)
            })
        });
        let mut filters = Filters::default();
        let selector = Selector { keys, ..Selector::default() };
        filters.add(Filter::new(Matcher::U32(selector), Some(ClassId::new(1, 1)))).expect("fits");
        prop_assert_eq!(class(&mut filters, &packet) == Some(1), expected);
    }

    /// `flower` against packets put together by hand: what is put in is found.
    #[test]
    fn fields_are_found_where_they_were_put(
        four: (u32, u32),
        six: (u128, u128),
        ends in any::<(u16, u16)>(),
        is_four: bool,
        is_tcp: bool,
        flags: u8,
        options in 0usize..11,
        tag in proptest::option::of(0u16..0x1000),
        tos: u8,
        wrong in 0usize..9,
    ) {
        let protocol = if is_tcp { 6 } else { 17 };
        let transport = tcp(ends.0, ends.1, flags);
        let (mut ethertype, mut payload, addresses): (_, _, [IpAddr; 2]) = if is_four {
            let addresses = [four.0.to_be_bytes(), four.1.to_be_bytes()];
            (0x0800u16, ipv4(protocol, addresses, 4 * options, &transport), addresses.map(IpAddr::from))
        } else {
            let extension = if options == 0 { Vec::new() } else {
                [std::vec![protocol, options as u8], std::vec![0; 8 * options + 6]].concat()
            };
            let next = if options == 0 { protocol } else { 60 };
            let payload = [extension, transport].concat();
            (0x86dd, ipv6(next, [six.0, six.1], &payload), [IpAddr::V6(six.0.into()), IpAddr::V6(six.1.into())])
        };
        let inner = ethertype;
        if let Some(tag) = tag {
            payload = [&tag.to_be_bytes()[..], &ethertype.to_be_bytes(), &payload].concat();
            ethertype = 0x8100;
        }
        let packet = probe(ethertype, &payload).tos(tos);
        let length = if is_four { 32 } else { 128 };
        let right = Keys {
            vlan_id: tag,
            vlan_prio: tag.map(|_| 0),
            vlan_ethtype: tag.map(|_| Protocol::Ethertype(inner)),
            ip_proto: Some(protocol),
            ip_tos: Some(Masked::new(tos, 0xff)),
            ip_ttl: Some(Masked::new(if is_four { 64 } else { 63 }, 0xff)),
            src_ip: Prefix::new(addresses[0], length),
            dst_ip: Prefix::new(addresses[1], length),
            src_port: Some(Ports::one(ends.0)),
            dst_port: Some(Ports::one(ends.1)),
            tcp_flags: is_tcp.then_some(Masked::new(flags.into(), 0xff)),
        };
        let found = |keys| {
            let mut filters = Filters::default();
            filters.add(Filter::new(Matcher::Flower(keys), Some(ClassId::new(1, 1)))).expect("fits");
            class(&mut filters, &packet) == Some(1)
        };
        prop_assert!(found(right));
        let flipped = |address: IpAddr| match address {
            IpAddr::V4(four) => IpAddr::V4((u32::from(four) ^ 1).into()),
            IpAddr::V6(six) => IpAddr::V6((u128::from(six) ^ 1).into()),
        };
        let wrong = match wrong {
            0 => Keys { vlan_id: Some(tag.unwrap_or(0) ^ u16::from(tag.is_some())), ..right },
            1 => Keys { ip_proto: Some(protocol ^ 1), ..right },
            2 => Keys { ip_tos: Some(Masked::new(tos ^ 1, 0xff)), ..right },
            3 => Keys { src_ip: Prefix::new(flipped(addresses[0]), length), ..right },
            4 => Keys { dst_ip: Prefix::new(flipped(addresses[1]), length), ..right },
            5 => Keys { src_port: Some(Ports::one(ends.0 ^ 1)), ..right },
            6 => Keys { dst_port: Some(Ports::one(ends.1 ^ 1)), ..right },
            7 => Keys { tcp_flags: Some(Masked::new(u16::from(flags) ^ 1, 0xff)), ..right },
            _ => Keys { ip_ttl: Some(Masked::new(65, 0xff)), ..right },
        };
        prop_assert!(!found(wrong));
    }
}
