//! [`each_queue`]: work for each hardware queue, on a thread of its own that ends alone.

use std::thread::{Builder, scope};

use crate::failure::Failure;

/// Runs each of `works` on a thread named after its queue, counted from 0, until all have ended. Returns
/// their results in that order.
///
/// A failure or a panic of one ends that one. A line on standard error says so at once, since the
/// others go on.
///
/// # Errors
/// If the system refuses a thread.
pub fn each_queue<T, W>(
    works: impl IntoIterator<Item = W>,
) -> Result<Vec<Result<T, Failure>>, Failure>
where
    T: Send,
    W: FnOnce() -> Result<T, Failure> + Send,
{
    let of_queue = |queue: u32, failure: Failure| Failure::Queue {
        queue,
        source: Box::new(failure),
    };
    scope(|scope| {
        let mut threads = Vec::new();
        for (queue, work) in (0..).zip(works) {
            let thread = Builder::new().name(format!("queue {queue}"));
            let thread = thread.spawn_scoped(scope, move || {
                let ended = work().map_err(|failure| of_queue(queue, failure));
                if let Err(failure) = &ended {
                    eprintln!("note: {failure}");
                }
                ended
            });
            threads.push((queue, thread?));
        }
        let ended = threads.into_iter().map(|(queue, thread)| {
            let panicked = |_| Err(of_queue(queue, Failure::Panicked));
            thread.join().unwrap_or_else(panicked)
        });
        Ok(ended.collect())
    })
}

/// The results of those that succeeded, and the first failure.
pub fn divide<T>(ended: Vec<Result<T, Failure>>) -> (Vec<T>, Result<(), Failure>) {
    let (mut results, mut first) = (Vec::new(), Ok(()));
    for result in ended {
        match result {
            Ok(result) => results.push(result),
            Err(failure) => first = first.and(Err(failure)),
        }
    }
    (results, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Barrier;

    #[test]
    fn a_thread_that_fails_or_panics_ends_alone() {
        // The last two go on after the first two have ended.
        let ended = Barrier::new(3);
        let work = |queue: u32| {
            let ended = &ended;
            move || match queue {
                0 => {
                    let _at_the_end = Waits(ended);
                    panic!("queue 0 is killed by its test")
                }
                1 => Err(Failure::Interrupted),
                _ => {
                    ended.wait();
                    Ok(queue)
                }
            }
        };
        let ended = each_queue((0..4).map(work)).expect("threads");
        let name = |ended: &Result<u32, Failure>| match ended {
            Ok(queue) => queue.to_string(),
            Err(failure) => failure.to_string(),
        };
        let names: Vec<_> = ended.iter().map(name).collect();
        assert!(
            names[0].starts_with("queue 0: its thread panicked"),
            "{names:?}"
        );
        assert!(names[1].starts_with("queue 1: interrupted"), "{names:?}");
        assert_eq!(names[2..], ["2", "3"]);
        let (results, first) = divide(ended);
        assert_eq!(results, [2, 3]);
        let first = first.expect_err("two have failed").to_string();
        assert!(first.starts_with("queue 0: "), "{first}");
    }

    struct Waits<'a>(&'a Barrier);

    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
}
