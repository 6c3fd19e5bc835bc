//! The command lines of mahimahi's shells (Netravali et al., "Mahimahi: Accurate Record-and-Replay for
//! HTTP", USENIX ATC 2015) in the words of `tautline link`: `mm-delay`, `mm-loss` and `mm-link`, under
//! whose names a link of the program runs.
//!
//! | mahimahi | `tautline link` |
//! |---|---|
//! | `mm-delay 20 COMMAND` | `--delay 20ms` |
//! | `mm-loss uplink 0.01 COMMAND` | `--up-loss 1%` |
//! | `mm-link UP DOWN COMMAND` | `--up-trace UP --down-trace DOWN`, with `--uplink-queue` as `--up`, `--uplink-log` as `--up-log` |
//!
//! All of them reach the network, as mahimahi's do, and start a shell in the place of a COMMAND.

use std::ffi::OsString;

/// Packets that a direction of a link holds at most.
const INFINITE: u32 = 16_384;

/// The words of `tautline link` for those after the name `shell`; `None` if mahimahi has no such shell.
pub fn translated(shell: &str, words: &[OsString]) -> Option<Result<Vec<OsString>, String>> {
    let translate = match shell {
        "mm-delay" => delay,
        "mm-loss" => loss,
        "mm-link" => link,
        _ => return None,
    };
    Some(translate(words).map(|(mut options, command)| {
        options.insert(0, "link".into());
        options.extend(["--internet".into(), "--".into()]);
        or_shell(&mut options, command);
        options
    }))
}

/// Appends `command`, or a shell if it is empty.
pub(super) fn or_shell(options: &mut Vec<OsString>, command: &[OsString]) {
    match command {
        [] => options.push(std::env::var_os("SHELL").unwrap_or_else(|| "sh".into())),
        words => options.extend_from_slice(words),
    }
}

/// Options of a link, and the command behind them.
type Split<'a> = Result<(Vec<OsString>, &'a [OsString]), String>;

fn delay(words: &[OsString]) -> Split<'_> {
    let usage = || "write mm-delay MILLISECONDS [COMMAND]".to_owned();
    let (first, command) = words.split_first().ok_or_else(usage)?;
    let delay: u32 = number(first).ok_or_else(usage)?;
    Ok((vec!["--delay".into(), format!("{delay}ms").into()], command))
}

fn loss(words: &[OsString]) -> Split<'_> {
    let usage =
        || "write mm-loss uplink|downlink SHARE [COMMAND], e.g. mm-loss uplink 0.01".to_owned();
    let [way, share, command @ ..] = words else {
        return Err(usage());
    };
    let option = match way.to_str() {
        Some("uplink") => "--up-loss",
        Some("downlink") => "--down-loss",
        _ => return Err(usage()),
    };
    let share: f64 = number(share).ok_or_else(usage)?;
    Ok((
        vec![option.into(), format!("{}%", share * 100.0).into()],
        command,
    ))
}

fn link(words: &[OsString]) -> Split<'_> {
    let is_option = |word: &&OsString| word.to_str().is_some_and(|word| word.starts_with("--"));
    let count = words.iter().take_while(is_option).count();
    let (options, rest) = words.split_at(count);
    let [up, down, command @ ..] = rest else {
        return Err("write mm-link [OPTION…] UPLINK_TRACE DOWNLINK_TRACE [COMMAND]".into());
    };
    let mut queues = [Queue::default(), Queue::default()];
    let mut logs: Vec<OsString> = Vec::new();
    for option in options.iter().filter_map(|option| option.to_str()) {
        if let Some(log) = log_of(option) {
            logs.extend(log);
            continue;
        }
        let known = ["uplink", "downlink"]
            .iter()
            .zip(&mut queues)
            .any(|(way, queue)| {
                option
                    .strip_prefix("--")
                    .and_then(|option| option.strip_prefix(way)?.strip_prefix("-queue"))
                    .is_some_and(|option| queue.take(option))
            });
        if !known {
            return Err(format!(
                "{option}: only --uplink-queue, --downlink-queue, their -args, --uplink-log and --downlink-log are understood"
            ));
        }
    }
    let [up_queue, down_queue] = queues.map(|queue| queue.words());
    let words = [
        "--up-trace".into(),
        up.clone(),
        "--down-trace".into(),
        down.clone(),
        "--up".into(),
        up_queue?.into(),
        "--down".into(),
        down_queue?.into(),
    ];
    Ok((words.into_iter().chain(logs).collect(), command))
}

/// The words of `tautline link` for `--uplink-log=FILE` and `--downlink-log=FILE`.
fn log_of(option: &str) -> Option<[OsString; 2]> {
    let (name, file) = option.split_once('=')?;
    let ours = match name {
        "--uplink-log" => "--up-log",
        "--downlink-log" => "--down-log",
        _ => return None,
    };
    Some([ours.into(), file.into()])
}

/// A queue of `mm-link`.
#[derive(Default)]
struct Queue {
    /// `infinite`, `droptail`, `drophead`, `codel` or `pie`; empty for the default.
    kind: String,
    /// `packets=100`, `bytes=…`, `target=…`, separated by commas.
    arguments: String,
}

impl Queue {
    /// Takes what follows `--uplink-queue`. Returns whether it is understood.
    fn take(&mut self, option: &str) -> bool {
        if let Some(kind) = option.strip_prefix('=') {
            self.kind = kind.to_owned();
        } else if let Some(arguments) = option.strip_prefix("-args=") {
            self.arguments = arguments.trim_matches('"').to_owned();
        } else {
            return false;
        }
        true
    }

    /// In `tc`'s words. Times are in milliseconds there.
    fn words(&self) -> Result<String, String> {
        let arguments = self.arguments.split(',').map(str::trim);
        let argument = |name: &str| {
            let found = arguments.clone().find_map(|word| {
                let (found, value) = word.split_once('=')?;
                (found.trim() == name).then(|| value.trim())
            });
            found.map(|value| {
                let value: Option<u32> = value.parse().ok();
                value.ok_or_else(|| format!("{name}={value:?}: write a number"))
            })
        };
        let or = |name, otherwise: u32| argument(name).unwrap_or(Ok(otherwise));
        let least =
            |name| argument(name).unwrap_or_else(|| Err(format!("{} needs {name}=", self.kind)));
        Ok(match self.kind.as_str() {
            "" | "infinite" => format!("pfifo limit {INFINITE}"),
            "droptail" => match argument("bytes") {
                Some(bytes) => format!("bfifo limit {}", bytes?),
                None => format!("pfifo limit {}", least("packets")?),
            },
            "drophead" => format!("pfifo_head_drop limit {}", least("packets")?),
            "codel" => format!(
                "codel limit {} target {}ms interval {}ms",
                or("packets", INFINITE)?,
                or("target", 5)?,
                or("interval", 100)?
            ),
            "pie" => format!(
                "pie limit {} target {}ms",
                or("packets", INFINITE)?,
                or("qdelay_ref", 15)?
            ),
            other => {
                return Err(format!(
                    "`{other}` is no queue: infinite, droptail, drophead, codel or pie"
                ));
            }
        })
    }
}

/// The number that a word is.
fn number<N: std::str::FromStr>(word: &OsString) -> Option<N> {
    word.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(line: &str) -> Result<String, String> {
        let mut words = line.split(' ').map(OsString::from);
        let shell = words.next().expect("a name").into_string().expect("text");
        let words: Vec<_> = words.collect();
        let words = translated(&shell, &words).expect("a shell")?;
        let words: Vec<_> = words
            .iter()
            .map(|word| word.to_str().expect("text"))
            .collect();
        Ok(words.join(" "))
    }

    #[test]
    fn shells_of_mahimahi_become_links() {
        for (theirs, ours) in [
            (
                "mm-delay 20 curl -O x",
                "link --delay 20ms --internet -- curl -O x",
            ),
            (
                "mm-loss downlink 0.05 true",
                "link --down-loss 5% --internet -- true",
            ),
            (
                "mm-link up down iperf3 --json",
                "link --up-trace up --down-trace down --up pfifo limit 16384 --down pfifo limit 16384 --internet -- iperf3 --json",
            ),
            (
                "mm-link --uplink-queue=droptail --uplink-queue-args=packets=50 --downlink-queue=codel --downlink-queue-args=packets=90,target=7 u d true",
                "link --up-trace u --down-trace d --up pfifo limit 50 --down codel limit 90 target 7ms interval 100ms --internet -- true",
            ),
            (
                "mm-link --uplink-log=/tmp/a=b --downlink-log=c u d true",
                "link --up-trace u --down-trace d --up pfifo limit 16384 --down pfifo limit 16384 --up-log /tmp/a=b --down-log c --internet -- true",
            ),
            (
                "mm-link --uplink-queue=drophead --uplink-queue-args=packets=9 --downlink-queue=droptail --downlink-queue-args=bytes=9000 u d true",
                "link --up-trace u --down-trace d --up pfifo_head_drop limit 9 --down bfifo limit 9000 --internet -- true",
            ),
        ] {
            assert_eq!(translate(theirs).as_deref(), Ok(ours));
        }
        let shell = translate("mm-delay 5").expect("a shell");
        assert!(!shell.ends_with("--"), "{shell}");
        assert!(translated("mm-webrecord", &[]).is_none());
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (line, part) in [
            ("mm-delay x true", "MILLISECONDS"),
            ("mm-loss sideways 1 true", "uplink|downlink"),
            ("mm-link up", "DOWNLINK_TRACE"),
            ("mm-link --meter-all u d true", "--meter-all"),
            ("mm-link --uplink-queue=red u d true", "`red`"),
            ("mm-link --uplink-queue=droptail u d true", "packets="),
            (
                "mm-link --uplink-queue=codel --uplink-queue-args=target=x u d true",
                "target=",
            ),
        ] {
            let error = translate(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
