//! [`Times`]: how long an answer of a neighbor is trusted, and how long it is waited for (RFC 4861
//! §6.3.2 and §10), as routers advertise it for IPv6 (§6.3.4).

use std::net::IpAddr;
use std::time::Duration;

use tautline_base::Instant;

use crate::keyed::Key;

/// Time for which an answer of an IPv4 neighbor is trusted: the order of a minute (RFC 1122
/// §2.3.2.1).
const ARP_FRESH: Duration = Duration::from_secs(60);
/// Defaults of RFC 4861 §10: `REACHABLE_TIME`, `RETRANS_TIMER`. The second is IPv4's, too (RFC 1122
/// §2.3.2.1).
const REACHABLE_TIME: Duration = Duration::from_secs(30);
pub(crate) const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// Bounds of both times as advertised. A shorter one counts as the lower bound (Linux
/// `ndisc_router_discovery`), so that a forged message makes no flood of requests. A longer one has no
/// effect: no router advertises more than an hour (§6.2.1), and a request that is not repeated for long
/// would let a forged message cut the host off.
const REACHABLE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3600)];
const RETRANSMISSION: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(10)];
/// Age at which the reachable time is drawn anew: "a few hours" (§6.3.2).
const REDRAWN_AFTER: Duration = Duration::from_secs(2 * 60 * 60);

/// Times of the neighbors of both families.
#[derive(Debug)]
pub(super) struct Times {
    /// `BaseReachableTime`.
    base: Duration,
    /// `RetransTimer`.
    retransmission: Duration,
    /// `ReachableTime`, and when it was drawn.
    drawn: Option<(Duration, Instant)>,
    draws: u64,
    key: Key,
}

impl Times {
    pub(super) fn new(key: Key) -> Self {
        Self {
            base: REACHABLE_TIME,
            retransmission: RETRANS_TIMER,
            drawn: None,
            draws: 0,
            key,
        }
    }

    /// A router advertises these times, each unless it is zero. True if the reachable time is drawn anew
    /// because of it.
    pub(super) fn advertise(&mut self, reachable: Duration, retransmission: Duration) -> bool {
        if let Some(time) = retransmission_within_bounds(retransmission) {
            self.retransmission = time;
        }
        match within(reachable, REACHABLE) {
            Some(time) if time != self.base => {
                (self.base, self.drawn) = (time, None);
                true
            }
            _ => false,
        }
    }

    /// Time for which an answer of `neighbor` is trusted. For IPv6 it is random, half of the base time to
    /// one and a half, so that hosts do not fall into step.
    pub(super) fn fresh(&mut self, neighbor: IpAddr, now: Instant) -> Duration {
        if neighbor.is_ipv4() {
            return ARP_FRESH;
        }
        match self.drawn {
            Some((time, at)) if now < at + REDRAWN_AFTER => time,
            _ => {
                self.draws += 1;
                let part = self.key.reachable_time(self.draws) >> 32;
                let base = self.base.as_nanos() as u64;
                let random = (u128::from(base) * u128::from(part)) >> 32;
                let time = Duration::from_nanos(base / 2 + random as u64);
                self.drawn = Some((time, now));
                time
            }
        }
    }

    /// Time between requests for `neighbor`.
    pub(super) fn interval(&self, neighbor: &IpAddr) -> Duration {
        if neighbor.is_ipv4() {
            RETRANS_TIMER
        } else {
            self.retransmission
        }
    }
}

/// The time between requests that a router advertises, as it counts; `None` if it has no effect.
pub(crate) fn retransmission_within_bounds(time: Duration) -> Option<Duration> {
    within(time, RETRANSMISSION)
}

/// `time` as it counts within these bounds; `None` if it has no effect.
fn within(time: Duration, [least, most]: [Duration; 2]) -> Option<Duration> {
    (!time.is_zero() && time <= most).then(|| time.max(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 7, 0, 2));
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 2));
    const HOUR: u64 = 3600;

    fn times(seed: u64) -> Times {
        Times::new(Key::from_seed(seed))
    }

    #[test]
    fn the_reachable_time_is_half_to_one_and_a_half_of_its_base() {
        let drawn: Vec<f64> = (0..1000)
            .map(|seed| times(seed).fresh(V6, Instant::ZERO).as_secs_f64())
            .collect();
        assert!(drawn.iter().all(|time| (15.0..45.0).contains(time)));
        let in_first_third = drawn.iter().filter(|time| **time < 25.0).count();
        let in_last_third = drawn.iter().filter(|time| **time > 35.0).count();
        assert!((280..390).contains(&in_first_third), "{in_first_third}");
        assert!((280..390).contains(&in_last_third), "{in_last_third}");
        assert_eq!(
            times(1).fresh(V6, Instant::ZERO),
            times(1).fresh(V6, Instant::ZERO)
        );
        assert_eq!(times(1).fresh(V4, Instant::ZERO), ARP_FRESH);
    }

    #[test]
    fn it_is_drawn_anew_after_hours_and_when_its_base_changes() {
        let mut times = times(1);
        let first = times.fresh(V6, Instant::ZERO);
        assert_eq!(times.fresh(V6, Instant::from_secs(2 * HOUR - 1)), first);
        let second = times.fresh(V6, Instant::from_secs(2 * HOUR));
        assert_ne!(second, first);
        let secs = Duration::from_secs;
        assert!(times.advertise(secs(300), Duration::ZERO));
        let longer = times.fresh(V6, Instant::from_secs(2 * HOUR));
        assert!((secs(150)..secs(450)).contains(&longer));
        assert!(
            !times.advertise(secs(300), Duration::ZERO),
            "the same again"
        );
        assert_eq!(times.fresh(V6, Instant::from_secs(2 * HOUR)), longer);
        assert!(!times.advertise(Duration::ZERO, Duration::ZERO));
        assert!(!times.advertise(secs(3601), Duration::ZERO), "too long");
        assert!(times.advertise(Duration::from_millis(1), Duration::ZERO));
        assert_eq!(times.base, REACHABLE[0]);
    }

    #[test]
    fn routers_set_the_time_between_requests_within_bounds() {
        let mut times = times(1);
        let millis = Duration::from_millis;
        assert_eq!(times.interval(&V6), millis(1000));
        for (advertised, expected) in [
            (300, 300),
            (0, 300),
            (1, 10),
            (10_000, 10_000),
            (10_001, 10_000),
            (u64::from(u32::MAX), 10_000),
        ] {
            times.advertise(Duration::ZERO, millis(advertised));
            assert_eq!(times.interval(&V6), millis(expected), "{advertised}");
        }
        assert_eq!(times.interval(&V4), millis(1000));
    }
}
