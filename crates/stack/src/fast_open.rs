//! TCP Fast Open (RFC 7413) at the host: the cookies it gives to clients, the connections of a
//! listener that rest on nothing but a cookie, and the cookies it was given by servers.
//!
//! Here a cookie is a keyed hash of the two addresses and of the day, as long as Linux's.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use tautline_base::Instant;

use crate::keyed::Key;
use crate::tcp::Tuple;
use crate::tcp::fast_open::Lesson;
use crate::wire::FastOpenCookie;

/// A cookie is given for one such period, and believed in the next one, too: who learned one by
/// living at an address for a while cannot use it for long (RFC 7413 §5.1).
const PERIOD: Duration = Duration::from_secs(24 * 3600);
/// A connection that a reset ended before the peer acknowledged anything stays counted so long
/// after its SYN (RFC 7413 §5.1; Linux counts 60 s from the reset): the reset may be from a host
/// whose address another one used.
const SUSPICION: Duration = Duration::from_secs(60);
/// Servers remembered.
const SERVERS: usize = 1024;
/// After a failure, so long twice for each one in a row, at most six, no SYN carries data (Linux
/// `tcp_fastopen_cookie_check`).
const PAUSE: Duration = Duration::from_secs(60);

/// Trust in a client's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    None,
    /// It is about to expire: the client should get a new one.
    Old,
    Full,
}

/// The cookie for the client of `tuple`.
pub(crate) fn issue(key: &Key, tuple: &Tuple, now: Instant) -> FastOpenCookie {
    key.fast_open(tuple, period(now)).into()
}

/// Whether this host gave `cookie` to the client of `tuple`.
pub(crate) fn trust(key: &Key, tuple: &Tuple, cookie: &FastOpenCookie, now: Instant) -> Trust {
    let of = |period| FastOpenCookie::from(key.fast_open(tuple, period));
    let current = period(now);
    if *cookie == of(current) {
        Trust::Full
    } else if current.checked_sub(1).map(of) == Some(*cookie) {
        Trust::Old
    } else {
        Trust::None
    }
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / PERIOD.as_nanos() as u64
}

/// The connections of a listener that rest on nothing but a cookie: their peers have acknowledged
/// nothing yet (RFC 7413 §5.1, "PendingFastOpenRequests").
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    open: usize,
    /// When those that were reset are forgotten; nearly in order.
    reset: VecDeque<Instant>,
}

impl Unconfirmed {
    /// Number of those that count.
    pub(crate) fn count(&mut self, now: Instant) -> usize {
        while self.reset.front().is_some_and(|at| *at <= now) {
            self.reset.pop_front();
        }
        self.open + self.reset.len()
    }

    pub(crate) fn enter(&mut self) {
        self.open += 1;
    }

    /// The peer acknowledged, or the connection ended; `reset_since`: by a reset, when the SYN had
    /// come at that time.
    pub(crate) fn leave(&mut self, reset_since: Option<Instant>) {
        self.open -= 1;
        self.reset
            .extend(reset_since.map(|since| since + SUSPICION));
    }
}

/// The servers that this host has opened connections to.
#[derive(Debug)]
pub(crate) struct Servers {
    table: HashMap<IpAddr, Server, Key>,
    /// Oldest first.
    order: VecDeque<IpAddr>,
}

#[derive(Debug, Default)]
struct Server {
    cookie: Option<(FastOpenCookie, u16)>,
    /// Failures in a row, and when the pause after them ends.
    failures: u32,
    paused: Instant,
}

impl Servers {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            table: HashMap::with_hasher(key),
            order: VecDeque::new(),
        }
    }

    /// The cookie for the SYN to `server`, a request in its absence, and the server's MSS. `None`
    /// during the pause after a failure.
    pub(crate) fn cookie_for(&self, server: IpAddr, now: Instant) -> Option<(FastOpenCookie, u16)> {
        let known = self.table.get(&server);
        if known.is_some_and(|known| known.paused > now) {
            return None;
        }
        let cookie = known.and_then(|known| known.cookie);
        Some(cookie.unwrap_or((FastOpenCookie::REQUEST, 0)))
    }

    /// Remembers the experience with `server`.
    pub(crate) fn learn(&mut self, server: IpAddr, lesson: &Lesson) {
        let Lesson { cookie, failed } = *lesson;
        if !self.table.contains_key(&server) {
            if cookie.is_none() && failed.is_none() {
                return;
            }
            if self.order.len() >= SERVERS
                && let Some(oldest) = self.order.pop_front()
            {
                self.table.remove(&oldest);
            }
            self.order.push_back(server);
        }
        let known = self.table.entry(server).or_default();
        known.cookie = cookie.or(known.cookie);
        match failed {
            Some(at) => {
                known.failures = (known.failures + 1).min(6);
                known.paused = at + PAUSE * (1 << known.failures);
            }
            None => known.failures = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW: Instant = Instant::from_secs(1_000_000);

    fn tuple(client: u32) -> Tuple {
        Tuple {
            local: Ipv4Addr::new(10, 0, 0, 1).into(),
            remote: Ipv4Addr::from_bits(client).into(),
            local_port: 80,
            remote_port: 40_000,
        }
    }

    /// RFC 7413 §4.1.2.
    #[test]
    fn a_cookie_is_good_for_its_client_for_one_to_two_days() {
        let key = Key::from_seed(1);
        let day = Duration::from_secs(86_400);
        let cookie = issue(&key, &tuple(7), NOW);
        assert_eq!(cookie.bytes().len(), 8);
        let of_other_port = Tuple {
            remote_port: 40_001,
            ..tuple(7)
        };
        assert_eq!(trust(&key, &of_other_port, &cookie, NOW), Trust::Full);
        assert_eq!(trust(&key, &tuple(8), &cookie, NOW), Trust::None);
        assert_eq!(
            trust(&Key::from_seed(2), &tuple(7), &cookie, NOW),
            Trust::None
        );
        assert_eq!(trust(&key, &tuple(7), &cookie, NOW + day), Trust::Old);
        assert_eq!(trust(&key, &tuple(7), &cookie, NOW + 2 * day), Trust::None);
    }

    #[test]
    fn a_reset_stays_counted_for_a_minute() {
        let mut unconfirmed = Unconfirmed::default();
        unconfirmed.enter();
        unconfirmed.enter();
        unconfirmed.leave(None);
        unconfirmed.leave(Some(NOW));
        assert_eq!(unconfirmed.count(NOW), 1);
        assert_eq!(unconfirmed.count(NOW + SUSPICION), 0);
    }

    /// RFC 7413 §4.1.3.1.
    #[test]
    fn failures_pause_for_longer_and_longer() {
        let mut servers = Servers::new(Key::from_seed(1));
        let server = tuple(7).remote;
        let cookie = Some((FastOpenCookie::from(5), 1460));
        servers.learn(
            server,
            &Lesson {
                cookie,
                failed: None,
            },
        );
        assert_eq!(servers.cookie_for(server, NOW), cookie);
        let failure = Lesson {
            cookie: None,
            failed: Some(NOW),
        };
        for pause in [120, 240, 480] {
            servers.learn(server, &failure);
            let ends = NOW + Duration::from_secs(pause);
            assert_eq!(
                servers.cookie_for(server, ends - Duration::from_nanos(1)),
                None
            );
            assert_eq!(servers.cookie_for(server, ends), cookie);
        }
        servers.learn(
            server,
            &Lesson {
                cookie,
                failed: None,
            },
        );
        servers.learn(server, &failure);
        assert_eq!(
            servers.cookie_for(server, NOW + Duration::from_secs(120)),
            cookie
        );
    }

    #[test]
    fn the_servers_are_bounded() {
        let mut servers = Servers::new(Key::from_seed(1));
        let lesson = Lesson {
            cookie: Some((FastOpenCookie::from(5), 1460)),
            failed: None,
        };
        for client in 0..10 * SERVERS as u32 {
            servers.learn(tuple(client).remote, &lesson);
        }
        assert_eq!([servers.table.len(), servers.order.len()], [SERVERS; 2]);
    }
}
