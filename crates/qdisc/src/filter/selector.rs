//! [`Selector`]: the words of a packet that a `u32` rule compares, and the table of further rules
//! that it may link to.
//!
//! Offsets count from the network header and are multiples of 4; words are big-endian. A word that
//! extends beyond the end of the packet does not match. (In Linux it ends the search in all `u32`
//! rules of the same preference, so that one such rule hides those after it. Not reproduced here.)

use alloc::vec::Vec;

use tautline_base::Item;
use tautline_base::headers::{Headers, u16_at, u32_at};

use super::masked::Masked;

/// The table of rules that name none.
pub const ROOT: u16 = 0x800;

/// One word to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Offset from the network header, a multiple of 4; negative in the link header.
    pub at: i32,
    /// The offset counts from the next header (`nexthdr+`), found by the [`Link`] to this table.
    pub behind: bool,
    /// The expected value.
    pub word: Masked<u32>,
}

/// A table's list of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListId {
    /// Handle of the table.
    pub table: u16,
    /// Number of the list.
    pub bucket: u8,
}

/// The comparisons of a `u32` rule, its table and its link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The list it stands in; `None` for the list that all packets go through.
    pub place: Option<ListId>,
    /// The firewall mark that the packet must have.
    pub mark: Option<Masked<u32>>,
    /// Words that must all match.
    pub keys: Vec<Key>,
    /// The table to search next. If nothing matches there, the rule itself decides, if it has a
    /// class or actions.
    pub link: Option<Link>,
}

/// The link from a rule to a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Handle of the table.
    pub table: u16,
    /// The word that chooses the list; `None` for the first.
    pub hash: Option<HashKey>,
    /// The base of the offsets in the table.
    pub offset: Offset,
}

/// The word that chooses a list of a table: its masked bits, shifted down to bit 0, modulo the
/// divisor of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey {
    /// Its offset, a multiple of 4.
    pub at: i32,
    /// Mask of the bits that count.
    pub mask: u32,
}

/// Length of a header: `plus`, and `(field & mask) >> shift` if a field of the header gives it;
/// rounded up to a multiple of 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// The fixed part.
    pub plus: u16,
    /// The part read from a 16-bit field of the packet.
    pub field: Option<Field>,
    /// All offsets in the table count from the next header, not only those of `nexthdr+` keys.
    pub eat: bool,
}

/// A 16-bit field that holds a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its offset.
    pub at: i32,
    /// Mask of the bits that count.
    pub mask: u16,
    /// Right shift of the masked bits; below 16.
    pub shift: u8,
}

/// A table of lists of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name, from 1 to 0xfff but 0x800, which `tc` calls the list that all packets go through.
    pub handle: u16,
    /// Number of lists: a power of two up to 256.
    pub divisor: u16,
}

/// The point that places count from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    /// From the packet's first byte.
    pub(super) base: i64,
    /// Additional offset of the next header.
    pub(super) behind: i64,
}

impl Selector {
    /// True if `packet` has all the words it asks for.
    pub(super) fn matches<P: Item>(&self, packet: &P, headers: &Headers, origin: Origin) -> bool {
        self.mark.is_none_or(|mark| mark.matches(packet.mark()))
            && self.keys.iter().all(|key| {
                let from = if key.behind {
                    origin.base + origin.behind
                } else {
                    origin.base
                };
                word(packet, headers, from + i64::from(key.at))
                    .is_some_and(|found| key.word.matches(found))
            })
    }

    /// Adds a word; false if it contradicts another at the same place.
    pub fn ask(&mut self, key: Key) -> bool {
        match self
            .keys
            .iter_mut()
            .find(|own| (own.at, own.behind) == (key.at, key.behind))
        {
            Some(own) => {
                let common = own.word.mask & key.word.mask;
                own.word.mask |= key.word.mask;
                let agree = (own.word.value ^ key.word.value) & common == 0;
                own.word.value |= key.word.value;
                agree
            }
            None => {
                self.keys.push(key);
                true
            }
        }
    }
}

impl Link {
    /// The list of a table of `divisor` lists that `packet` goes to; `None` if the word that
    /// chooses lies beyond its end.
    pub(super) fn bucket<P: Item>(
        &self,
        packet: &P,
        headers: &Headers,
        base: i64,
        divisor: usize,
    ) -> Option<usize> {
        let Some(HashKey { at, mask }) = self.hash else {
            return Some(0);
        };
        let folded = (word(packet, headers, base + i64::from(at))? & mask)
            .checked_shr(mask.trailing_zeros());
        Some(folded.unwrap_or(0) as usize & (divisor - 1))
    }

    /// The base of the offsets in the table's rules; `None` if that, or the field that gives it,
    /// lies beyond the packet's end.
    pub(super) fn origin<P: Item>(&self, packet: &P, base: i64) -> Option<Origin> {
        let told = match self.offset.field {
            Some(Field { at, mask, shift }) => {
                let field = u16_at(
                    packet.headers(),
                    usize::try_from(base + i64::from(at)).ok()?,
                )?;
                (field & mask).checked_shr(shift.into()).unwrap_or(0)
            }
            None => 0,
        };
        let ahead = (i64::from(self.offset.plus) + i64::from(told) + 3) & !3;
        let origin = if self.offset.eat {
            Origin {
                base: base + ahead,
                behind: 0,
            }
        } else {
            Origin {
                base,
                behind: ahead,
            }
        };
        (origin.base < packet.headers().len() as i64).then_some(origin)
    }
}

/// The word at `at`. Missing bytes of a word that begins before the packet count as 0 (`match u16
/// ... at -14`, the link header's first bytes).
fn word<P: Item>(packet: &P, headers: &Headers, at: i64) -> Option<u32> {
    let bytes = packet.headers();
    let Ok(at) = usize::try_from(at) else {
        let missing = usize::try_from(-at).ok().filter(|missing| *missing < 4)?;
        let mut octets = [0; 4];
        octets[missing..].copy_from_slice(bytes.get(..4 - missing)?);
        return Some(u32::from_be_bytes(octets));
    };
    let word = u32_at(bytes, at)?;
    let tos = u32::from(packet.tos());
    Some(match headers.ip {
        Some(ip) if ip.at == at && ip.source.is_ipv4() => word & 0xff00_ffff | tos << 16,
        Some(ip) if ip.at == at => word & 0xf00f_ffff | tos << 20,
        _ => word,
    })
}
