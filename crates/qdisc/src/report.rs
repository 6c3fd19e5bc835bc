//! [`Report`]: what a discipline tells about itself, with everything that `tc -s -d qdisc show` prints and its JSON holds.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use tautline_base::{Bytes, Rate};

use crate::class::ClassId;
use crate::discipline::Backlog;
use crate::stats::Sojourn;
use crate::words::units;

/// A discipline's or a class's name, parameters and counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// `tc`'s name of the kind: `fq_codel`.
    pub kind: &'static str,
    /// The discipline's handle (`1:`) or the class's name (`1:10`), if it stands in a tree.
    pub id: Option<ClassId>,
    /// Parameters, in `tc`'s names, order and units.
    pub options: Vec<(&'static str, Value)>,
    /// The counters of everything that passes packets; filled in by [`Stats`](crate::Stats) around the discipline.
    pub common: Option<Common>,
    /// Times it was tried to send while the discipline held packets back (shapers), or congestion was signalled (RED).
    pub overlimits: u64,
    /// Packets put back.
    pub requeues: u64,
    /// Counters of this kind alone, in `tc`'s names (its "xstats").
    pub counters: Vec<(&'static str, Value)>,
    /// How long packets stayed; `tc` has no such thing. Filled in by [`Stats`](crate::Stats).
    pub sojourn: Option<Sojourn>,
    /// Reports of its classes (HTB's classes, CAKE's tins), each with the discipline below it among its `children`.
    pub classes: Vec<Self>,
    /// Reports of disciplines below or wrapped.
    pub children: Vec<Self>,
}

/// The counters of `tc -s`'s second and third line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// Bytes that left for the device.
    pub sent_bytes: Bytes,
    /// Segments that left; a packet that stands for several counts as many.
    pub sent_packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// What is queued.
    pub backlog: Backlog,
}

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
    /// A time: `5ms`; in JSON microseconds.
    Time(Duration),
    /// A rate: `10Mbit`; in JSON bytes per second.
    Rate(Rate),
    /// A share of one: `0.02`, or `2%` where `tc` prints percents.
    Share(f64),
    /// A word that stands alone in text (`ecn`), `true` or `false` in JSON. False prints nothing in text.
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
}

impl fmt::Display for Value {
    /// As `tc` prints it. A flag that is off prints nothing, one that is on nothing either: its name says all.
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
