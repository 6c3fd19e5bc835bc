//! [`Tree`]: a qdisc with its classes, filters and the qdiscs below, from the words of a
//! `tc` script.
//!
//! Commands are separated by newlines or semicolons. The first names the root; each other says
//! where it belongs:
//!
//! ```text
//! tc qdisc add dev eth0 root handle 1: htb default 12
//! tc class add dev eth0 parent 1: classid 1:1 htb rate 100mbit
//! tc class add dev eth0 parent 1:1 classid 1:12 htb rate 20mbit ceil 100mbit
//! tc qdisc add dev eth0 parent 1:12 handle 12: fq_codel
//! tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 80 0xffff flowid 1:12
//! ```
//!
//! `tc`, `add` and `dev` with its device may be left out, so that real scripts can be pasted. A
//! command that begins with the name of a kind stands below the one before: `tbf rate 12mbit burst
//! 5kb latency 50ms; codel ecn`. `class replace` and `class change` of a class that a command before
//! adds set its parameters as in Linux: those of HTB all anew, whatever the command does not name.

mod build;
pub(crate) mod place;
mod script;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use tautline_base::{Item, Packet};

use tautline_qdisc::filter::Filters;
use tautline_qdisc::{ClassId, Mq, drr, htb};

use crate::discipline::DynQdisc;
use crate::kind::{Kind, write_words};
use crate::rules::FilterWords;
use crate::words::{Options, ParseError, joined};

use script::Script;

/// Makes the qdisc that a script describes.
pub(crate) fn build<P: Item + Send + 'static>(
    words: &str,
) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
    Script::read(&joined(words))?.build(None)
}

/// A qdisc with all that belongs to it: classes, filters, qdiscs below. Parses from a
/// script and prints as one that describes it in full.
///
/// A tree that was parsed can be built: whatever a qdisc refuses is refused when the script is
/// read, at the word.
///
/// ```
/// use tautline_base::Packet;
/// use tautline_tc::Tree;
///
/// let tree: Tree = "
///     qdisc root handle 1: drr
///     class parent 1: classid 1:1 drr quantum 3000
///     class parent 1: classid 1:2 drr
///     qdisc parent 1:1 fq_codel
///     filter parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:1
///     filter parent 1: matchall flowid 1:2"
///     .parse()?;
/// let qdisc = tree.build::<Packet<()>>()?;
/// assert_eq!(qdisc.report().classes.len(), 2);
/// assert_eq!(tree.to_string().parse(), Ok(tree));
/// # Ok::<(), tautline_tc::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The root first, parents before their children. Never empty once a script is read.
    nodes: Vec<Node>,
}

/// One qdisc of a tree.
#[derive(Clone, Debug, PartialEq)]
struct Node {
    /// The parent class; `None` for the root.
    parent: Option<ClassId>,
    handle: u16,
    kind: Kind,
    classes: Vec<Class>,
    filters: Filters,
}

/// A class that the script adds.
#[derive(Clone, Debug, PartialEq)]
struct Class {
    parent: ClassId,
    id: ClassId,
    config: ClassConfig,
}

/// A class's parameters, by the kind of its qdisc.
#[derive(Clone, Debug, PartialEq)]
enum ClassConfig {
    Htb(htb::ClassConfig),
    Drr(drr::ClassConfig),
}

impl ClassConfig {
    /// The parameters of a class of `kind`, which the script must add: the classes of other kinds
    /// exist implicitly.
    fn of(kind: &Kind) -> Option<Self> {
        match kind {
            Kind::Htb(_) => Some(Self::Htb(htb::ClassConfig::default())),
            Kind::Drr(_) => Some(Self::Drr(drr::ClassConfig::default())),
            _ => None,
        }
    }

    /// Takes over what a command keeps of the parameters before that it does not name. A class of
    /// HTB gets them all anew (`htb_change_class` in Linux), one of DRR keeps its quantum.
    fn begin_from(&mut self, before: &Self) {
        if matches!(self, Self::Drr(_)) {
            *self = before.clone();
        }
    }

    fn options(&self) -> &dyn Options {
        match self {
            Self::Htb(config) => config,
            Self::Drr(config) => config,
        }
    }

    fn options_mut(&mut self) -> &mut dyn Options {
        match self {
            Self::Htb(config) => config,
            Self::Drr(config) => config,
        }
    }
}

/// Handle of a root that is given none.
const ROOT_HANDLE: u16 = 1;
/// Handle of the first other qdisc that is given none, as in Linux.
const FIRST_HANDLE: u16 = 0x8001;
/// Maximum depth of a tree: building and dropping it recurse.
const MAX_DEPTH: usize = 16;

impl Node {
    fn id(&self) -> ClassId {
        ClassId::new(self.handle, 0)
    }
}

impl Tree {
    /// The kind and configuration of the root.
    pub fn root(&self) -> &Kind {
        &self.nodes[0].kind
    }

    /// The name of the root.
    pub fn handle(&self) -> ClassId {
        self.nodes[0].id()
    }

    /// [`Kind::with_hash_key`] for every qdisc of the tree.
    #[must_use]
    pub fn with_hash_key(mut self, key: u64) -> Self {
        for node in &mut self.nodes {
            node.kind = node.kind.clone().with_hash_key(key);
        }
        self
    }

    /// Makes the qdisc. All qdiscs below the root are wrapped in
    /// [`Stats`](tautline_qdisc::Stats): their reports hold counters and sojourn times. The root is
    /// not: callers wrap it in the statistics of their choice.
    ///
    /// # Errors
    /// If a qdisc refuses a value.
    pub fn build<P: Item + Send + 'static>(&self) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
        build::build(&self.nodes, None).map_err(refused)
    }

    /// Makes an `mq` root for a driver of several transmit queues: `choose` returns the queue of a
    /// packet, given the packet and the number of queues. `None` if the root is of another kind.
    ///
    /// # Errors
    /// If a qdisc refuses a value.
    pub fn build_mq<P, F>(&self, choose: F) -> Result<Option<TreeMq<P, F>>, ParseError>
    where
        P: Item + Send + 'static,
        F: Fn(&P, usize) -> usize,
    {
        build::build_mq(&self.nodes, choose).map_err(refused)
    }
}

/// An `mq` of any qdiscs, whose queues `F` chooses.
pub type TreeMq<P, F> = Mq<P, Box<dyn DynQdisc<P>>, F>;

fn refused(refusal: build::Refusal) -> ParseError {
    ParseError::refused(refusal.kind, 0..0, refusal.error)
}

impl From<Kind> for Tree {
    /// A qdisc without classes and filters of its own.
    fn from(kind: Kind) -> Self {
        let (classes, filters) = (Vec::new(), Filters::default());
        Self {
            nodes: vec![Node {
                parent: None,
                handle: ROOT_HANDLE,
                kind,
                classes,
                filters,
            }],
        }
    }
}

impl FromStr for Tree {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = joined(text);
        let script = Script::read(&text)?;
        script.build::<Packet<()>>(Some(0))?;
        Ok(script.into_tree())
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = &self.nodes[0];
        if *self == Self::from(root.kind.clone()) {
            return write!(f, "{}", root.kind);
        }
        for node in &self.nodes {
            let handle = node.id();
            match node.parent {
                None => write!(f, "qdisc add root handle {handle} {}", node.kind)?,
                Some(parent) => write!(
                    f,
                    "\nqdisc add parent {parent} handle {handle} {}",
                    node.kind
                )?,
            }
            for Class { parent, id, config } in &node.classes {
                write!(
                    f,
                    "\nclass add parent {parent} classid {id} {}",
                    config.options().kind()
                )?;
                write_words(f, config.options())?;
            }
            for filter in node.filters.iter() {
                write!(f, "\nfilter add parent {handle} {}", FilterWords(filter))?;
            }
        }
        Ok(())
    }
}
