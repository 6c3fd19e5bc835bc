//! [`Report`]: the report of a qdisc, with all fields of `tc -s -d qdisc show` and its JSON.
//!
//! It prints (`Display`) as `tc` 6.1 does and serializes (`serde::Serialize`) into the shape of `tc
//! -s -j qdisc`; both also say what `tc` cannot: how long packets stayed.

mod cake;
mod json;
mod parts;
mod tc;
#[cfg(test)]
mod tests;
mod text;
mod tree;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_qdisc::stats::{Flow, Sojourn};
use tautline_qdisc::{ClassId, Common, units};

pub(crate) use cake::tin_report;
pub(crate) use tree::Parent;

/// A qdisc's or a class's name, parameters and counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// `tc`'s name of the kind: `fq_codel`.
    pub kind: &'static str,
    /// The qdisc's handle (`1:`) or the class's name (`1:10`), if it is part of a tree.
    pub id: Option<ClassId>,
    /// Of a class: the class above it. `None` for a class right below its qdisc, and where
    /// classes are nested in `classes`.
    pub parent: Option<ClassId>,
    /// Parameters, in `tc`'s names, order and units.
    pub options: Vec<(&'static str, Value)>,
    /// The counters that every qdisc has; filled in by [`Stats`](tautline_qdisc::Stats) around
    /// the qdisc.
    pub common: Option<Common>,
    /// Dequeues that a shaper refused for lack of tokens, or congestion signals (RED).
    pub overlimits: u64,
    /// Packets put back.
    pub requeues: u64,
    /// Counters of this kind alone, in `tc`'s names (its "xstats").
    pub counters: Vec<(&'static str, Value)>,
    /// Sojourn times, which `tc` does not report. Filled in by [`Stats`](tautline_qdisc::Stats).
    pub sojourn: Option<Sojourn>,
    /// Packets and bytes of each flow. Filled in by [`FlowStats`](tautline_qdisc::FlowStats).
    pub flows: Vec<Flow>,
    /// Reports of its classes (HTB's classes, CAKE's tins), each with the qdisc below it among
    /// its `children`.
    pub classes: Vec<Self>,
    /// Reports of qdiscs below or wrapped.
    pub children: Vec<Self>,
}

impl Report {
    /// The largest limit in packets of the qdiscs in this tree; 0 if none has one.
    ///
    /// ```
    /// use tautline_base::Packet;
    ///
    /// let words = "tbf rate 1mbit burst 3kb limit 1mb; fq_codel";
    /// let qdisc = tautline_tc::build::<Packet<()>>(words)?;
    /// assert_eq!(qdisc.report().packet_limit(), 10_240);
    /// # Ok::<(), tautline_tc::ParseError>(())
    /// ```
    pub fn packet_limit(&self) -> u64 {
        let own = self.options.iter().map(|option| match option {
            ("limit", Value::Packets(packets)) => *packets,
            _ => 0,
        });
        let below = self.classes.iter().chain(&self.children);
        own.chain(below.map(Self::packet_limit)).max().unwrap_or(0)
    }

    /// The qdiscs alone: prints as `tc -s -d qdisc show`, serializes as `tc -s -j qdisc show`,
    /// an array of objects.
    pub fn qdisc_show(&self) -> QdiscShow<'_> {
        QdiscShow(self)
    }

    /// The classes alone: prints as `tc -s -d class show`, serializes as `tc -s -j class show`, an
    /// array of objects.
    pub fn class_show(&self) -> ClassShow<'_> {
        ClassShow(self)
    }
}

/// The qdiscs of a report in a row; see [`Report::qdisc_show`].
#[derive(Clone, Copy, Debug)]
pub struct QdiscShow<'a>(&'a Report);

/// The classes of a report in a row; see [`Report::class_show`].
#[derive(Clone, Copy, Debug)]
pub struct ClassShow<'a>(&'a Report);

/// One parameter or counter, with its unit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A plain number.
    Count(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A number of packets: `1000p`.
    Packets(u64),
    /// An amount of data: `32Mb`; in JSON bytes.
    Size(Bytes),
    /// A time: `5ms`; in JSON microseconds, but nanoseconds where `fq` of `tc` has them.
    Time(Duration),
    /// A rate: `10Mbit`; in JSON bytes per second.
    Rate(Rate),
    /// A share of one: `0.02`, or `2%` where `tc` prints percents.
    Share(f64),
    /// A bare word in text (`ecn`), `true` or `false` in JSON. False prints nothing in text.
    Flag(bool),
    /// A name: `rfc8289`.
    Word(String),
    /// A list of numbers: a priomap.
    List(Vec<u64>),
}

impl Value {
    /// A word value.
    pub fn word(word: impl Into<String>) -> Self {
        Self::Word(word.into())
    }

    /// Nothing to report: a zero, or a flag that is off.
    fn is_zero(&self) -> bool {
        match self {
            Self::Count(count) | Self::Packets(count) => *count == 0,
            Self::Signed(count) => *count == 0,
            Self::Size(size) => *size == Bytes::ZERO,
            Self::Time(time) => time.is_zero(),
            Self::Rate(rate) => *rate == Rate::ZERO,
            Self::Share(share) => *share == 0.0,
            Self::Flag(set) => !set,
            Self::Word(word) => word.is_empty(),
            Self::List(numbers) => numbers.is_empty(),
        }
    }
}

impl fmt::Display for Value {
    /// As `tc` prints it. A flag that is off prints nothing, one that is on nothing either: its
    /// name says all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Signed(count) => write!(f, "{count}"),
            Self::Packets(count) => write!(f, "{count}p"),
            Self::Size(size) => f.write_str(&units::size(*size)),
            Self::Time(time) => f.write_str(&units::time(*time)),
            Self::Rate(rate) => f.write_str(&units::rate(*rate)),
            Self::Share(share) => write!(f, "{share}"),
            Self::Flag(_) => Ok(()),
            Self::Word(word) => f.write_str(word),
            Self::List(numbers) => {
                let mut separator = "";
                numbers.iter().try_for_each(|number| {
                    write!(f, "{separator}{number}")?;
                    separator = " ";
                    Ok(())
                })
            }
        }
    }
}
