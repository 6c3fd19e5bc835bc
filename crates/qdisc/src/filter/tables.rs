//! [`Tables`]: `u32`'s tables, and [`Walk`], the way through them: from list to list, at most
//! [`DEPTH`] deep, without recursion.

use alloc::vec;
use alloc::vec::Vec;

use tautline_base::Item;
use tautline_base::headers::Headers;

use super::selector::{Link, ListId, Origin, Table};

/// Most nested tables (Linux's).
const DEPTH: usize = 8;

/// Every table with its lists of rules, by handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables(Vec<Lists>);

#[derive(Clone, Debug)]
struct Lists {
    handle: u16,
    /// Numbers of rules, in order.
    lists: Vec<Vec<usize>>,
}

impl Tables {
    fn find(&self, handle: u16) -> Result<usize, usize> {
        self.0.binary_search_by_key(&handle, |lists| lists.handle)
    }

    /// Number of lists in the table, if it exists.
    pub(super) fn divisor(&self, handle: u16) -> Option<usize> {
        self.find(handle)
            .ok()
            .map(|index| self.0[index].lists.len())
    }

    /// Adds a table, without rules, unless there is one of this handle.
    pub(super) fn add(&mut self, table: Table) {
        if let Err(index) = self.find(table.handle) {
            let lists = vec![Vec::new(); table.divisor.into()];
            self.0.insert(
                index,
                Lists {
                    handle: table.handle,
                    lists,
                },
            );
        }
    }

    /// Appends the rule number `rule` to the list at `place`. False if there is no such list.
    pub(super) fn append(&mut self, place: ListId, rule: usize) -> bool {
        let list = self
            .find(place.table)
            .ok()
            .and_then(|index| self.0[index].lists.get_mut(usize::from(place.bucket)));
        list.map(|list| list.push(rule)).is_some()
    }
}

/// A list that is being gone through.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// The rule that led here.
    rule: usize,
    table: usize,
    bucket: usize,
    next: usize,
    origin: Origin,
}

/// The way of one packet through the tables.
#[derive(Debug, Default)]
pub(super) struct Walk {
    levels: [Level; DEPTH],
    depth: usize,
}

/// The next step of the walk.
pub(super) enum Step {
    /// This rule, from this origin.
    Try(usize, Origin),
    /// The list that this rule led to had nothing to say.
    Return(usize),
}

impl Walk {
    /// Goes where `link`, of the rule number `rule` whose places count from `base`, leads. False if
    /// it leads nowhere.
    pub(super) fn enter<P: Item>(
        &mut self,
        tables: &Tables,
        rule: usize,
        link: &Link,
        packet: &P,
        headers: &Headers,
        base: i64,
    ) -> Entered {
        let Some(level) = self.levels.get_mut(self.depth) else {
            return Entered::TooDeep;
        };
        let list = tables.find(link.table).ok().and_then(|table| {
            let bucket = link.bucket(packet, headers, base, tables.0[table].lists.len())?;
            Some(Level {
                rule,
                table,
                bucket,
                next: 0,
                origin: link.origin(packet, base)?,
            })
        });
        let Some(list) = list else {
            return Entered::Nowhere;
        };
        *level = list;
        self.depth += 1;
        Entered::List
    }

    /// The next step; `None` at the end.
    pub(super) fn step(&mut self, tables: &Tables) -> Option<Step> {
        let level = self.levels.get_mut(self.depth.checked_sub(1)?)?;
        match tables.0[level.table].lists[level.bucket].get(level.next) {
            Some(rule) => {
                level.next += 1;
                Some(Step::Try(*rule, level.origin))
            }
            None => {
                self.depth -= 1;
                Some(Step::Return(level.rule))
            }
        }
    }
}

/// Target of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// To a list.
    List,
    /// To no list: there is no such table, or the packet ends before what would choose one.
    Nowhere,
    /// Too deep.
    TooDeep,
}
