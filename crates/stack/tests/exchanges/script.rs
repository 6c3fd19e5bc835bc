//! [`Script`]: the text of an exchange, understood. Its grammar is in the `README.md` beside this
//! file.

use std::time::Duration;

use crate::number::{duration, integer, seconds};
use crate::segment::{ACK, Choice, SYN, Segment};

/// One exchange.
pub(crate) struct Script {
    /// The script's first comment: the section it shows, and which rule of it.
    pub(crate) section: String,
    pub(crate) shows: String,
    /// Keys and values of its `config` lines.
    pub(crate) config: Vec<(String, String)>,
    pub(crate) steps: Vec<Step>,
}

/// One line of a script.
pub(crate) struct Step {
    pub(crate) line: usize,
    /// Since the script began.
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// Action or expectation of a line.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// The peer sends this.
    Arrives(Segment),
    /// The peer sends this in pieces; the acknowledgments it draws are taken as they come.
    Streams(Segment),
    /// The host must have sent this.
    Leaves(Segment),
    /// Nothing but the passing of time, in which nothing may leave.
    Idle,
    /// The application's calls.
    Call(Call),
    /// Facts that the host must report.
    Expect(Expectation),
    /// The next SYN of the host begins another connection.
    Reopen,
}

/// A call of the application.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Listen,
    Connect,
    /// So many bytes; what the call must return.
    Send(usize, String),
    Recv(usize, String),
    Shutdown,
    Close,
    Abort,
}

/// A fact about the host.
#[derive(Clone, Debug)]
pub(crate) enum Expectation {
    /// An event, in words, has happened since the last one that was asked for.
    Event(String),
    /// A field, how it compares, with what.
    Field(String, String, String),
}

/// Why a script is no script: line and reason.
pub(crate) type Malformed = (usize, String);

impl Script {
    /// Reads a script.
    pub(crate) fn parse(text: &str) -> Result<Self, Malformed> {
        let (section, shows) =
            heading(text.lines().next().unwrap_or("")).map_err(|why| (1, why))?;
        let mut script = Self {
            section,
            shows,
            config: Vec::new(),
            steps: Vec::new(),
        };
        let mut at = Duration::ZERO;
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() {
                script
                    .take(line, line_number, &mut at)
                    .map_err(|why| (line_number, why))?;
            }
        }
        Ok(script)
    }

    fn take(&mut self, line: &str, number: usize, at: &mut Duration) -> Result<(), String> {
        if let Some(settings) = line.strip_prefix("config ") {
            for setting in settings.split_whitespace() {
                let (key, value) = setting
                    .split_once('=')
                    .ok_or_else(|| format!("'{setting}' is no KEY=VALUE"))?;
                self.config.push((key.into(), value.into()));
            }
            return Ok(());
        }
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = match first.strip_prefix('+') {
            Some(step) => {
                *at += seconds(step)?;
                rest
            }
            None if first.starts_with(|letter: char| letter.is_ascii_digit()) => {
                let time = seconds(first)?;
                if time < *at {
                    return Err("time runs backwards".into());
                }
                *at = time;
                rest
            }
            None => line,
        };
        if let Some(opening) = rest.trim().strip_prefix("established ") {
            self.steps.extend(established(opening, number, at)?);
        } else {
            self.steps.push(Step {
                line: number,
                at: *at,
                action: action(rest.trim())?,
            });
        }
        Ok(())
    }
}

/// `# RFC 9293 §3.5: what it shows.`
fn heading(line: &str) -> Result<(String, String), String> {
    let wrong = "the first line is a comment: '# RFC NUMBER §SECTION: what the script shows.'";
    let (section, shows) = line
        .strip_prefix("# ")
        .and_then(|rest| rest.split_once(": "))
        .ok_or(wrong)?;
    if !section.contains('§') || !shows.ends_with('.') {
        return Err(wrong.into());
    }
    Ok((section.into(), shows.into()))
}

fn action(text: &str) -> Result<Action, String> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let call = match (verb, rest) {
        ("<", segment) => return Segment::parse(segment).map(Action::Arrives),
        ("stream", segment) => return Segment::parse(segment).map(Action::Streams),
        (">", segment) => return Segment::parse(segment).map(Action::Leaves),
        ("expect", fact) => return expectation(fact).map(Action::Expect),
        ("idle", "") => return Ok(Action::Idle),
        ("reopen", "") => return Ok(Action::Reopen),
        ("listen", "") => Call::Listen,
        ("connect", "") => Call::Connect,
        ("shutdown", "") => Call::Shutdown,
        ("close", "") => Call::Close,
        ("abort", "") => Call::Abort,
        ("send" | "recv", amount) => {
            let (len, result) = amount.split_once("->").unwrap_or((amount, amount));
            let (len, result) = (integer(len.trim())?, result.trim().replace('_', ""));
            if verb == "send" {
                Call::Send(len, result)
            } else {
                Call::Recv(len, result)
            }
        }
        _ => return Err(format!("'{text}' is nothing a script can say")),
    };
    Ok(Action::Call(call))
}

/// `event WORDS`, or `FIELD OPERATOR VALUE`.
fn expectation(text: &str) -> Result<Expectation, String> {
    if let Some(event) = text.strip_prefix("event ") {
        return Ok(Expectation::Event(event.trim().into()));
    }
    let mut words = text.splitn(3, ' ').map(|word| word.trim().to_owned());
    match (words.next(), words.next(), words.next()) {
        (Some(field), Some(operator), Some(value)) => {
            Ok(Expectation::Field(field, operator, value))
        }
        _ => Err(format!(
            "'{text}' is neither 'event WORDS' nor 'FIELD OPERATOR VALUE'"
        )),
    }
}

/// `established rtt TIME [win N] [<OPTIONS>]`: a passive open as in every other script, in one
/// line. The peer's final acknowledgment comes a round trip after its SYN, and the application is
/// told.
fn established(text: &str, line: usize, at: &mut Duration) -> Result<Vec<Step>, String> {
    let rest = text
        .trim()
        .strip_prefix("rtt ")
        .ok_or("'established' needs an rtt")?;
    let (rtt, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let rtt = duration(rtt)?;
    let syn = Segment::parse(&format!("S 0 {rest}"))?;
    let began = at.as_millis() as i64;
    let any = |flags, ack| Segment {
        flags,
        ack: Some(ack),
        ..Segment::default()
    };
    let stamp = |option: &Choice| match option {
        Choice::Stamp(value, _) => Some(Choice::Stamp(
            value.map(|value| value + rtt.as_millis() as i64),
            Some(began),
        )),
        _ => None,
    };
    let stamps = syn.options.iter().flatten().filter_map(stamp).collect();
    let scale = |option: &Choice| {
        if let Choice::Scale(shift) = option {
            Some(*shift)
        } else {
            None
        }
    };
    let shift = syn.options.iter().flatten().find_map(scale).unwrap_or(0);
    let window = syn.window.map(|window| window >> shift);
    let ack = Segment {
        seq: 1,
        window,
        options: Some(stamps),
        ..any(ACK, 1)
    };
    let syn_ack = Segment {
        options: None,
        ..any(SYN | ACK, 1)
    };
    let done = *at + rtt;
    let step = |at, action| Step { line, at, action };
    let steps = vec![
        step(*at, Action::Call(Call::Listen)),
        step(*at, Action::Arrives(syn)),
        step(*at, Action::Leaves(syn_ack)),
        step(done, Action::Arrives(ack)),
        step(done, Action::Expect(Expectation::Event("accepted".into()))),
    ];
    *at = done;
    Ok(steps)
}
