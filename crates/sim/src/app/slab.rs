//! [`Slab`]: values by small reusable numbers, for the state of an application's connections.

/// Values by number.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds `value` and returns its number.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[number as usize] = Some(value);
        number
    }

    /// The value with this number.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    /// Removes the value with this number.
    pub(super) fn remove(&mut self, number: u32) {
        if self
            .slots
            .get_mut(number as usize)
            .is_some_and(|slot| slot.take().is_some())
        {
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_once_they_are_free() {
        let mut slab = Slab::default();
        assert_eq!((slab.insert('a'), slab.insert('b')), (0, 1));
        slab.remove(0);
        slab.remove(0);
        assert_eq!(
            [0, 1, 2].map(|number| slab.get_mut(number).copied()),
            [None, Some('b'), None]
        );
        assert_eq!((slab.insert('c'), slab.insert('d')), (0, 2));
    }
}
