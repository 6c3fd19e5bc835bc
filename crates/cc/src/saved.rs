//! [`Saved`]: a copy of a value that may be restored; it allocates when the first copy is kept.

use alloc::boxed::Box;

/// At most one value. The allocation of the first one serves all later ones: a connection allocates
/// once in its life, and only if it meets congestion.
#[derive(Clone, Debug)]
pub(crate) struct Saved<T> {
    memory: Option<Box<Memory<T>>>,
}

#[derive(Clone, Debug)]
struct Memory<T> {
    value: T,
    is_valid: bool,
}

impl<T: Clone> Saved<T> {
    pub(crate) const fn empty() -> Self {
        Self { memory: None }
    }

    /// Keeps a copy of `value` instead of the one before.
    pub(crate) fn keep(&mut self, value: &T) {
        match &mut self.memory {
            Some(memory) => {
                memory.value.clone_from(value);
                memory.is_valid = true;
            }
            None => {
                self.memory = Some(Box::new(Memory {
                    value: value.clone(),
                    is_valid: true,
                }));
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.is_valid = false;
        }
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        let memory = self.memory.as_mut()?;
        core::mem::take(&mut memory.is_valid).then(|| memory.value.clone())
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
