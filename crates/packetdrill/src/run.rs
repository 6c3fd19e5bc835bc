//! [`run`]: plays a script against a [`World`], event by event.

mod flow;

use std::time::Duration;

use flow::Flow;

use crate::assertion;
use crate::calls::{Application, Outcome, Unsupported};
use crate::facts::Facts;
use crate::parse::ParseError;
use crate::syntax::{Action, Call, Event, Packet, Script, Segment, When};
use crate::sysctl;
use crate::world::World;

/// Outcome of a script that did not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The stack did something else.
    #[error("line {line}: {why}")]
    Differs {
        /// Line of the event.
        line: usize,
        /// Expected and actual behavior.
        why: String,
    },
    /// The script needs what is not supported here; it counts as skipped.
    #[error("line {line}: {why} is not supported")]
    Unsupported {
        /// Line of the event; 0 for the settings at the top.
        line: usize,
        /// The unsupported feature.
        why: String,
    },
}

impl From<ParseError> for Failure {
    fn from(error: ParseError) -> Self {
        Self::Unsupported {
            line: error.line,
            why: error.why,
        }
    }
}

/// Strictness of the checks.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How far from its time a segment may leave. Default 4 ms, packetdrill's.
    pub tolerance: Duration,
    /// The same as a share of the time since the event before, in percent. Default 12.5,
    /// packetdrill's.
    pub tolerance_percent: f64,
    /// Whether the PSH flag is compared. Default no: RFC 9293 §3.9.1.2 leaves it to the sender.
    pub compare_push: bool,
    /// Whether a segment that left before the script's end and that no line expects is a failure.
    /// Default no, as in packetdrill.
    pub complete: bool,
    /// IPv6 instead of IPv4. Default no.
    pub ipv6: bool,
    /// Seed of everything random in the host. Default 1.
    pub seed: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            tolerance: Duration::from_millis(4),
            tolerance_percent: 12.5,
            compare_push: false,
            complete: false,
            ipv6: false,
            seed: 1,
        }
    }
}

/// Largest tolerance as a share of a time: a `Duration` does not hold more of a long time.
const MOST_PERCENT: f64 = 1e4;

impl Rules {
    /// Takes the options at the top of a script.
    fn with_options(
        mut self,
        options: &[(String, String)],
        mtu: &mut usize,
    ) -> Result<Self, String> {
        for (name, value) in options {
            let number = value.parse::<f64>().ok().filter(|number| *number >= 0.0);
            match (name.as_str(), number) {
                ("tolerance_usecs", Some(micros)) => {
                    self.tolerance = Duration::from_micros(micros as u64)
                }
                ("tolerance_percent", Some(percent)) if percent <= MOST_PERCENT => {
                    self.tolerance_percent = percent;
                }
                ("mtu", Some(bytes)) if (68.0..=9000.0).contains(&bytes) => *mtu = bytes as usize,
                ("ip_version", _) if value == "ipv4" => self.ipv6 = false,
                ("ip_version", _) if value == "ipv6" => self.ipv6 = true,
                ("send_omit_free" | "verbose" | "dry_run" | "use_expect", _) => {}
                _ => return Err(format!("option --{name}={value}")),
            }
        }
        Ok(self)
    }
}

/// Plays `script`.
///
/// # Errors
/// The first event at which the stack differs, or that is not supported.
pub fn run(script: &Script, rules: &Rules) -> Result<(), Failure> {
    let at_top = |why| Failure::Unsupported { line: 0, why };
    let mut mtu = 1500;
    let rules = rules
        .clone()
        .with_options(&script.options, &mut mtu)
        .map_err(at_top)?;
    let mut config = sysctl::linux_config();
    for command in &script.setup {
        sysctl::apply(command, &mut config).map_err(at_top)?;
    }
    let mut runner = Runner {
        world: World::new(rules.ipv6, mtu, rules.seed),
        application: Application::new(config),
        flow: Flow::default(),
        blocked: Vec::new(),
        previous: Duration::ZERO,
        rules,
    };
    for event in &script.events {
        runner.event(event)?;
    }
    runner.finish_blocked()?;
    let line = script.events.last().map_or(0, |event| event.line);
    runner
        .nothing_left()
        .map_err(|why| Failure::Differs { line, why })
}

/// A call that has not returned yet.
struct Blocked {
    line: usize,
    call: Call,
    until: Duration,
}

/// A script being played.
struct Runner {
    rules: Rules,
    world: World,
    application: Application,
    flow: Flow,
    blocked: Vec<Blocked>,
    /// Time of the event before.
    previous: Duration,
}

impl Runner {
    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        let differs = |why| Failure::Differs {
            line: event.line,
            why,
        };
        let (earliest, latest) = self.interval(event.when);
        if let Action::Expect(packet) = &event.action {
            let Packet::Tcp(expected) = packet else {
                return Err(Failure::Unsupported {
                    line: event.line,
                    why: "an ICMP packet of the host".into(),
                });
            };
            self.expect(expected, earliest, latest).map_err(differs)?;
            self.previous = match event.when {
                When::Absolute(_) | When::Relative(_) => earliest,
                _ => self.world.elapsed(),
            };
            return self.retry_blocked();
        }
        self.pass_time(earliest).map_err(differs)?;
        self.previous = earliest;
        match &event.action {
            Action::Inject(Packet::Tcp(segment)) => self.inject(segment).map_err(differs)?,
            Action::Inject(Packet::Icmp(error)) => {
                let quoted = self.flow.quoted(error.seq, error.len).map_err(differs)?;
                let frame = self.world.ends.icmp_error(error.kind, &quoted);
                self.world.deliver(&frame).map_err(differs)?;
            }
            Action::Call(call) => self.call(call, event.line)?,
            Action::Assert(block) => {
                let info = self
                    .application
                    .subject()
                    .and_then(|id| self.world.host.info(id));
                assertion::run(block, &Facts(info)).map_err(differs)?;
            }
            Action::Command(command) => sysctl::apply(command, self.application.defaults_mut())
                .map_err(|why| Failure::Unsupported {
                    line: event.line,
                    why,
                })?,
            Action::Expect(_) => {}
        }
        self.retry_blocked()
    }

    /// Earliest and latest time of an event.
    fn interval(&self, when: When) -> (Duration, Duration) {
        match when {
            When::Absolute(at) => (at, at),
            When::Relative(after) => (self.previous + after, self.previous + after),
            When::RelativeRange(first, last) => (self.previous + first, self.previous + last),
            When::AbsoluteRange(first, last) => (first, last),
            When::Any => (self.previous, Duration::MAX),
        }
    }

    fn tolerance(&self, at: Duration) -> Duration {
        let since = at.saturating_sub(self.previous);
        self.rules
            .tolerance
            .max(since.mul_f64(self.rules.tolerance_percent / 100.0))
    }

    /// Lets time pass, trying blocked calls whenever something happened.
    fn pass_time(&mut self, until: Duration) -> Result<(), String> {
        while self.world.elapsed() < until && !self.blocked.is_empty() {
            self.world.step_until(until)?;
            self.retry_blocked()
                .map_err(|failure| failure.to_string())?;
        }
        self.world.run_until(until, false)
    }

    fn inject(&mut self, segment: &Segment) -> Result<(), String> {
        let wire = self.flow.translate_to_wire(segment)?;
        let frame = self.world.ends.segment_to_host(&wire);
        self.world.deliver(&frame)
    }

    /// The next segment of the flow must be `expected`, within the times.
    fn expect(
        &mut self,
        expected: &Segment,
        earliest: Duration,
        latest: Duration,
    ) -> Result<(), String> {
        let before = self.tolerance(earliest);
        let end = match latest {
            // An hour without a segment is a failure, also where the script says "whenever".
            Duration::MAX => self.world.elapsed() + Duration::from_secs(3600),
            latest => latest + self.tolerance(latest),
        };
        let mut matched = 0;
        loop {
            while self.world.left.is_empty()
                && self.world.elapsed() < end
                && !self.blocked.is_empty()
            {
                self.world.step_until(end)?;
                self.retry_blocked()
                    .map_err(|failure| failure.to_string())?;
            }
            self.world.run_until(end, true)?;
            let Some((at, wire)) = self.world.left.pop_front() else {
                return Err(format!("expected {expected:?} by {end:?}; nothing left"));
            };
            if !self.flow.is_ours(&wire) {
                continue;
            }
            let live = self.flow.translate_to_script(&wire, expected)?;
            if at + before < earliest || at > end {
                return Err(format!(
                    "expected between {earliest:?} and {latest:?}; left at {at:?}: {live:?}"
                ));
            }
            // A large expected segment may leave as several: only the last has its flags.
            let rest = expected.len - matched;
            let part = Segment {
                seq: expected.seq.wrapping_add(matched),
                len: rest,
                ..expected.clone()
            };
            if live.len > 0 && live.len < rest && live.seq == part.seq {
                matched += live.len;
                continue;
            }
            return match flow::difference(&part, &live, self.rules.compare_push) {
                None => Ok(()),
                Some(what) => Err(format!(
                    "{what}: expected {part:?}; left at {at:?}: {live:?}"
                )),
            };
        }
    }

    /// Fails if a segment of the flow left that no line expected, and the rules forbid that.
    fn nothing_left(&mut self) -> Result<(), String> {
        while let Some((at, wire)) = self.world.left.pop_front() {
            if self.rules.complete && self.flow.is_ours(&wire) {
                let live = self.flow.translate_to_script(&wire, &Segment::default())?;
                return Err(format!("expected nothing more; left at {at:?}: {live:?}"));
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Call, line: usize) -> Result<(), Failure> {
        let outcome = self.application.call(call, false, &mut self.world);
        let outcome = outcome.map_err(|Unsupported(why)| Failure::Unsupported { line, why })?;
        if let (Outcome::Waits, Some(until)) = (outcome, call.until) {
            let until = self.previous + until;
            self.blocked.push(Blocked {
                line,
                call: call.clone(),
                until,
            });
        } else {
            returned(call, outcome, line)?;
        }
        if call.name == "listen" {
            self.flow.listen();
        }
        // Packets caused by the call leave at the time of the call.
        let now = self.world.elapsed();
        self.world
            .run_until(now, false)
            .map_err(|why| Failure::Differs { line, why })
    }

    /// Tries every blocked call again; one that returns must do so at its time.
    fn retry_blocked(&mut self) -> Result<(), Failure> {
        let now = self.world.elapsed();
        for blocked in std::mem::take(&mut self.blocked) {
            let Blocked {
                line,
                ref call,
                until,
            } = blocked;
            let outcome = self.application.call(call, true, &mut self.world);
            let outcome = outcome.map_err(|Unsupported(why)| Failure::Unsupported { line, why })?;
            let tolerance = self.tolerance(until);
            if outcome != Outcome::Waits {
                if now + tolerance < until {
                    let why = format!(
                        "{} returned {outcome:?} at {now:?}, not at {until:?}",
                        call.name
                    );
                    return Err(Failure::Differs { line, why });
                }
                returned(call, outcome, line)?;
            } else if now > until + tolerance {
                let why = format!(
                    "{} still waits at {now:?}; it was to return at {until:?}",
                    call.name
                );
                return Err(Failure::Differs { line, why });
            } else {
                self.blocked.push(blocked);
            }
        }
        Ok(())
    }

    /// Lets blocked calls return at the script's end.
    fn finish_blocked(&mut self) -> Result<(), Failure> {
        while let Some(blocked) = self.blocked.first() {
            let (line, end) = (blocked.line, blocked.until + self.tolerance(blocked.until));
            let end = end + Duration::from_micros(1);
            self.world
                .step_until(end)
                .map_err(|why| Failure::Differs { line, why })?;
            self.retry_blocked()?;
        }
        Ok(())
    }
}

/// Compares what a call returned with what the script says.
fn returned(call: &Call, outcome: Outcome, line: usize) -> Result<(), Failure> {
    let holds = match (outcome, call.result) {
        (_, None) => true,
        (Outcome::Value(value), Some(result)) => value == result && call.error.is_none(),
        (Outcome::Error(error), Some(-1)) => call.error.as_deref() == Some(error),
        _ => false,
    };
    if holds {
        return Ok(());
    }
    let expected = match (&call.error, call.result) {
        (Some(error), _) => format!("-1 {error}"),
        (None, result) => format!("{}", result.unwrap_or_default()),
    };
    let why = format!("{} returned {outcome:?}, expected {expected}", call.name);
    Err(Failure::Differs { line, why })
}
