//! Classes that come, change and go: the tree's shape.

use alloc::boxed::Box;

use tautline_base::Instant;

use super::DEPTH;
use super::class::{Class, Inner, Mode, Node};
use super::params::{ClassConfig, Config, Depth};
use super::tree::Tree;

impl Tree {
    /// Whether a class may stand below the one at `parent`: the tree is no deeper than eight
    /// classes.
    pub(super) fn admits_below(&self, parent: usize) -> bool {
        let above = self.classes[parent]
            .parent
            .map(|above| self.classes[above].level);
        above.is_none_or(|level| level >= 2)
    }

    /// Adds a class at the position `at`; `parent` counts in positions before that.
    pub(super) fn add(
        &mut self,
        at: usize,
        parent: Option<usize>,
        config: ClassConfig,
        shape: &Config,
    ) {
        if let Some(parent) = parent {
            self.make_inner(parent);
        }
        let moved = |other: usize| other + usize::from(other >= at);
        if at < self.classes.len() {
            self.renumber(moved);
        }
        self.rows.iter_mut().flatten().for_each(|row| row.open(at));
        self.waiting.open(at);
        let parent = parent.map(moved);
        self.classes.insert(at, Class::new(config, parent, shape));
        if let Some(parent) = parent
            && let Some(inner) = self.classes[parent].inner_mut()
        {
            let place = inner.children.partition_point(|&other| other < at);
            inner.children.insert(place, at);
            inner.feeds.iter_mut().for_each(|feed| feed.open(place));
            self.tell_places(parent, place);
        }
    }

    /// Tells the children of `parent` their places, from the place `from`.
    fn tell_places(&mut self, parent: usize, from: usize) {
        let mut place = from;
        while let Some(inner) = self.classes[parent].inner_mut()
            && let Some(&child) = inner.children.get(place)
        {
            self.classes[child].place = place;
            place += 1;
        }
    }

    /// Turns a leaf, which has no packets, into a class for classes.
    fn make_inner(&mut self, at: usize) {
        if !self.classes[at].is_leaf() {
            return;
        }
        self.deactivate(at);
        self.rest(at);
        let above = self.classes[at]
            .parent
            .map_or(DEPTH, |above| self.classes[above].level);
        self.classes[at].level = above - 1;
        self.classes[at].node = Node::Inner(Box::<Inner>::default());
    }

    /// Lets a class that is not active wait no longer.
    fn rest(&mut self, at: usize) {
        let Class { mode, level, .. } = self.classes[at];
        if mode != Mode::CanSend {
            self.waiting.remove(level, at);
            self.classes[at].mode = Mode::CanSend;
        }
    }

    /// Removes the class at `at`, which has no classes below it. A parent without any left is a
    /// leaf again, with full buckets.
    pub(super) fn remove(&mut self, at: usize) {
        self.deactivate(at);
        self.rest(at);
        if let Some(parent) = self.classes[at].parent {
            let place = self.classes[at].place;
            if let Some(inner) = self.classes[parent].inner_mut() {
                inner.children.remove(place);
                inner.feeds.iter_mut().for_each(|feed| feed.close(place));
                let childless = inner.children.is_empty();
                self.tell_places(parent, place);
                if childless {
                    self.rest(parent);
                    let class = &mut self.classes[parent];
                    (class.level, class.node) = (0, Node::Leaf([0; DEPTH]));
                    class.refill();
                }
            }
        }
        self.rows.iter_mut().flatten().for_each(|row| row.close(at));
        self.waiting.close(at);
        self.classes.remove(at);
        self.renumber(|other| other - usize::from(other > at));
    }

    /// Gives every mention of a class its new position.
    fn renumber(&mut self, moved: impl Fn(usize) -> usize) {
        for class in &mut self.classes {
            class.parent = class.parent.map(&moved);
            if let Some(inner) = class.inner_mut() {
                inner
                    .children
                    .iter_mut()
                    .for_each(|child| *child = moved(*child));
            }
        }
    }

    /// Gives a class new parameters, as of `now`.
    pub(super) fn change(&mut self, at: usize, config: ClassConfig, shape: &Config, now: Instant) {
        self.advance_to(now);
        let active = self.classes[at].is_leaf() && self.classes[at].activity != 0;
        if active {
            self.deactivate(at);
        }
        // DIVERGES: in Linux a debt keeps its time, so that a class made faster still waits as a
        // slow one would.
        if shape.depth == Depth::Exact {
            self.classes[at].convert_buckets(&config);
        }
        self.classes[at].reconfigure(config, shape);
        if active {
            self.activate(at);
        }
        self.reconsider_now(at);
    }
}
