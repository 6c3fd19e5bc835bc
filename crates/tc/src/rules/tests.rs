//! Rules in words, and back.

use std::string::{String, ToString};

use proptest::prelude::*;

use super::*;
use tautline_qdisc::ClassId;
use tautline_qdisc::filter::*;

/// The rule that `words` describe.
fn rule(words: &str) -> Filter {
    read_filter(&mut Words::new(words)).unwrap_or_else(|error| panic!("{words}: {error}"))
}

#[test]
fn what_is_printed_is_read_again() {
    for (words, printed) in [
        ("matchall", "protocol all matchall"),
        (
            "protocol ip prio 1 matchall flowid 1:10",
            "protocol ip pref 1 matchall flowid 1:10",
        ),
        (
            "protocol 0x1234 handle 6/0xff fw classid :3",
            "protocol 0x1234 handle 0x6/0xff fw flowid 0:3",
        ),
        (
            "protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:10",
            "protocol ip pref 1 u32 match u32 0x00000050 0x0000ffff at 20 flowid 1:10",
        ),
        (
            "protocol ip u32 match ip sport 1 ffff match ip dport 2 ffff",
            "protocol ip u32 match u32 0x00010002 0xffffffff at 20",
        ),
        (
            "handle 1: u32 divisor 256",
            "protocol all handle 1: u32 divisor 256",
        ),
        (
            "u32 ht 1:a: match mark 1 0xf match tcp src 5 0xffff link 2: hashkey mask 0xff at 12 offset at 0 mask 0f00 shift 6 eat",
            "protocol all u32 ht 1:a: match mark 0x1 0xf match u32 0x00050000 0xffff0000 at nexthdr+0 link 2: \
             hashkey mask 0xff at 12 offset at 0 mask 0xf00 shift 6 plus 0 eat",
        ),
        (
            "u32 ht 800:: match u8 1 ff at -1",
            "protocol all u32 match u32 0x00000001 0x000000ff at -4",
        ),
        (
            "protocol 802.1Q flower vlan_id 5 vlan_prio 3 vlan_ethtype ip ip_proto tcp dst_ip 10.1.2.3/8 dst_port 80-90 tcp_flags 2",
            "protocol 802.1q flower vlan_id 5 vlan_prio 3 vlan_ethtype ip ip_proto tcp dst_ip 10.0.0.0/8 dst_port 80-90 \
             tcp_flags 0x2/0xfff",
        ),
        (
            "matchall flowid 1:1 police rate 1mbit burst 10k/8 mtu 2000/8 overhead 24 linklayer atm drop",
            "protocol all matchall flowid 1:1 action police rate 1Mbit burst 10Kb mtu 2000b overhead 24 linklayer atm conform-exceed drop/pass",
        ),
        (
            "matchall action pass random netrand shot 9 action skbedit mark 3 action pedit munge ip tos set EF action drop",
            "protocol all matchall action pass random netrand drop 9 action skbedit mark 0x3/0xffffffff pipe \
             action pedit munge ip dsfield set 0xb8 retain 0xfc pipe action drop",
        ),
        (
            "matchall flowid 0x1:0xa action skbedit priority a action skbedit priority :7 action skbedit priority 0xf",
            "protocol all matchall flowid 1:a action skbedit priority :a pipe action skbedit priority :7 pipe \
             action skbedit priority :f pipe",
        ),
    ] {
        let filter = rule(words);
        assert_eq!(FilterWords(&filter).to_string(), printed, "{words}");
        assert_eq!(rule(printed), filter, "{words}");
    }
}

#[test]
fn code_points_have_names() {
    for (name, tos) in [
        ("EF", 0xb8),
        ("VA", 0xb0),
        ("LE", 4),
        ("CS0", 0),
        ("CS1", 0x20),
        ("CS7", 0xe0),
        ("AF11", 0x28),
        ("AF43", 0x98),
    ] {
        assert_eq!(action::parse_dsfield(name), Some(tos), "{name}");
    }
    for wrong in ["CS8", "AF01", "AF14", "AF5", "EFF", "", "C\u{e9}1", "256"] {
        assert_eq!(action::parse_dsfield(wrong), None, "{wrong}");
    }
}

#[test]
fn errors_name_the_word_and_the_remedy() {
    for (words, at, message) in [
        (
            "",
            0..0,
            "`filter` lacks its value: matchall, fw, u32 or flower",
        ),
        (
            "prio 1",
            6..6,
            "`filter` lacks its value: matchall, fw, u32 or flower",
        ),
        (
            "prio 0 matchall",
            5..6,
            "`0` is no value for `prio`: give from 1 to 65535",
        ),
        (
            "protocol ipx matchall",
            9..12,
            "`ipx` is no value for `protocol`: give a protocol, e.g. all, ip, ipv6, 0x88cc",
        ),
        (
            "bpf",
            0..3,
            "`bpf` is no value for `filter`: give matchall, fw, u32 or flower",
        ),
        ("fw classid 1:1", 0..2, "`fw` needs `handle MARK` before it"),
        (
            "handle x fw",
            7..8,
            "`x` is no value for `handle`: give a mark, e.g. 6 or 0x10/0xf0",
        ),
        (
            "handle 5 flower",
            7..8,
            "`5` is no value for `handle`: give no handle: only fw and u32 take one",
        ),
        (
            "handle 1: u32 match u32 0 0",
            7..9,
            "`handle` lacks its value: divisor DIVISOR: only tables take it",
        ),
        (
            "matchall flowid ten",
            16..19,
            "`ten` is no value for `flowid`: give a class, e.g. 1:10",
        ),
        (
            "matchall ip_proto tcp",
            9..17,
            "`ip_proto` is no option of matchall, which takes: classid|flowid CLASS, action ACTION,\n  \
             police rate RATE burst SIZE",
        ),
        (
            "flowr classid 1:1",
            0..5,
            "`flowr` is no value for `filter`: give matchall, fw, u32 or flower; did you mean `flower`?",
        ),
        (
            "matchall action drp",
            16..19,
            "`drp` is no value for `action`: give pass, drop, reclassify, pipe, continue, gact, skbedit, pedit or police; \
             did you mean `drop`?",
        ),
        (
            "flower vlan_id 4096",
            15..19,
            "`4096` is no value for `vlan_id`: give from 0 to 4095",
        ),
        (
            "flower dst_port 9-8",
            16..19,
            "`9-8` is no value for `dst_port`: give a port or a range of ports, e.g. 80 or 1000-2000",
        ),
        (
            "flower src_ip 10.0.0.0/33",
            14..25,
            "`10.0.0.0/33` is no value for `src_ip`: give addresses, e.g. 10.0.0.0/8 or 2001:db8::1",
        ),
        (
            "u32 match ip dport 65536 0xffff",
            19..24,
            "`65536` is no value for `dport`: give a value, e.g. 80 or 0x50",
        ),
        (
            "u32 match ip dport 80 0x10000",
            22..29,
            "`0x10000` is no value for `dport`: give a mask, e.g. 0xffff",
        ),
        (
            "u32 match ip src ::1",
            17..20,
            "`::1` is no value for `src`: give addresses of this family, e.g. 10.0.0.0/8 or 2001:db8::1",
        ),
        (
            "u32 match u16 1 1 at 3",
            21..22,
            "`3` is no value for `u16`: give an offset, e.g. 20 or nexthdr+0",
        ),
        (
            "u32 match u8 1 ff at 0 match u8 2 ff at 0",
            29..31,
            "`u8` is no value for `match`: give something that does not contradict an earlier match",
        ),
        (
            "u32 match",
            4..9,
            "`match` lacks its value: ip, ip6, tcp, udp, icmp, u8, u16, u32 or mark",
        ),
        (
            "u32 hashkey mask 1 at 0",
            4..11,
            "`hashkey` needs `link` before it",
        ),
        (
            "u32 link 800",
            9..12,
            "`800` is no value for `link`: give a table, e.g. 1:",
        ),
        (
            "matchall action",
            15..15,
            "`action` lacks its value: pass, drop, reclassify, pipe, continue, gact, skbedit, pedit or police",
        ),
        (
            "matchall action mirred",
            16..22,
            "`mirred` is no value for `action`: give pass, drop, reclassify, pipe, continue, gact, skbedit, pedit or police",
        ),
        (
            "matchall action police rate 1mbit",
            16..22,
            "`police` lacks its value: burst SIZE",
        ),
        (
            "matchall action police rate 0 burst 1",
            28..29,
            "police: `rate` must be more than 0, not 0.0Kbit",
        ),
        (
            "matchall action skbedit priority 16",
            33..35,
            "`16` is no value for `priority`: give from 0 to f, a hexadecimal digit",
        ),
        (
            "matchall action skbedit priority 10",
            33..35,
            "`10` is no value for `priority`: give from 0 to f, a hexadecimal digit",
        ),
        (
            "matchall action pedit munge ip dsfield set 1 retain 0xff",
            52..56,
            "`0xff` is no value for `retain`: give a mask within 0xfc: the ECN field stays as it is",
        ),
        (
            "matchall action pass random determ drop 0",
            40..41,
            "`0` is no value for `random`: give from 1 to 65535",
        ),
    ] {
        let error = read_filter(&mut Words::new(words)).expect_err(words);
        assert_eq!(
            (error.to_string().as_str(), error.at),
            (message, at),
            "{words}"
        );
    }
}

fn control() -> impl Strategy<Value = Control> {
    proptest::sample::select(std::vec![
        Control::Pass,
        Control::Drop,
        Control::Reclassify,
        Control::Pipe,
        Control::Continue
    ])
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        (
            control(),
            proptest::option::of((any::<bool>(), 1u16.., control()))
        )
            .prop_map(|(control, share)| {
                let choice = |counted| {
                    if counted {
                        Choice::Counted
                    } else {
                        Choice::Random
                    }
                };
                let share = share.map(|(counted, one_in, control)| Share {
                    choice: choice(counted),
                    one_in,
                    control,
                });
                Action::Gact { control, share }
            }),
        (
            proptest::option::of(0u8..16),
            proptest::option::of(any::<(u32, u32)>()),
            control()
        )
            .prop_map(|(priority, mark, control)| {
                let mark = mark.map(|(value, mask)| Masked::new(value, mask));
                Action::Skbedit {
                    priority,
                    mark,
                    control,
                }
            }),
        (any::<(u8, u8)>(), control()).prop_map(|((value, mask), control)| {
            Action::Dsfield {
                set: Masked::new(value, mask & DSCP),
                control,
            }
        }),
        (
            1u64..1 << 50,
            1u64..1 << 40,
            proptest::option::of(any::<u32>()),
            control(),
            control()
        )
            .prop_map(|(rate, burst, mtu, exceed, conform)| {
                let (rate, burst) = (
                    tautline_base::Rate::bytes_per_sec(rate),
                    tautline_base::Bytes::new(burst),
                );
                let mtu = mtu.map(|mtu| tautline_base::Bytes::new(mtu.into()));
                Action::Police(Police {
                    mtu,
                    exceed,
                    conform,
                    ..Police::new(rate, burst)
                })
            }),
    ];
    proptest::collection::vec(action, 0..4)
}

fn matcher() -> impl Strategy<Value = Matcher> {
    let word = any::<(u32, u32)>().prop_map(|(value, mask)| Masked::new(value, mask));
    let key = (-100i32..100, any::<bool>(), word).prop_map(|(at, behind, word)| Key {
        at: at * 4,
        behind,
        word,
    });
    let keys = proptest::collection::btree_map((-100i32..100, any::<bool>()), key, 0..4).prop_map(
        |keys| {
            keys.into_iter()
                .map(|((at, behind), key)| Key {
                    at: at * 4,
                    behind,
                    ..key
                })
                .collect()
        },
    );
    let link = (
        1u16..0x1000,
        proptest::option::of((-9i32..9, any::<u32>())),
        any::<(u16, bool)>(),
        any::<(i8, u16)>(),
        0u8..16,
    )
        .prop_map(|(table, hash, (plus, eat), (at, mask), shift)| Link {
            table,
            hash: hash.map(|(at, mask)| HashKey { at: at * 4, mask }),
            offset: Offset {
                plus,
                eat,
                field: (mask != 0).then_some(Field {
                    at: at.into(),
                    mask,
                    shift,
                }),
            },
        });
    let place = (1u16..0x800, any::<u8>()).prop_map(|(table, bucket)| ListId { table, bucket });
    let selector = (
        proptest::option::of(place),
        proptest::option::of(any::<(u32, u32)>()),
        keys,
        proptest::option::of(link),
    );
    let option = proptest::option::of::<proptest::arbitrary::StrategyFor<(u16, u16)>>;
    let flower = (
        option(any::<(u16, u16)>()),
        option(any::<(u16, u16)>()),
        option(any::<(u16, u16)>()),
        any::<(u32, u128, bool)>(),
    );
    prop_oneof![
        Just(Matcher::All),
        any::<(u32, u32)>().prop_map(|(value, mask)| Matcher::Mark(Masked::new(value, mask))),
        (1u16..0x1000, any::<u16>())
            .prop_map(|(handle, divisor)| Matcher::Table(Table { handle, divisor })),
        selector.prop_map(|(place, mark, keys, link)| {
            let mark = mark.map(|(value, mask)| Masked::new(value, mask));
            Matcher::U32(Selector {
                place,
                mark,
                keys,
                link,
            })
        }),
        flower.prop_map(|(ports, bytes, vlan, (four, six, is_four))| {
            let address = if is_four {
                core::net::IpAddr::V4(four.into())
            } else {
                core::net::IpAddr::V6(six.into())
            };
            let ports = ports.map(|(a, b)| Ports {
                first: a.min(b),
                last: a.max(b),
            });
            let masked = bytes.map(|(value, mask)| Masked::new(value as u8, mask as u8));
            Matcher::Flower(Keys {
                vlan_id: vlan.map(|(id, _)| id & 0xfff),
                vlan_prio: vlan.map(|(id, _)| (id >> 13) as u8),
                vlan_ethtype: vlan.map(|(_, ethertype)| Protocol::Ethertype(ethertype)),
                ip_proto: bytes.map(|(value, _)| value as u8),
                ip_tos: masked,
                ip_ttl: masked,
                src_ip: Prefix::new(address, (six % 33) as u8),
                dst_ip: Prefix::new(address, (six % 129) as u8),
                src_port: ports,
                dst_port: ports,
                tcp_flags: bytes.map(|(value, mask)| Masked::new(value, mask)),
            })
        }),
    ]
}

proptest! {
    #[test]
    fn every_rule_can_be_written_and_read(
        preference in proptest::option::of(1u16..),
        protocol in prop_oneof![Just(Protocol::All), any::<u16>().prop_map(Protocol::Ethertype)],
        matcher in matcher(),
        class in proptest::option::of((1u16.., any::<u16>())),
        actions in actions(),
    ) {
        let class = class.map(|(major, minor)| ClassId::new(major, minor));
        let filter = Filter { preference, protocol, matcher, class, actions };
        let words = FilterWords(&filter).to_string();
        prop_assert_eq!(read_filter(&mut Words::new(&words)), Ok(filter), "{}", words);
    }

    #[test]
    fn no_words_panic(words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..16), junk in ".*") {
        let text: String = words.iter().flat_map(|word| [word, " "]).collect();
        let _ = read_filter(&mut Words::new(&text)).map(|filter| Filters::default().add(filter));
        let _ = read_filter(&mut Words::new(&junk));
        let _ = read_filter(&mut Words::new(&std::format!("u32 match {junk}")));
    }
}

const WORDS: [&str; 44] = [
    "protocol",
    "ip",
    "prio",
    "1",
    "u32",
    "match",
    "u8",
    "u16",
    "at",
    "nexthdr+0",
    "0xffff",
    "flower",
    "fw",
    "handle",
    "1:",
    "1:1",
    "ht",
    "1:1:",
    "::",
    "link",
    "hashkey",
    "mask",
    "offset",
    "shift",
    "plus",
    "eat",
    "action",
    "police",
    "rate",
    "burst",
    "conform-exceed",
    "drop/pass",
    "random",
    "netrand",
    "drop",
    "pedit",
    "munge",
    "dsfield",
    "set",
    "retain",
    "-1",
    "10.0.0.0/8",
    "src",
    "flowlabel",
];
