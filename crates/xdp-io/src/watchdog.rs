//! [`Watchdog`]: how long a driver has completed nothing.
//!
//! Like Linux's `dev_watchdog` (`net/sched/sch_generic.c`), which looks for a transmit queue that a
//! driver stopped too long ago. The kernel does not watch the ring of an AF_XDP socket.

use std::time::Duration;

use tautline_base::Instant;

/// Time without a completion after which the kernel's sender is woken again: a driver may fall asleep just
/// after it was seen awake, and a socket that copies sends what the device refused only when it is
/// asked. Under `poll(2)` on the socket each call does that, under `epoll` none.
const NUDGE: Duration = Duration::from_millis(1);

/// Time without a completion after which the driver counts as stalled. Drivers give Linux's
/// `dev_watchdog` five seconds (`watchdog_timeo`); ours is shorter, so that sockets are opened anew, or
/// the program ends, within five.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same for a device that replaced a stalled one and has completed nothing yet.
const SECOND_PATIENCE: Duration = Duration::from_secs(1);

/// Watches the completions of one transmit ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watchdog {
    /// The last progress: a completion, or the first packet in an empty ring.
    progress_at: Instant,
    /// The last reap.
    reaped_at: Instant,
    /// When the kernel's sender is woken again without a doorbell.
    nudge_at: Instant,
    /// The device replaces a stalled one, and nothing has completed since.
    succeeds_in_vain: bool,
}

impl Watchdog {
    /// The watchdog of a device that replaces a stalled one.
    pub(crate) fn successor() -> Self {
        Self {
            succeeds_in_vain: true,
            ..Self::default()
        }
    }

    /// The device replaced a stalled one, and the driver has completed nothing since.
    pub(crate) fn succeeds_in_vain(&self) -> bool {
        self.succeeds_in_vain
    }

    /// Begins to wait: a packet was put into an empty ring, or there is a known reason to wait longer.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.progress_at = now;
        self.nudge_at = now + NUDGE;
    }

    /// Records a reap that returned `completed` packets.
    pub(crate) fn reaped(&mut self, completed: u64, now: Instant) {
        self.reaped_at = now;
        if completed > 0 {
            self.succeeds_in_vain = false;
            self.restart(now);
        }
    }

    /// True if the kernel's sender should be woken again; then not before another [`NUDGE`].
    pub(crate) fn nudges(&mut self, now: Instant) -> bool {
        let is_due = now >= self.nudge_at;
        if is_due {
            self.nudge_at = now + NUDGE;
        }
        is_due
    }

    /// True if a ring that is not empty has been without a completion for too long as of the last reap. A
    /// link without carrier may keep packets for as long as it likes: the time counts from the last
    /// call that found it so.
    pub(crate) fn has_stalled(&mut self, is_running: impl FnOnce() -> bool) -> bool {
        if self.reaped_at <= self.progress_at {
            return false;
        }
        if !is_running() {
            self.progress_at = self.reaped_at;
        }
        let patience = if self.succeeds_in_vain {
            SECOND_PATIENCE
        } else {
            PATIENCE
        };
        self.reaped_at >= self.progress_at + patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// The first time in milliseconds at which `watchdog`, reaped in vain every 10 ms since the first
    /// packet at `since`, finds a stall.
    fn stalls_after(mut watchdog: Watchdog, since: u64) -> u64 {
        watchdog.restart(ms(since));
        (1..)
            .map(|step| step * 10)
            .find(|after| {
                watchdog.reaped(0, ms(since + after));
                watchdog.has_stalled(|| true)
            })
            .expect("an endless range")
    }

    #[test]
    fn two_seconds_without_a_completion_are_a_stall_and_one_for_a_successor() {
        for since in [0, 7, 1_000_000] {
            assert_eq!(stalls_after(Watchdog::default(), since), 2000);
            assert_eq!(stalls_after(Watchdog::successor(), since), 1000);
        }
    }

    #[test]
    fn a_completion_ends_the_wait_of_a_successor() {
        let mut watchdog = Watchdog::successor();
        watchdog.restart(ms(0));
        watchdog.reaped(0, ms(900));
        assert!(watchdog.succeeds_in_vain());
        watchdog.reaped(3, ms(950));
        assert!(!watchdog.succeeds_in_vain());
        watchdog.reaped(0, ms(2949));
        assert!(!watchdog.has_stalled(|| true));
        watchdog.reaped(0, ms(2950));
        assert!(watchdog.has_stalled(|| true));
    }

    #[test]
    fn time_without_a_carrier_does_not_count() {
        let mut watchdog = Watchdog::default();
        watchdog.restart(ms(0));
        for second in 1..=60 {
            watchdog.reaped(0, ms(second * 1000));
            assert!(!watchdog.has_stalled(|| false), "second {second}");
        }
        watchdog.reaped(0, ms(61_999));
        assert!(!watchdog.has_stalled(|| true));
        watchdog.reaped(0, ms(62_000));
        assert!(watchdog.has_stalled(|| true));
    }

    /// Nobody has reaped since the last progress, so nothing is known of the time after it.
    #[test]
    fn without_a_reap_nothing_has_stalled() {
        let mut watchdog = Watchdog::default();
        watchdog.reaped(0, ms(5000));
        watchdog.restart(ms(5000));
        let asked = || unreachable!("there is nothing to ask the kernel for");
        assert!(!watchdog.has_stalled(asked));
    }

    #[test]
    fn the_sender_is_woken_every_millisecond_without_a_completion() {
        let mut watchdog = Watchdog::default();
        watchdog.restart(ms(10));
        let woken = |watchdog: &mut Watchdog, range: std::ops::Range<u64>| {
            range
                .filter(|tenth| watchdog.nudges(Instant::from_nanos(tenth * 100_000)))
                .count()
        };
        assert_eq!(woken(&mut watchdog, 100..110), 0);
        assert_eq!(woken(&mut watchdog, 110..160), 5);
        watchdog.reaped(1, ms(16));
        assert_eq!(woken(&mut watchdog, 160..170), 0);
    }
}
