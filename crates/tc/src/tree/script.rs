//! [`Script`]: parses a tree command by command, and records the position of each part.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use tautline_base::Item;

use tautline_qdisc::filter::Filters;
use tautline_qdisc::{ClassId, ets};

use super::build::{self, Refusal};
use super::place::{Object, Position, Verb};
use super::{Class, ClassConfig, FIRST_HANDLE, MAX_DEPTH, Node, ROOT_HANDLE, Tree};
use crate::discipline::DynQdisc;
use crate::kind::Kind;
use crate::rules::read_filter;
use crate::words::{ParseError, Problem, Word, Words};

/// A tree and the words of each of its nodes and classes.
#[derive(Default)]
pub(super) struct Script<'a> {
    nodes: Vec<Node>,
    /// Beside the nodes.
    commands: Vec<NodeWords<'a>>,
    /// The nodes by handle.
    handles: BTreeMap<u16, usize>,
    /// Classes that the script adds.
    classes: BTreeSet<ClassId>,
    /// Classes with a qdisc below.
    occupied: BTreeSet<ClassId>,
    /// The parent of a qdisc that names none.
    last: Option<ClassId>,
    device: Option<&'a str>,
}

/// Position of a node and its classes in the script.
struct NodeWords<'a> {
    node: Words<'a>,
    classes: Vec<Words<'a>>,
}

const KIND: &str = "the name of a queueing discipline";
const ROOT: &str = "first the root, e.g. qdisc root handle 1: htb";
const ADD: &str = "add or replace: this makes a tree, it does not change one";
const PARENT: &str = "parent CLASS, e.g. parent 1:10";
const CLASSID: &str = "classid CLASS, e.g. classid 1:10";
const DISCIPLINE: &str = "the handle of a discipline with filters, e.g. parent 1:";

impl<'a> Script<'a> {
    /// Reads `text`.
    ///
    /// # Errors
    /// If a command cannot be read or refers to what is not there.
    pub(super) fn read(text: &'a str) -> Result<Self, ParseError> {
        let mut script = Self::default();
        for command in Words::commands(text) {
            script.command(command)?;
        }
        if script.nodes.is_empty() {
            Err(Kind::unknown(text.len()..text.len(), ""))
        } else {
            Ok(script)
        }
    }

    /// Makes the qdisc, with `hash_key` for those that name no secret.
    ///
    /// # Errors
    /// If a qdisc refuses a value; the error points at it.
    pub(super) fn build<P: Item + Send + 'static>(
        &self,
        hash_key: Option<u64>,
    ) -> Result<Box<dyn DynQdisc<P>>, ParseError> {
        build::build(&self.nodes, hash_key).map_err(
            |Refusal {
                 kind,
                 error,
                 node: refused,
                 class,
             }| {
                let NodeWords { node, classes } = &self.commands[refused];
                let Some(at) = class else {
                    return node.refused(kind, error);
                };
                let command = &classes[at];
                let id = self.nodes[refused].classes[at].id;
                command.refused(kind, error).in_class(id, command.line())
            },
        )
    }

    pub(super) fn into_tree(self) -> Tree {
        Tree { nodes: self.nodes }
    }

    fn command(&mut self, mut words: Words<'a>) -> Result<(), ParseError> {
        let object = Object::read(&mut words);
        let filter = object == Some(Object::Filter);
        let place = if filter {
            Position::of_filter(&mut words)?
        } else {
            Position::read(&mut words)?
        };
        self.same_device(&place)?;
        match (object, place.verb) {
            (Some(Object::Qdisc), Some((_, Verb::Delete))) => self.delete(&words, &place),
            (Some(Object::Class), Some((_, Verb::Change))) => self.class(words, &place),
            (_, Some((verb, Verb::Change | Verb::Delete))) => Err(verb.misplaced(ADD)),
            (Some(Object::Filter), _) => self.filter(words, &place),
            (Some(Object::Class), _) => self.class(words, &place),
            (Some(Object::Qdisc) | None, _) => self.qdisc(words, &place),
        }
    }

    /// A tree is of one device.
    fn same_device(&mut self, place: &Position<'a>) -> Result<(), ParseError> {
        let Some(device) = place.device else {
            return Ok(());
        };
        if *self.device.get_or_insert(device.text) == device.text {
            return Ok(());
        }
        Err(device.misplaced("the device of the commands before: a tree is of one device"))
    }

    /// `qdisc del dev eth0 root`, with which scripts begin.
    fn delete(&mut self, words: &Words<'a>, place: &Position<'a>) -> Result<(), ParseError> {
        if place.root.is_none() {
            return Err(words.missing("root: only all can be deleted"));
        }
        *self = Self {
            device: self.device,
            ..Self::default()
        };
        Ok(())
    }

    fn qdisc(&mut self, mut words: Words<'a>, place: &Position<'a>) -> Result<(), ParseError> {
        let command = words.clone();
        let at = words.here();
        let mut kind = Kind::named(&mut words)?;
        words.apply(kind.options_mut())?;
        let parent = match (self.nodes.is_empty(), place.root, place.parent) {
            (true, _, None) => None,
            (true, _, Some((word, _))) => return Err(word.misplaced(ROOT)),
            (false, Some(root), _) => {
                return Err(root.misplaced("parent CLASS: there is a root already"));
            }
            (false, None, Some((word, class))) => Some((word.span(), self.seat(class))),
            (false, None, None) => {
                let below = self.last.ok_or_else(|| ParseError {
                    at: at.clone(),
                    problem: Problem::Missing { expected: PARENT },
                })?;
                Some((at.clone(), below))
            }
        };
        if let Some((at, class)) = &parent {
            self.vacant(*class).map_err(|problem| ParseError {
                at: at.clone(),
                problem,
            })?;
        }
        let handle = match place.handle {
            Some((word, handle)) if self.node_of(handle).is_some() => {
                return Err(word.misplaced("a handle that no other qdisc has"));
            }
            Some((_, handle)) => handle,
            None => {
                let problem = Problem::Missing {
                    expected: "handle HANDLE: all that are given by themselves are taken",
                };
                self.free_handle().ok_or(ParseError { at, problem })?
            }
        };
        self.last = kind.lone_class().map(|minor| ClassId::new(handle, minor));
        self.handles.insert(handle, self.nodes.len());
        self.occupied.extend(parent.iter().map(|(_, class)| *class));
        let (parent, filters) = (parent.map(|(_, class)| class), Filters::default());
        self.nodes.push(Node {
            parent,
            handle,
            kind,
            classes: Vec::new(),
            filters,
        });
        self.commands.push(NodeWords {
            node: command,
            classes: Vec::new(),
        });
        Ok(())
    }

    fn class(&mut self, words: Words<'a>, place: &Position<'a>) -> Result<(), ParseError> {
        let root = self.nodes.first().map_or(0, |node| node.handle);
        let (classid, id) = place.class(root).ok_or_else(|| words.missing(CLASSID))?;
        let line = words.line();
        self.named_class(words, place, classid, id)
            .map_err(|error| error.in_class(id, line))
    }

    fn named_class(
        &mut self,
        mut words: Words<'a>,
        place: &Position<'a>,
        classid: Word<'a>,
        id: ClassId,
    ) -> Result<(), ParseError> {
        let command = words.clone();
        let no_node = || classid.no_class(id.discipline());
        let at = self.node_of(id.major).ok_or_else(no_node)?;
        let node = &mut self.nodes[at];
        if let Kind::Ets(config) = &mut node.kind {
            let verb = place.verb.map_or(Verb::Add, |(_, verb)| verb);
            change_band(config, words, verb, (classid, id))?;
            self.last = Some(id);
            return Ok(());
        }
        let Some(mut config) = ClassConfig::of(&node.kind) else {
            return Err(
                classid.misplaced("a class of a discipline to which classes are added: htb or drr")
            );
        };
        let existing = node.classes.iter().position(|class| class.id == id);
        let verb = place.verb.map_or(Verb::Add, |(_, verb)| verb);
        match (verb, existing) {
            (Verb::Add, Some(_)) => return Err(classid.error(Problem::Exists { class: id })),
            (Verb::Change, None) => return Err(classid.no_class(id)),
            _ => {}
        }
        if let Some(before) = existing {
            config.begin_from(&node.classes[before].config);
        }
        of_kind(&mut words, node.kind.name())?;
        words.apply(config.options_mut())?;
        let parent = place.parent.map_or_else(|| node.id(), |(_, parent)| parent);
        if let Some((word, parent)) = place.parent
            && parent != node.id()
            && !self.classes.contains(&parent)
        {
            return Err(word.no_class(parent));
        }
        let commands = &mut self.commands[at].classes;
        match existing {
            // It stays where it is, whatever parent the command names (`htb_change_class`).
            Some(at) => (node.classes[at].config, commands[at]) = (config, command),
            None => {
                node.classes.push(Class { parent, id, config });
                commands.push(command);
            }
        }
        self.classes.insert(id);
        self.last = Some(id);
        Ok(())
    }

    fn filter(&mut self, mut words: Words<'a>, place: &Position<'a>) -> Result<(), ParseError> {
        let command = words.clone();
        let at = match place.parent {
            Some((word, parent)) => {
                let at = self.node_of(parent.major).filter(|_| parent.minor == 0);
                at.ok_or_else(|| word.no_class(parent))?
            }
            None if self.nodes.is_empty() => return Err(words.missing(DISCIPLINE)),
            None => 0,
        };
        let node = &mut self.nodes[at];
        if !node.kind.has_filters() {
            return Err(words.missing(DISCIPLINE));
        }
        let filter = read_filter(&mut words)?;
        node.filters
            .add(filter)
            .map_err(|error| command.refused("filter", error))
    }

    /// The class that `parent` names: the one class of a qdisc that has one may go by the qdisc's
    /// own name.
    fn seat(&self, parent: ClassId) -> ClassId {
        let lone = self
            .node_of(parent.major)
            .and_then(|at| self.nodes[at].kind.lone_class());
        match lone {
            Some(minor) if parent.minor == 0 => ClassId::new(parent.major, minor),
            _ => parent,
        }
    }

    /// Checks that a qdisc can be put below `class`.
    fn vacant(&self, class: ClassId) -> Result<(), Problem> {
        let unknown = || Problem::NoClass {
            kind: "the tree",
            class,
        };
        let mut above = self.node_of(class.major);
        let node = &self.nodes[above.ok_or_else(unknown)?];
        if !self.classes.contains(&class) && !node.kind.own_classes().contains(&class.minor) {
            return Err(unknown());
        }
        if self.occupied.contains(&class) {
            return Err(Problem::Occupied { class });
        }
        let mut depth = 0;
        while let Some(at) = above {
            depth += 1;
            above = self.nodes[at]
                .parent
                .and_then(|parent| self.node_of(parent.major));
        }
        if depth < MAX_DEPTH {
            Ok(())
        } else {
            Err(Problem::TooDeep { most: MAX_DEPTH })
        }
    }

    fn node_of(&self, handle: u16) -> Option<usize> {
        self.handles.get(&handle).copied()
    }

    fn free_handle(&self) -> Option<u16> {
        if self.handles.is_empty() {
            return Some(ROOT_HANDLE);
        }
        let mut free = FIRST_HANDLE;
        for &taken in self.handles.range(FIRST_HANDLE..).map(|(handle, _)| handle) {
            if taken != free {
                break;
            }
            free = taken.checked_add(1)?;
        }
        Some(free)
    }
}

/// Reads the kind of a class, that of its qdisc.
fn of_kind(words: &mut Words<'_>, kind: &str) -> Result<(), ParseError> {
    let word = words.word().ok_or_else(|| words.missing(KIND))?;
    if word.text == kind {
        Ok(())
    } else {
        Err(word.misplaced("the kind of the qdisc that the class belongs to"))
    }
}

/// Sets the quantum of a class of `ets`, which all exist from the start.
fn change_band(
    ets: &mut ets::Config,
    mut words: Words<'_>,
    verb: Verb,
    (classid, id): (Word<'_>, ClassId),
) -> Result<(), ParseError> {
    let band = id
        .minor
        .checked_sub(1)
        .and_then(|band| band.try_into().ok());
    let band = band.filter(|&band: &u8| band < ets.bands());
    let band = band.ok_or_else(|| classid.no_class(id))?;
    if verb == Verb::Add {
        return Err(classid.error(Problem::Exists { class: id }));
    }
    of_kind(&mut words, "ets")?;
    let mut class = ets::ClassConfig::default();
    words.apply(&mut class)?;
    let Some(quantum) = class.quantum else {
        return Ok(());
    };
    ets.set_quantum(band, quantum)
        .map_err(|error| words.refused("ets", error))
}
