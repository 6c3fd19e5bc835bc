//! [`Saved`]: a copy of a value that may be restored; it allocates when the first copy is kept.

use alloc::boxed::Box;

/// At most one value. The allocation of the first one serves all later ones: a connection allocates
/// once in its life, and only if it meets congestion.
#[derive(Clone, Debug)]
pub(crate) struct Saved<T> {
    memory: Option<Box<T>>,
    valid: bool,
}

impl<T: Clone> Saved<T> {
    pub(crate) const fn empty() -> Self {
        Self {
            memory: None,
            valid: false,
        }
    }

    /// Keeps a copy of `value` instead of the one before.
    pub(crate) fn keep(&mut self, value: &T) {
        self.valid = true;
        match &mut self.memory {
            Some(memory) => (**memory).clone_from(value),
            None => self.memory = Some(Box::new(value.clone())),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.valid = false;
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        if core::mem::take(&mut self.valid) {
            self.memory.as_deref().cloned()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_latest_once() {
        let mut saved = Saved::empty();
        assert_eq!(saved.take(), None);
        saved.keep(&1);
        saved.keep(&2);
        assert_eq!((saved.take(), saved.take()), (Some(2), None));
        saved.keep(&3);
        saved.clear();
        assert_eq!(saved.take(), None);
    }
}
