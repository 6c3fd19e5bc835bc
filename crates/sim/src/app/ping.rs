//! [`PingConfig`]: ICMP echo at intervals, as `ping` does it.

use std::net::IpAddr;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_stack::Event;

use super::outstanding::{Outstanding, next_due};
use super::{AppError, Application, Applications, Context, Flow, Sample, When};
use crate::config_error::ConfigError;
use crate::link::earliest;

/// Maximum size of the data. Without jumbo frames the MTU is a tighter bound.
const MAX_DATA: u64 = u16::MAX as u64;
/// Sequence numbers of ICMP.
const NUMBERS: u128 = 1 << 16;

/// Echo requests to one host. Up to 65 536, the numbers of ICMP, are outstanding at once; replies to
/// older ones are lost.
#[derive(Clone, Debug)]
pub struct PingConfig {
    /// Name of the flow.
    pub flow: Flow,
    /// The destination.
    pub to: IpAddr,
    /// Start and stop. Default: from the beginning, without end.
    pub when: When,
    /// Time between requests, above 0. Default 200 ms (Flent's).
    pub interval: Duration,
    /// Number of requests. Default unlimited.
    pub count: Option<u64>,
    /// Size of the data. Default 56 bytes (`ping`'s).
    pub size: Bytes,
    /// TOS byte of requests and replies. Default 0.
    pub tos: u8,
    /// Timeout of a reply, above 0. Default 10 s.
    pub timeout: Duration,
}

impl PingConfig {
    /// Echo requests to `to`.
    pub fn new(flow: impl Into<Flow>, to: IpAddr) -> Self {
        Self {
            flow: flow.into(),
            to,
            when: When::default(),
            interval: Duration::from_millis(200),
            count: None,
            size: Bytes::new(56),
            tos: 0,
            timeout: Duration::from_secs(10),
        }
    }
}

impl Applications<'_> {
    /// Adds echo requests to a host.
    ///
    /// # Errors
    /// If a time is zero or the data too long.
    pub fn ping(&mut self, config: PingConfig) -> Result<&mut Self, ConfigError> {
        ConfigError::check(!config.interval.is_zero(), "interval", "0", "above 0")?;
        ConfigError::check(!config.timeout.is_zero(), "timeout", "0", "above 0")?;
        ConfigError::check(
            config.size.get() <= MAX_DATA,
            "size",
            config.size,
            "at most 65535 bytes",
        )?;
        self.echo_requests = self.echo_requests.saturating_add(most_outstanding(&config));
        let (flow, when) = (config.flow.clone(), config.when);
        let waiting = Outstanding::new(config.timeout);
        let data = vec![0; config.size.as_usize()].into();
        self.add(
            flow,
            when,
            Ping {
                data,
                config,
                next_at: None,
                sent: 0,
                waiting,
            },
        )
    }
}

/// Most requests that wait for a reply at once: those sent within the timeout.
fn most_outstanding(config: &PingConfig) -> usize {
    let within = config.timeout.as_nanos() / config.interval.as_nanos() + 1;
    let all = config.count.map_or(u128::MAX, u128::from);
    within.min(all).min(NUMBERS) as usize
}

struct Ping {
    config: PingConfig,
    data: Box<[u8]>,
    /// Time of the next request; `None` before the first and after the last.
    next_at: Option<Instant>,
    sent: u64,
    waiting: Outstanding,
}

impl Ping {
    /// Sends a request.
    fn ask(&mut self, cx: &mut Context<'_>, due: Instant) -> Result<(), AppError> {
        cx.ping(
            self.config.to,
            self.config.tos,
            self.sent as u16,
            &self.data,
        )?;
        cx.measured.note_sent(self.data.len());
        self.waiting.push(cx.now);
        self.sent += 1;
        let next = next_due(due, self.config.interval, cx.now);
        let is_last = self.config.count.is_some_and(|count| self.sent >= count);
        self.next_at = (!is_last).then_some(next);
        Ok(())
    }
}

impl Application for Ping {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        match self.config.count {
            Some(0) => Ok(()),
            _ => self.ask(cx, cx.now),
        }
    }

    fn stop(&mut self, _cx: &mut Context<'_>) -> Result<(), AppError> {
        self.next_at = None;
        self.config.count = Some(self.sent);
        Ok(())
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Pong { sequence, rtt, .. } => {
                if let Some(at) = self.waiting.take_short(sequence) {
                    cx.measured.note_received(self.data.len(), cx.now);
                    cx.measured.round_trips.push(Sample { at, took: rtt });
                }
            }
            Event::PingFailed { sequence, why, .. } => {
                let counts = self.waiting.take_short(sequence).is_some();
                if counts {
                    cx.measured.lost += 1;
                    cx.fail(why);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        cx.measured.lost += self.waiting.expire(cx.now);
        match self.next_at {
            Some(due) if due <= cx.now => self.ask(cx, due),
            _ => Ok(()),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        earliest(self.next_at, self.waiting.expires_at())
    }

    fn is_done(&self) -> bool {
        self.config.count.is_some_and(|count| self.sent >= count) && self.waiting.is_empty()
    }
}
