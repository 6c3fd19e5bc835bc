//! [`Classful`]: a qdisc whose classes hold qdiscs, as a walk over a tree sees it.

use alloc::vec::Vec;

use tautline_base::{ConfigError, Drops, Item, Qdisc};

use crate::children::Children;
use crate::class::ClassId;

/// A qdisc whose classes hold qdiscs: `Prio`, `Ets`, `Drr`, `Htb`, `Mq`; with one class `Red`, `Tbf`,
/// `Netem`.
pub trait Classful<P: Item> {
    /// The type of the qdiscs below it.
    type Child;

    /// Major number of its classes' names; 0 if it was given none.
    fn handle(&self) -> u16;

    /// The classes that hold a qdisc.
    fn leaves(&self) -> Vec<ClassId>;

    /// Replaces the qdisc below `class` by `child`, which must be empty; the packets queued there go
    /// to `drops`.
    ///
    /// # Errors
    /// If there is no such class, or it has classes below it. Then nothing changes.
    fn graft(
        &mut self,
        class: ClassId,
        child: Self::Child,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError>;

    /// Calls `call` with the qdisc below `class` and counts its drops; `None` if `class` is not one
    /// of [`leaves`](Self::leaves).
    fn with_child<R>(
        &mut self,
        class: ClassId,
        drops: &mut Drops<P>,
        call: impl FnOnce(&mut Self::Child, &mut Drops<P>) -> R,
    ) -> Option<R>;
}

/// A qdisc all of whose classes hold a qdisc, kept in [`Children`]: they make it [`Classful`].
pub trait Parent {
    /// The packets it queues.
    type Packet: Item;
    /// The type of the qdiscs below it.
    type Child: Qdisc<Self::Packet>;

    /// The qdiscs below it.
    fn children(&self) -> &Children<Self::Packet, Self::Child>;

    /// The qdiscs below it, for a change from outside: after it they may open earlier than known.
    fn children_mut(&mut self) -> &mut Children<Self::Packet, Self::Child>;

    /// The child at `at` was changed from outside: it may have run empty.
    fn note_change(&mut self, _at: usize) {}
}

impl<T: Parent> Classful<T::Packet> for T {
    type Child = T::Child;

    fn handle(&self) -> u16 {
        self.children().handle().major
    }

    fn leaves(&self) -> Vec<ClassId> {
        self.children().iter().map(|(class, ..)| class).collect()
    }

    fn graft(
        &mut self,
        class: ClassId,
        child: T::Child,
        drops: &mut Drops<T::Packet>,
    ) -> Result<(), ConfigError> {
        let at = self.children().known(class, "parent")?;
        self.children_mut().replace(at, child, drops);
        self.note_change(at);
        Ok(())
    }

    fn with_child<R>(
        &mut self,
        class: ClassId,
        drops: &mut Drops<T::Packet>,
        call: impl FnOnce(&mut T::Child, &mut Drops<T::Packet>) -> R,
    ) -> Option<R> {
        let at = self.children().find(class)?;
        let result = self.children_mut().with_child(at, drops, call);
        self.note_change(at);
        Some(result)
    }
}
