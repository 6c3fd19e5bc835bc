//! [`Script::parse`]: from text to [`Script`], with the line of what it does not understand.

mod call;
mod cursor;
mod packet;

use std::time::Duration;

use crate::syntax::{Action, Event, Script, When};
use cursor::Cursor;

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// Found and expected text.
    pub why: String,
}

impl Script {
    /// Parses the text of a script.
    ///
    /// # Errors
    /// The first line outside the supported subset of the language.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text);
        let mut script = Self::default();
        loop {
            cursor.skip_blank();
            if cursor.is_at_end() {
                return Ok(script);
            }
            if cursor.starts_with("--") {
                script.options.extend(options(cursor.line()));
            } else if cursor.peek() == Some('`') {
                script.setup.push(cursor.between("`", "`")?);
            } else {
                script.events.push(event(&mut cursor)?);
            }
        }
    }
}

/// Options of one line: `--name=value`, `--name value` or `--name`.
fn options(line: &str) -> Vec<(String, String)> {
    let mut words = line.split_whitespace().peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let word = word.trim_start_matches("--");
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = words.next_if(|next| !next.starts_with("--"));
                (word, value.unwrap_or_default().to_owned())
            }
        };
        found.push((name.to_owned(), value));
    }
    found
}

fn event(cursor: &mut Cursor<'_>) -> Result<Event, ParseError> {
    let line = cursor.line_number();
    let (when, until) = time(cursor)?;
    cursor.skip_blank();
    let action = match cursor.peek() {
        Some('<') => {
            cursor.advance(1);
            Action::Inject(packet::packet(cursor)?)
        }
        Some('>') => {
            cursor.advance(1);
            Action::Expect(packet::packet(cursor)?)
        }
        Some('`') => Action::Command(cursor.between("`", "`")?),
        Some('%') => Action::Assert(cursor.between("%{", "}%")?),
        _ => Action::Call(call::call(cursor, until)?),
    };
    Ok(Event { line, when, action })
}

/// The time of an event and, of a blocking call, how long it takes.
fn time(cursor: &mut Cursor<'_>) -> Result<(When, Option<Duration>), ParseError> {
    if cursor.take("*") {
        return Ok((When::Any, None));
    }
    let relative = cursor.take("+");
    let start = cursor.seconds()?;
    if cursor.take("~") {
        let relative_end = cursor.take("+");
        let end = cursor.seconds()?;
        let when = match (relative, relative_end) {
            (true, _) => When::RelativeRange(start, end),
            (false, true) => When::AbsoluteRange(start, start + end),
            (false, false) => When::AbsoluteRange(start, end),
        };
        return Ok((when, None));
    }
    let when = if relative {
        When::Relative(start)
    } else {
        When::Absolute(start)
    };
    if !cursor.take("...") {
        return Ok((when, None));
    }
    cursor.take("+");
    let end = cursor.seconds()?;
    Ok((
        when,
        Some(if relative {
            end
        } else {
            end.saturating_sub(start)
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{Call, Packet, Segment, TcpOption, Value};

    fn only(text: &str) -> Event {
        let script = Script::parse(text).expect("a script");
        assert_eq!(script.events.len(), 1);
        script.events.into_iter().next().expect("one")
    }

    fn segment(text: &str) -> Segment {
        match only(text).action {
            Action::Inject(Packet::Tcp(segment)) | Action::Expect(Packet::Tcp(segment)) => segment,
            other => panic!("{other:?}"),
        }
    }

    fn call(text: &str) -> Call {
        match only(text).action {
            Action::Call(call) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_segment_has_flags_numbers_and_options() {
        let parsed = segment("+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>");
        assert_eq!((parsed.flags, parsed.seq, parsed.len), (2, 0, 0));
        assert_eq!((parsed.ack, parsed.window), (None, Some(32792)));
        let options = parsed.options.expect("options");
        assert_eq!(options[0], TcpOption::Mss(1000));
        assert_eq!(options[5], TcpOption::WindowScale(7));
        let parsed = segment("  * > [ect0] P. 1:1001(1000) ack 1 <nop,nop,TS val 100 ecr 7>");
        assert_eq!(
            (parsed.ecn, parsed.flags, parsed.len),
            (Some(2), 0x18, 1000)
        );
        let parsed = segment("0.5 > . 1:1(0) ack 1 <nop,nop,sack 2001:3001 4001:5001>");
        let sack = TcpOption::Sack(vec![(2001, 3001), (4001, 5001)]);
        assert_eq!(parsed.options.expect("options")[2], sack);
        assert_eq!(segment("+0 > F. 1:1(0) ack 2 <...>").options, None);
    }

    #[test]
    fn a_call_has_arguments_a_result_and_an_error() {
        let parsed = call("+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)");
        assert_eq!(parsed.arguments, [Value::Number(3), Value::Any, Value::Any]);
        assert_eq!(parsed.result, Some(-1));
        assert_eq!(parsed.error.as_deref(), Some("EINPROGRESS"));
        let parsed = call("0.1...0.3 read(4, ..., 1000) = 1000");
        assert_eq!(parsed.until, Some(Duration::from_millis(200)));
        let linger = "+0 setsockopt(4, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0";
        let fields = vec![
            ("onoff".into(), Value::Number(1)),
            ("linger".into(), Value::Number(0)),
        ];
        assert_eq!(call(linger).arguments[3], Value::Struct(fields));
        let flags = call("+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0");
        assert_eq!(flags.arguments[2], Value::Number(0x802));
    }

    #[test]
    fn times_are_absolute_relative_ranges_or_any() {
        assert_eq!(
            only("+.1 %{ assert 1 }%").when,
            When::Relative(Duration::from_millis(100))
        );
        let range = When::RelativeRange(Duration::from_millis(200), Duration::from_millis(300));
        assert_eq!(only("+.2~+.3 > . 1:1(0) ack 1").when, range);
        assert_eq!(only("* > . 1:1(0) ack 1").when, When::Any);
    }

    /// The sum of two would be no time.
    #[test]
    fn a_time_of_years_is_refused() {
        for text in [
            "18446744073709551615~+18446744073709551615 > . 1:1(0) ack 1",
            "+1000000 > . 1:1(0) ack 1",
        ] {
            let error = Script::parse(text).expect_err("too long");
            assert!(error.why.contains("too long a time"), "{error}");
        }
        only("+999999.5 > . 1:1(0) ack 1");
    }

    #[test]
    fn comments_options_and_commands_are_apart_from_events() {
        let text = "// one\n--tolerance_usecs=10000\n`sysctl -q a=1`\n/* two\n */ +0 `true`\n";
        let script = Script::parse(text).expect("a script");
        assert_eq!(script.options, [("tolerance_usecs".into(), "10000".into())]);
        assert_eq!(script.setup, ["sysctl -q a=1"]);
        assert_eq!(script.events[0].line, 5);
    }

    #[test]
    fn what_is_not_understood_names_its_line() {
        let error = Script::parse("+0 < S 0:0(0) win 1\n+0 < S zero:0(0)\n").expect_err("not one");
        assert_eq!(error.line, 2);
    }
}
