//! The ACK filter (`net/sched/sch_cake.c` `cake_ack_filter`): what goes, what stays, and headers of
//! every kind of brokenness.

use super::*;
use proptest::prelude::*;
use std::vec;

const ACK: u8 = 0x10;

/// A TCP segment to be put into a frame.
#[derive(Clone, Debug)]
struct Segment {
    ack: u32,
    flags: u16,
    options: Vec<u8>,
    payload: u16,
    port: u16,
    address: u8,
    link: Link,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    Ipv4,
    Ipv6,
    TaggedIpv4,
    Ipv6InIpv4,
}

fn ack(ack: u32) -> Segment {
    Segment {
        ack,
        flags: ACK.into(),
        options: vec![],
        payload: 0,
        port: 80,
        address: 1,
        link: Link::Ipv4,
    }
}

impl Segment {
    fn flags(self, flags: u16) -> Self {
        Self { flags, ..self }
    }

    /// Sets the options, padded with NOPs.
    fn options(mut self, options: &[u8]) -> Self {
        self.options = options.to_vec();
        self.options.resize(options.len().next_multiple_of(4), 1);
        self
    }

    fn timestamps(self, value: u32, echo: u32) -> Self {
        self.options(&[&[8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat())
    }

    fn sack(self, blocks: &[(u32, u32)]) -> Self {
        let mut options = vec![5, 2 + 8 * blocks.len() as u8];
        for (start, end) in blocks {
            options.extend([start.to_be_bytes(), end.to_be_bytes()].concat());
        }
        self.options(&options)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut tcp = vec![0; 20];
        tcp[..2].copy_from_slice(&self.port.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        let offset = ((20 + self.options.len()) / 4) as u16;
        tcp[12..14].copy_from_slice(&(offset << 12 | self.flags).to_be_bytes());
        tcp.extend(&self.options);
        let len = tcp.len() as u16 + self.payload;
        let ipv6 = || {
            let mut ip = vec![0; 40];
            (ip[0], ip[6], ip[23]) = (0x60, 6, self.address);
            ip[4..6].copy_from_slice(&len.to_be_bytes());
            ip
        };
        let ipv4 = |protocol: u8, len: u16| {
            let mut ip = vec![0; 20];
            (ip[0], ip[9], ip[15]) = (0x45, protocol, self.address);
            ip[2..4].copy_from_slice(&(20 + len).to_be_bytes());
            ip
        };
        let parts = match self.link {
            Link::Ipv4 => [vec![8, 0], ipv4(6, len), tcp],
            Link::TaggedIpv4 => [vec![0x81, 0, 0, 7, 8, 0], ipv4(6, len), tcp],
            Link::Ipv6 => [vec![0x86, 0xdd], ipv6(), tcp],
            Link::Ipv6InIpv4 => [vec![8, 0], [ipv4(41, len + 40), ipv6()].concat(), tcp],
        };
        [vec![0; 12], parts.concat()].concat()
    }

    fn packet(&self, id: u32) -> Probe {
        Probe::new(id).with_headers(self.bytes())
    }
}

fn filtered(ack_filter: AckFilter) -> Ledger<Cake<Probe>> {
    cake(Config {
        ack_filter,
        ..Config::default()
    })
}

/// The places in line of the acknowledgments that the filter drops.
fn dropped(ack_filter: AckFilter, segments: &[Segment]) -> Vec<u32> {
    let (mut queue, mut drops) = (filtered(ack_filter), Drops::new());
    for (id, segment) in (0..).zip(segments) {
        queue.enqueue(segment.packet(id), ms(1), &mut drops);
    }
    queue.inner().verify();
    let all: Vec<u32> = drops
        .drain()
        .map(|(packet, reason)| {
            assert_eq!(reason, DropReason::AckFilter);
            packet.id
        })
        .collect();
    assert_eq!(tin(&queue, 1).ack_drops, all.len() as u64);
    assert_eq!(tin(&queue, 1).drops, 0);
    let left = departures(&mut queue, ms(1), ms(1), &mut drops);
    assert!(
        left.iter().map(|(_, packet)| packet.id).is_sorted()
            && left.len() + all.len() == segments.len()
    );
    all
}

const ON: AckFilter = AckFilter::On;
const AGGRESSIVE: AckFilter = AckFilter::Aggressive;

/// The oldest goes once a second could; aggressive, at once.
#[test]
fn an_older_acknowledgment_is_superseded() {
    for link in [Link::Ipv4, Link::Ipv6, Link::TaggedIpv4, Link::Ipv6InIpv4] {
        let acks: Vec<Segment> = (1..=4)
            .map(|step| Segment {
                link,
                ..ack(1000 * step)
            })
            .collect();
        assert_eq!(dropped(ON, &acks), [0, 1], "{link:?}");
        assert_eq!(dropped(AGGRESSIVE, &acks), [0, 1, 2], "{link:?}");
        assert_eq!(dropped(AckFilter::Off, &acks), [0; 0]);
    }
    let wrapping: Vec<Segment> = [u32::MAX - 10, u32::MAX, 5, 10].map(ack).to_vec();
    assert_eq!(
        dropped(AGGRESSIVE, &wrapping),
        [0, 1, 2],
        "sequence numbers wrap"
    );
}

/// A segment with data supersedes acknowledgments too, but is not superseded.
#[test]
fn data_supersedes_and_stays() {
    let data = |number| Segment {
        payload: 100,
        ..ack(number)
    };
    assert_eq!(dropped(AGGRESSIVE, &[ack(1), data(2), data(3)]), [0]);
    assert_eq!(dropped(ON, &[ack(1), ack(2), data(3)]), [0]);
    assert_eq!(
        dropped(AGGRESSIVE, &[data(1), data(2), ack(3), ack(4)]),
        [2]
    );
}

/// Equal acknowledgments are duplicates that the sender counts; newer ones are not superseded by
/// older.
#[test]
fn duplicates_and_newer_ones_stay() {
    assert_eq!(dropped(AGGRESSIVE, &[ack(5), ack(5), ack(5)]), [0; 0]);
    assert_eq!(dropped(AGGRESSIVE, &[ack(6), ack(5)]), [0; 0]);
    assert_eq!(
        dropped(AGGRESSIVE, &[ack(5), ack(5), ack(6)]),
        [0],
        "a later one supersedes both, one at a time"
    );
}

/// Another flow in the same queue is not touched.
#[test]
fn other_flows_stay() {
    for other in [
        Segment { port: 81, ..ack(1) },
        Segment {
            address: 2,
            ..ack(1)
        },
        Segment {
            link: Link::Ipv6,
            ..ack(1)
        },
    ] {
        assert_eq!(
            dropped(AGGRESSIVE, &[other.clone(), ack(2)]),
            [0; 0],
            "{other:?}"
        );
        assert_eq!(dropped(ON, &[ack(1), other, ack(2), ack(3)]), [0]);
    }
}

/// Flags besides ACK, and ECE and CWR, say something of their own.
#[test]
fn only_pure_acknowledgments_go() {
    for bit in [
        0x001, 0x002, 0x004, 0x008, 0x020, 0x100, 0x200, 0x400, 0x800,
    ] {
        let flagged = ack(1).flags(u16::from(ACK) | bit);
        assert_eq!(dropped(AGGRESSIVE, &[flagged, ack(2)]), [0; 0], "{bit:#x}");
    }
    assert_eq!(dropped(AGGRESSIVE, &[ack(1).flags(0), ack(2)]), [0; 0]);
    assert_eq!(
        dropped(AGGRESSIVE, &[ack(1), ack(2).flags(u16::from(ACK) | 2)]),
        [0; 0],
        "a SYN supersedes nothing"
    );
    assert_eq!(
        dropped(AGGRESSIVE, &[ack(1), ack(2).flags(0)]),
        [0; 0],
        "nor does what has no ACK flag"
    );
    assert_eq!(
        dropped(AGGRESSIVE, &[ack(1), ack(2).flags(u16::from(ACK) | 1)]),
        [0],
        "but a FIN does"
    );
}

/// A change of ECE or CWR must be seen: what came before the change stays.
#[test]
fn changes_of_ecn_flags_stay_visible() {
    let ece = |number| ack(number).flags(0x50);
    assert_eq!(dropped(AGGRESSIVE, &[ack(1), ece(2)]), [0; 0]);
    assert_eq!(dropped(AGGRESSIVE, &[ece(1), ece(2)]), [0]);
    assert_eq!(
        dropped(ON, &[ack(1), ece(2), ack(3)]),
        [0; 0],
        "each differs from the one before"
    );
    assert_eq!(
        dropped(ON, &[ack(1), ece(2), ece(3), ack(4)]),
        [1],
        "the older of the two alike"
    );
    let cwr = ack(2).flags(0x90);
    assert_eq!(dropped(AGGRESSIVE, &[ack(1), cwr]), [0; 0]);
    // Data with other flags between two makes the first unforgettable.
    let data = Segment {
        payload: 10,
        ..ece(2)
    };
    assert_eq!(dropped(ON, &[ack(1), data, ack(3), ack(4)]), [0; 0]);
}

/// Aggressive: a single one goes only if the newest follows it directly.
#[test]
fn a_single_one_goes_only_if_nothing_is_between() {
    let other = Segment { port: 81, ..ack(9) };
    assert_eq!(dropped(AGGRESSIVE, &[ack(1), other, ack(2)]), [0; 0]);
}

/// Timestamps may not go back; unknown options stay.
#[test]
fn options_that_say_something_stay() {
    let stamped = |number, value, echo| ack(number).timestamps(value, echo);
    assert_eq!(
        dropped(AGGRESSIVE, &[stamped(1, 5, 5), stamped(2, 6, 6)]),
        [0]
    );
    assert_eq!(
        dropped(AGGRESSIVE, &[stamped(1, 5, 5), stamped(2, 5, 5)]),
        [0]
    );
    assert_eq!(
        dropped(AGGRESSIVE, &[stamped(1, 7, 5), stamped(2, 6, 6)]),
        [0; 0]
    );
    assert_eq!(
        dropped(AGGRESSIVE, &[stamped(1, 5, 7), stamped(2, 6, 6)]),
        [0; 0]
    );
    assert_eq!(
        dropped(AGGRESSIVE, &[stamped(1, 5, 5), ack(2)]),
        [0; 0],
        "the newest has none"
    );
    assert_eq!(dropped(AGGRESSIVE, &[ack(1), stamped(2, 5, 5)]), [0]);
    for (options, drops) in [
        (
            &[19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            true,
        ), // MD5
        (&[1, 1, 1, 1], true),
        (&[0, 2, 9, 9], true),     // ends before the nonsense
        (&[2, 4, 5, 0xb4], false), // MSS
        (&[3, 3, 7], false),       // window scale
        (&[4, 2], false),          // SACK permitted
        (&[254, 4, 1, 2], false),  // experiment
        (&[8, 9, 0, 0, 0, 0, 0, 0, 0], false),
        (&[5, 9, 0, 0, 0, 0, 0, 0, 0], false),
        (&[19, 0, 0, 0], false), // no length
        (&[19, 1, 0, 0], false),
        (&[19, 40, 0, 0], false), // beyond the end
        (&[1, 1, 1, 19], false),  // cut off
    ] {
        let expected: &[u32] = if drops { &[0] } else { &[] };
        assert_eq!(
            dropped(AGGRESSIVE, &[ack(1).options(options), ack(2)]),
            expected,
            "{options:?}"
        );
    }
}

/// The newest must cover the old one's SACK blocks, and more.
#[test]
fn sack_blocks_must_be_covered() {
    let sack = |number, blocks: &[(u32, u32)]| ack(number).sack(blocks);
    let drops = |old: Segment, new: Segment| dropped(AGGRESSIVE, &[old, new]).len() == 1;
    assert!(drops(ack(1), sack(1, &[(10, 20)])), "more is told");
    assert!(drops(sack(1, &[(10, 20)]), sack(1, &[(10, 30)])));
    assert!(drops(sack(1, &[(10, 20)]), sack(1, &[(30, 40), (10, 20)])));
    assert!(drops(sack(1, &[(10, 20), (30, 40)]), sack(1, &[(5, 45)])));
    assert!(
        drops(sack(1, &[(10, 20)]), sack(2, &[(10, 20)])),
        "the same blocks, but more acknowledged"
    );
    assert!(
        !drops(sack(1, &[(10, 20)]), sack(1, &[(10, 20)])),
        "a duplicate"
    );
    assert!(!drops(sack(1, &[(10, 20)]), ack(30)), "blocks are gone");
    assert!(
        !drops(sack(1, &[(10, 20)]), sack(2, &[(11, 40)])),
        "the first byte is not covered"
    );
    assert!(
        !drops(sack(1, &[(10, 20)]), sack(2, &[(5, 19)])),
        "the last byte is not covered"
    );
    assert!(!drops(
        sack(1, &[(10, 20), (30, 40)]),
        sack(2, &[(10, 20), (50, 70)])
    ));
    assert!(
        !drops(sack(15, &[(10, 20)]), sack(15, &[(10, 30)])),
        "a duplicate SACK is never dropped"
    );
    assert!(
        !drops(sack(1, &[(10, 20)]), ack(30).options(&[5, 2])),
        "no blocks at all"
    );
}

/// Kernel bug: headers were read beyond the end of the packet. Every packet cut short anywhere is
/// left alone.
#[test]
fn headers_cut_short_are_left_alone() {
    for link in [Link::Ipv4, Link::Ipv6, Link::TaggedIpv4, Link::Ipv6InIpv4] {
        let old = Segment {
            link,
            ..ack(1).timestamps(1, 1)
        };
        let new = Segment {
            link,
            ..ack(2).timestamps(2, 2)
        };
        let whole = old.bytes();
        for len in 0..=whole.len() {
            for cut in [0, 1] {
                let (mut queue, mut drops) = (filtered(AGGRESSIVE), Drops::new());
                let mut packets = [old.packet(0), new.packet(1)];
                packets[cut] =
                    Probe::new(9).with_headers([&old, &new][cut].bytes()[..len].to_vec());
                packets
                    .into_iter()
                    .for_each(|packet| queue.enqueue(packet, ms(1), &mut drops));
                assert_eq!(
                    drops.len(),
                    usize::from(len == whole.len()),
                    "{link:?} {len}"
                );
            }
        }
    }
}

/// Fragments, other protocols, and packets whose lengths contradict each other.
#[test]
fn what_is_no_whole_segment_is_left_alone() {
    let spoil: [fn(&mut Vec<u8>); 8] = [
        |bytes| bytes[14] = 0x55, // version
        |bytes| bytes[14] = 0x44, // header length
        |bytes| bytes[20] = 0x20, // more fragments
        |bytes| bytes[21] = 1,    // fragment offset
        |bytes| bytes[23] = 17,   // UDP
        |bytes| bytes[17] = 19,   // shorter than its header
        |bytes| bytes[17] = 41,   // a byte of data
        |bytes| bytes[46] = 0x40, // TCP header length
    ];
    for (case, spoil) in spoil.into_iter().enumerate() {
        let mut bytes = ack(1).bytes();
        spoil(&mut bytes);
        let (mut queue, mut drops) = (filtered(AGGRESSIVE), Drops::new());
        queue.enqueue(Probe::new(0).with_headers(bytes), ms(1), &mut drops);
        queue.enqueue(ack(2).packet(1), ms(1), &mut drops);
        assert!(drops.is_empty(), "case {case}");
    }
    let mut dont_fragment = ack(1).bytes();
    dont_fragment[20] = 0x40;
    let (mut queue, mut drops) = (filtered(AGGRESSIVE), Drops::new());
    queue.enqueue(Probe::new(0).with_headers(dont_fragment), ms(1), &mut drops);
    queue.enqueue(ack(2).packet(1), ms(1), &mut drops);
    assert_eq!(drops.len(), 1);
}

/// Effect: on a thin link the acknowledgments of a download stay few, with the filter.
#[test]
fn a_thin_link_carries_fewer_acknowledgments() {
    let sent = |ack_filter| {
        let config = Config {
            ack_filter,
            ..shaped(64)
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        let mut last = 0;
        for id in 0..2000 {
            let now = ms(1000 + u64::from(id));
            queue.enqueue(ack(id).packet(id), now, &mut drops);
            last = departures(&mut queue, now, now, &mut drops)
                .last()
                .map_or(last, |(_, packet)| packet.id);
        }
        (queue.backlog().packets, last)
    };
    let ((held, last), (held_filtered, last_filtered)) = (sent(AckFilter::Off), sent(ON));
    assert!(
        held > 500 && held_filtered <= 2,
        "{held} and {held_filtered}"
    );
    assert!(
        last < 1500 && last_filtered > 1980,
        "{last} and {last_filtered}"
    );
}

/// With `ingress` a dropped acknowledgment is charged to the shaper.
#[test]
fn ingress_charges_dropped_acknowledgments() {
    let opens = |ingress| {
        let config = Config {
            ack_filter: AGGRESSIVE,
            ingress,
            ..shaped(1000)
        };
        let (mut queue, mut drops) = (cake(config), Drops::new());
        queue.enqueue(ack(1).packet(0), ms(1000), &mut drops);
        queue.enqueue(ack(2).packet(1), ms(1000), &mut drops);
        assert!(queue.dequeue(ms(1000), &mut drops).is_some() || ingress);
        queue.inner().shaper.clone()
    };
    assert_ne!(
        std::format!("{:?}", opens(true)),
        std::format!("{:?}", opens(false))
    );
}

/// Packets of a TUN interface have no link header: their version says what they are.
#[test]
fn bare_ip_packets_are_filtered_too() {
    for link in [Link::Ipv4, Link::Ipv6, Link::Ipv6InIpv4] {
        let (mut queue, mut drops) = (filtered(AGGRESSIVE), Drops::new());
        for id in 0..2 {
            let frame = Segment { link, ..ack(id) }.bytes();
            let packet = Probe::new(id)
                .with_headers(frame[14..].to_vec())
                .network_at(0);
            queue.enqueue(packet, ms(1), &mut drops);
        }
        let dropped: Vec<u32> = drops.drain().map(|(packet, _)| packet.id).collect();
        assert_eq!(dropped, [0], "{link:?}");
    }
}

proptest! {
    /// Any bytes whatever: no panic, and the account balances.
    #[test]
    fn any_bytes_are_survived(packets in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..120), 0..30usize), 1..20)) {
        let (mut queue, mut drops) = (filtered(AGGRESSIVE), Drops::new());
        for (bytes, offset) in packets {
            queue.enqueue(Probe::new(0).with_headers(bytes).network_at(offset), ms(1), &mut drops);
        }
        queue.inner().verify();
    }

    /// The last acknowledgment, and with it the highest number, always arrives; so do all
    /// duplicates of it.
    #[test]
    fn the_highest_number_arrives(numbers in proptest::collection::vec(0..50u32, 1..60), aggressive: bool) {
        let segments: Vec<Segment> = numbers.iter().map(|&number| ack(number)).collect();
        let dropped = dropped(if aggressive { AGGRESSIVE } else { ON }, &segments);
        let highest = *numbers.iter().max().expect("some");
        for (id, &number) in (0..).zip(&numbers) {
            prop_assert!(number < highest || !dropped.contains(&id), "{number}");
        }
    }

    /// Corrupted headers of real segments are survived.
    #[test]
    fn flipped_bits_are_survived(flips in proptest::collection::vec((0..3usize, any::<u64>()), 0..6), link in 0..4usize) {
        let link = [Link::Ipv4, Link::Ipv6, Link::TaggedIpv4, Link::Ipv6InIpv4][link];
        let segments = [ack(1).timestamps(1, 1), ack(2).sack(&[(5, 9), (11, 14)]), ack(3).sack(&[(5, 19)])];
        let mut packets = segments.map(|segment| Segment { link, ..segment }.packet(0));
        flips.iter().for_each(|&(packet, bit)| { packets[packet].corrupt(bit); });
        let (mut queue, mut drops) = (filtered(AGGRESSIVE), Drops::new());
        packets.into_iter().for_each(|packet| queue.enqueue(packet, ms(1), &mut drops));
        queue.inner().verify();
    }
}
