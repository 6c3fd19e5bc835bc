//! [`Runner`]: plays the peer and the application of a script against a host, in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Instant, SocketId};
use tautline_stack::{Event, Recv};

use crate::config::Config;
use crate::device::{self, Stack};
use crate::facts::{self, Fact};
use crate::number::print;
use crate::script::{Action, Call, Expectation, Script, Step};
use crate::segment::{ACK, RST, SYN, Segment};
use crate::wire::{self, Origin, Sent};
use tautline_testkit::Segment as Raw;

/// The port the host listens on, and the one it connects to.
const SERVICE: u16 = 5001;
/// The peer's port when it connects.
const PEER_PORT: u16 = 40_000;
/// How much of a stream travels in one segment.
const PIECE: usize = 1000;
/// When a script begins on the host's clock.
const BEGINNING: Instant = Instant::from_secs(1000);

/// A failed line, and the exchange until then.
pub(crate) struct Failure {
    pub(crate) line: usize,
    pub(crate) why: String,
    pub(crate) trace: Vec<String>,
}

/// A script being played.
pub(crate) struct Runner {
    config: Config,
    host: Stack,
    now: Instant,
    flows: Vec<Flow>,
    socket: Option<SocketId>,
    /// The application's stream: bytes written, and read.
    written: u64,
    read: u64,
    /// Segments sent that no line has asked for yet.
    left: VecDeque<(Instant, Segment)>,
    events: VecDeque<Event>,
    trace: Vec<String>,
    /// Something left that cannot be understood.
    broken: Option<String>,
}

/// One pair of ports and the numbers that belong to it. The first is the script's connection.
struct Flow {
    ours: Option<u16>,
    theirs: u16,
    isn: Option<u32>,
    /// The host's timestamp when the script began.
    clock: Option<u32>,
}

/// Byte `offset` of either stream.
fn byte(offset: i64) -> u8 {
    (offset.wrapping_mul(31)).rem_euclid(251) as u8
}

fn text(first: i64, len: usize) -> Vec<u8> {
    (0..len as i64).map(|i| byte(first + i)).collect()
}

impl Runner {
    /// Plays `script`, on a device that takes packets of several segments if it `is_large`.
    pub(crate) fn run(script: &Script, is_large: bool) -> Result<(), Failure> {
        let fail = |why| Failure {
            line: 1,
            why,
            trace: Vec::new(),
        };
        let config = Config::new(&script.config).map_err(fail)?;
        let host = device::host(config.mtu, config.seed, config.family, is_large);
        let mut runner = Self {
            config,
            host,
            now: BEGINNING,
            flows: vec![Flow {
                ours: Some(SERVICE),
                theirs: PEER_PORT,
                isn: None,
                clock: None,
            }],
            socket: None,
            written: 0,
            read: 0,
            left: VecDeque::new(),
            events: VecDeque::new(),
            trace: Vec::new(),
            broken: None,
        };
        let last = script.steps.last().map_or(1, |step| step.line);
        let outcome = script
            .steps
            .iter()
            .try_for_each(|step| runner.take(step).map_err(|why| (step.line, why)));
        let outcome = outcome.and_then(|()| runner.nothing_left().map_err(|why| (last, why)));
        outcome.map_err(|(line, why)| Failure {
            line,
            why,
            trace: runner.trace,
        })
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        let at = BEGINNING + step.at;
        if let Action::Leaves(asked) = &step.action {
            return self.wait_for(asked, at);
        }
        if at > self.now {
            self.nothing_left()?;
            self.run_until(at, |runner| !runner.left.is_empty() && runner.now < at);
            if self.now < at {
                self.nothing_left()?;
            }
        }
        match &step.action {
            Action::Arrives(segment) => self.deliver(segment),
            Action::Streams(segment) => self.stream(segment)?,
            Action::Call(call) => self.call(call)?,
            Action::Expect(fact) => self.expect(fact)?,
            Action::Reopen => self.flows[0].isn = None,
            Action::Leaves(_) | Action::Idle => {}
        }
        self.settle();
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Fails if a segment was sent that no line asked for.
    fn nothing_left(&self) -> Result<(), String> {
        match self.left.front() {
            None => Ok(()),
            Some((at, segment)) => Err(format!(
                "expected nothing to leave\n       got {} > {segment}",
                print(*at - BEGINNING)
            )),
        }
    }

    fn wait_for(&mut self, asked: &Segment, at: Instant) -> Result<(), String> {
        let tolerance = self.config.tolerance;
        let expected = format!("expected {} > {asked}", print(at - BEGINNING));
        if self.left.is_empty() {
            self.run_until(at + tolerance, |runner| !runner.left.is_empty());
        }
        if let Some(why) = self.broken.take() {
            return Err(why);
        }
        let Some((left_at, segment)) = self.left.pop_front() else {
            return Err(format!("{expected}\n       got nothing"));
        };
        let late = if left_at > at {
            left_at - at
        } else {
            at - left_at
        };
        let objection = asked
            .objection(&segment)
            .or_else(|| (late > tolerance).then_some("another time"));
        match objection {
            None => Ok(()),
            Some(what) => Err(format!(
                "{expected}\n       got {} > {segment}\n       {what}",
                print(left_at - BEGINNING)
            )),
        }
    }

    /// Lets time pass until `end`, or until `enough`.
    fn run_until(&mut self, end: Instant, enough: impl Fn(&Self) -> bool) {
        loop {
            let next = self.settle();
            if enough(self) || self.now >= end || self.broken.is_some() {
                return;
            }
            self.now = next.map_or(end, |next| next.min(end)).max(self.now);
        }
    }

    /// Polls until the host wants nothing more at this moment; when it wants to be polled again.
    fn settle(&mut self) -> Option<Instant> {
        loop {
            let wake = self.host.poll(self.now);
            let asked = self.collect();
            let busy = wake.is_some_and(|wake| wake.at <= self.now);
            if !asked && !busy && self.host.outstanding() == 0 {
                return wake.map(|wake| wake.at);
            }
        }
    }

    /// Takes what left, and the events. True if the host asked for an address and was answered.
    fn collect(&mut self) -> bool {
        let mut asked = false;
        while let Some(frame) = self.host.device_mut().sent.pop_front() {
            match wire::read(&frame, self.config.family) {
                Ok(Sent::Question) => {
                    self.host
                        .deliver(&wire::answer(self.config.family), self.now);
                    asked = true;
                }
                Ok(Sent::Tcp(raw)) => match self.relative(&raw) {
                    Ok(segment) => {
                        self.trace
                            .push(format!("{} > {segment}", print(self.now - BEGINNING)));
                        self.left.push_back((self.now, segment));
                    }
                    Err(why) => self.broken = Some(why),
                },
                Err(why) => self.broken = Some(format!("what left is malformed: {why}")),
            }
        }
        while let Some(event) = self.host.next_event() {
            if let Event::Accepted { socket, .. } = event {
                (self.socket, self.written, self.read) = (Some(socket), 0, 0);
            }
            self.trace.push(format!(
                "{} event {}",
                print(self.now - BEGINNING),
                name(&event)
            ));
            self.events.push_back(event);
        }
        asked
    }

    /// The flow between two ports.
    fn flow(&mut self, ours: u16, theirs: u16) -> &mut Flow {
        let first = &mut self.flows[0];
        if first.ours.is_none() && first.theirs == theirs {
            first.ours = Some(ours);
        }
        let found = self
            .flows
            .iter()
            .position(|flow| flow.ours == Some(ours) && flow.theirs == theirs);
        let index = found.unwrap_or_else(|| {
            self.flows.push(Flow {
                ours: Some(ours),
                theirs,
                isn: None,
                clock: None,
            });
            self.flows.len() - 1
        });
        &mut self.flows[index]
    }

    /// A sent segment in the script's numbers.
    fn relative(&mut self, raw: &Raw) -> Result<Segment, String> {
        let elapsed = (self.now - BEGINNING).as_millis() as u32;
        let peer_isn = self.config.peer_isn;
        let flow = self.flow(raw.source_port, raw.destination_port);
        if raw.flags & SYN != 0 {
            flow.isn.get_or_insert(raw.seq);
        }
        let options = Origin {
            sender: 0,
            receiver: peer_isn,
            sender_clock: 0,
            receiver_clock: 0,
        }
        .parse_options(&raw.options)?;
        let stamp = options.iter().find_map(|option| match option {
            crate::segment::Choice::Stamp(Some(value), _) => Some(*value as u32),
            _ => None,
        });
        if let Some(stamp) = stamp {
            flow.clock
                .get_or_insert_with(|| stamp.wrapping_sub(elapsed));
        }
        let sender = flow.isn.unwrap_or(0);
        let origin = Origin {
            sender,
            receiver: peer_isn,
            sender_clock: flow.clock.unwrap_or(0),
            receiver_clock: 0,
        };
        let seq = i64::from(raw.seq.wrapping_sub(origin.sender) as i32);
        let stream_begins = seq + i64::from(raw.flags & SYN != 0) - 1;
        // A reset for no connection has no stream.
        if raw.flags & RST == 0 && raw.payload != text(stream_begins, raw.payload.len()) {
            return Err(format!(
                "the {} bytes at {seq} are not those of the application's stream",
                raw.payload.len()
            ));
        }
        let (ours, theirs) = (self.flows[0].ours, self.flows[0].theirs);
        let foreign = ours != Some(raw.source_port) || theirs != raw.destination_port;
        Ok(Segment {
            flags: raw.flags,
            seq,
            len: raw.payload.len(),
            ack: (raw.flags & ACK != 0).then(|| i64::from(raw.ack.wrapping_sub(peer_isn) as i32)),
            window: Some(raw.window),
            urgent: raw.urgent,
            codepoint: raw.ecn,
            options: Some(origin.parse_options(&raw.options)?),
            from: foreign.then_some(raw.source_port),
            to: foreign.then_some(raw.destination_port),
            damaged: false,
        })
    }

    /// The peer sends `segment`.
    fn deliver(&mut self, segment: &Segment) {
        self.trace
            .push(format!("{} < {segment}", print(self.now - BEGINNING)));
        let first = &self.flows[0];
        let ours = segment.to.or(first.ours).unwrap_or(SERVICE);
        let theirs = segment.from.unwrap_or(first.theirs);
        let peer_isn = self.config.peer_isn;
        let flow = self.flow(ours, theirs);
        let (isn, clock) = (flow.isn.unwrap_or(0), flow.clock.unwrap_or(0));
        let origin = Origin {
            sender: peer_isn,
            receiver: isn,
            sender_clock: 0,
            receiver_clock: clock,
        };
        let raw = Raw {
            source_port: theirs,
            destination_port: ours,
            seq: peer_isn.wrapping_add(segment.seq as u32),
            ack: segment.ack.map_or(0, |ack| isn.wrapping_add(ack as u32)),
            flags: segment.flags,
            window: segment.window.unwrap_or(u16::MAX),
            urgent: segment.urgent,
            ecn: segment.codepoint,
            options: origin.options(segment),
            payload: text(
                segment.seq + i64::from(segment.flags & SYN != 0) - 1,
                segment.len,
            ),
        };
        self.host.deliver(
            &wire::frame(&raw, self.config.family, segment.damaged),
            self.now,
        );
    }

    /// The peer sends `segment` in pieces. Nothing but bare acknowledgments may leave meanwhile.
    fn stream(&mut self, segment: &Segment) -> Result<(), String> {
        for start in (0..segment.len).step_by(PIECE) {
            let len = PIECE.min(segment.len - start);
            self.deliver(&Segment {
                seq: segment.seq + start as i64,
                len,
                ..segment.clone()
            });
            self.settle();
            if let Some((_, other)) = self
                .left
                .drain(..)
                .find(|(_, left)| left.flags != ACK || left.len > 0)
            {
                return Err(format!("expected bare acknowledgments\n       got {other}"));
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Result<(), String> {
        self.trace
            .push(format!("{} {call:?}", print(self.now - BEGINNING)));
        match call {
            Call::Listen => {
                self.host
                    .listen(SERVICE, self.config.tcp.clone())
                    .map_err(|e| e.to_string())?;
                return Ok(());
            }
            Call::Connect => {
                let remote = std::net::SocketAddr::new(device::theirs(self.config.family), SERVICE);
                let socket = self
                    .host
                    .connect(remote, self.config.tcp.clone(), self.now)
                    .map_err(|e| e.to_string())?;
                self.socket = Some(socket);
                self.flows[0] = Flow {
                    ours: None,
                    theirs: SERVICE,
                    isn: None,
                    clock: None,
                };
                return Ok(());
            }
            _ => {}
        }
        let socket = self.socket.ok_or("there is no socket yet")?;
        let (result, wanted) = match call {
            Call::Send(len, wanted) => {
                let sent = self.host.send(socket, &text(self.written as i64, *len));
                self.written += *sent.as_ref().unwrap_or(&0) as u64;
                (
                    sent.map_or_else(|e| e.to_string(), |count| count.to_string()),
                    wanted,
                )
            }
            Call::Recv(len, wanted) => {
                let mut out = vec![0; *len];
                let result = match self.host.recv(socket, &mut out) {
                    Ok(Recv::Data(count)) => {
                        if out[..count] != text(self.read as i64, count) {
                            return Err("what was read is not what the peer sent".into());
                        }
                        self.read += count as u64;
                        count.to_string()
                    }
                    Ok(Recv::Empty) => "empty".into(),
                    Ok(Recv::EndOfStream) => "end".into(),
                    Err(e) => e.to_string(),
                };
                (result, wanted)
            }
            Call::Shutdown => return self.host.shutdown(socket).map_err(|e| e.to_string()),
            Call::Abort => return self.host.abort(socket).map_err(|e| e.to_string()),
            _ => {
                self.host.close(socket, self.now);
                return Ok(());
            }
        };
        if result == *wanted {
            Ok(())
        } else {
            Err(format!(
                "expected {call:?} to return {wanted}\n       got {result}"
            ))
        }
    }

    fn expect(&mut self, fact: &Expectation) -> Result<(), String> {
        self.settle();
        match fact {
            Expectation::Event(words) => loop {
                match self.events.pop_front() {
                    None => return Err(format!("expected the event '{words}'\n       got none")),
                    Some(event) if name(&event) == *words => return Ok(()),
                    Some(_) => {}
                }
            },
            Expectation::Field(field, operator, value) => {
                let (fact, mss) = self.fact(field)?;
                if fact.holds(operator, value, mss)? {
                    return Ok(());
                }
                Err(format!(
                    "expected {field} {operator} {value}\n       got {fact:?}"
                ))
            }
        }
    }

    fn fact(&self, field: &str) -> Result<(Fact, u64), String> {
        let stats = self.host.stats();
        let count = match field {
            "sockets" => Some(self.host.socket_count() as u64),
            "backlog_full" => Some(stats.backlog_full),
            "malformed" => Some(stats.malformed),
            "bad_checksum" => Some(stats.bad_checksum),
            "no_socket" => Some(stats.no_socket),
            _ => None,
        };
        if let Some(count) = count {
            return Ok((Fact::Number(count), 1));
        }
        let socket = self.socket.ok_or("there is no socket yet")?;
        let Some(info) = self.host.info(socket) else {
            return Ok((Fact::Text("gone".into()), 1));
        };
        let fact =
            facts::of(&info, field).ok_or_else(|| format!("no field is called '{field}'"))?;
        Ok((fact, info.mss.get()))
    }
}

/// An event in words.
fn name(event: &Event) -> String {
    match event {
        Event::Accepted { .. } => "accepted".into(),
        Event::Requested { .. } => "requested".into(),
        Event::Connected(_) => "connected".into(),
        Event::Readable(_) => "readable".into(),
        Event::Writable(_) => "writable".into(),
        Event::Closed { why, .. } => format!("closed: {why}"),
        Event::Pong { .. } => "pong".into(),
        Event::PingFailed { why, .. } => format!("ping failed: {why}"),
        Event::AddressesChanged => "addresses changed".into(),
        other => format!("{other:?}"),
    }
}

/// How long a script lasts, for the report.
pub(crate) fn length(script: &Script) -> Duration {
    script.steps.last().map_or(Duration::ZERO, |step| step.at)
}
