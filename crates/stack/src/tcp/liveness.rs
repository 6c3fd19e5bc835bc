//! Whether the peer is still there: the user timeout (RFC 5482, kept local), keepalive (RFC 9293
//! §3.8.4) and how long an abandoned connection may go on (Linux `tcp_keepalive_timer`).
//! Retransmission and window probing have their own limits, in `deadlines`.

use std::time::Duration;

use tautline_base::{Instant, SplitMix64};

use super::send::sooner;
use super::state::State;
use crate::config::TcpConfig;

/// Longest time until segments that carry no data and do not fit are answered again (Linux
/// `tcp_invalid_ratelimit`, 500 ms). Half of it is the shortest: from a limit that can be predicted,
/// an off-path attacker learns whether a forged segment was answered (CVE-2016-5696).
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(500);

/// Signs of the peer's presence.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// Time of the last segment from the peer.
    heard: Instant,
    /// Since when something waits for the peer without progress: sent and not acknowledged, or held
    /// by its closed window.
    pub(super) waiting_since: Option<Instant>,
    /// Keepalive probes sent since a segment of the peer last arrived.
    probes: u32,
    /// Time of the latest of them. The next one waits from there: a late event loop must not send
    /// many probes at once and mistake the missing answers for a dead peer.
    asked: Instant,
    /// A keepalive probe is to be sent now.
    pub(super) probe_due: bool,
    /// The last segment was sent again: perhaps nothing of ours reaches the peer.
    pub(super) repeats: bool,
    /// Time from which a segment outside the window is answered again.
    challenge_from: Instant,
    random: SplitMix64,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    pub(super) close: Option<Instant>,
}

impl Liveness {
    /// Nothing has been heard. `seed` is unknown off the path.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            heard: Instant::ZERO,
            waiting_since: None,
            probes: 0,
            asked: Instant::ZERO,
            probe_due: false,
            repeats: false,
            challenge_from: Instant::ZERO,
            random: SplitMix64::new(seed),
            close: None,
        }
    }

    /// A segment of the peer arrived.
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = now;
        self.probes = 0;
        self.probe_due = false;
        self.repeats = false;
    }

    /// Time of the last segment from the peer.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// The same if that segment shows that ours arrive (RFC 4861 §7.3.1), else zero.
    pub(crate) fn confirmed(&self) -> Instant {
        if self.repeats {
            Instant::ZERO
        } else {
            self.heard
        }
    }

    /// Restarts the keepalive timer, so that a connection idle for long is not probed at once. No peer was
    /// heard, so nothing is confirmed until one is.
    pub(super) fn restart_keepalive(&mut self, now: Instant) {
        self.heard = self.heard.max(now);
        self.probes = 0;
        self.repeats = true;
    }

    /// Starts the wait for the peer, unless it already runs.
    pub(super) fn wait(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// The acknowledgment of something new, or an opened window: whatever waits now waits since
    /// now.
    pub(super) fn note_progress(&mut self, waits: bool, now: Instant) {
        self.waiting_since = waits.then_some(now);
    }

    /// A probe left, of a closed window or of a quiet peer.
    pub(super) fn probed(&mut self, now: Instant) {
        if std::mem::take(&mut self.probe_due) {
            self.probes = self.probes.saturating_add(1);
            self.asked = now;
        }
    }

    /// The peer is sent our numbers in answer to a segment that does not fit: `always`, or at a
    /// limited rate, so that two confused ends do not talk forever. False if the limit forbids it.
    pub(super) fn challenge(&mut self, always: bool, now: Instant) -> bool {
        let answers = always || now >= self.challenge_from;
        if answers {
            let half = CHALLENGE_INTERVAL / 2;
            let more = self.random.next_u64() % (half.as_nanos() as u64);
            self.challenge_from = now + half + Duration::from_nanos(more);
        }
        answers
    }

    /// Time of the next keepalive probe of a `quiet` peer, or of the user timeout. Outstanding data
    /// probes the peer by itself.
    #[inline]
    pub(super) fn deadline(
        &self,
        config: &TcpConfig,
        state: State,
        quiet: bool,
    ) -> Option<Instant> {
        if (config.keepalive.is_none() && config.user_timeout.is_none()) || state.is_over() {
            return None;
        }
        let asks = quiet && !self.probe_due && !state.is_opening();
        let keepalive = config.keepalive().filter(|_| asks);
        let probe = keepalive.map(|keepalive| match self.probes {
            0 => self.heard + keepalive.idle,
            _ => self.asked + keepalive.interval,
        });
        sooner(probe, self.user_timeout_at(config))
    }

    /// The deadline has passed: a probe is due, or the peer is taken for dead; then true.
    pub(super) fn on_deadline(&mut self, config: &TcpConfig, now: Instant) -> bool {
        let is_late = self.user_timeout_at(config).is_some_and(|at| at <= now);
        let is_dead = is_late || self.keepalive_is_in_vain(config, now);
        self.probe_due |= !is_dead;
        is_dead
    }

    fn user_timeout_at(&self, config: &TcpConfig) -> Option<Instant> {
        Some(self.waiting_since? + config.user_timeout()?)
    }

    /// Enough probes went unanswered; with a user timeout it is the time that counts (Linux).
    fn keepalive_is_in_vain(&self, config: &TcpConfig, now: Instant) -> bool {
        let Some(keepalive) = config.keepalive() else {
            return false;
        };
        match config.user_timeout() {
            Some(limit) => self.probes > 0 && now - self.heard >= limit,
            None => self.probes >= keepalive.probes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Keepalive;

    /// Milliseconds between answers to a segment every millisecond.
    fn gaps(seed: u64) -> Vec<u64> {
        let mut liveness = Liveness::new(seed);
        let answers: Vec<u64> = (1..20_000)
            .filter(|&at| liveness.challenge(false, Instant::from_millis(at)))
            .collect();
        answers.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn answers_are_rare_and_their_times_cannot_be_predicted() {
        let [one, other] = [1, 2].map(gaps);
        for gap in one.iter().chain(&other) {
            assert!((250..=500).contains(gap), "{gap} ms");
        }
        assert!(one.iter().any(|gap| *gap != one[0]) && one != other);
    }

    /// Else all probes would leave in one instant, and the peer would be given up before it can answer.
    #[test]
    fn times_of_zero_are_a_millisecond_and_no_probes_are_one() {
        let config = TcpConfig {
            keepalive: Some(Keepalive {
                idle: Duration::ZERO,
                interval: Duration::ZERO,
                probes: 0,
            }),
            user_timeout: Some(Duration::ZERO),
            ..TcpConfig::default()
        };
        let mut liveness = Liveness::new(1);
        let at = Instant::from_millis;
        liveness.hear(at(5));
        liveness.wait(at(5));
        let deadline = |liveness: &Liveness| liveness.deadline(&config, State::Established, true);
        assert_eq!(deadline(&liveness), Some(at(6)));
        assert!(!liveness.on_deadline(&config, at(6)), "it is asked first");
        liveness.probed(at(6));
        assert_eq!(deadline(&liveness), Some(at(7)));
        assert!(liveness.on_deadline(&config, at(7)));
    }

    #[test]
    fn segments_with_data_are_always_answered() {
        let mut liveness = Liveness::new(1);
        let now = Instant::from_secs(1);
        assert!(liveness.challenge(true, now) && liveness.challenge(true, now));
        assert!(!liveness.challenge(false, now));
    }
}
