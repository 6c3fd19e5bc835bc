//! `tc`'s language for [`tautline_qdisc`]: qdiscs, classes and filters built and changed from the
//! words of `tc` scripts, and reports as `tc -s` prints them, in text and JSON.
//!
//! This is the outer seam, for command lines and configuration files. A program that knows which
//! qdisc it needs constructs the type.
//!
//! [`build`] returns a [`DynQdisc`], whose [`Qdisc`] methods need no import. It is generic over the
//! packet: [`Packet`], or a type of your own that implements [`Item`].
//!
//! ```
//! use tautline_tc::{Drops, Instant, Packet, build, change_tree};
//!
//! let mut qdisc = build::<Packet<()>>("fq_codel limit 1000 target 5ms")?;
//! let mut drops = Drops::new();
//! qdisc.enqueue(Packet::new((), 1514).with_hashes(7, 0, 0), Instant::ZERO, &mut drops);
//! change_tree(&mut *qdisc, "limit 500", Instant::ZERO, &mut drops)?;
//! assert!(qdisc.report().to_string().starts_with("qdisc fq_codel 0: root refcnt 2 limit 500p"));
//! # Ok::<(), tautline_tc::ParseError>(())
//! ```
//!
//! # Classes, their counters, and a rate that changes
//! The qdiscs below classes count what passes them; [`Stats`] around the root makes it count, too.
//! [`Report::find_class`] finds a class of the tree, [`change_tree`] changes one while packets are queued.
//!
//! ```
//! use tautline_tc::{Drops, Inspect, Instant, Packet, Qdisc, Stats, Value, build, change_tree};
//!
//! let script = "
//!     qdisc add dev eth0 root handle 1: htb default 20
//!     class add dev eth0 parent 1: classid 1:1 htb rate 100mbit
//!     class add dev eth0 parent 1:1 classid 1:10 htb rate 60mbit ceil 100mbit
//!     class add dev eth0 parent 1:1 classid 1:20 htb rate 40mbit ceil 100mbit
//!     qdisc add dev eth0 parent 1:10 handle 10: fq_codel
//!     qdisc add dev eth0 parent 1:20 handle 20: fq_codel
//!     filter add dev eth0 parent 1: protocol ip u32 match ip dport 443 0xffff flowid 1:10";
//! let mut root = Stats::new(build::<Packet<()>>(script)?);
//! let (now, mut drops) = (Instant::from_secs(1), Drops::new());
//! root.enqueue(Packet::new((), 1514).with_hashes(7, 0, 0), now, &mut drops);
//! root.dequeue(now, &mut drops);
//!
//! let change = "class change parent 1:1 classid 1:20 htb rate 20mbit ceil 50mbit";
//! change_tree(&mut root, change, now, &mut drops)?;
//!
//! let report = root.report();
//! let class = report.find_class("1:20".parse()?).ok_or("no such class")?;
//! assert_eq!(class.common.map(|common| common.sent_packets), Some(1));
//! for (name, value) in &class.counters { // of its kind alone, by the names of `tc`
//!     if let Value::Count(count) = value {
//!         println!("htb_{name}_total {count}");
//!     }
//! }
//! println!("{}", report.class_show()); // `tc -s -d class show`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where words differ from those of `tc`
//! Of qdiscs and classes, what `tc` of iproute2 6.1 takes is taken and means the same, but for:
//!
//! - A rate in percent is refused: there is no device of which it could be a share.
//! - `tbf` refuses a bucket that holds no frame: Linux warns and drops every full frame.
//! - `sfq` refuses a depth above 127 and flows above 65 408: Linux cuts them.
//! - A zero of `alpha`, `beta` and `ecn_prob`, and a zero with a unit (`limit 0p`, `target 0ms`), is
//!   that value: `tc` takes it for the default. Without a unit, zero is the default here, too.
//! - `ce_threshold_selector` stands behind a `ce_threshold`; `rtt 0` of CAKE is refused: in `tc` it
//!   leaves the interval and makes the target 1 µs.
//! - Quanta below 64 bytes are refused, those up to 255 are what they say; of `drr` and `ets`, all
//!   are, whose turns without a packet are skipped at once. Linux raises them to 256 (not those of
//!   `fq`), and so does `linux` in `fq_codel` and `fq_pie`. A quantum of `drr` may exceed 1 MiB.
//! - A change keeps the options that it does not name; `tc` sends those of `netem`, `red`, `prio`, of
//!   RED in `sfq` and of classes of `htb` all anew. (In a script, `htb` does so here, too.)
//! - `stab` and `est` before a kind, `offload` and `debug` of `htb`, and `qevent` of `red` are
//!   unknown.
//!
//! More is taken than by `tc`: units on packets and quanta (`10p`, `1514b`), sizes and rates beyond
//! 32 bits, times for `perturb`, words that are given twice (the last one counts), a `gap` of `netem`
//! without `reorder`, `red` without `limit` and `avpkt`, and the words that reports show beyond
//! those of `tc`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod change;
mod discipline;
mod kind;
mod kinds;
mod report;
mod rules;
#[cfg(test)]
mod tests;
mod tree;
mod words;

use alloc::boxed::Box;

pub use change::change_tree;
pub use discipline::{Change, DynQdisc, Inspect, Target};
pub use kind::Kind;
pub use report::{ClassShow, QdiscShow, Report, Value};
pub use rules::{FilterWords, read_filter};
pub use tautline_base::{Drops, Instant, Item, Packet, Qdisc};
pub use tautline_qdisc::{ClassId, Common, Stats, units::parse_size};
pub use tree::{Tree, TreeMq};
pub use words::{ParseError, Word, Words};

/// Makes the qdisc that `words` describe: its kind, then options and their values; or a whole
/// [`Tree`], command by command.
///
/// ```
/// use tautline_tc::{Packet, build};
///
/// let qdisc = build::<Packet<()>>("fq_codel limit 10240 target 5ms")?;
/// assert_eq!(qdisc.report().kind, "fq_codel");
/// # Ok::<(), tautline_tc::ParseError>(())
/// ```
///
/// # Errors
/// If a word is unknown, a value is missing or does not fit; the message names the word and says
/// what would be accepted.
pub fn build<P: Item + Send + 'static>(words: &str) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
    tree::build(words)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
