//! [`Owners`]: the application that owns a socket, found by index: a host reuses the slots of its
//! socket table.

use std::num::NonZeroU32;

use tautline_base::SocketId;

/// An application, and its token for the socket.
pub(super) type Owner = (usize, u32);

/// Owners by slot; the generation distinguishes successive sockets in a slot.
#[derive(Debug, Default)]
pub(super) struct Owners {
    slots: Vec<Option<(NonZeroU32, Owner)>>,
}

impl Owners {
    /// Sets the owner of `socket`.
    pub(super) fn insert(&mut self, socket: SocketId, owner: Owner) {
        let index = socket.index as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        self.slots[index] = Some((socket.generation, owner));
    }

    /// The owner of `socket`.
    pub(super) fn get(&self, socket: SocketId) -> Option<Owner> {
        let (generation, owner) = (*self.slots.get(socket.index as usize)?)?;
        (generation == socket.generation).then_some(owner)
    }

    /// Removes the owner of `socket`.
    pub(super) fn remove(&mut self, socket: SocketId) {
        if self.get(socket).is_some() {
            self.slots[socket.index as usize] = None;
        }
    }

    /// A socket of `application`, if it has any. A linear search, for applications that failed.
    pub(super) fn any_of(&self, application: usize) -> Option<SocketId> {
        self.slots.iter().enumerate().find_map(|(index, slot)| {
            let (generation, (owner, _)) = (*slot)?;
            (owner == application).then_some(SocketId {
                index: index as u32,
                generation,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_has_no_owner() {
        let mut owners = Owners::default();
        let first = SocketId {
            index: 3,
            generation: NonZeroU32::MIN,
        };
        let second = SocketId {
            generation: NonZeroU32::new(2).expect("not zero"),
            ..first
        };
        owners.insert(first, (1, 7));
        assert_eq!(
            (owners.get(first), owners.get(second)),
            (Some((1, 7)), None)
        );
        owners.insert(second, (2, 8));
        owners.remove(first);
        assert_eq!(
            (owners.get(first), owners.get(second)),
            (None, Some((2, 8)))
        );
        assert_eq!((owners.any_of(1), owners.any_of(2)), (None, Some(second)));
        owners.remove(second);
        assert_eq!(owners.any_of(2), None);
    }
}
