//! Segments are parsed and emitted as by smoltcp.

use std::net::IpAddr;

use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Ipv4Packet, Ipv4Repr, TcpControl, TcpRepr, TcpSeqNumber, TcpTimestampRepr};

use super::super::{ETHERNET_HEADER, IPV4_HEADER, Mac, Medium, ip, parse_ipv4, transport};
use super::*;

fn addresses(v6: bool, tos: u8) -> Addresses {
    let [source, destination]: [IpAddr; 2] = if v6 {
        [
            "2001:db8::2".parse().expect("an address"),
            "2001:db8::1".parse().expect("an address"),
        ]
    } else {
        [[10, 7, 0, 2].into(), [10, 7, 255, 1].into()]
    };
    let mac = Mac::BROADCAST;
    Addresses {
        medium: Medium::Ethernet,
        source_mac: mac,
        destination_mac: mac,
        source,
        destination,
        hop_limit: 64,
        flow_label: 0,
        tos,
        vlan: None,
    }
}

/// As smoltcp writes a segment without the AccECN option.
fn theirs(addresses: &Addresses, header: &TcpHeader, payload: &[u8]) -> Vec<u8> {
    let control = match header.flags {
        Flags::None => TcpControl::None,
        Flags::Psh => TcpControl::Psh,
        Flags::Syn => TcpControl::Syn,
        Flags::Fin => TcpControl::Fin,
        Flags::PshFin => unreachable!("smoltcp writes no such segment"),
        Flags::Rst => TcpControl::Rst,
    };
    let repr = TcpRepr {
        src_port: header.source_port,
        dst_port: header.destination_port,
        control,
        seq_number: TcpSeqNumber(header.seq as i32),
        ack_number: header.ack.map(|ack| TcpSeqNumber(ack as i32)),
        window_len: header.window,
        window_scale: header.window_scale,
        max_seg_size: header.mss,
        sack_permitted: header.sack_permitted,
        sack_ranges: [0, 1, 2].map(|at| header.sack[at]),
        timestamp: header
            .timestamp
            .map(|(value, echo)| TcpTimestampRepr::new(value, echo)),
        payload,
    };
    let (source, destination) = network(addresses.source, addresses.destination);
    let mut bytes = vec![0xaa; repr.buffer_len()];
    let mut packet = TcpPacket::new_unchecked(&mut bytes[..]);
    repr.emit(
        &mut packet,
        &source,
        &destination,
        &ChecksumCapabilities::ignored(),
    );
    packet.set_ns(header.ecn_flags.ae());
    packet.set_cwr(header.ecn_flags.cwr());
    packet.set_ece(header.ecn_flags.ece());
    packet.fill_checksum(&source, &destination);
    bytes
}

/// Of a SYN or of any other segment.
fn header() -> impl Strategy<Value = TcpHeader> {
    // No port is 0, but somebody may say so.
    let port = || prop_oneof![9 => 1u16.., 1 => Just(0)];
    let numbers = (
        port(),
        port(),
        any::<u32>(),
        any::<u32>(),
        any::<u16>(),
        any::<bool>(),
    );
    let flags = prop::sample::select(vec![
        Flags::None,
        Flags::None,
        Flags::Psh,
        Flags::Syn,
        Flags::Fin,
        Flags::Rst,
    ]);
    let opening = (
        prop::option::of(0u8..15),
        prop::option::of(any::<u16>()),
        any::<bool>(),
    );
    let sack = prop::collection::vec(any::<(u32, u32)>(), 0..=3);
    let rest = (prop::option::of(any::<(u32, u32)>()), 0u8..8, 0u8..4);
    (numbers, flags, opening, sack, rest).prop_map(
        |(numbers, flags, opening, sack, (timestamp, ecn_flags, ecn))| {
            let (source_port, destination_port, seq, ack, window, answers) = numbers;
            let syn = flags == Flags::Syn;
            let (window_scale, mss, sack_permitted) =
                if syn { opening } else { (None, None, false) };
            let sack = if syn || !answers { Vec::new() } else { sack };
            TcpHeader {
                source_port,
                destination_port,
                seq,
                ack: answers.then_some(ack),
                flags,
                window,
                window_scale,
                mss,
                sack_permitted,
                sack: [0, 1, 2, 3].map(|at| sack.get(at).copied()),
                timestamp,
                ecn_flags: EcnFlags::from_bits(ecn_flags),
                echoed_bytes: None,
                fast_open: None,
                codepoint: Ecn::of_tos(ecn),
            }
        },
    )
}

/// All fields of a parsed segment.
fn fields(segment: Result<Segment<'_>, Malformed>) -> String {
    format!("{segment:?}")
}

proptest! {
    #[test]
    fn segments_are_written_as_smoltcp_writes_them(
        header in header(),
        payload in prop::collection::vec(any::<u8>(), 0..1460),
        split in 0usize..1460,
        v6: bool,
        tos: u8,
    ) {
        let addresses = addresses(v6, tos & 0xfc);
        let mut frame = vec![0x55; 2048];
        let (front, back) = payload.split_at(split.min(payload.len()));
        let len = write_tcp(&mut frame, &addresses, &header, Payload::Bytes(front, back));
        prop_assert_eq!(&frame[addresses.headers_len()..len], &theirs(&addresses, &header, &payload)[..]);
        if let (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) = (addresses.source, addresses.destination) {
            let mut network = vec![0xaa; len - ETHERNET_HEADER];
            let mut packet = Ipv4Packet::new_unchecked(&mut network[..]);
            let payload_len = len - ETHERNET_HEADER - IPV4_HEADER;
            Ipv4Repr { src_addr, dst_addr, next_header: IpProtocol::Tcp, payload_len, hop_limit: 64 }
                .emit(&mut packet, &ChecksumCapabilities::default());
            packet.set_dscp(tos >> 2);
            packet.set_ecn(header.codepoint.bits());
            packet.fill_checksum();
            prop_assert_eq!(&frame[ETHERNET_HEADER..][..IPV4_HEADER], &network[..IPV4_HEADER]);
        }
    }

    /// Headers intact and with flipped bits, under a valid checksum or not.
    #[test]
    fn the_fast_path_agrees_with_the_full_parser(
        header in header(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
        linux: bool,
        known: bool,
        mend: bool,
        flips in prop::collection::vec((0usize..36, 0u32..8), 0..3),
        cut in prop::option::weighted(0.2, 0usize..60),
    ) {
        let addresses = addresses(false, 0);
        let mut bytes = theirs(&addresses, &header, &payload);
        if linux && bytes.len() >= 32 && bytes[20..22] == [8, 10] && bytes[12] >> 4 == 8 {
            // The padding comes first.
            bytes.copy_within(20..30, 22);
            bytes[20..22].fill(1);
        }
        for (at, bit) in flips {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        bytes.truncate(cut.unwrap_or(usize::MAX).min(bytes.len()));
        if mend && bytes.len() >= TCP_HEADER {
            let (source, destination) = network(addresses.source, addresses.destination);
            TcpPacket::new_unchecked(&mut bytes[..]).fill_checksum(&source, &destination);
        }
        let ends = Ends { source: addresses.source, destination: addresses.destination, hop_limit: 64, tos: 0 };
        let offload = Offload { checksum_known: known, ..Offload::default() };
        if let Some(segment) = parse_plain(&ends, header.codepoint, offload, &bytes) {
            prop_assert_eq!(fields(Ok(segment)), fields(parse_any(&ends, header.codepoint, offload, &bytes)));
        }
    }

    /// The same of the header below.
    #[test]
    fn an_ipv4_header_is_read_as_smoltcp_reads_it(
        tos: u8,
        flips in prop::collection::vec((0usize..20, 0u32..8), 0..3),
        more in 0usize..10,
        mend: bool,
    ) {
        let frame = &mut [0x55; 100][..];
        let written = write_ip(frame, &addresses(false, tos), 99.into(), Ecn::of_tos(tos), 30).len();
        let mut packet = frame[ETHERNET_HEADER..][..IPV4_HEADER + written + more].to_vec();
        for (at, bit) in flips {
            packet[at] ^= 1 << bit;
        }
        // Only what the packet can hold has a checksum.
        if mend && (5..=packet.len() / 4).contains(&usize::from(packet[0] & 15)) {
            Ipv4Packet::new_unchecked(&mut packet[..]).fill_checksum();
        }
        if let Some((ends, protocol, whole)) = ip::plain_ipv4(&packet) {
            let close = parse_ipv4(&packet, Offload::default());
            let (ecn, body) = (Ecn::of_tos(ends.tos), &whole[IPV4_HEADER..]);
            let plain = transport(ends, protocol, (ecn, Offload::default()), body, whole);
            prop_assert_eq!(format!("{close:?}"), format!("{plain:?}"));
        }
    }
}

/// Nearly every segment is: else the quick look is for nothing.
#[test]
fn segments_of_an_open_connection_are_read_at_a_glance() {
    for v6 in [false, true] {
        let addresses = addresses(v6, 0);
        let ends = Ends {
            source: addresses.source,
            destination: addresses.destination,
            hop_limit: 64,
            tos: 0,
        };
        for (timestamp, flags) in [(None, Flags::None), (Some((3, 4)), Flags::Psh)] {
            let header = TcpHeader {
                source_port: 5001,
                destination_port: 80,
                seq: 0xffff_fff0,
                ack: Some(7),
                flags,
                window: 1000,
                window_scale: None,
                mss: None,
                sack_permitted: false,
                sack: [None; SACK_BLOCKS],
                timestamp,
                ecn_flags: EcnFlags::ECE,
                echoed_bytes: None,
                fast_open: None,
                codepoint: Ecn::Ect0,
            };
            let mut bytes = theirs(&addresses, &header, b"text");
            let plain = |bytes: &[u8]| {
                parse_plain(&ends, Ecn::Ect0, Offload::default(), bytes)
                    .map(|it| (it.timestamp, it.ecn_flags))
            };
            assert_eq!(plain(&bytes), Some((timestamp, EcnFlags::ECE)));
            *bytes.last_mut().expect("there is text") ^= 1;
            assert_eq!(plain(&bytes), None);
            // Port 0 is for the way that reports it.
            for port in [0, 2] {
                let mut bytes = bytes.clone();
                bytes[port..port + 2].fill(0);
                let known = Offload {
                    checksum_known: true,
                    ..Offload::default()
                };
                assert!(parse_plain(&ends, Ecn::Ect0, known, &bytes).is_none());
            }
        }
    }
}
