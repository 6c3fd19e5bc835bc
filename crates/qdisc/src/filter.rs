//! [`Filters`]: which class a packet belongs to, by rules in order, as `tc
//! filter` gives them (`net/ipv4/route.c` `ip_tos2prio`).
//!
//! ```
//! use tautline_qdisc::ClassId;
//! use tautline_qdisc::filter::{Filter, Filters, Keys, Matcher, Ports, Protocol};
//!
//! let mut filters = Filters::default();
//! filters.add(Filter {
//!     preference: Some(1),
//!     protocol: Protocol::IP,
//!     matcher: Matcher::Flower(Keys { dst_port: Some(Ports::one(80)), ..Keys::default() }),
//!     class: Some(ClassId::new(1, 0x10)),
//!     actions: Vec::new(),
//! })?;
//! # Ok::<(), tautline_qdisc::ConfigError>(())
//! ```

mod action;
mod classify;
mod flower;
mod masked;
mod police;
mod protocol;
mod selector;
mod tables;

use alloc::vec::Vec;

use tautline_base::ConfigError;

use crate::class::ClassId;
use crate::random::Random;

pub use action::{Action, Choice, Control, DSCP, Share};
pub use flower::Keys;
pub use masked::{Masked, NoPrefix, Ports, Prefix, ReadNumber};
pub use police::Police;
pub use protocol::Protocol;
pub use selector::{Field, HashKey, Key, Link, ListId, Offset, ROOT, Selector, Table};

use action::Memory;
use tables::Tables;

/// The preference of a first rule that names none (Linux's).
const FIRST_PREFERENCE: u16 = 0xc000;

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs to this class.
    Class(ClassId),
    /// No rule matches, or the one that decides names no class: the qdisc uses its own rule.
    Continue,
    /// It is to be dropped.
    Drop,
}

/// A rule: which packets, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Rules of lower preference are tried first, those of the same in the order they were added.
    /// `None`: one less than the lowest so far, from 49152 on, as in Linux; a rule without
    /// preference goes before all others.
    pub preference: Option<u16>,
    /// The protocols it applies to.
    pub protocol: Protocol,
    /// The match.
    pub matcher: Matcher,
    /// The class they belong to.
    pub class: Option<ClassId>,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// How a rule matches packets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matcher {
    /// All of them.
    All,
    /// By the mark: `fw`.
    Mark(Masked<u32>),
    /// By words at given offsets.
    U32(Selector),
    /// No rule but a table for `u32` rules that others link to.
    Table(Table),
    /// By fields of their headers.
    Flower(Keys),
}

impl Filter {
    /// A rule for the packets that `matcher` matches, which puts them into `class`.
    pub fn new(matcher: Matcher, class: Option<ClassId>) -> Self {
        Self {
            preference: None,
            protocol: Protocol::All,
            matcher,
            class,
            actions: Vec::new(),
        }
    }

    /// True if it decides something when what it links to does not.
    fn decides(&self) -> bool {
        self.class.is_some() || !self.actions.is_empty()
    }
}

/// A rule in use.
#[derive(Clone, Debug)]
struct Rule {
    filter: Filter,
    memories: Vec<Memory>,
    tried: u64,
    hits: u64,
}

/// An ordered list of rules.
///
/// Two lists are equal if their rules are; what they counted does not matter.
#[derive(Clone, Debug)]
pub struct Filters {
    /// In the order they were added.
    rules: Vec<Rule>,
    /// Numbers of the lists that every packet traverses, in order.
    order: Vec<usize>,
    tables: Tables,
    rng: Random,
}

impl Default for Filters {
    fn default() -> Self {
        Self::new(0)
    }
}

impl PartialEq for Filters {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleStats {
    /// Packets it was tried on.
    pub tried: u64,
    /// Packets it decided about, or changed.
    pub hits: u64,
    /// Packets above the rate of its police actions.
    pub exceeded: u64,
}

impl Filters {
    /// No rules; `random` shares will be drawn from the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rules: Vec::new(),
            order: Vec::new(),
            tables: Tables::default(),
            rng: Random::new(seed),
        }
    }

    /// The rules, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.rules.iter().map(|rule| &rule.filter)
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds a rule, or a table for `u32` rules.
    ///
    /// # Errors
    /// If a value is out of range, or a table that the rule stands in or links to does not exist.
    /// Nothing is added then.
    pub fn add(&mut self, mut filter: Filter) -> Result<(), ConfigError> {
        self.check(&filter)?;
        let lowest = self
            .order
            .first()
            .and_then(|first| self.rules[*first].filter.preference);
        let ahead = lowest.map_or(FIRST_PREFERENCE, |lowest| lowest.saturating_sub(1).max(1));
        filter.preference.get_or_insert(ahead);
        let memories = filter.actions.iter().map(Action::memory).collect();
        self.rules.push(Rule {
            filter,
            memories,
            tried: 0,
            hits: 0,
        });
        self.file(self.rules.len() - 1);
        Ok(())
    }

    /// Removes the rules of `preference`, tables of theirs too; says how many there were. Links to
    /// a table that is gone lead nowhere.
    pub fn remove(&mut self, preference: u16) -> usize {
        let before = self.rules.len();
        self.rules
            .retain(|rule| rule.filter.preference != Some(preference));
        self.order.clear();
        self.tables = Tables::default();
        (0..self.rules.len()).for_each(|index| self.file(index));
        before - self.rules.len()
    }

    /// Packets that the rules decided about, or did something to, rule by rule in the order of
    /// [`iter`](Self::iter).
    pub fn hits(&self) -> impl Iterator<Item = u64> {
        self.rules.iter().map(|rule| rule.hits)
    }

    /// Counters of each rule, in the order of [`iter`](Self::iter).
    pub fn stats(&self) -> impl Iterator<Item = RuleStats> {
        self.rules.iter().map(|rule| RuleStats {
            tried: rule.tried,
            hits: rule.hits,
            exceeded: rule.memories.iter().map(Memory::exceeded).sum(),
        })
    }

    /// Puts the rule number `index` where it will be looked for.
    fn file(&mut self, index: usize) {
        let preference = self.rules[index].filter.preference;
        match &self.rules[index].filter.matcher {
            Matcher::Table(table) => self.tables.add(*table),
            Matcher::U32(Selector {
                place: Some(place), ..
            }) => {
                // A rule whose table was removed is not found.
                self.tables.append(*place, index);
            }
            _ => {
                let at = self
                    .order
                    .partition_point(|other| self.rules[*other].filter.preference <= preference);
                self.order.insert(at, index);
            }
        }
    }

    fn check(&self, filter: &Filter) -> Result<(), ConfigError> {
        filter.actions.iter().try_for_each(Action::check)?;
        match &filter.matcher {
            Matcher::Table(Table { handle, divisor }) => {
                let free = (1..0x1000).contains(handle) && *handle != selector::ROOT;
                let free = free && self.tables.divisor(*handle).is_none();
                let allowed = "a table that does not exist yet, from 1: to fff: but 800:";
                ConfigError::check(free, "handle", format_args!("{handle:x}:"), allowed)?;
                let fits = divisor.is_power_of_two() && *divisor <= 256;
                ConfigError::check(fits, "divisor", divisor, "a power of two up to 256")
            }
            Matcher::U32(selector) => {
                if let Some(ListId { table, bucket }) = selector.place {
                    let exists = self
                        .tables
                        .divisor(table)
                        .is_some_and(|divisor| usize::from(bucket) < divisor);
                    ConfigError::check(
                        exists,
                        "ht",
                        format_args!("{table:x}:{bucket:x}:"),
                        "a list of a table made before",
                    )?;
                }
                let odd = selector
                    .keys
                    .iter()
                    .find(|key| key.at & 3 != 0)
                    .map_or(0, |key| key.at);
                ConfigError::check(odd == 0, "at", odd, "a multiple of 4")?;
                let Some(link) = selector.link else {
                    return Ok(());
                };
                let exists = self.tables.divisor(link.table).is_some();
                ConfigError::check(
                    exists,
                    "link",
                    format_args!("{:x}:", link.table),
                    "a table made before",
                )?;
                let shift = link.offset.field.map_or(0, |field| field.shift);
                ConfigError::check(shift < 16, "shift", shift, "from 0 to 15")
            }
            _ => Ok(()),
        }
    }
}
