//! `u32`'s words: `match ip dport 80 0xffff`, `ht 1:2:`, `link 1: hashkey mask 0xff at 12`, `offset
//! at 0 mask 0xf00 shift 6`.

use core::fmt;
use core::net::IpAddr;

use tautline_qdisc::filter::{
    Field, HashKey, Key, Link, ListId, Masked, Offset, Prefix, ROOT, Selector,
};
use tautline_qdisc::units;

use super::action::DSFIELD;
use super::flower::IP_PROTO;
use crate::words::parameter::*;
use crate::words::{Expected, ParseError, Word, Words};

const HEADERS: Expected = Expected::OneOf(&[
    "ip", "ip6", "tcp", "udp", "icmp", "u8", "u16", "u32", "mark",
]);
const TABLE: &str = "a table, e.g. 1:";
const MASK: &str = "a mask, e.g. 0xffff";
const VALUE: &str = "a value, e.g. 80 or 0x50";
const OFFSET: &str = "an offset, e.g. 20 or nexthdr+0";

/// A field of a header: the header and its name, its offset and bits, and the bits of the last octet
/// below the field. Fields of `ip` are counted from the IP header on, as if that had no options;
/// those of `tcp`, `udp` and `icmp` from the header behind.
type Named = (&'static str, &'static str, i32, u32, u32);

const FIELDS: [Named; 28] = [
    ("ip", "tos", 1, 8, 0),
    ("ip", "dsfield", 1, 8, 0),
    ("ip", "precedence", 1, 8, 0),
    ("ip", "ihl", 0, 8, 0),
    ("ip", "protocol", 9, 8, 0),
    ("ip", "sport", 20, 16, 0),
    ("ip", "dport", 22, 16, 0),
    ("ip", "icmp_type", 20, 8, 0),
    ("ip", "icmp_code", 21, 8, 0),
    ("ip6", "priority", 0, 16, 4),
    ("ip6", "tos", 0, 16, 4),
    ("ip6", "dsfield", 0, 16, 4),
    ("ip6", "flowlabel", 0, 32, 0),
    ("ip6", "protocol", 6, 8, 0),
    ("ip6", "sport", 40, 16, 0),
    ("ip6", "dport", 42, 16, 0),
    ("ip6", "icmp_type", 40, 8, 0),
    ("ip6", "icmp_code", 41, 8, 0),
    ("tcp", "src", 0, 16, 0),
    ("tcp", "sport", 0, 16, 0),
    ("tcp", "dst", 2, 16, 0),
    ("tcp", "dport", 2, 16, 0),
    ("udp", "src", 0, 16, 0),
    ("udp", "sport", 0, 16, 0),
    ("udp", "dst", 2, 16, 0),
    ("udp", "dport", 2, 16, 0),
    ("icmp", "type", 0, 8, 0),
    ("icmp", "code", 1, 8, 0),
];

/// Flags of the IPv4 header: name, value, mask of the 16-bit field at 6.
const FRAGMENTS: [(&str, u32, u32); 4] = [
    ("nofrag", 0, 0x3fff),
    ("firstfrag", 0, 0x1fff),
    ("df", 0x4000, 0x4000),
    ("mf", 0x2000, 0x2000),
];

/// [`write`] prints them.
impl Parameters for Selector {
    const KIND: &'static str = "u32";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        custom!(
            "match",
            [
                "ip|ip6|tcp|udp|icmp FIELD VALUE MASK",
                "u8|u16|u32 VALUE MASK at [nexthdr+]OFFSET",
                "mark VALUE MASK"
            ],
            |selector, option, words| add_match(selector, option, words)?,
            |_| None
        ),
        custom!(
            "ht",
            ["TABLE:BUCKET:"],
            |selector, option, words| {
                // 800 is the list that all packets go through.
                let place = words.value(option, place, "a list of a table, e.g. 1:2:")?;
                selector.place = (place.table != ROOT).then_some(place);
            },
            |_| None
        ),
        custom!(
            "link",
            ["TABLE:"],
            |selector, option, words| {
                let table = words.value(option, table, TABLE)?;
                selector.link.get_or_insert_default().table = table;
            },
            |_| None
        ),
        custom!(
            "hashkey",
            ["mask MASK at OFFSET"],
            |selector, option, words| {
                let link = selector.link.as_mut().ok_or_else(|| option.needs("link"))?;
                let expected = "mask MASK at OFFSET";
                words.value(option, |word| (word == "mask").then_some(()), expected)?;
                let mask = words.value(option, mask, MASK)?;
                words.value(option, |word| (word == "at").then_some(()), expected)?;
                let at = words.value(option, offset4, "a multiple of 4")?;
                link.hash = Some(HashKey { at, mask });
            },
            |_| None
        ),
        custom!(
            "offset",
            ["[at OFFSET] [mask MASK] [shift SHIFT] [plus PLUS] [eat]"],
            |selector, option, words| {
                let link = selector.link.as_mut().ok_or_else(|| option.needs("link"))?;
                read_offset(&mut link.offset, words)?;
            },
            |_| None
        ),
    ];
}

/// Reads `[at OFFSET] [mask MASK] [shift SHIFT] [plus PLUS] [eat]`, in any order.
fn read_offset(offset: &mut Offset, words: &mut Words<'_>) -> Result<(), ParseError> {
    let mut field = Field {
        at: 0,
        mask: 0,
        shift: 0,
    };
    while let Some(word) = words.peek() {
        match word.text {
            "at" | "mask" | "shift" | "plus" | "eat" => words.word(),
            _ => break,
        };
        match word.text {
            "at" => field.at = words.value(word, |text| text.parse().ok(), "an offset, e.g. 0")?,
            "mask" => field.mask = words.value(word, |text| mask(text)?.try_into().ok(), MASK)?,
            "shift" => {
                let shift = |text: &str| text.parse().ok().filter(|shift| *shift < 16);
                field.shift = words.value(word, shift, "from 0 to 15")?;
            }
            "plus" => {
                offset.plus = words.value(word, |text| text.parse().ok(), "bytes, e.g. 20")?
            }
            _ => offset.eat = true,
        }
    }
    offset.field = (field.mask != 0).then_some(field);
    Ok(())
}

fn add_match(
    selector: &mut Selector,
    option: Word<'_>,
    words: &mut Words<'_>,
) -> Result<(), ParseError> {
    let header = words.word().ok_or_else(|| option.lacks(HEADERS))?;
    let bits = match header.text {
        "u8" => 8,
        "u16" => 16,
        "u32" => 32,
        "mark" => {
            let mark = |text: &str| units::parse_c_integer(text)?.try_into().ok();
            let value = words.value(header, mark, "a mark, e.g. 0x10")?;
            let mask = |text: &str| units::parse_c_integer(text)?.try_into().ok();
            selector.mark = Some(Masked::new(value, words.value(header, mask, MASK)?));
            return Ok(());
        }
        "ip" | "ip6" | "tcp" | "udp" | "icmp" => return add_field(selector, header, words),
        _ => return Err(header.bad_value(option.text, HEADERS)),
    };
    let value = words.value(header, |text| number(text, bits), VALUE)?;
    let mask = read_mask(header, bits, words)?;
    let place = |text: &str| {
        let (behind, digits) = match text.strip_prefix("nexthdr+") {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let at = signed(digits)?;
        let is_aligned = at.unsigned_abs().is_multiple_of(bits / 8);
        is_aligned.then_some((behind, at))
    };
    let (behind, at) = if words.accept("at") {
        words.value(header, place, OFFSET)?
    } else {
        (false, 0)
    };
    ask_bits(selector, header, at, behind, bits, Masked { value, mask })
}

fn read_mask(name: Word<'_>, bits: u32, words: &mut Words<'_>) -> Result<u32, ParseError> {
    words.value(
        name,
        |text| mask(text).filter(|mask| fits(*mask, bits)),
        MASK,
    )
}

fn add_field(
    selector: &mut Selector,
    header: Word<'_>,
    words: &mut Words<'_>,
) -> Result<(), ParseError> {
    const NAMES: &str = "src, dst, sport, dport, protocol, dsfield... of ip or ip6; src, dst of tcp or udp; type, code of icmp";
    let name = words.word().ok_or_else(|| header.lacks(NAMES))?;
    if let ("ip" | "ip6", "src" | "dst") = (header.text, name.text) {
        let four = header.text == "ip";
        let family = |prefix: &Prefix| prefix.address().is_ipv4() == four;
        let expected = "addresses of this family, e.g. 10.0.0.0/8 or 2001:db8::1";
        let prefix = words.value(name, |text| text.parse().ok().filter(family), expected)?;
        return ask_prefix(selector, header, prefix, name.text == "src");
    }
    let flag = |(flag, ..): &&(&str, _, _)| header.text == "ip" && *flag == name.text;
    if let Some(&(_, value, mask)) = FRAGMENTS.iter().find(flag) {
        return ask_bits(selector, header, 6, false, 16, Masked { value, mask });
    }
    let is_named = |field: &&Named| (field.0, field.1) == (header.text, name.text);
    let field = FIELDS.iter().find(is_named);
    let &(.., at, wide, low) = field.ok_or_else(|| name.bad_value(header.text, NAMES))?;
    let bits = wide - 2 * low;
    let value = match name.text {
        "tos" | "dsfield" | "priority" => words.read(name, &DSFIELD)?.into(),
        "protocol" => words.read(name, &IP_PROTO)?.into(),
        _ => words.value(name, |text| number(text, bits), VALUE)?,
    };
    let field = Masked {
        value: value << low,
        mask: read_mask(name, bits, words)? << low,
    };
    let behind = !matches!(header.text, "ip" | "ip6");
    ask_bits(selector, header, at, behind, wide, field)
}

/// Asks for the field of `bits` bits at `at`, which lies within one word.
fn ask_bits(
    selector: &mut Selector,
    at_word: Word<'_>,
    at: i32,
    behind: bool,
    bits: u32,
    field: Masked<u32>,
) -> Result<(), ParseError> {
    let up = 32 - bits - 8 * (at & 3).unsigned_abs();
    let word = Masked::new(field.value << up, field.mask << up);
    if selector.ask(Key {
        at: at & !3,
        behind,
        word,
    }) {
        return Ok(());
    }
    Err(at_word.bad_value(
        "match",
        "something that does not contradict an earlier match",
    ))
}

fn ask_prefix(
    selector: &mut Selector,
    header: Word<'_>,
    prefix: Prefix,
    source: bool,
) -> Result<(), ParseError> {
    match prefix.address() {
        IpAddr::V4(four) => {
            let (value, mask) = (four.to_bits(), prefix.mask() as u32);
            let at = if source { 12 } else { 16 };
            ask_bits(selector, header, at, false, 32, Masked { value, mask })
        }
        IpAddr::V6(six) => {
            let (value, mask) = (six.to_bits(), prefix.mask());
            let at = if source { 8 } else { 24 };
            (0..4).zip([96, 64, 32, 0]).try_for_each(|(index, down)| {
                let word = Masked {
                    value: (value >> down) as u32,
                    mask: (mask >> down) as u32,
                };
                if word.mask == 0 {
                    Ok(())
                } else {
                    ask_bits(selector, header, at + 4 * index, false, 32, word)
                }
            })
        }
    }
}

fn fits(number: u32, bits: u32) -> bool {
    u64::from(number) < 1 << bits
}

/// Reads a number of at most `bits` bits.
fn number(text: &str, bits: u32) -> Option<u32> {
    u32::try_from(units::parse_integer(text)?)
        .ok()
        .filter(|number| fits(*number, bits))
}

/// Reads a mask: hexadecimal, with or without `0x`.
fn mask(text: &str) -> Option<u32> {
    units::parse_hexadecimal(text)?.try_into().ok()
}

fn signed(text: &str) -> Option<i32> {
    let (digits, sign) = text
        .strip_prefix('-')
        .map_or((text, 1), |digits| (digits, -1));
    let size = i32::try_from(units::parse_integer(digits)?).ok()?;
    Some(sign * size)
}

/// Reads an offset that is a multiple of 4.
fn offset4(text: &str) -> Option<i32> {
    signed(text).filter(|at| at & 3 == 0)
}

/// Reads a table's handle: `1:`.
pub(super) fn table(text: &str) -> Option<u16> {
    let digits = text.strip_suffix(':')?;
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16)
        .ok()
        .filter(|handle| plain && (1..0x1000).contains(handle))
}

/// Reads a list's name: `1:2:`, `1:` or `1::` for a table's first.
fn place(text: &str) -> Option<ListId> {
    let list = text.strip_suffix(':')?;
    let (name, bucket) = match list.split_once(':') {
        Some((_, "")) => (text.get(..=list.find(':')?)?, 0),
        Some((_, digits)) => (
            text.get(..=list.find(':')?)?,
            u8::try_from(mask(digits)?).ok()?,
        ),
        None => (text, 0),
    };
    Some(ListId {
        table: table(name)?,
        bucket,
    })
}

/// Writes the conditions in `tc`'s words, each after a space.
pub(super) fn write(f: &mut fmt::Formatter<'_>, selector: &Selector) -> fmt::Result {
    if let Some(ListId { table, bucket }) = selector.place {
        write!(f, " ht {table:x}:{bucket:x}:")?;
    }
    if let Some(Masked { value, mask }) = selector.mark {
        write!(f, " match mark {value:#x} {mask:#x}")?;
    }
    selector.keys.iter().try_for_each(|key| write_key(f, key))?;
    let Some(Link {
        table,
        hash,
        offset,
    }) = selector.link
    else {
        return Ok(());
    };
    write!(f, " link {table:x}:")?;
    if let Some(HashKey { at, mask }) = hash {
        write!(f, " hashkey mask {mask:#x} at {at}")?;
    }
    if offset == Offset::default() {
        return Ok(());
    }
    f.write_str(" offset")?;
    if let Some(Field { at, mask, shift }) = offset.field {
        write!(f, " at {at} mask {mask:#x} shift {shift}")?;
    }
    write!(
        f,
        " plus {}{}",
        offset.plus,
        if offset.eat { " eat" } else { "" }
    )
}

fn write_key(f: &mut fmt::Formatter<'_>, key: &Key) -> fmt::Result {
    let Key {
        at,
        behind,
        word: Masked { value, mask },
    } = key;
    let behind = if *behind { "nexthdr+" } else { "" };
    write!(f, " match u32 {value:#010x} {mask:#010x} at {behind}{at}")
}
