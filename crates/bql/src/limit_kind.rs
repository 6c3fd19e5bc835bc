//! [`LimitKind`]: the limit of a ring, chosen at run time on a command line or in a simulation.

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use tautline_base::{Bytes, ConfigError};

use crate::dql::{self, Dql};
use crate::limit::{Limit, Unlimited};
use crate::push::{self, Push};

/// A limit on the bytes in a device, by name: `none`, `dql`, `bytes:N`, `push`. The default is
/// `dql` with Linux's parameters.
///
/// ```
/// use tautline_bql::{Limit, LimitKind};
///
/// let kind: LimitKind = "bytes:3028".parse()?;
/// assert_eq!(kind.build()?.limit().get(), 3028);
/// # Ok::<(), tautline_base::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// No limit but the capacity of the ring.
    Unlimited,
    /// Dynamic queue limits; with `limit_min` = `limit_max`, a fixed number of bytes.
    Dql(dql::Config),
    /// Push-based flow control.
    Push(push::Config),
}

/// The syntax of a [`LimitKind`].
const WORDS: &str = "`dql`, `none`, `push`, or `bytes:N` with a size as 3028 or 64k";

impl LimitKind {
    /// A constant limit of `bytes`: as in Linux, dynamic queue limits with equal bounds.
    pub fn fixed(bytes: Bytes) -> Self {
        Self::Dql(dql::Config {
            limit_min: bytes,
            limit_max: bytes,
            ..dql::Config::default()
        })
    }

    /// Builds the limit, with nothing in flight.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self) -> Result<Box<dyn Limit>, ConfigError> {
        Ok(match self {
            Self::Unlimited => Box::new(Unlimited::default()),
            Self::Dql(config) => Box::new(Dql::new(*config)?),
            Self::Push(config) => Box::new(Push::new(*config)?),
        })
    }
}

impl Default for LimitKind {
    fn default() -> Self {
        Self::Dql(dql::Config::default())
    }
}

impl From<dql::Config> for LimitKind {
    fn from(config: dql::Config) -> Self {
        Self::Dql(config)
    }
}

impl From<push::Config> for LimitKind {
    fn from(config: push::Config) -> Self {
        Self::Push(config)
    }
}

impl FromStr for LimitKind {
    type Err = ConfigError;

    /// Parses the name of a limit and validates its parameters.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let fixed = |text: &str| Some(Self::fixed(text.strip_prefix("bytes:")?.parse().ok()?));
        let kind = match text {
            "none" => Self::Unlimited,
            "dql" => Self::default(),
            "push" => Self::Push(push::Config::default()),
            _ => fixed(text).ok_or_else(|| ConfigError::new("limit", text, WORDS))?,
        };
        kind.build().map(|_| kind)
    }
}

impl fmt::Display for LimitKind {
    /// Writes the name; parameters other than a constant number of bytes are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("none"),
            Self::Dql(config) if config.limit_min == config.limit_max => {
                write!(f, "bytes:{}", config.limit_min.get())
            }
            Self::Dql(_) => f.write_str("dql"),
            Self::Push(_) => f.write_str("push"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use tautline_base::Instant;

    const NOW: Instant = Instant::from_secs(1);

    #[test]
    fn words_are_read_and_written_or_refused_with_what_there_is() {
        for text in ["none", "dql", "push", "bytes:0", "bytes:3028"] {
            assert_eq!(text.parse::<LimitKind>().expect(text).to_string(), text);
        }
        assert_eq!("bytes:64k".parse(), Ok(LimitKind::fixed(Bytes::kib(64))));
        for text in [
            "", "DQL", "bytes", "bytes:", "bytes:-1", "bytes:x", "push:1",
        ] {
            let error = text.parse::<LimitKind>().expect_err(text).to_string();
            assert!(
                error.starts_with("`limit` must be `dql`, `none`") && error.ends_with(text),
                "{error}"
            );
        }
        let error = "bytes:2gb"
            .parse::<LimitKind>()
            .expect_err("more than 32 bits can count")
            .to_string();
        assert_eq!(
            error,
            "`limit_max` must be at most 1879048192b, not 2147483648b"
        );
    }

    /// The packets that each admits to a device that completes nothing.
    #[test]
    fn each_limits_as_its_name_says() {
        let let_in = |text: &str| {
            let mut limit = text.parse::<LimitKind>().expect(text).build().expect(text);
            for _ in 0..100 {
                if limit.available(NOW) {
                    limit.queued(Bytes::new(1514), NOW);
                }
            }
            limit.in_flight().get() / 1514
        };
        assert_eq!(
            ["none", "dql", "push", "bytes:15140", "bytes:0"].map(let_in),
            [100, 1, 1, 11, 1]
        );
    }

    /// A box around a limit answers what the limit answers: full, then open after a completion or a
    /// reset, and with nothing in flight after either.
    #[test]
    fn completions_and_resets_empty_each_through_a_box() {
        let endings: [fn(&mut dyn Limit); 2] = [
            |limit| limit.completed(Bytes::new(3028), NOW),
            |limit| limit.reset(),
        ];
        for (text, opens) in [
            ("none", Some(Instant::ZERO)),
            ("dql", None),
            ("push", None),
            ("bytes:1514", None),
        ] {
            for end in endings {
                let limit = text.parse::<LimitKind>().expect(text).build().expect(text);
                let mut limit: Box<dyn Limit> = Box::new(limit);
                (0..2).for_each(|_| limit.queued(Bytes::new(1514), NOW));
                let full = (limit.opens_at(), limit.in_flight().get());
                assert_eq!(full, (opens, 3028), "{text}");
                end(&mut limit);
                let empty = (limit.opens_at(), limit.in_flight().get());
                assert_eq!(empty, (Some(Instant::ZERO), 0), "{text}");
            }
        }
    }

    #[test]
    fn a_limit_moves_into_a_thread() {
        let limit = LimitKind::default().build().expect("the default");
        let moved = std::thread::spawn(move || limit.in_flight());
        assert_eq!(moved.join().expect("no panic"), Bytes::ZERO);
    }

    #[test]
    fn only_a_dynamic_limit_shows_what_sysfs_would() {
        let shown = |text: &str| {
            let limit = text.parse::<LimitKind>().expect(text).build().expect(text);
            limit.dql().map(|snapshot| snapshot.limit_min)
        };
        assert_eq!(shown("dql"), Some(Bytes::ZERO));
        assert_eq!(shown("bytes:3028"), Some(Bytes::new(3028)));
        assert_eq!(["none", "push"].map(shown), [None, None]);
    }
}
