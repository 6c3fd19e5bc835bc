//! [`Saved`]: a copy of something that may be wanted back, which takes no room before there is one.

use alloc::boxed::Box;

/// At most one value. Its memory is taken when the first one is kept and serves all later ones, so
/// that keeping one per episode of congestion allocates once in the life of a connection, and never
/// for the many that meet none.
#[derive(Clone, Debug)]
pub(crate) struct Saved<T> {
    memory: Option<Box<T>>,
    valid: bool,
}

impl<T: Clone> Saved<T> {
    /// Nothing is kept.
    pub(crate) const fn nothing() -> Self {
        Self {
            memory: None,
            valid: false,
        }
    }

    /// Keeps `value` in place of what was kept before.
    pub(crate) fn keep(&mut self, value: &T) {
        self.valid = true;
        match &mut self.memory {
            Some(memory) => (**memory).clone_from(value),
            None => self.memory = Some(Box::new(value.clone())),
        }
    }

    /// What is kept is not wanted back.
    pub(crate) fn forget(&mut self) {
        self.valid = false;
    }

    /// Gives it back.
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
    fn gives_the_latest_back_once() {
        let mut saved = Saved::nothing();
        assert_eq!(saved.take(), None);
        saved.keep(&1);
        saved.keep(&2);
        assert_eq!((saved.take(), saved.take()), (Some(2), None));
        saved.keep(&3);
        saved.forget();
        assert_eq!(saved.take(), None);
    }
}
