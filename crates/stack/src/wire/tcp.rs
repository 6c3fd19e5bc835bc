//! TCP segments, read and written (RFC 9293 §3.1, RFC 7323, RFC 2018, RFC 9768).

use smoltcp::wire::{IpProtocol, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber, TcpTimestampRepr};
use tautline_base::segmentation::leave_checksum;
use tautline_base::{Due, Ecn, Offload};

use super::{
    Addresses, EchoedBytes, EcnFlags, Ends, Malformed, SACK_BLOCK, SACK_BLOCKS, TCP_HEADER, network, no_checksums, write_ip,
};

/// A payload of zeros that is not in its frame: no packet has more.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The option that fills.
const NO_OPERATION: u8 = 1;

/// A TCP segment as received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) window: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) mss: Option<u16>,
    pub(crate) sack_permitted: bool,
    pub(crate) sack: [Option<(u32, u32)>; SACK_BLOCKS],
    pub(crate) timestamp: Option<(u32, u32)>,
    pub(crate) ecn_flags: EcnFlags,
    pub(crate) echoed_bytes: Option<EchoedBytes>,
    /// The ECN field of the packet it came in.
    pub(crate) codepoint: Ecn,
    pub(crate) payload: &'a [u8],
    /// How much of the payload was in each segment but perhaps the last, if it is several.
    pub(crate) size: usize,
}

impl Segment<'_> {
    /// How many segments it is.
    pub(crate) fn count(&self) -> u64 {
        self.payload.len().div_ceil(self.size.max(1)).max(1) as u64
    }
}

/// Reads the segment in the packet of `ends`, which came with `codepoint`, or the several that are `offload`ed as one.
pub(super) fn parse_tcp<'a>(
    ends: &Ends,
    codepoint: Ecn,
    offload: Offload,
    payload: &'a [u8],
) -> Result<Segment<'a>, Malformed> {
    let packet = TcpPacket::new_checked(payload).map_err(|_| Malformed::Header)?;
    let (source, destination) = network(ends.source, ends.destination);
    if !offload.checksum_known && !packet.verify_checksum(&source, &destination) {
        return Err(Malformed::Checksum);
    }
    // The checksum has been looked at: a second look would cost as much as the copy of the payload.
    let repr = TcpRepr::parse(&packet, &source, &destination, &no_checksums()).map_err(|_| Malformed::Header)?;
    let payload = match offload.zeros {
        true => &ZEROS[..repr.payload.len().min(ZEROS.len())],
        false => repr.payload,
    };
    Ok(Segment {
        source_port: repr.src_port,
        destination_port: repr.dst_port,
        seq: repr.seq_number.0 as u32,
        ack: repr.ack_number.map(|ack| ack.0 as u32),
        syn: repr.control == TcpControl::Syn,
        fin: repr.control == TcpControl::Fin,
        rst: repr.control == TcpControl::Rst,
        window: repr.window_len,
        window_scale: repr.window_scale,
        mss: repr.max_seg_size,
        sack_permitted: repr.sack_permitted,
        sack: repr.sack_ranges,
        timestamp: repr.timestamp.map(|t| (t.tsval, t.tsecr)),
        ecn_flags: EcnFlags::new(packet.ns(), packet.cwr(), packet.ece()),
        echoed_bytes: EchoedBytes::find(packet.options()),
        codepoint,
        payload,
        size: offload.segment_size.map_or(payload.len(), |size| usize::from(size.get()).min(payload.len())),
    })
}

/// The header of an outgoing TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpHeader {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) mss: Option<u16>,
    pub(crate) sack_permitted: bool,
    pub(crate) sack: [Option<(u32, u32)>; SACK_BLOCKS],
    pub(crate) timestamp: Option<(u32, u32)>,
    pub(crate) ecn_flags: EcnFlags,
    pub(crate) echoed_bytes: Option<EchoedBytes>,
    /// The ECN field of the packet it travels in.
    pub(crate) codepoint: Ecn,
}

/// The control flag of an outgoing segment; ACK follows from the acknowledgement number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    None,
    Psh,
    Syn,
    Fin,
    Rst,
}

/// What a segment carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    /// The first bytes, then the second.
    Bytes(&'a [u8], &'a [u8]),
    /// So many zeros.
    Zeros(usize),
}

impl Payload<'_> {
    /// None.
    pub(crate) const EMPTY: Self = Self::Zeros(0);

    fn len(&self) -> usize {
        match self {
            Self::Bytes(front, back) => front.len() + back.len(),
            Self::Zeros(count) => *count,
        }
    }

    fn write(&self, place: &mut [u8]) {
        match self {
            Self::Bytes(front, back) => {
                let (before, behind) = place.split_at_mut(front.len());
                before.copy_from_slice(front);
                behind.copy_from_slice(back);
            }
            Self::Zeros(_) => place.fill(0),
        }
    }
}

/// Writes a TCP segment. Returns the frame's length.
///
/// # Panics
/// If `frame` is shorter than the segment: segments are cut to the MTU, and frames hold an MTU.
pub(crate) fn write_tcp(frame: &mut [u8], addresses: &Addresses, header: &TcpHeader, payload: Payload<'_>) -> usize {
    let (len, place) = write_headers(frame, addresses, header, payload.len());
    payload.write(&mut frame[place..len]);
    let (source, destination) = network(addresses.source, addresses.destination);
    TcpPacket::new_unchecked(&mut frame[addresses.headers_len()..len]).fill_checksum(&source, &destination);
    len
}

/// The same for a device that [completes](tautline_base::Device::completes) the frame. Returns its length and what is left to write.
///
/// # Panics
/// As [`write_tcp`].
pub(crate) fn write_incomplete(
    frame: &mut [u8],
    addresses: &Addresses,
    header: &TcpHeader,
    payload: Payload<'_>,
) -> (usize, Due) {
    let (len, place) = write_headers(frame, addresses, header, payload.len());
    match payload {
        Payload::Zeros(_) => (len, Due::Zeros),
        Payload::Bytes(..) => {
            payload.write(&mut frame[place..len]);
            (len, Due::Checksum)
        }
    }
}

/// The same for a packet of several segments, of equal payload, which the device cuts and checksums ([`Tso`](tautline_base::Tso)).
///
/// # Panics
/// If `frame` is shorter than the packet, or it longer than IP can say: packets are cut to what [`Tso`](tautline_base::Tso) allows.
pub(crate) fn write_tso(frame: &mut [u8], addresses: &Addresses, header: &TcpHeader, payload: Payload<'_>) -> usize {
    let (len, place) = write_headers(frame, addresses, header, payload.len());
    payload.write(&mut frame[place..len]);
    leave_checksum(&mut frame[..len]);
    len
}

/// Writes all headers but for the TCP checksum. Returns the length of the frame with `payload` bytes behind them, and where they begin.
fn write_headers(frame: &mut [u8], addresses: &Addresses, header: &TcpHeader, payload: usize) -> (usize, usize) {
    let repr = TcpRepr {
        src_port: header.source_port,
        dst_port: header.destination_port,
        control: match header.flags {
            Flags::None => TcpControl::None,
            Flags::Psh => TcpControl::Psh,
            Flags::Syn => TcpControl::Syn,
            Flags::Fin => TcpControl::Fin,
            Flags::Rst => TcpControl::Rst,
        },
        seq_number: TcpSeqNumber(header.seq as i32),
        ack_number: header.ack.map(|ack| TcpSeqNumber(ack as i32)),
        window_len: header.window,
        window_scale: header.window_scale,
        max_seg_size: header.mss,
        sack_permitted: header.sack_permitted,
        sack_ranges: header.sack,
        timestamp: header.timestamp.map(|(value, echo)| TcpTimestampRepr::new(value, echo)),
        payload: &[],
    };
    let others = repr.header_len();
    let tcp_header = others + header.echoed_bytes.map_or(0, |option| option.padded_len());
    let tcp_len = tcp_header + payload;
    let segment = write_ip(frame, addresses, IpProtocol::Tcp, header.codepoint, tcp_len);
    let len = addresses.headers_len() + tcp_len;
    let (source, destination) = network(addresses.source, addresses.destination);
    let mut packet = TcpPacket::new_unchecked(segment);
    repr.emit(&mut packet, &source, &destination, &no_checksums());
    if let Some(option) = header.echoed_bytes {
        packet.set_header_len(tcp_header as u8);
        let (before, place) = packet.options_mut().split_at_mut(others - TCP_HEADER);
        // The padding of the other options must not end the list.
        let padding = others - TCP_HEADER - options_len(&repr);
        let end = before.len();
        before[end - padding..].fill(NO_OPERATION);
        option.write(place);
    }
    packet.set_ns(header.ecn_flags.ae());
    packet.set_cwr(header.ecn_flags.cwr());
    packet.set_ece(header.ecn_flags.ece());
    (len, len - payload)
}

/// Bytes of the options in `repr`, without padding.
fn options_len(repr: &TcpRepr<'_>) -> usize {
    let blocks = repr.sack_ranges.iter().flatten().count();
    let sack = match blocks {
        _ if repr.sack_permitted => 2,
        0 => 0,
        blocks => 2 + SACK_BLOCK * blocks,
    };
    repr.max_seg_size.map_or(0, |_| 4) + repr.window_scale.map_or(0, |_| 3) + sack + repr.timestamp.map_or(0, |_| 10)
}
