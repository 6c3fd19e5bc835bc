//! [`question`]: asks the host's thread something and waits for the answer.

use std::sync::{Arc, OnceLock};

use super::Failure;
use super::waiters::Waiters;

#[derive(Debug)]
struct Shared<T> {
    answer: OnceLock<Result<T, Failure>>,
    asker: Waiters,
}

/// The asker's side.
#[derive(Debug)]
pub(super) struct Question<T>(Arc<Shared<T>>);

/// The host's side. If it is dropped, the asker hears that the host is gone.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Shared<T>>);

/// Both sides of a question.
pub(super) fn question<T>() -> (Question<T>, Answer<T>) {
    let shared = Arc::new(Shared {
        answer: OnceLock::new(),
        asker: Waiters::default(),
    });
    (Question(Arc::clone(&shared)), Answer(shared))
}

impl<T: Clone> Question<T> {
    /// What the host answers.
    pub(super) async fn answered(self) -> Result<T, Failure> {
        self.0.asker.wait(|| self.0.answer.get().cloned()).await
    }
}

impl<T> Answer<T> {
    /// Answers. The first answer counts.
    pub(super) fn give(&self, answer: Result<T, Failure>) {
        let _ = self.0.answer.set(answer);
        self.0.asker.wake();
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.give(Err(Failure::HostGone));
    }
}
