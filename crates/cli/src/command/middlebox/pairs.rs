//! Options of a middlebox from a TOML file, for one pair of interfaces or for several.
//!
//! ```toml
//! device = "packet"          # of every pair
//! control = "/run/box"       # of the process
//!
//! [[pair]]
//! name = "lan"
//! left = "eth0"
//! right = "eth1"
//!
//! [[pair]]
//! name = "wan"
//! left = "eth2"
//! right = "eth3"
//! qdisc = "cake bandwidth 50mbit"
//! ```
//! Each pair has a thread of its own. One that ends does not end the others.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;

use super::MiddleboxArgs;
use crate::args::one_line;
use crate::check::Unusable;
use crate::control::Control;
use crate::failure::Failure;

/// Options that belong to the process.
const SHARED: [&str; 6] = ["control", "http", "token_file", "seconds", "json", "live"];

/// The options of `file` for each pair, and those of this process's command line over them.
///
/// # Errors
/// If the file cannot be read, or its options cannot work.
pub(super) fn read(file: &Path) -> Result<Vec<MiddleboxArgs>, Failure> {
    let text = std::fs::read_to_string(file).map_err(Failure::file(file))?;
    let own = std::env::args_os().skip_while(|word| !word.to_string_lossy().starts_with("--"));
    parse(&text, &own.collect::<Vec<_>>()).map_err(|why| unusable(file, why))
}

fn unusable(file: &Path, why: String) -> Failure {
    Unusable::new("config", file.display(), why).into()
}

fn parse(text: &str, own: &[OsString]) -> Result<Vec<MiddleboxArgs>, String> {
    let mut table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let Some(pairs) = table.remove("pair") else {
        return Ok(vec![options(&table, own)?]);
    };
    let pairs: Vec<toml::Table> = pairs
        .try_into()
        .map_err(|_| "write each pair as a table `[[pair]]`".to_owned())?;
    let read = pairs.into_iter().map(|mut pair| {
        let name = match pair.remove("name") {
            Some(toml::Value::String(name)) if !name.is_empty() => Some(name),
            None => None,
            Some(_) => return Err("`name` of a pair is a text".to_owned()),
        };
        let is_shared = |key: &&String| SHARED.contains(&&*key.replace('-', "_"));
        if let Some(key) = pair.keys().find(is_shared) {
            return Err(format!(
                "`{key}` belongs to the process: write it above the first `[[pair]]`"
            ));
        }
        let mut all = table.clone();
        all.extend(pair);
        let args = options(&all, own)?;
        let name = name.unwrap_or_else(|| format!("{}-{}", args.left, args.right));
        Ok(MiddleboxArgs {
            pair: Some(name),
            ..args
        })
    });
    let read: Vec<_> = read.collect::<Result<_, _>>()?;
    if read.iter().any(|args| args.live) {
        return Err("--live shows one pair; `tautline top` shows all".to_owned());
    }
    let interfaces = read.iter().flat_map(|args| [&args.left, &args.right]);
    let names = read.iter().filter_map(|args| args.pair.as_ref());
    for (what, words) in [
        ("interface", interfaces.collect::<Vec<_>>()),
        ("name", names.collect()),
    ] {
        let twice = words
            .iter()
            .enumerate()
            .find(|(at, word)| words[..*at].contains(word));
        if let Some((_, word)) = twice {
            return Err(format!("two pairs have the {what} `{word}`"));
        }
    }
    Ok(read)
}

/// The options in `table`, then `own`: each key is the name of an option.
fn options(table: &toml::Table, own: &[OsString]) -> Result<MiddleboxArgs, String> {
    let mut words = vec![OsString::from("middlebox")];
    for (key, value) in table {
        let option = format!("--{}", key.replace('_', "-"));
        match value {
            toml::Value::Boolean(false) => {}
            toml::Value::Boolean(true) => words.push(option.into()),
            toml::Value::String(text) => words.extend([option.into(), text.into()]),
            toml::Value::Integer(number) => {
                words.extend([option.into(), number.to_string().into()]);
            }
            toml::Value::Float(number) => words.extend([option.into(), number.to_string().into()]),
            _ => return Err(format!("`{key}` is no option of one value")),
        }
    }
    words.extend_from_slice(own);
    let read = MiddleboxArgs::try_parse_from(words).map_err(|error| one_line(&error))?;
    Ok(MiddleboxArgs {
        config: None,
        ..read
    })
}

/// Forwards every pair in a thread of its own.
///
/// # Errors
/// If an option of any cannot work, before one begins; at the end, if any has failed.
pub(super) fn run(file: &Path, pairs: &[MiddleboxArgs]) -> Result<(), Failure> {
    let Some(first) = pairs.first() else {
        return Err(unusable(file, "it has no pair".to_owned()));
    };
    for args in pairs {
        args.check()?;
    }
    let names: Vec<_> = pairs
        .iter()
        .filter_map(|args| args.pair.as_deref())
        .collect();
    let registered = format!("{}-{}", first.left, first.right);
    let controls = Control::listen_for(first.endpoints()?, &names, Some(&registered))?;
    let failed = std::thread::scope(|scope| {
        let threads = pairs.iter().zip(controls).map(|(args, control)| {
            scope.spawn(move || {
                let ended = args.forward(control);
                if let Err(failure) = &ended {
                    let name = args.pair.as_deref().unwrap_or_default();
                    eprintln!("middlebox: pair {name}: {failure}");
                }
                ended.is_err()
            })
        });
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.filter(|failed| *failed).count()
    });
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Refused(format!(
            "{failed} of {} pairs failed",
            pairs.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
        device = "packet"
        qdisc = "pfifo"
        control = "/run/box"
        [[pair]]
        name = "lan"
        left = "a"
        right = "b"
        [[pair]]
        left = "c"
        right = "d"
        qdisc = "codel"
    "#;

    #[test]
    fn a_pair_has_the_options_above_and_its_own() {
        let own = ["--frames", "256"].map(OsString::from);
        let pairs = parse(TWO, &own).expect("two pairs");
        let shown = |args: &MiddleboxArgs| {
            let name = args.pair.clone().unwrap_or_default();
            (name, args.left.clone(), args.qdisc.clone(), args.frames)
        };
        let expected = [("lan", "a", "pfifo"), ("c-d", "c", "codel")];
        let expected = expected
            .map(|(name, left, qdisc)| (name.to_owned(), left.to_owned(), qdisc.to_owned(), 256));
        assert_eq!(pairs.iter().map(shown).collect::<Vec<_>>(), expected);
        assert!(pairs.iter().all(|args| args.control.is_some()));
        let one = parse("left = \"a\"\nright = \"b\"", &[]).expect("one pair");
        assert!(one[0].pair.is_none());
    }

    #[test]
    fn mistakes_of_pairs_say_what_to_write() {
        for (text, part) in [
            ("pair = 1", "[[pair]]"),
            ("[[pair]]\nname = 1", "text"),
            (
                "[[pair]]\nleft = \"a\"\nright = \"b\"\njson = true",
                "above",
            ),
            ("[[pair]]\ntoken-file = \"x\"", "above"),
            ("[[pair]]\nleft = \"a\"", "--right"),
            ("live = true\n[[pair]]\nleft = \"a\"\nright = \"b\"", "top"),
            (
                "[[pair]]\nleft = \"a\"\nright = \"b\"\n[[pair]]\nleft = \"b\"\nright = \"c\"",
                "interface `b`",
            ),
            (
                "[[pair]]\nname = \"x\"\nleft = \"a\"\nright = \"b\"\n[[pair]]\nname = \"x\"\nleft = \"c\"\nright = \"d\"",
                "name `x`",
            ),
        ] {
            let error = parse(text, &[]).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
