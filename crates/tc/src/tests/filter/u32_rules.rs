//! Words by place, tables, links.

use std::string::String;
use std::string::ToString;

use super::*;

#[test]
fn names_stand_for_words() {
    let options = ipv4(17, [[10, 1, 2, 3], [192, 168, 7, 9]], 0, &ports(1000, 80));
    let packet = probe(0x0800, &options).tos(0xb8);
    for yes in [
        "u32 match ip src 10.0.0.0/8",
        "u32 match ip dst 192.168.7.9/32",
        "u32 match ip src 0.0.0.0/0",
        "u32 match ip sport 1000 0xffff match ip dport 80 ffff",
        "u32 match ip protocol 17 0xff",
        "u32 match ip protocol udp 0xff",
        "u32 match ip dsfield 0xb8 0xfc",
        "u32 match ip tos EF 0xff",
        "u32 match ip precedence 0xa0 0xe0",
        "u32 match ip ihl 5 0xf",
        "u32 match ip nofrag match ip firstfrag",
        "u32 match u8 64 0xff at 8",
        "u32 match u16 0x4011 0xffff at 8",
        "u32 match u32 0x0a010203 0xffffffff at 12",
        "u32 match u32 0xff0102ff 0x00ffff00 at 12",
        "u32 match u16 0x0800 0xffff at -2",
        "u32 match u16 0x0200 0xffff at -14",
        "u32 match u32 0 0",
        "u32 match mark 0x10 0xf0",
    ] {
        assert!(matches(yes, &packet.clone().marked(0x1f)), "{yes}");
    }
    for no in [
        "u32 match ip src 11.0.0.0/8",
        "u32 match ip dst 192.168.7.8/32",
        "u32 match ip sport 80 0xffff",
        "u32 match ip dsfield 0xb4 0xfc",
        "u32 match ip df",
        "u32 match ip mf",
        "u32 match u8 63 0xff at 8",
        "u32 match mark 0x20 0xf0",
        "protocol ipv6 u32 match u32 0 0 at 0",
    ] {
        assert!(!matches(no, &packet.clone().marked(0x1f)), "{no}");
    }
}

#[test]
fn names_stand_for_words_of_ipv6_too() {
    let packet = probe(0x86dd, &ipv6(17, [0x2001_0db8 << 96 | 1, 2], &ports(5, 53))).tos(0x28);
    for yes in [
        "u32 match ip6 src 2001:db8::/32",
        "u32 match ip6 src 2001:db8::1 match ip6 dst ::2/127",
        "u32 match ip6 protocol udp ff",
        "u32 match ip6 dsfield AF11 0xfc",
        "u32 match ip6 sport 5 0xffff match ip6 dport 53 0xffff",
        "u32 match ip6 flowlabel 0 0xfffff",
    ] {
        assert!(matches(yes, &packet), "{yes}");
    }
    for no in [
        "u32 match ip6 src 2001:db8::2",
        "u32 match ip6 dst ::4/126",
        "u32 match ip6 dsfield AF12 0xfc",
    ] {
        assert!(!matches(no, &packet), "{no}");
    }
}

/// A word that ends beyond the packet does not match, whatever its mask; the rules after it are
/// tried.
#[test]
fn what_is_not_there_does_not_match() {
    let packet = probe(0x0800, &udp4());
    assert!(
        matches("u32 match u32 0 0 at 24", &packet) && !matches("u32 match u32 0 0 at 28", &packet)
    );
    assert!(
        !matches("u32 match u32 0 0 at -20", &packet)
            && !matches("u32 match u32 0 0 at 2147483644", &packet)
    );
    let mut filters = rules(&[
        "prio 1 u32 match u8 0 0 at 100 classid 1:1",
        "prio 1 u32 match u8 0 0 at 0 classid 1:2",
    ]);
    assert_eq!(class(&mut filters, &packet), Some(2));
}

/// The classic: options move the transport header, so its place is read from the header's length.
#[test]
fn links_find_the_header_behind() {
    let lines = [
        "prio 1 handle 1: u32 divisor 1",
        "prio 1 u32 ht 1: match tcp dst 443 0xffff flowid 1:7",
        "prio 1 protocol ip u32 match ip protocol 6 0xff link 1: offset at 0 mask 0x0f00 shift 6",
    ];
    let eaten = [
        "prio 1 handle 1: u32 divisor 1",
        "prio 1 u32 ht 1:0: match u16 443 0xffff at 2 flowid 1:7",
        "prio 1 protocol ip u32 match ip protocol 6 0xff link 1: offset at 0 mask 0x0f00 shift 6 plus 0 eat",
    ];
    for lines in [lines, eaten] {
        let mut filters = rules(&lines);
        for options in [0, 4, 40] {
            let with_port = |port| {
                probe(
                    0x0800,
                    &ipv4(6, [[1; 4], [2; 4]], options, &tcp(1, port, 2)),
                )
            };
            assert_eq!(class(&mut filters, &with_port(443)), Some(7), "{options}");
            assert_eq!(class(&mut filters, &with_port(444)), None, "{options}");
        }
        assert_eq!(class(&mut filters, &probe(0x0800, &udp4())), None);
    }
}

/// Two /24 networks in a table hashed by the last octet of the source, as in the LARTC howto.
#[test]
fn links_choose_a_list_by_hash() {
    let mut lines = std::vec![
        String::from("prio 5 handle 2: u32 divisor 256"),
        String::from(
            "prio 5 u32 match ip src 10.1.2.0/24 link 2: hashkey mask 0x000000ff at 12 flowid 1:fff"
        ),
    ];
    lines.extend((0..200).map(|host| {
        std::format!("prio 5 u32 ht 2:{host:x}: match ip src 10.1.2.{host} flowid 1:{host:x}")
    }));
    let mut filters = rules(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for (host, expected) in [
        (0, Some(0)),
        (3, Some(3)),
        (199, Some(199)),
        (200, Some(0xfff)),
        (255, Some(0xfff)),
    ] {
        let packet = probe(
            0x0800,
            &ipv4(17, [[10, 1, 2, host], [1; 4]], 0, &ports(1, 2)),
        );
        assert_eq!(class(&mut filters, &packet), expected, "{host}");
    }
    // No list but the one of the packet is looked through: four packets found theirs at once, two
    // found none.
    let tried: u64 = filters.stats().skip(2).map(|rule| rule.tried).sum();
    assert_eq!(tried, 3);
    assert_eq!(
        class(
            &mut filters,
            &probe(0x0800, &ipv4(17, [[10, 1, 3, 3], [1; 4]], 0, &[]))
        ),
        None
    );
}

/// The hash is the masked bits moved down, modulo the table's size.
#[test]
fn hashes_are_folded() {
    let mut lines = std::vec![
        String::from("prio 1 handle 1: u32 divisor 8"),
        String::from("prio 1 u32 link 1: hashkey mask 0xff0000 at 12")
    ];
    lines.extend((0..8).map(|bucket| {
        std::format!("prio 1 u32 ht 1:{bucket:x}: match u32 0 0 flowid 1:1{bucket}")
    }));
    let mut filters = rules(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for second in [0u8, 1, 7, 8, 13, 255] {
        let packet = probe(
            0x0800,
            &ipv4(17, [[10, second, 0xff, 0xff], [1; 4]], 0, &ports(1, 2)),
        );
        assert_eq!(
            class(&mut filters, &packet),
            Some(0x10 + u16::from(second % 8)),
            "{second}"
        );
    }
    let mut none = rules(&[
        "handle 1: u32 divisor 8",
        "prio 1 u32 link 1: hashkey mask 0 at 12",
        "u32 ht 1:0: classid 1:1",
    ]);
    assert_eq!(
        class(&mut none, &probe(0x0800, &udp4())),
        Some(1),
        "no bits, first list"
    );
}

/// The fixed part counts too, and the sum is rounded up to whole words.
#[test]
fn offsets_add_up() {
    let packet = probe(0x0800, &ipv4(17, [[1; 4], [2; 4]], 4, &ports(1, 53)));
    for (offset, found) in [
        ("plus 24", true),
        ("plus 21", true),
        ("plus 20", false),
        ("plus 25", false),
        ("at 0 mask 0x0f00 shift 6", true),
        ("at 0 mask 0x0f00 shift 7 plus 12", true),
        ("at 0 mask 0x0f00 shift 6 plus 4", false),
    ] {
        for eat in ["", " eat"] {
            let link = std::format!("u32 link 1: offset {offset}{eat}");
            let rule = if eat.is_empty() {
                "u32 ht 1: match udp dst 53 0xffff"
            } else {
                "u32 ht 1: match u16 53 0xffff at 2"
            };
            let mut filters = rules(&[
                "handle 1: u32 divisor 1",
                &std::format!("{rule} classid 1:1"),
                &link,
            ]);
            assert_eq!(class(&mut filters, &packet) == Some(1), found, "{link}");
        }
    }
    // Nothing lies beyond the end, not even for a rule that asks for nothing.
    for (plus, found) in [(24, true), (28, false)] {
        let link = std::format!("u32 link 1: offset plus {plus} eat");
        let mut filters = rules(&["handle 1: u32 divisor 1", "u32 ht 1: classid 1:1", &link]);
        assert_eq!(class(&mut filters, &packet) == Some(1), found, "{plus}");
    }
}

#[test]
fn links_lead_on_eight_deep_and_back() {
    let mut lines: Vec<String> = (1..=9)
        .map(|table| std::format!("prio 1 handle {table:x}: u32 divisor 1"))
        .collect();
    lines.push("prio 1 u32 match u32 0 0 link 1:".into());
    lines.extend((1..=8).map(|table| {
        std::format!(
            "prio 1 u32 ht {table:x}: match mark {table} 0xffff link {:x}:",
            table + 1
        )
    }));
    let deep = |last: u16| {
        let mut lines = lines.clone();
        for table in 1..last {
            lines.push(std::format!(
                "prio 1 u32 ht {table:x}: match u32 0 0 link {:x}:",
                table + 1
            ));
        }
        lines.push(std::format!(
            "prio 1 u32 ht {last:x}: match u32 0 0 classid 1:{last:x}"
        ));
        lines.push("prio 1 matchall classid 1:aaa".into());
        rules(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let packet = probe(0x0800, &udp4());
    assert_eq!(class(&mut deep(8), &packet), Some(8));
    assert_eq!(class(&mut deep(9), &packet), Some(0xaaa));
    // A table that leads to itself ends.
    let lines = [
        "handle 1: u32 divisor 1",
        "u32 match u32 0 0 link 1:",
        "u32 ht 1: match u32 0 0 link 1: classid 1:1",
    ];
    assert_eq!(class(&mut rules(&lines), &packet), None);
}

#[test]
fn links_into_the_void_decide_by_themselves() {
    let lines = [
        "prio 1 handle 1: u32 divisor 4",
        "prio 2 u32 match mark 1 0xff link 1: classid 1:1",
        "prio 2 u32 match mark 2 0xff link 1: hashkey mask 0xff at 400 classid 1:2",
        "prio 2 u32 match mark 3 0xff link 1: offset at 400 mask 0xff eat classid 1:3",
        "prio 2 u32 match mark 4 0xff link 1: offset plus 400 eat classid 1:4",
        "prio 2 u32 match mark 5 0xff link 1:",
        "prio 3 matchall classid 1:9",
        "prio 4 u32 ht 1: match mark 0 0",
    ];
    let mut filters = rules(&lines);
    filters.remove(4);
    for (mark, expected) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 9)] {
        assert_eq!(
            class(&mut filters, &probe(0x0800, &udp4()).marked(mark)),
            Some(expected),
            "{mark}"
        );
    }
    filters.remove(1);
    assert_eq!(
        class(&mut filters, &probe(0x0800, &udp4()).marked(1)),
        Some(1),
        "the table is gone"
    );
    // A rule whose table is gone and comes back is found again.
    let mut filters = rules(&[
        "prio 1 handle 1: u32 divisor 1",
        "prio 2 u32 ht 1: match u32 0 0 classid 1:1",
    ]);
    filters.remove(1);
    assert_eq!(class(&mut filters, &probe(0x0800, &udp4())), None);
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut filters = rules(&["handle 1: u32 divisor 4"]);
    for (words, message) in [
        (
            "handle 1: u32 divisor 4",
            "`handle` must be a table that does not exist yet, from 1: to fff: but 800:, not 1:",
        ),
        (
            "handle 800: u32 divisor 4",
            "`handle` must be a table that does not exist yet, from 1: to fff: but 800:, not 800:",
        ),
        (
            "handle 2: u32 divisor 3",
            "`divisor` must be a power of two up to 256, not 3",
        ),
        (
            "handle 2: u32 divisor 512",
            "`divisor` must be a power of two up to 256, not 512",
        ),
        (
            "u32 ht 1:4: match u32 0 0",
            "`ht` must be a list of a table made before, not 1:4:",
        ),
        (
            "u32 ht 2: match u32 0 0",
            "`ht` must be a list of a table made before, not 2:0:",
        ),
        ("u32 link 2:", "`link` must be a table made before, not 2:"),
    ] {
        let error = filters.add(rule(words)).expect_err(words);
        assert_eq!(error.to_string(), message);
    }
    let key = Key {
        at: 2,
        behind: false,
        word: Masked::new(0, 0),
    };
    let odd = Filter::new(
        Matcher::U32(Selector {
            keys: std::vec![key],
            ..Selector::default()
        }),
        None,
    );
    assert_eq!(
        filters.add(odd).expect_err("odd").to_string(),
        "`at` must be a multiple of 4, not 2"
    );
    assert_eq!(filters.iter().count(), 1);
}
