//! TCP segments, read and written (RFC 9293 §3.1, RFC 7323, RFC 2018, RFC 9768).

use smoltcp::wire::{IpProtocol, TcpPacket};
use tautline_base::segmentation::leave_checksum;
use tautline_base::{Deferred, Ecn, Frame, Offload, checksum};

use super::{
    Addresses, EchoedBytes, EcnFlags, Ends, FastOpenCookie, MAX_WINDOW_SCALE, Malformed,
    OPTION_SPACE, SACK_BLOCK, SACK_BLOCKS, TCP_HEADER, TIMESTAMP_OPTION, network, pseudo_sum,
    write_ip,
};
use crate::chunks::Chunks;
use crate::kept_bytes::KeptBytes;

/// The payload of frames that leave out zeros: no packet has more.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The number that announces TCP.
pub(super) const PROTOCOL: u8 = 6;
/// Offset of the checksum in the header.
pub(super) const CHECKSUM: usize = 16;
/// Control flags.
const FIN: u8 = 1 << 0;
const SYN: u8 = 1 << 1;
const RST: u8 = 1 << 2;
const PSH: u8 = 1 << 3;
const ACK: u8 = 1 << 4;
const ECE: u8 = 1 << 6;
const CWR: u8 = 1 << 7;
/// The option that ends the list, and the one that fills.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
/// Options of RFC 9293 §3.1, RFC 7323 §2.2 and §3.2, RFC 2018 §2.
const MAX_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMP: u8 = 8;
/// The option with SACK blocks (RFC 2018 §3).
const SACK: u8 = 5;
/// The option of TCP Fast Open (RFC 7413 §4.1.1).
const FAST_OPEN: u8 = 34;

/// A TCP segment as received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) psh: bool,
    pub(crate) rst: bool,
    pub(crate) window: u16,
    pub(crate) offers: SynOffers,
    pub(crate) sack: [Option<(u32, u32)>; SACK_BLOCKS],
    pub(crate) timestamp: Option<(u32, u32)>,
    pub(crate) ecn_flags: EcnFlags,
    pub(crate) echoed_bytes: Option<EchoedBytes>,
    /// The Fast Open cookie of a SYN; empty in a request for one.
    pub(crate) fast_open: Option<FastOpenCookie>,
    /// The ECN field of the packet it came in.
    pub(crate) codepoint: Ecn,
    pub(crate) payload: &'a [u8],
    /// The memory of the payload, if the receiver may keep it.
    pub(crate) kept: Option<&'a KeptBytes>,
    /// Payload bytes of each segment but perhaps the last, if several were merged.
    pub(crate) size: usize,
}

/// Options of a SYN that say what its sender can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SynOffers {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
}

impl<'a> Segment<'a> {
    /// Lets the receiver keep the memory of the `packet` that it came in, unless the payload is the lesser part
    /// of it: windows and rings count payload, and headers and padding may have any length.
    #[inline]
    pub(crate) fn offer_memory(&mut self, packet: Option<&'a KeptBytes>) {
        let least = |packet: &KeptBytes| packet.bytes.len() / 4 * 3;
        self.kept = packet.filter(|packet| self.payload.len() >= least(packet));
    }

    /// Number of merged segments.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        if self.payload.len() <= self.size {
            return 1;
        }
        self.payload.len().div_ceil(self.size.max(1)).max(1) as u64
    }
}

/// Parses the segment in the packet of `ends`, which came with `codepoint`, or several segments
/// merged by receive offload.
pub(super) fn parse_tcp<'a>(
    ends: &Ends,
    codepoint: Ecn,
    offload: Offload,
    payload: &'a [u8],
) -> Result<Segment<'a>, Malformed> {
    match parse_plain(ends, codepoint, offload, payload) {
        Some(segment) => Ok(segment),
        None => parse_any(ends, codepoint, offload, payload),
    }
}

/// Reads any segment. RST takes precedence over all other flags (RFC 9293 §3.10.7.4 checks RST
/// before FIN); a SYN with FIN is refused, as by Linux: only scans send it.
pub(super) fn parse_any<'a>(
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
    let [rst, syn, fin] = match (packet.rst(), packet.syn(), packet.fin()) {
        (true, ..) => [true, false, false],
        (false, true, true) => return Err(Malformed::Header),
        (false, syn, fin) => [false, syn, fin],
    };
    if packet.src_port() == 0 || packet.dst_port() == 0 {
        return Err(Malformed::Header);
    }
    let header = packet.options();
    let payload = as_sent(offload, packet.payload());
    let mut segment = Segment {
        source_port: packet.src_port(),
        destination_port: packet.dst_port(),
        seq: packet.seq_number().0 as u32,
        ack: packet.ack().then(|| packet.ack_number().0 as u32),
        syn,
        fin,
        psh: packet.psh(),
        rst,
        window: packet.window_len(),
        offers: SynOffers::default(),
        sack: sack_blocks(header),
        timestamp: None,
        ecn_flags: EcnFlags::new(packet.ns(), packet.cwr(), packet.ece()),
        echoed_bytes: EchoedBytes::find(header),
        fast_open: if syn { fast_open(header) } else { None },
        codepoint,
        payload,
        kept: None,
        size: size_in(offload, payload),
    };
    read_options(header, &mut segment);
    Ok(segment)
}

/// Reads the options of a `header` that are fields of `segment`. One of a length that its kind does not
/// have is skipped, and nothing is read behind one that is not whole; the segment counts all the same
/// (RFC 9293 §3.2; Linux `tcp_parse_options`).
fn read_options(header: &[u8], segment: &mut Segment<'_>) {
    for (kind, value) in options(header) {
        match (kind, value) {
            (MAX_SEGMENT_SIZE, &[high, low]) => {
                segment.offers.mss = Some(u16::from_be_bytes([high, low]));
            }
            // RFC 7323 §2.3: a larger shift counts as 14.
            (WINDOW_SCALE, &[shift]) => {
                segment.offers.window_scale = Some(shift.min(MAX_WINDOW_SCALE))
            }
            (SACK_PERMITTED, []) => segment.offers.sack_permitted = true,
            (TIMESTAMP, [_, _, _, _, _, _, _, _]) => {
                segment.timestamp = Some((u32_at(value, 0), u32_at(value, 4)))
            }
            _ => {}
        }
    }
}

/// Kind and value of each option of a header, up to one that is not whole.
pub(super) fn options(mut options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        while let [NO_OPERATION, rest @ ..] = options {
            options = rest;
        }
        let [kind, len, ..] = *options else {
            return None;
        };
        let value = options.get(2..usize::from(len)).filter(|_| kind != END)?;
        options = &options[usize::from(len)..];
        Some((kind, value))
    })
}

/// The Fast Open cookie among a header's options; one of a forbidden length counts as none.
fn fast_open(header: &[u8]) -> Option<FastOpenCookie> {
    let (_, value) = options(header).find(|(kind, _)| *kind == FAST_OPEN)?;
    FastOpenCookie::from_wire(value)
}

/// The SACK blocks among a header's options: four, where smoltcp reads three. None if the last is not
/// whole.
fn sack_blocks(header: &[u8]) -> [Option<(u32, u32)>; SACK_BLOCKS] {
    let mut blocks = [None; SACK_BLOCKS];
    let option = options(header).find(|(kind, _)| *kind == SACK);
    let value = option.map_or(&[][..], |(_, value)| value);
    let (values, []) = value.as_chunks::<SACK_BLOCK>() else {
        return blocks;
    };
    for (block, value) in blocks.iter_mut().zip(values) {
        *block = Some((u32_at(value, 0), u32_at(value, 4)));
    }
    blocks
}

/// Fast path for nearly every segment of an open connection: a valid acknowledgment with or without
/// data, with no option but a timestamp. `None` for anything else, which [`parse_any`] reads (Van
/// Jacobson's header prediction, one layer below).
// Always: the returned value is large.
#[inline(always)]
pub(super) fn parse_plain<'a>(
    ends: &Ends,
    codepoint: Ecn,
    offload: Offload,
    bytes: &'a [u8],
) -> Option<Segment<'a>> {
    let (header, rest) = bytes.split_first_chunk::<TCP_HEADER>()?;
    let (timestamp, payload) = match header[12] >> 4 {
        5 => (None, rest),
        8 => {
            let (options, payload) = rest.split_first_chunk::<TIMESTAMP_OPTION>()?;
            let words = match *options {
                // As Linux writes it, and as we do.
                [NO_OPERATION, NO_OPERATION, 8, 10, ..] => &options[4..],
                [8, 10, .., END, _] => &options[2..],
                _ => return None,
            };
            (Some((u32_at(words, 0), u32_at(words, 4))), payload)
        }
        _ => return None,
    };
    let [source_port, destination_port] = [0, 2].map(|at| u16_at(header, at));
    if header[13] & (ACK | RST | SYN | FIN) != ACK || source_port == 0 || destination_port == 0 {
        return None;
    }
    if !offload.checksum_known {
        let sum = pseudo_sum(ends.source, ends.destination, PROTOCOL, bytes.len())
            + u64::from(checksum::sum(bytes));
        if checksum::fold(sum) != u16::MAX {
            return None;
        }
    }
    let payload = as_sent(offload, payload);
    Some(Segment {
        source_port,
        destination_port,
        seq: u32_at(header, 4),
        ack: Some(u32_at(header, 8)),
        syn: false,
        fin: false,
        psh: header[13] & PSH != 0,
        rst: false,
        window: u16_at(header, 14),
        offers: SynOffers::default(),
        sack: [None; SACK_BLOCKS],
        timestamp,
        ecn_flags: EcnFlags::new(
            header[12] & 1 != 0,
            header[13] & CWR != 0,
            header[13] & ECE != 0,
        ),
        echoed_bytes: None,
        fast_open: None,
        codepoint,
        payload,
        kept: None,
        size: size_in(offload, payload),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The payload of a segment in whose frame there is `payload`.
#[inline]
fn as_sent(offload: Offload, payload: &[u8]) -> &[u8] {
    if offload.zeros {
        &ZEROS[..payload.len().min(ZEROS.len())]
    } else {
        payload
    }
}

/// Payload bytes of each segment but perhaps the last.
fn size_in(offload: Offload, payload: &[u8]) -> usize {
    offload.segment_size.map_or(payload.len(), |size| {
        usize::from(size.get()).min(payload.len())
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
    /// A Fast Open cookie; empty asks for one.
    pub(crate) fast_open: Option<FastOpenCookie>,
    /// The ECN field of the packet it travels in.
    pub(crate) codepoint: Ecn,
}

/// The control flag of an outgoing segment; ACK follows from the acknowledgment number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    None,
    Psh,
    Syn,
    Fin,
    PshFin,
    Rst,
}

/// The payload of an outgoing segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    /// The first bytes, then the second.
    Bytes(&'a [u8], &'a [u8]),
    /// From one byte held to another.
    Chunks(&'a Chunks, usize, usize),
    /// This many zeros.
    Zeros(usize),
}

impl Payload<'_> {
    /// No payload.
    pub(crate) const EMPTY: Self = Self::Zeros(0);

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(front, back) => front.len() + back.len(),
            Self::Chunks(_, from, to) => to - from,
            Self::Zeros(count) => *count,
        }
    }

    pub(super) fn write(&self, place: &mut [u8]) {
        match self {
            Self::Bytes(front, back) => {
                let (before, behind) = place.split_at_mut(front.len());
                before.copy_from_slice(front);
                // A segment seldom wraps around the send buffer's end.
                if !back.is_empty() {
                    behind.copy_from_slice(back);
                }
            }
            Self::Chunks(chunks, from, to) => {
                let mut rest = place;
                for part in chunks.parts(*from..*to) {
                    let (place, behind) = rest.split_at_mut(part.len());
                    place.copy_from_slice(part);
                    rest = behind;
                }
            }
            Self::Zeros(_) => place.fill(0),
        }
    }

    /// Lends it to `frame` as fragments. False if it must be copied.
    pub(super) fn lend(&self, frame: &mut impl Frame) -> bool {
        match (self, frame.fragments_mut()) {
            (Self::Chunks(chunks, from, to), Some(list)) => chunks.lend(*from..*to, list),
            _ => false,
        }
    }

    /// Writes it, and returns its part of the checksum.
    #[inline]
    pub(super) fn write_and_sum(&self, place: &mut [u8]) -> u64 {
        match self {
            // A segment seldom wraps around the send buffer's end.
            Self::Bytes(front, []) => checksum::copy(front, place).into(),
            Self::Bytes(front, back) => checksum::copy_parts([*front, *back], place),
            Self::Chunks(chunks, from, to) => match chunks.in_one_piece(*from..*to) {
                Some(bytes) => checksum::copy(bytes, place).into(),
                None => checksum::copy_parts(chunks.parts(*from..*to), place),
            },
            Self::Zeros(_) => {
                place.fill(0);
                0
            }
        }
    }
}

/// Writes a TCP segment. Returns the frame's length.
///
/// # Panics
/// If `frame` is shorter than the segment: segments are cut to the MTU, and frames hold an MTU.
pub(crate) fn write_tcp(
    frame: &mut [u8],
    addresses: &Addresses,
    header: &TcpHeader,
    payload: Payload<'_>,
) -> usize {
    let (len, place) = write_headers(frame, addresses, header, payload.len());
    let payload = payload.write_and_sum(&mut frame[place..len]);
    let transport = addresses.headers_len();
    let sum = pseudo_sum(
        addresses.source,
        addresses.destination,
        PROTOCOL,
        len - transport,
    ) + u64::from(checksum::sum(&frame[transport..place]))
        + payload;
    frame[transport + CHECKSUM..][..2].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
    len
}

/// Like [`write_tcp`], for a device that [completes](tautline_base::Device::completes) the frame.
/// Returns its length and the deferred work.
///
/// # Panics
/// As [`write_tcp`].
pub(crate) fn write_incomplete(
    frame: &mut [u8],
    addresses: &Addresses,
    header: &TcpHeader,
    payload: Payload<'_>,
) -> (usize, Deferred) {
    let (len, place) = write_headers(frame, addresses, header, payload.len());
    match payload {
        Payload::Zeros(_) => (len, Deferred::Zeros),
        Payload::Bytes(..) | Payload::Chunks(..) => {
            payload.write(&mut frame[place..len]);
            (len, Deferred::Checksum)
        }
    }
}

/// Like [`write_tcp`], for a packet of several segments of equal payload, which the device cuts and
/// checksums ([`Tso`](tautline_base::Tso)). If it `gathers`, a payload that belongs to the application is
/// not copied. Returns the length and the deferred work.
///
/// # Panics
/// If `frame` is shorter than the packet, or the packet exceeds IP's length field: callers cut
/// packets to the limits of [`Tso`](tautline_base::Tso).
pub(crate) fn write_tso(
    frame: &mut impl Frame,
    gathers: bool,
    addresses: &Addresses,
    header: &TcpHeader,
    payload: Payload<'_>,
) -> (usize, Deferred) {
    let is_lent = gathers && payload.lend(frame);
    let bytes = frame.bytes_mut();
    let (len, place) = write_headers(bytes, addresses, header, payload.len());
    if !is_lent {
        payload.write(&mut bytes[place..len]);
    }
    leave_checksum(&mut bytes[..len], addresses.link_len());
    let deferred = if is_lent {
        Deferred::Payload
    } else {
        Deferred::Nothing
    };
    (len, deferred)
}

/// Writes all headers, with a TCP checksum of zero. Returns the length of the
/// frame with `payload` bytes behind them, and where they begin.
fn write_headers(
    frame: &mut [u8],
    addresses: &Addresses,
    header: &TcpHeader,
    payload: usize,
) -> (usize, usize) {
    let options = Options::of(header);
    let tcp_len = TCP_HEADER + options.len + payload;
    let segment = write_ip(frame, addresses, IpProtocol::Tcp, header.codepoint, tcp_len);
    let (fixed, rest) = segment
        .split_first_chunk_mut::<TCP_HEADER>()
        .expect("it was made to hold the header");
    fixed[0..2].copy_from_slice(&header.source_port.to_be_bytes());
    fixed[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
    fixed[4..8].copy_from_slice(&header.seq.to_be_bytes());
    fixed[8..12].copy_from_slice(&header.ack.unwrap_or(0).to_be_bytes());
    fixed[12] = ((TCP_HEADER + options.len) as u8 / 4) << 4 | u8::from(header.ecn_flags.ae());
    fixed[13] = header.flag_bits();
    fixed[14..16].copy_from_slice(&header.window.to_be_bytes());
    // Checksum and urgent pointer.
    fixed[16..20].fill(0);
    options.write(&mut rest[..options.len]);
    let len = addresses.headers_len() + tcp_len;
    (len, len - payload)
}

impl TcpHeader {
    /// CWR to FIN, in the byte after AE.
    fn flag_bits(&self) -> u8 {
        let control = match self.flags {
            Flags::None => 0,
            Flags::Psh => PSH,
            Flags::Syn => SYN,
            Flags::Fin => FIN,
            Flags::PshFin => PSH | FIN,
            Flags::Rst => RST,
        };
        let ack = if self.ack.is_some() { ACK } else { 0 };
        control | ack | u8::from(self.ecn_flags.cwr()) << 7 | u8::from(self.ecn_flags.ece()) << 6
    }
}

/// The options of a header, padded.
struct Options {
    bytes: [u8; OPTION_SPACE],
    len: usize,
}

impl Options {
    /// In the order of smoltcp. The padding must not end the list while AccECN's option follows.
    #[inline]
    fn of(header: &TcpHeader) -> Self {
        let mut options = Self {
            bytes: [END; OPTION_SPACE],
            len: 0,
        };
        if let TcpHeader {
            mss: None,
            window_scale: None,
            sack_permitted: false,
            sack: [None, ..],
            ..
        } = header
        {
            // Most segments have a timestamp and nothing else. A cookie comes with an MSS.
        } else {
            options.push_others(header);
        }
        if let Some((value, echo)) = header.timestamp {
            options.push([TIMESTAMP, 10]);
            options.push(value.to_be_bytes());
            options.push(echo.to_be_bytes());
        }
        match header.echoed_bytes {
            None => options.len = options.len.next_multiple_of(4),
            Some(echoed) => options.push_echoed(echoed),
        }
        options
    }

    fn push_others(&mut self, header: &TcpHeader) {
        if let Some(mss) = header.mss {
            let [high, low] = mss.to_be_bytes();
            self.push([MAX_SEGMENT_SIZE, 4, high, low]);
        }
        if let Some(scale) = header.window_scale {
            self.push([WINDOW_SCALE, 3, scale]);
        }
        let blocks = header.sack.iter().flatten();
        if header.sack_permitted {
            self.push([SACK_PERMITTED, 2]);
        } else if header.ack.is_some() && header.sack[0].is_some() {
            self.push([SACK, (2 + SACK_BLOCK * blocks.clone().count()) as u8]);
            for (start, end) in blocks {
                self.push(start.to_be_bytes());
                self.push(end.to_be_bytes());
            }
        }
        if let Some(cookie) = &header.fast_open {
            let cookie = cookie.bytes();
            self.push([FAST_OPEN, 2 + cookie.len() as u8]);
            self.bytes[self.len..self.len + cookie.len()].copy_from_slice(cookie);
            self.len += cookie.len();
        }
    }

    fn push_echoed(&mut self, echoed: EchoedBytes) {
        let start = self.len.next_multiple_of(4);
        self.bytes[self.len..start].fill(NO_OPERATION);
        self.len = start + echoed.padded_len();
        echoed.write(&mut self.bytes[start..self.len]);
    }

    #[inline]
    fn push<const N: usize>(&mut self, option: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&option);
        self.len += N;
    }

    /// Writes them to `place`, which has the same length.
    #[inline]
    fn write(&self, place: &mut [u8]) {
        // A constant size compiles to a move or two instead of a call.
        match <&mut [u8; TIMESTAMP_OPTION]>::try_from(&mut *place) {
            Ok(place) => place.copy_from_slice(&self.bytes[..TIMESTAMP_OPTION]),
            Err(_) => place.copy_from_slice(&self.bytes[..self.len]),
        }
    }
}

#[cfg(test)]
mod tests;
