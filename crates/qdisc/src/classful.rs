//! [`Classful`]: a qdisc whose classes hold qdiscs, as a walk over a tree sees it.

use alloc::vec::Vec;

use tautline_base::{Drops, Item};

use crate::class::ClassId;

/// A qdisc whose classes hold qdiscs.
pub trait Classful<P: Item> {
    /// The type of the qdiscs below it.
    type Child;

    /// Major number of its classes' names; 0 if it was given none.
    fn handle(&self) -> u16;

    /// The classes that hold a qdisc.
    fn leaves(&self) -> Vec<ClassId>;

    /// Calls `call` with the qdisc below `class` and counts its drops; `None` if `class` is not one
    /// of [`leaves`](Self::leaves).
    fn with_child<R>(
        &mut self,
        class: ClassId,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Self::Child, &mut Drops<P>) -> R,
    ) -> Option<R>;
}
