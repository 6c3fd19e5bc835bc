//! [`Params`]: the parameters of COBALT; shared by all queues it governs.

use core::fmt;
use core::time::Duration;

use tautline_base::ConfigError;

use crate::units;

/// Start of a standing queue's first episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The first signal comes an interval after the delay rose above the target, as CoDel wants it.
    /// The default.
    #[default]
    Patient,
    /// As in Linux 6.1, whose queues begin with an inverse root of zero: the second packet above
    /// the target is signaled at once. The same happens when the first one arrives after a pause
    /// longer than the interval. Intervals longer than 4.29 s lose their upper bits in the control
    /// law, and the gap after the first signal is 0.06 % short.
    Linux,
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Patient => "patient",
            Self::Linux => "linux",
        })
    }
}

/// Parameters of the algorithm.
/// `Default` is what Linux's CAKE uses for an unlimited rate, except for [`start`](Self::start).
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Acceptable standing delay. Default 5 ms (CAKE, ns-3).
    pub target: Duration,
    /// Time within which the delay must fall below the target once; about the longest usual round
    /// trip. Default 100 ms (CAKE, ns-3).
    pub interval: Duration,
    /// The time one full frame takes at the rate of the link: a delay of up to four of them is
    /// never above the target. Default zero, for a link whose rate is not known.
    pub mtu_time: Duration,
    /// Increment of BLUE's drop probability when the queue is full, applied at most once per target
    /// time. Default 1/256 (CAKE, ns-3).
    pub increment: f64,
    /// Decrement of it when the queue is empty, applied at most once per target time. Default
    /// 1/4096 (CAKE, ns-3).
    pub decrement: f64,
    /// A delay above this counts as a full queue. Default none (CAKE); ns-3 has 400 ms.
    pub blue_threshold: Option<Duration>,
    /// Mark instead of dropping where the packet allows it. Default on: CAKE knows nothing else.
    /// BLUE never marks.
    pub ecn: bool,
    /// Start of the first episode. Default [`Start::Patient`].
    pub start: Start,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu_time: Duration::ZERO,
            increment: 1.0 / 256.0,
            decrement: 1.0 / 4096.0,
            blue_threshold: None,
            ecn: true,
            start: Start::default(),
        }
    }
}

impl Params {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let share = "a share from 0 to 1";
        ConfigError::check(
            (0.0..=1.0).contains(&self.increment),
            "increment",
            self.increment,
            share,
        )?;
        ConfigError::check(
            (0.0..=1.0).contains(&self.decrement),
            "decrement",
            self.decrement,
            share,
        )?;
        let interval = units::time(self.interval);
        ConfigError::check(
            self.interval > Duration::ZERO,
            "interval",
            interval,
            "longer than nothing",
        )
    }
}
