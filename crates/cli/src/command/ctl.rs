//! `tautline ctl`: shows, changes and captures a running middlebox or link.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::check::Unusable;
use crate::control::{Points, Request, State, Wanted, Way, ask, capture};
use crate::failure::Failure;
use crate::report::print_json;

const EXAMPLES: &str = "\
Examples, for `tautline middlebox --control /run/box …`:
  tautline ctl --socket /run/box show
  tautline ctl --socket /run/box change to_right target 10ms
  tautline ctl --socket /run/box replace to_left 'tbf rate 20mbit burst 5kb latency 1s; fq_codel'
  tautline ctl --socket /run/box capture --snaplen 128 > box.pcapng; Ctrl-C ends it. `tautline extcap` shows it live in Wireshark.";

/// Shows, changes or captures a running middlebox or link.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Ctl {
    /// Path given to the middlebox as --control
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Pair of interfaces, for a middlebox with several
    #[arg(long, value_name = "NAME")]
    pair: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Prints one JSON object per direction: counters, sojourn times, and the tree as in `tc -s -j`
    Show,
    /// Changes parameters of a qdisc in tc's words; within a tree, with `qdisc change handle …`
    Change(Words),
    /// Replaces the qdisc by another; queued packets move over
    Replace(Words),
    /// Writes packets to standard output as pcapng, with their time in the queue, mark or drop reason as comments
    Capture(Capture),
}

#[derive(Args, Debug)]
struct Capture {
    /// Packets to capture
    #[arg(long, value_enum, default_value_t)]
    points: Points,
    /// Bytes kept of each packet
    #[arg(long, default_value_t = Wanted::default().snaplen)]
    snaplen: u32,
}

#[derive(Args, Debug)]
struct Words {
    /// Direction of the qdisc
    #[arg(value_enum)]
    way: Way,
    /// tc's words
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Ctl {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let request = match &self.action {
            Action::Show => Request::Show,
            Action::Change(Words { way, words }) => Request::Change {
                pair: self.pair.clone(),
                way: *way,
                words: words.join(" "),
            },
            Action::Replace(Words { way, words }) => Request::Replace {
                pair: self.pair.clone(),
                way: *way,
                words: words.join(" "),
            },
            Action::Capture(Capture { points, snaplen }) => {
                return self.capture(&Wanted {
                    pair: self.pair.clone(),
                    points: *points,
                    snaplen: *snaplen,
                });
            }
        };
        let answer = ask(&self.socket, &request).map_err(Failure::file(&self.socket))?;
        let is_wanted = |port: &&State| self.pair.as_ref().is_none_or(|pair| *pair == port.pair);
        let mut ports = answer.ports.iter().filter(is_wanted).peekable();
        if ports.peek().is_none() && !answer.ports.is_empty() {
            let pair = self.pair.as_deref().unwrap_or_default();
            let mut known: Vec<_> = answer.ports.iter().map(|port| &*port.pair).collect();
            known.dedup();
            let problem = format!("no pair has that name; there are {}", known.join(", "));
            return Err(Unusable::new("pair", pair, problem).into());
        }
        ports.for_each(print_json);
        answer
            .error
            .map_or(Ok(()), |why| Err(Failure::Refused(why)))
    }

    fn capture(&self, wanted: &Wanted) -> Result<(), Failure> {
        let out = io::stdout();
        if out.is_terminal() {
            let why = "capture writes pcapng to standard output; redirect it to a file";
            return Err(Failure::Refused(why.to_owned()));
        }
        let mut out = File::from(out.as_fd().try_clone_to_owned()?);
        capture(&self.socket, wanted, &mut out)
    }
}
