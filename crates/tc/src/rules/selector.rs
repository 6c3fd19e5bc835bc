//! `u32`'s words: `match ip dport 80 0xffff`, `ht 1:2:`, `link 1: hashkey mask 0xff at 12`, `offset
//! at 0 mask 0xf00 shift 6`.

use core::fmt;
use core::net::IpAddr;

use tautline_qdisc::filter::{
    Field, HashKey, Key, Link, ListId, Masked, Offset, Prefix, ROOT, Selector,
};
use tautline_qdisc::units;

use super::action::{DSFIELD, dsfield};
use super::flower::ip_proto;
use crate::words::{ParseError, Problem, Word, Words};

pub(super) const HELP: &str = "match ip|ip6|tcp|udp|icmp FIELD VALUE MASK, match u8|u16|u32 VALUE MASK at [nexthdr+]OFFSET, \
    match mark VALUE MASK, ht TABLE:BUCKET:, link TABLE:, hashkey mask MASK at OFFSET, \
    offset [at OFFSET] [mask MASK] [shift SHIFT] [plus PLUS] [eat], divisor DIVISOR, classid CLASS, action ACTION";
const TABLE: &str = "a table, e.g. 1:";
const MASK: &str = "a mask, e.g. 0xffff";
const OFFSET: &str = "an offset, e.g. 20 or nexthdr+0";

/// A field of a header, for which there is a name.
struct Named {
    header: &'static str,
    name: &'static str,
    at: i32,
    bits: u32,
    /// Bits of the last octet below the field.
    low: u32,
}

const fn named(header: &'static str, name: &'static str, at: i32, bits: u32) -> Named {
    Named {
        header,
        name,
        at,
        bits,
        low: 0,
    }
}

/// Fields behind `ip` are counted from the IP header on, as if that had no options; those behind
/// `tcp`, `udp`, `icmp` from the header behind.
const FIELDS: [Named; 28] = [
    named("ip", "tos", 1, 8),
    named("ip", "dsfield", 1, 8),
    named("ip", "precedence", 1, 8),
    named("ip", "ihl", 0, 8),
    named("ip", "protocol", 9, 8),
    named("ip", "sport", 20, 16),
    named("ip", "dport", 22, 16),
    named("ip", "icmp_type", 20, 8),
    named("ip", "icmp_code", 21, 8),
    Named {
        header: "ip6",
        name: "priority",
        at: 0,
        bits: 16,
        low: 4,
    },
    Named {
        header: "ip6",
        name: "tos",
        at: 0,
        bits: 16,
        low: 4,
    },
    Named {
        header: "ip6",
        name: "dsfield",
        at: 0,
        bits: 16,
        low: 4,
    },
    named("ip6", "flowlabel", 0, 32),
    named("ip6", "protocol", 6, 8),
    named("ip6", "sport", 40, 16),
    named("ip6", "dport", 42, 16),
    named("ip6", "icmp_type", 40, 8),
    named("ip6", "icmp_code", 41, 8),
    named("tcp", "src", 0, 16),
    named("tcp", "sport", 0, 16),
    named("tcp", "dst", 2, 16),
    named("tcp", "dport", 2, 16),
    named("udp", "src", 0, 16),
    named("udp", "sport", 0, 16),
    named("udp", "dst", 2, 16),
    named("udp", "dport", 2, 16),
    named("icmp", "type", 0, 8),
    named("icmp", "code", 1, 8),
];

/// Flags of the IPv4 header: name, value, mask of the 16-bit field at 6.
const FRAGMENTS: [(&str, u32, u32); 4] = [
    ("nofrag", 0, 0x3fff),
    ("firstfrag", 0, 0x1fff),
    ("df", 0x4000, 0x4000),
    ("mf", 0x2000, 0x2000),
];

/// Reads the value of `option`; false if there is no such option.
pub(super) fn set(
    selector: &mut Selector,
    option: Word<'_>,
    words: &mut Words<'_>,
) -> Result<bool, ParseError> {
    match option.text {
        "match" => add_match(selector, option, words)?,
        "ht" => {
            // 800 is the list that all packets go through.
            let place = words.value(option, place, "a list of a table, e.g. 1:2:")?;
            selector.place = (place.table != ROOT).then_some(place);
        }
        "link" => {
            selector.link.get_or_insert_default().table = words.value(option, table, TABLE)?
        }
        "hashkey" => {
            let link = needs_link(&mut selector.link, option)?;
            words.value(
                option,
                |word| (word == "mask").then_some(()),
                "mask MASK at OFFSET",
            )?;
            let mask = words.value(option, mask, MASK)?;
            words.value(
                option,
                |word| (word == "at").then_some(()),
                "mask MASK at OFFSET",
            )?;
            link.hash = Some(HashKey {
                at: words.value(option, offset4, "a multiple of 4")?,
                mask,
            });
        }
        "offset" => {
            let link = needs_link(&mut selector.link, option)?;
            read_offset(&mut link.offset, words)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
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
    const HEADERS: &str = "ip, ip6, tcp, udp, icmp, u8, u16, u32 or mark";
    let header = words.peek().unwrap_or(option);
    let name = words.value(
        option,
        |text| Some(alloc::string::String::from(text)),
        HEADERS,
    )?;
    let bits = match name.as_str() {
        "u8" => 8,
        "u16" => 16,
        "u32" => 32,
        "mark" => {
            let value = words.value(header, |text| number(text, 32), "a mark, e.g. 0x10")?;
            selector.mark = Some(Masked::new(value, words.value(header, mask, MASK)?));
            return Ok(());
        }
        "ip" | "ip6" | "tcp" | "udp" | "icmp" => return add_field(selector, header, words),
        _ => {
            let problem = Problem::BadValue {
                option: option.text.into(),
                word: name,
                expected: HEADERS,
            };
            return Err(ParseError {
                at: header.span(),
                problem,
            });
        }
    };
    let value = words.value(
        header,
        |text| number(text, bits),
        "a value, e.g. 80 or 0x50",
    )?;
    let mask = words.value(
        header,
        |text| mask(text).filter(|mask| fits(*mask, bits)),
        MASK,
    )?;
    let place = |text: &str| {
        let (behind, digits) = text
            .strip_prefix("nexthdr+")
            .map_or((false, text), |digits| (true, digits));
        let at: i32 = signed(digits)?;
        at.unsigned_abs()
            .is_multiple_of(bits / 8)
            .then_some((behind, at))
    };
    let (behind, at) = if words.accept("at") {
        words.value(header, place, OFFSET)?
    } else {
        (false, 0)
    };
    ask_bits(selector, header, at, behind, bits, Masked { value, mask })
}

fn add_field(
    selector: &mut Selector,
    header: Word<'_>,
    words: &mut Words<'_>,
) -> Result<(), ParseError> {
    const NAMES: &str = "src, dst, sport, dport, protocol, dsfield... of ip or ip6; src, dst of tcp or udp; type, code of icmp";
    let name = words.peek().unwrap_or(header);
    if let ("ip" | "ip6", "src" | "dst") = (header.text, name.text) {
        words.word();
        let four = header.text == "ip";
        let family = |prefix: &Prefix| prefix.address().is_ipv4() == four;
        let prefix = words.value(
            name,
            |text| text.parse().ok().filter(family),
            "addresses of this family, e.g. 10.0.0.0/8 or 2001:db8::1",
        )?;
        return ask_prefix(selector, header, prefix, name.text == "src");
    }
    let flag = |(flag, ..): &&(&str, _, _)| header.text == "ip" && *flag == name.text;
    if let Some(&(_, value, mask)) = FRAGMENTS.iter().find(flag) {
        words.word();
        return ask_bits(selector, header, 6, false, 16, Masked { value, mask });
    }
    let find = |text: &str| {
        FIELDS
            .iter()
            .find(|field| field.header == header.text && field.name == text)
    };
    let field = words.value(header, find, NAMES)?;
    let bits = field.bits - 2 * field.low;
    let behind = !matches!(header.text, "ip" | "ip6");
    let value = match name.text {
        "tos" | "dsfield" | "priority" => {
            words.value(name, |text| dsfield(text).map(u32::from), DSFIELD)?
        }
        "protocol" => {
            let protocol = |text: &str| ip_proto(text).map(u32::from);
            words.value(name, protocol, "tcp, udp, icmp... or a number")?
        }
        _ => words.value(name, |text| number(text, bits), "a value, e.g. 80 or 0x50")?,
    };
    let mask = words.value(
        name,
        |text| mask(text).filter(|mask| fits(*mask, bits)),
        MASK,
    )?;
    let bits = Masked {
        value: value << field.low,
        mask: mask << field.low,
    };
    ask_bits(selector, header, field.at, behind, field.bits, bits)
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
    let problem = Problem::BadValue {
        option: "match".into(),
        word: at_word.text.into(),
        expected: "something that does not contradict an earlier match",
    };
    Err(ParseError {
        at: at_word.span(),
        problem,
    })
}

fn ask_prefix(
    selector: &mut Selector,
    header: Word<'_>,
    prefix: Prefix,
    source: bool,
) -> Result<(), ParseError> {
    match prefix.address() {
        IpAddr::V4(four) => {
            let word = Masked {
                value: four.to_bits(),
                mask: prefix.mask() as u32,
            };
            ask_bits(
                selector,
                header,
                if source { 12 } else { 16 },
                false,
                32,
                word,
            )
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

fn needs_link<'l>(
    link: &'l mut Option<Link>,
    option: Word<'_>,
) -> Result<&'l mut Link, ParseError> {
    let problem = || Problem::MissingBefore {
        option: option.text.into(),
        needed: "link",
    };
    link.as_mut().ok_or_else(|| ParseError {
        at: option.span(),
        problem: problem(),
    })
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
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| plain)
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
