//! [`Shard`]: which of several processes runs which lines: every n-th one, so that each gets some
//! of every cell.

use std::num::NonZeroUsize;
use std::str::FromStr;

/// Number `index` of `count` processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: NonZeroUsize,
}

const USAGE: &str = "write --shard I/N, from 1/N to N/N";

impl Shard {
    /// The only process.
    pub const WHOLE: Self = Self {
        index: 0,
        count: NonZeroUsize::MIN,
    };

    /// Number `index`, from 0, of `count`.
    pub fn new(index: usize, count: usize) -> Option<Self> {
        let count = NonZeroUsize::new(count)?;
        (index < count.get()).then_some(Self { index, count })
    }

    /// The shard that the environment variables returned by `get` specify: a job array of Slurm
    /// (tasks counted from the first, by its step), or an indexed Job of Kubernetes, whose pods
    /// must set `JOB_COMPLETIONS` too, because Kubernetes does not.
    ///
    /// # Errors
    /// In words, if it says only half of it or what cannot be: to run everything in each process
    /// would be worse.
    pub fn of_environment(get: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str| match get(name) {
            Some(value) => value
                .trim()
                .parse::<usize>()
                .map(Some)
                .map_err(|_| format!("{name}={value} is no number; {USAGE}")),
            None => Ok(None),
        };
        let wanted = |name: &str, beside: &str| {
            number(name)?
                .ok_or_else(|| format!("{beside} is set, but {name} is not; set it, or {USAGE}"))
        };
        let (index, count) = if let Some(task) = number("SLURM_ARRAY_TASK_ID")? {
            let count = wanted("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_ID")?;
            let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
            let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1);
            (
                task.checked_sub(first)
                    .and_then(|task| task.checked_div(step)),
                count,
            )
        } else if let Some(index) = number("JOB_COMPLETION_INDEX")? {
            (
                Some(index),
                wanted("JOB_COMPLETIONS", "JOB_COMPLETION_INDEX")?,
            )
        } else {
            return Ok(Self::WHOLE);
        };
        let refused = || {
            format!(
                "the environment's job index is not one of {count}, counted from the first; {USAGE}"
            )
        };
        index
            .and_then(|index| Self::new(index, count))
            .ok_or_else(refused)
    }

    /// Whether it runs the line at `place`, from 0.
    pub fn has(self, place: usize) -> bool {
        place % self.count == self.index
    }

    /// Which it is, from 1, and of how many.
    pub fn of(self) -> (usize, usize) {
        (self.index + 1, self.count.get())
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(index, count)| {
            Self::new(
                index.parse::<usize>().ok()?.checked_sub(1)?,
                count.parse().ok()?,
            )
        });
        parsed.ok_or_else(|| USAGE.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Result<Shard, String> {
        Shard::of_environment(|name| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_shard_is_given_by_word_or_by_the_scheduler() {
        assert_eq!("2/8".parse(), Ok(Shard::new(1, 8).expect("one")));
        assert_eq!(environment(&[]), Ok(Shard::WHOLE));
        let slurm = [
            ("SLURM_ARRAY_TASK_ID", "9"),
            ("SLURM_ARRAY_TASK_COUNT", "5"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
        ];
        let stepped: Vec<_> = slurm
            .into_iter()
            .chain([("SLURM_ARRAY_TASK_STEP", "2")])
            .collect();
        assert_eq!(environment(&stepped).map(Shard::of), Ok((5, 5)));
        let kubernetes = [("JOB_COMPLETION_INDEX", "0"), ("JOB_COMPLETIONS", "3")];
        assert_eq!(environment(&kubernetes).map(Shard::of), Ok((1, 3)));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_remedy() {
        for text in ["", "1", "4/3", "0/3", "-1/3", "1/0", "1/2/3", "a/b"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        for pairs in [
            &[("JOB_COMPLETION_INDEX", "1")][..],
            &[("SLURM_ARRAY_TASK_ID", "1")],
            &[
                ("SLURM_ARRAY_TASK_ID", "7"),
                ("SLURM_ARRAY_TASK_COUNT", "3"),
            ],
            &[
                ("SLURM_ARRAY_TASK_ID", "1"),
                ("SLURM_ARRAY_TASK_COUNT", "3"),
                ("SLURM_ARRAY_TASK_STEP", "0"),
            ],
            &[
                ("SLURM_ARRAY_TASK_ID", "1"),
                ("SLURM_ARRAY_TASK_COUNT", "0"),
            ],
            &[("JOB_COMPLETION_INDEX", "one"), ("JOB_COMPLETIONS", "2")],
        ] {
            let why = environment(pairs).expect_err("half of it");
            assert!(why.contains("--shard I/N"), "{why}");
        }
    }
}
