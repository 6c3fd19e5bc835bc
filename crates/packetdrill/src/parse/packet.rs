//! Packets: TCP segments and ICMP errors.

use super::ParseError;
use super::cursor::Cursor;
use crate::options::{ACCURATE_ECN_0, ACCURATE_ECN_1, FAST_OPEN};
use crate::syntax::{IcmpError, IcmpKind, Packet, Segment, TcpOption};

/// Letters of the flags.
const FLAGS: [(char, u16); 9] = [
    ('F', 1),
    ('S', 2),
    ('R', 4),
    ('P', 8),
    ('.', 16),
    ('U', 32),
    ('E', 64),
    ('W', 128),
    ('A', 256),
];
/// Values of the ECN field of an IP header.
const ECN: [(&str, Option<u8>); 6] = [
    ("noecn", Some(0)),
    ("ect1", Some(1)),
    ("ect0", Some(2)),
    ("ce", Some(3)),
    ("ect01", None),
    ("ecn", None),
];
/// Names of ICMPv4's codes of "destination unreachable", and of ICMPv6's that mean the same.
const UNREACHABLE: [(&str, u8); 8] = [
    ("net_unreachable", 0),
    ("host_unreachable", 1),
    ("protocol_unreachable", 2),
    ("port_unreachable", 3),
    ("source_route_failed", 5),
    ("net_prohibited", 9),
    ("host_prohibited", 10),
    ("packet_filtered", 13),
];

/// A packet after its direction.
pub(super) fn packet(cursor: &mut Cursor<'_>) -> Result<Packet, ParseError> {
    cursor.skip_spaces();
    if cursor.starts_with("icmp") {
        cursor.word();
        return icmp(cursor).map(Packet::Icmp);
    }
    let mut segment = Segment::default();
    if cursor.take("[") {
        let word = cursor.take_while(|c| c != ']' && c != '\n').trim();
        let found = ECN.iter().find(|(name, _)| *name == word);
        segment.ecn = found
            .ok_or_else(|| cursor.error(format!("`{word}` is no ECN field")))?
            .1;
        cursor.expect("]")?;
    }
    let letters = cursor.take_while(|c| c == '-' || FLAGS.iter().any(|(letter, _)| *letter == c));
    if letters.is_empty() {
        return Err(cursor.error("expected the flags of a segment"));
    }
    segment.flags = FLAGS
        .iter()
        .filter(|(letter, _)| letters.contains(*letter))
        .map(|(_, bit)| bit)
        .sum();
    (segment.seq, segment.len) = range(cursor)?;
    segment.options = Some(Vec::new());
    loop {
        cursor.skip_spaces();
        if cursor.starts_with("<") {
            segment.options = options(cursor)?;
            continue;
        }
        match cursor.word() {
            "ack" => segment.ack = Some(cursor.number()?),
            "win" => segment.window = Some(cursor.number()?),
            "urg" => segment.urgent = cursor.number()?,
            "" => return Ok(Packet::Tcp(segment)),
            word => return Err(cursor.error(format!("`{word}` means nothing in a segment"))),
        }
    }
}

/// `FIRST:END(LENGTH)`
fn range(cursor: &mut Cursor<'_>) -> Result<(u32, u32), ParseError> {
    let first: u32 = cursor.number()?;
    cursor.expect(":")?;
    let end: u32 = cursor.number()?;
    cursor.expect("(")?;
    let len: u32 = cursor.number()?;
    cursor.expect(")")?;
    if first.wrapping_add(len) != end {
        return Err(cursor.error(format!("{first}:{end} is not {len} bytes long")));
    }
    Ok((first, len))
}

fn options(cursor: &mut Cursor<'_>) -> Result<Option<Vec<TcpOption>>, ParseError> {
    cursor.expect("<")?;
    if cursor.take("...") {
        cursor.expect(">")?;
        return Ok(None);
    }
    let mut options = Vec::new();
    while !cursor.take(">") {
        options.push(option(cursor)?);
        cursor.take(",");
    }
    Ok(Some(options))
}

fn option(cursor: &mut Cursor<'_>) -> Result<TcpOption, ParseError> {
    Ok(match cursor.word() {
        "nop" => TcpOption::Nop,
        "eol" => TcpOption::End,
        "mss" => TcpOption::Mss(cursor.number()?),
        "wscale" => TcpOption::WindowScale(cursor.number()?),
        "sackOK" => TcpOption::SackPermitted,
        "sack" => {
            let mut blocks = Vec::new();
            while cursor.skip_spaces_to_digit() {
                let left = cursor.number()?;
                cursor.expect(":")?;
                blocks.push((left, cursor.number()?));
            }
            TcpOption::Sack(blocks)
        }
        "TS" => {
            cursor.expect("val")?;
            let value = cursor.number()?;
            cursor.expect("ecr")?;
            TcpOption::Timestamp(value, cursor.number()?)
        }
        "FO" if cursor.take("TFO_COOKIE") => TcpOption::FastOpenCookie,
        "FO" => TcpOption::Other(FAST_OPEN, hex(cursor)?),
        "ECN" => accurate_ecn(cursor)?,
        word => return Err(cursor.error(format!("option `{word}` is not supported"))),
    })
}

/// `e0b N ceb N e1b N`, or the counts in the reverse order; those at the end may be missing.
fn accurate_ecn(cursor: &mut Cursor<'_>) -> Result<TcpOption, ParseError> {
    let (kind, names) = if cursor.take("e1b") {
        (ACCURATE_ECN_1, ["ceb", "e0b"])
    } else {
        cursor.expect("e0b")?;
        (ACCURATE_ECN_0, ["ceb", "e1b"])
    };
    let mut counts: Vec<u32> = vec![cursor.number()?];
    for name in names {
        cursor.skip_spaces();
        if !cursor.take(name) {
            break;
        }
        counts.push(cursor.number()?);
    }
    let bytes = counts
        .iter()
        .flat_map(|count| count.to_be_bytes()[1..].to_vec());
    Ok(TcpOption::Other(kind, bytes.collect()))
}

fn hex(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, ParseError> {
    let digits = cursor.word();
    let bytes = (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16));
    let bytes = bytes.collect::<Result<Vec<u8>, _>>();
    match bytes {
        Ok(bytes) if digits.len().is_multiple_of(2) => Ok(bytes),
        _ => Err(cursor.error(format!("`{digits}` is not hexadecimal"))),
    }
}

fn icmp(cursor: &mut Cursor<'_>) -> Result<IcmpError, ParseError> {
    let kind = match cursor.word() {
        "unreachable" => {
            let code = cursor.word();
            if code == "frag_needed" {
                cursor.expect("mtu")?;
                IcmpKind::TooBig(cursor.number()?)
            } else {
                let found = UNREACHABLE.iter().find(|(name, _)| *name == code);
                let found =
                    found.ok_or_else(|| cursor.error(format!("no code is called `{code}`")))?;
                IcmpKind::Unreachable(found.1)
            }
        }
        "packet_too_big" => {
            cursor.expect("mtu")?;
            IcmpKind::TooBig(cursor.number()?)
        }
        "time_exceeded" => {
            cursor.word();
            IcmpKind::TimeExceeded
        }
        word => return Err(cursor.error(format!("ICMP type `{word}` is not supported"))),
    };
    cursor.expect("[")?;
    let (seq, len) = range(cursor)?;
    cursor.expect("]")?;
    Ok(IcmpError { kind, seq, len })
}

impl Cursor<'_> {
    /// Passes spaces. True if a digit is next.
    fn skip_spaces_to_digit(&mut self) -> bool {
        self.skip_spaces();
        self.peek().is_some_and(|c| c.is_ascii_digit())
    }
}
