use proptest::prelude::*;
use tautline_base::{Deferred, Ecn, Frame};

use super::icmp::{IcmpError, Message, Problem, Refusal, write_echo, write_refusal};
use super::ndisc::{group_mac, solicited_node, write_neighbor};
use super::*;

/// As it was on the wire.
fn parse(frame: &[u8], vlan: Option<u16>) -> Result<Parsed<'_>, Malformed> {
    super::parse(frame, vlan, Offload::default())
}

const OURS: Mac = EthernetAddress([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = EthernetAddress([2, 0, 0, 0, 0, 2]);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn addresses(source: &str, destination: &str) -> Addresses {
    let (source, destination) = (ip(source), ip(destination));
    Addresses {
        medium: Medium::Ethernet,
        source_mac: THEIRS,
        destination_mac: OURS,
        source,
        destination,
        hop_limit: 64,
        flow_label: 0x12345,
        tos: 36 << 2,
        vlan: None,
    }
}

const V4: [&str; 2] = ["10.7.0.2", "10.7.0.1"];
const V6: [&str; 2] = ["2001:db8::2", "2001:db8::1"];

fn header() -> TcpHeader {
    TcpHeader {
        source_port: 5001,
        destination_port: 80,
        seq: 0xffff_fff0,
        ack: Some(7),
        flags: Flags::Psh,
        window: 1000,
        window_scale: None,
        mss: None,
        sack_permitted: false,
        sack: [Some((1, 2)), None, None, None],
        timestamp: Some((3, 4)),
        ecn_flags: EcnFlags::NONE,
        echoed_bytes: None,
        fast_open: None,
        codepoint: Ecn::Ect0,
    }
}

fn tcp_frame(addresses: &Addresses) -> Vec<u8> {
    let mut frame = vec![0xaa; 200];
    let len = write_tcp(
        &mut frame,
        addresses,
        &header(),
        Payload::Bytes(b"front ", b"and back"),
    );
    frame.truncate(len);
    frame
}

/// An IPv6 packet to us whose extension headers and payload are `rest`.
fn ipv6(next: u8, hop_limit: u8, rest: &[u8]) -> Vec<u8> {
    let addresses = addresses(V6[0], V6[1]);
    let mut frame = vec![0; 14 + 40 + rest.len()];
    let place = write_ip(&mut frame, &addresses, next.into(), Ecn::NotEct, rest.len());
    place.copy_from_slice(rest);
    frame[14 + 7] = hop_limit;
    frame
}

/// The TCP segment of `tcp_frame` behind `extensions`, the first of which is of kind `next`.
fn extended(next: u8, extensions: &[u8]) -> Vec<u8> {
    let segment = &tcp_frame(&addresses(V6[0], V6[1]))[54..];
    ipv6(next, 64, &[extensions, segment].concat())
}

fn is_tcp(frame: &[u8]) -> bool {
    matches!(parse(frame, None), Ok(Parsed::Tcp { .. }))
}

/// Another protocol is not read as TCP, however much its packet looks like a segment.
#[test]
fn the_fast_path_reads_tcp_alone() {
    let known = Offload {
        checksum_known: true,
        ..Offload::default()
    };
    let plain = TcpHeader {
        sack: [None; SACK_BLOCKS],
        ..header()
    };
    let mut frame = vec![0; 200];
    let payload = Payload::Bytes(b"front ", b"and back");
    let len = write_tcp(&mut frame, &addresses(V4[0], V4[1]), &plain, payload);
    frame.truncate(len);
    assert!(parse_plain(&frame, None, known).is_some());
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    packet.set_next_header(IpProtocol::Udp);
    packet.fill_checksum();
    assert!(parse_plain(&frame, None, known).is_none());
}

#[test]
fn a_segment_is_read_as_it_was_written_in_both_families_and_in_a_vlan() {
    for [source, destination] in [V4, V6] {
        for vlan in [None, Some(7)] {
            let addresses = Addresses {
                vlan,
                ..addresses(source, destination)
            };
            let frame = tcp_frame(&addresses);
            let Ok(Parsed::Tcp { ends, segment }) = parse(&frame, vlan) else {
                panic!("{frame:x?}")
            };
            assert_eq!(
                ends,
                Ends {
                    source: ip(source),
                    destination: ip(destination),
                    hop_limit: 64,
                    tos: 36 << 2 | 2
                }
            );
            assert_eq!(
                (segment.payload, segment.seq, segment.ack),
                (&b"front and back"[..], 0xffff_fff0, Some(7))
            );
            assert_eq!(
                (segment.codepoint, segment.timestamp, segment.sack[0]),
                (Ecn::Ect0, Some((3, 4)), Some((1, 2)))
            );
            let sequence = crate::trace::sequence_number(&frame, Medium::Ethernet);
            assert_eq!(sequence, 0xffff_fff0);
            // In another VLAN it is not ours.
            assert!(matches!(parse(&frame, Some(8)), Ok(Parsed::Other)));
            assert!(vlan.is_none() || matches!(parse(&frame, None), Ok(Parsed::Other)));
        }
    }
}

#[test]
fn an_ipv6_header_has_its_label_class_and_length() {
    let frame = tcp_frame(&addresses(V6[0], V6[1]));
    let len = (frame.len() - 54) as u16;
    assert_eq!(frame[12..18], [0x86, 0xdd, 0x69, 0x21, 0x23, 0x45]);
    assert_eq!(
        (&frame[18..20], frame[20], frame[21]),
        (&len.to_be_bytes()[..], 6, 64)
    );
}

#[test]
fn a_tag_that_only_names_a_priority_is_no_vlan() {
    let mut frame = tcp_frame(&Addresses {
        vlan: Some(0),
        ..addresses(V4[0], V4[1])
    });
    frame[14] = 0xe0;
    assert!(is_tcp(&frame));
}

#[test]
fn a_changed_byte_of_the_segment_or_its_addresses_is_found() {
    for [source, destination] in [V4, V6] {
        let frame = tcp_frame(&addresses(source, destination));
        let last = frame.len() - 1;
        for at in [last, last - 20, 14 + if source == V4[0] { 15 } else { 23 }] {
            let mut wrong = frame.clone();
            wrong[at] ^= 0x10;
            assert_eq!(parse(&wrong, None).err(), Some(Malformed::Checksum), "{at}");
        }
    }
}

#[test]
fn extension_headers_that_ask_nothing_are_walked_over() {
    let padding = [6, 0, 1, 4, 0, 0, 0, 0];
    assert!(is_tcp(&extended(0, &padding)));
    assert!(is_tcp(&extended(60, &padding)));
    // Hop by hop, then destination options with an unknown option that may be skipped.
    assert!(is_tcp(&extended(
        0,
        &[&[60, 0, 1, 4, 0, 0, 0, 0][..], &[6, 0, 0x1e, 4, 9, 9, 9, 9]].concat()
    )));
    // A route that has been gone.
    assert!(is_tcp(&extended(43, &[6, 0, 0, 0, 0, 0, 0, 0])));
    // A fragment that is everything (RFC 6946).
    assert!(is_tcp(&extended(44, &[6, 0, 0, 0, 1, 2, 3, 4])));
}

#[test]
fn extension_headers_that_ask_something_or_lie_are_refused() {
    let other = |frame: Vec<u8>| {
        let parsed = parse(&frame, None);
        matches!(parsed, Ok(Parsed::Other | Parsed::Refused { .. }))
    };
    // Options that must be understood, a route that goes on, hop-by-hop options in the wrong place.
    assert!(other(extended(60, &[6, 0, 0x80, 4, 0, 0, 0, 0])));
    assert!(
        other(extended(0, &[6, 0, 0xc2, 4, 0, 1, 0, 0])),
        "a jumbogram"
    );
    assert!(other(extended(43, &[6, 0, 0, 1, 0, 0, 0, 0])));
    assert!(other(extended(
        60,
        &[&[0, 0, 1, 4, 0, 0, 0, 0][..], &[6, 0, 1, 4, 0, 0, 0, 0]].concat()
    )));
    // More of them than anybody needs.
    assert!(other(extended(
        60,
        &[[60, 0, 1, 4, 0, 0, 0, 0]; 20].concat()
    )));
    // An option longer than its header, and a header longer than the packet.
    assert!(other(extended(60, &[6, 0, 1, 200, 0, 0, 0, 0])));
    assert_eq!(
        parse(&ipv6(60, 64, &[6, 9, 1, 4, 0, 0, 0, 0]), None).err(),
        Some(Malformed::Header)
    );
    assert_eq!(
        parse(&ipv6(60, 64, &[6]), None).err(),
        Some(Malformed::Header)
    );
}

#[test]
fn fragments_are_told_apart() {
    for fragment in [
        [6, 0, 0, 1, 0, 0, 0, 1],
        [6, 0, 0, 8, 0, 0, 0, 1],
        [6, 0, 0x10, 0, 0, 0, 0, 1],
    ] {
        assert!(matches!(
            parse(&extended(44, &fragment), None),
            Ok(Parsed::Fragment)
        ));
    }
    let frame = tcp_frame(&addresses(V4[0], V4[1]));
    for (flags, fragment) in [(0x2000u16, true), (0x0001, true), (0x4000, false)] {
        let mut frame = frame.clone();
        frame[20..22].copy_from_slice(&flags.to_be_bytes());
        refresh_ipv4_checksum(&mut frame);
        assert_eq!(
            matches!(parse(&frame, None), Ok(Parsed::Fragment)),
            fragment
        );
    }
}

fn refresh_ipv4_checksum(frame: &mut [u8]) {
    let header = 14 + usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let sum = !smoltcp::wire::checksum::data(&frame[14..header]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn a_source_route_is_refused() {
    let plain = tcp_frame(&addresses(V4[0], V4[1]));
    for (option, accepted) in [
        ([1, 1, 1, 0], true),
        ([131, 3, 4, 0], false),
        ([1, 137, 3, 4], false),
        ([7, 3, 4, 0], true),
    ] {
        let mut frame = [&plain[..34], &option, &plain[34..]].concat();
        frame[14] = 0x46;
        let total = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        refresh_ipv4_checksum(&mut frame);
        assert_eq!(is_tcp(&frame), accepted, "{option:?}");
    }
}

#[test]
fn echo_goes_there_and_back() {
    for [source, destination] in [V4, V6] {
        for reply in [false, true] {
            let mut frame = vec![0xaa; 200];
            let len = write_echo(
                &mut frame,
                &addresses(source, destination),
                reply,
                [&[1, 2, 3, 4], b"data"],
            );
            let Ok(Parsed::Icmp { message, .. }) = parse(&frame[..len.expect("it fits")], None)
            else {
                panic!()
            };
            let rest = b"\x01\x02\x03\x04data";
            assert_eq!(
                message,
                if reply {
                    Message::EchoReply(rest)
                } else {
                    Message::EchoRequest(rest)
                }
            );
            let mut short = vec![0; 40];
            assert_eq!(
                write_echo(
                    &mut short,
                    &addresses(source, destination),
                    reply,
                    [rest, &[]]
                ),
                None
            );
        }
    }
}

#[test]
fn an_error_quotes_the_packet_it_is_about() {
    for ([source, destination], refusal) in [
        (V4, Refusal::Port),
        (V6, Refusal::Port),
        (V4, Refusal::Protocol),
        (V6, Refusal::Protocol),
    ] {
        // The packet complained of went the other way.
        let quoted = tcp_frame(&addresses(destination, source));
        let mut frame = vec![0; 2000];
        let len = write_refusal(
            &mut frame,
            &addresses(source, destination),
            refusal,
            &quoted[14..],
        )
        .expect("it fits");
        let Ok(Parsed::Icmp {
            message: Message::Error(icmp_error),
            ..
        }) = parse(&frame[..len], None)
        else {
            panic!()
        };
        let what = Problem::PortUnreachable;
        let head = *quoted[14 + ip_header_len(ip(source))..]
            .first_chunk()
            .unwrap();
        assert_eq!(
            icmp_error,
            IcmpError {
                problem: what,
                source: ip(destination),
                destination: ip(source),
                protocol: 6,
                head
            }
        );
        assert_eq!(
            (icmp_error.ports(), icmp_error.seq()),
            ((5001, 80), 0xffff_fff0)
        );
        // An error is never longer than every link carries.
        let len = write_refusal(
            &mut frame,
            &addresses(source, destination),
            refusal,
            &[0x45; 1900],
        )
        .expect("it fits");
        assert_eq!(len - 14, if source == V4[0] { 576 } else { 1280 });
    }
}

/// RFC 4443 §3.4: the pointer is that of the field with the number that is not understood.
#[test]
fn the_pointer_is_to_the_number_of_the_unknown_protocol() {
    const UNKNOWN: u8 = 253;
    let options = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    let longer = [&[UNKNOWN, 1, 1, 12][..], &[0; 12]].concat();
    for (first, headers, pointer) in [
        (UNKNOWN, vec![], 6),
        (60, options(UNKNOWN).to_vec(), 40),
        (0, [&options(60)[..], &longer].concat(), 48),
        (44, [UNKNOWN, 0, 0, 0, 0, 0, 0, 1].to_vec(), 40),
    ] {
        let packet = ipv6(first, 64, &[&headers[..], b"whatever"].concat());
        let Ok(Parsed::Transport { packet, .. }) = parse(&packet, None) else {
            panic!("{headers:?}")
        };
        let mut frame = vec![0; 2000];
        write_refusal(
            &mut frame,
            &addresses(V6[0], V6[1]),
            Refusal::Protocol,
            packet,
        )
        .expect("it fits");
        assert_eq!(frame[54..56], [4, 1]);
        assert_eq!(frame[58..62], u32::to_be_bytes(pointer), "{headers:?}");
    }
}

/// The problem in an ICMP message of `kind` and `code` whose last header word is `word`.
fn problem([source, destination]: [&str; 2], (kind, code): (u8, u8), word: u32) -> Option<Problem> {
    let quoted = tcp_frame(&addresses(destination, source));
    let mut frame = vec![0; 200];
    let rest = [&word.to_be_bytes()[..], &quoted[14..]].concat();
    let len = write_echo(
        &mut frame,
        &addresses(source, destination),
        false,
        [&rest, &[]],
    )
    .expect("it fits");
    frame.truncate(len);
    let at = 14 + ip_header_len(ip(source));
    // The kind of an echo request, replaced; the checksum follows by the difference.
    let was = u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let sum = u32::from(!u16::from_be_bytes([frame[at + 2], frame[at + 3]]));
    (frame[at], frame[at + 1]) = (kind, code);
    let sum = sum + (!was & 0xffff) + u32::from(u16::from_be_bytes([kind, code]));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[at + 2..at + 4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    match parse(&frame, None) {
        Ok(Parsed::Icmp {
            message: Message::Error(icmp_error),
            ..
        }) => Some(icmp_error.problem),
        Ok(Parsed::Icmp {
            message: Message::Other,
            ..
        }) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_kinds_of_error_are_told_apart() {
    use Problem::*;
    for (kind, expected) in [
        ((3, 0), Some(HostUnreachable)),
        ((3, 1), Some(HostUnreachable)),
        ((3, 2), Some(PortUnreachable)),
        ((3, 3), Some(PortUnreachable)),
        ((3, 4), Some(TooBig { mtu: 1400 })),
        ((3, 13), Some(Prohibited)),
        ((11, 0), Some(TimeExceeded)),
        ((11, 1), None),
        ((12, 0), Some(Parameter)),
        ((5, 1), None),
        ((4, 0), None),
    ] {
        assert_eq!(problem(V4, kind, 1400), expected, "{kind:?}");
    }
    for (kind, expected) in [
        ((1, 0), Some(HostUnreachable)),
        ((1, 1), Some(Prohibited)),
        ((1, 4), Some(PortUnreachable)),
        ((2, 0), Some(TooBig { mtu: 1400 })),
        ((3, 0), Some(TimeExceeded)),
        ((3, 1), None),
        ((4, 1), Some(PortUnreachable)),
        ((4, 2), Some(Parameter)),
        ((138, 0), None),
        ((137, 0), None),
    ] {
        assert_eq!(problem(V6, kind, 1400), expected, "{kind:?}");
    }
}

fn neighbor(target: &str, solicit: bool, to: &str) -> Vec<u8> {
    let mut frame = vec![0xaa; 100];
    let addresses = Addresses {
        hop_limit: 255,
        ..addresses("fe80::2", to)
    };
    let len = write_neighbor(&mut frame, &addresses, ip(target), solicit);
    frame.truncate(len);
    frame
}

fn understood(frame: &[u8]) -> Result<ndisc::Message, Malformed> {
    match parse(frame, None)? {
        Parsed::Icmp {
            message: Message::Neighbor(message),
            ..
        } => Ok(message),
        other => panic!("{other:?}"),
    }
}

/// Mends the checksum of an ICMPv6 message.
fn mend(frame: &mut [u8], addresses: &Addresses) {
    frame[56..58].fill(0);
    icmp_checksum::fill_checksum(&mut frame[54..], addresses);
}

#[test]
fn neighbors_are_asked_and_answer() {
    let group = solicited_node("2001:db8::12:3456".parse().unwrap());
    assert_eq!(
        (group, group_mac(group)),
        (
            "ff02::1:ff12:3456".parse().unwrap(),
            EthernetAddress([0x33, 0x33, 0xff, 0x12, 0x34, 0x56])
        )
    );
    let target = "2001:db8::1".parse().unwrap();
    assert_eq!(
        understood(&neighbor("2001:db8::1", true, "ff02::1:ff00:1")),
        Ok(ndisc::Message::Solicitation {
            nonce: None,
            target,
            sender: Some(THEIRS)
        })
    );
    for (to, solicited) in [("fe80::1", true), ("ff02::1", false)] {
        let answer = ndisc::Message::Advertisement {
            target,
            mac: Some(THEIRS),
            solicited,
            replace: true,
            is_router: false,
        };
        assert_eq!(understood(&neighbor("2001:db8::1", false, to)), Ok(answer));
    }
}

#[test]
fn what_a_router_let_through_or_lies_about_its_length_is_no_neighbor() {
    let good = neighbor("2001:db8::1", true, "fe80::1");
    let addresses = addresses("fe80::2", "fe80::1");
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        let len = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        mend(&mut frame, &addresses);
        understood(&frame) == Err(Malformed::Header)
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|frame| frame[21] = 254), "hop limit");
    assert!(refused(&|frame| frame[62] = 0xff), "a group as target");
    assert!(refused(&|frame| frame[79] = 0), "an option of no length");
    assert!(
        refused(&|frame| frame[79] = 2),
        "an option longer than the message"
    );
    assert!(refused(&|frame| frame.truncate(54 + 23)), "cut short");
    assert!(refused(&|frame| frame.push(1)), "half an option");
    // Whoever has no address says nothing of itself, and asks all who may have it.
    let nobody = Addresses {
        source: ip("::"),
        ..addresses
    };
    let mut frame = good.clone();
    frame[22..38].fill(0);
    mend(&mut frame, &nobody);
    assert_eq!(understood(&frame), Err(Malformed::Header));
}

proptest! {
    #[test]
    fn any_frame_is_survived(frame in prop::collection::vec(any::<u8>(), 0..200), vlan in prop::option::of(0u16..4096)) {
        let _ = parse(&frame, vlan);
        crate::trace::sequence_number(&frame, Medium::Ethernet);
    }

    /// The noise begins behind headers that lead it to every parser.
    #[test]
    fn any_payload_is_survived(next: u8, first in 0usize..12, payload in prop::collection::vec(any::<u8>(), 0..150)) {
        let next = *[0, 43, 44, 60, 58, 6, 17, 1].get(first).unwrap_or(&next);
        let _ = parse(&ipv6(next, 255, &payload), None);
        let mut frame = vec![0; 14 + 20 + payload.len()];
        write_ip(&mut frame, &addresses(V4[0], V4[1]), next.into(), Ecn::NotEct, payload.len()).copy_from_slice(&payload);
        let _ = parse(&frame, None);
    }

    /// ICMP noise with a valid checksum, so that the parser reads it.
    #[test]
    fn any_message_parses_without_panic(kind: u8, code in 0u8..20, payload in prop::collection::vec(any::<u8>(), 4..150)) {
        for [source, destination] in [V4, V6] {
            let addresses = Addresses { hop_limit: 255, ..addresses(source, destination) };
            let mut frame = vec![0; 300];
            let len = write_echo(&mut frame, &addresses, false, [&payload, &[]]).expect("it fits");
            frame.truncate(len);
            let at = addresses.headers_len();
            frame[at..at + 4].copy_from_slice(&[kind, code, 0, 0]);
            icmp_checksum::fill_checksum(&mut frame[at..], &addresses);
            prop_assert_ne!(parse(&frame, None).err(), Some(Malformed::Checksum));
        }
    }

    #[test]
    fn frames_with_bits_turned_are_survived(v6: bool, vlan: bool, flips in prop::collection::vec((0usize..2000, 0u8..8), 1..6), cut in 0usize..200) {
        let [source, destination] = if v6 { V6 } else { V4 };
        let mut frame = tcp_frame(&Addresses { vlan: vlan.then_some(9), ..addresses(source, destination) });
        for (at, bit) in flips {
            let at = at % frame.len();
            frame[at] ^= 1 << bit;
        }
        frame.truncate(frame.len() - cut.min(frame.len()));
        let _ = parse(&frame, vlan.then_some(9));
        crate::trace::sequence_number(&frame, Medium::Ethernet);
    }
}

/// A packet that never left this machine has no checksum yet; a merged packet knows its segments.
#[test]
fn offloaded_work_is_not_repeated() {
    for [source, destination] in [V4, V6] {
        let mut frame = tcp_frame(&addresses(source, destination));
        assert!(tautline_base::segmentation::leave_checksum(
            &mut frame,
            ETHERNET_HEADER
        ));
        assert_eq!(parse(&frame, None).err(), Some(Malformed::Checksum));
        for (size, expected) in [(None, (14, 1)), (Some(5), (5, 3)), (Some(2000), (14, 1))] {
            let segment_size = size.and_then(std::num::NonZeroU16::new);
            let offload = Offload {
                checksum_known: true,
                segment_size,
                ..Offload::default()
            };
            let Ok(Parsed::Tcp { segment, .. }) = super::parse(&frame, None, offload) else {
                panic!("{frame:x?}")
            };
            assert_eq!((segment.size, segment.count()), expected);
        }
    }
}

/// The device completes a frame to the bytes that would have been written at once; zeros need not
/// be in the frame.
#[test]
fn an_incomplete_segment_is_completed_to_the_same_bytes() {
    use tautline_base::{HeapFrame, Packet};

    for [source, destination] in [V4, V6] {
        let addresses = addresses(source, destination);
        for (payload, due) in [
            (Payload::Bytes(b"front ", b"back"), Deferred::Checksum),
            (Payload::Zeros(10), Deferred::Zeros),
        ] {
            let mut whole = vec![0xaa; 200];
            let len = write_tcp(&mut whole, &addresses, &header(), payload);
            let mut frame = HeapFrame::new();
            frame.bytes_mut().fill(0x55);
            assert_eq!(
                write_incomplete(frame.bytes_mut(), &addresses, &header(), payload),
                (len, due)
            );
            let mut packet = Packet::new(frame, len as u32).with_deferred(due);
            assert_eq!(parse(packet.bytes(), None).err(), Some(Malformed::Checksum));
            let offload = Offload {
                checksum_known: true,
                zeros: due == Deferred::Zeros,
                ..Offload::default()
            };
            let Ok(Parsed::Tcp { segment, .. }) = super::parse(packet.bytes(), None, offload)
            else {
                panic!("{packet:?}")
            };
            assert_eq!(
                segment.payload,
                if due == Deferred::Zeros {
                    &[0; 10]
                } else {
                    b"front back"
                }
            );
            packet.complete();
            assert_eq!(
                (packet.bytes(), packet.deferred()),
                (&whole[..len], Deferred::Nothing)
            );
        }
    }
}
