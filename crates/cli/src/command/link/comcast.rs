//! The command line of comcast (<https://github.com/tylertreat/comcast>) in the words of `tautline link`, under
//! whose name a link of the program runs.
//!
//! | comcast | here |
//! |---|---|
//! | `--latency=250` | milliseconds that each packet of COMMAND is delayed |
//! | `--target-bw=1000` | kbit/s of the packets from COMMAND |
//! | `--packet-loss=10%` | share of the packets from COMMAND that is lost |
//! | `--device=eth0` | no effect: the link has interfaces of its own |
//!
//! As comcast's netem at an interface, it impairs what is sent, not what is received. COMMAND follows the
//! options; without one a shell starts. Left out: `--stop` (a link ends with its command),
//! `--target-addr`, `--target-port`, `--target-proto` and `--default-bw` (every packet of COMMAND takes the
//! link), `--dry-run`.

use std::ffi::OsString;

use super::mahimahi::or_shell;

/// The options that are understood.
const OPTIONS: [&str; 4] = ["latency", "target-bw", "packet-loss", "device"];

/// Packets that the queue holds, netem's default.
const LIMIT: u32 = 1000;

/// The words of `tautline link` for those after the name `comcast`; `None` for another name.
pub fn translated(name: &str, words: &[OsString]) -> Option<Result<Vec<OsString>, String>> {
    (name == "comcast").then(|| translate(words))
}

fn translate(words: &[OsString]) -> Result<Vec<OsString>, String> {
    let mut netem = format!("netem limit {LIMIT}");
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let Some(option) = first.to_str().filter(|word| word.starts_with('-')) else {
            break;
        };
        rest = after;
        if option == "--" {
            break;
        }
        // Go's flags have one dash or two, and their value after `=` or as the next word.
        let option = option.trim_start_matches('-');
        let (name, value) = option
            .split_once('=')
            .map_or((option, None), |(name, value)| {
                (name, Some(value.to_owned()))
            });
        if !OPTIONS.contains(&name) {
            return Err(format!(
                "--{name}: only --latency, --target-bw, --packet-loss and --device are understood; every packet of COMMAND takes the link, which ends with COMMAND"
            ));
        }
        let value = match value {
            Some(value) => value,
            None => {
                let next = rest.split_first();
                let (value, after) = next.ok_or_else(|| format!("--{name} needs a value"))?;
                rest = after;
                value.to_string_lossy().into_owned()
            }
        };
        match name {
            "latency" => netem += &format!(" delay {}ms", number::<u32>(name, &value)?),
            "target-bw" => netem += &format!(" rate {}kbit", number::<u32>(name, &value)?),
            "packet-loss" => {
                let percent = value.strip_suffix('%').unwrap_or(&value);
                netem += &format!(" loss {}%", number::<f64>(name, percent)?);
            }
            // The link has interfaces of its own.
            _ => {}
        }
    }
    let mut options: Vec<OsString> = vec!["link".into(), "--up".into(), netem.into()];
    options.extend(["--internet".into(), "--".into()]);
    or_shell(&mut options, rest);
    Ok(options)
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> Result<N, String> {
    let number = value.parse();
    number.map_err(|_| format!("--{name}={value}: write a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<String, String> {
        let words: Vec<_> = line.split_whitespace().map(OsString::from).collect();
        let words = translate(&words)?;
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn flags_become_a_link() {
        for (theirs, ours) in [
            (
                "--device=eth0 --latency=250 --target-bw=1000 --packet-loss=10% curl -O x",
                "netem limit 1000 delay 250ms rate 1000kbit loss 10%",
            ),
            ("-latency 20 -- curl -O x", "netem limit 1000 delay 20ms"),
            ("curl -O x", "netem limit 1000"),
        ] {
            let expected = format!("link --up {ours} --internet -- curl -O x");
            assert_eq!(words(theirs), Ok(expected));
        }
        assert!(!words("--latency=5").expect("a shell").ends_with("--"));
        assert!(translated("tc", &[]).is_none());
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        for (line, part) in [
            ("--stop=true", "--stop: only --latency"),
            ("--stop", "--stop: only --latency"),
            ("--dry-run true", "--dry-run: only --latency"),
            ("--target-port=80 true", "--target-port"),
            ("--latency=soon true", "a number"),
            ("--latency", "needs a value"),
        ] {
            let error = words(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
