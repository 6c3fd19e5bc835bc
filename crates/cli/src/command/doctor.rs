//! `tautline doctor`: reports which network backends this machine supports, and for each of the
//! others the cause and the remedy.
//!
//! Facts come from `/proc` and `/sys`, and from `ip` and `ethtool` if installed; a missing source
//! is itself a finding. Nothing is opened or changed, except with `--bind`.

mod interface;
mod system;

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;
use serde::Serialize;

use crate::failure::exit_code;
use crate::report::{all_printed, print_json, say};

/// Reports what works on this machine, and what does not and why. Exits with 1 if no command can work
/// here, or if an interface named by --iface cannot be used.
#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Only this interface; repeatable. Default: all but loopback
    #[arg(long, value_name = "NAME")]
    iface: Vec<String>,
    /// Bind an AF_XDP socket to queue 0 of each --iface for a moment, with and without copies. Some
    /// drivers reset the link for it
    #[arg(long, requires = "iface")]
    bind: bool,
    /// One JSON object per line instead of text
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn run(&self) -> ExitCode {
        let machine = Machine { root: "/".into() };
        let system = system::examine(&machine);
        let interfaces = if self.iface.is_empty() {
            machine.interfaces()
        } else {
            self.iface.clone()
        };
        let mut findings = Vec::new();
        for interface in &interfaces {
            findings.extend(interface::examine(&machine, interface));
            if self.bind {
                findings.extend(interface::bind(interface));
            }
        }
        for finding in system.iter().chain(&findings) {
            finding.print(self.json);
        }
        let works = can_work(&system, &findings, !self.iface.is_empty());
        match all_printed() {
            Ok(()) => ExitCode::from(u8::from(!works)),
            unprinted => exit_code("doctor", unprinted),
        }
    }
}

/// Whether what was asked for can work: a named interface, with a socket for it, or else any command. What
/// is missing otherwise has an alternative, or concerns a part that nobody asked for.
fn can_work(system: &[Finding], interfaces: &[Finding], are_named: bool) -> bool {
    let works = |subjects: &[&str]| {
        system.iter().any(|found| {
            found.level != Level::Missing && subjects.contains(&found.subject.as_str())
        })
    };
    if are_named {
        works(&SOCKETS) && interfaces.iter().all(|found| found.level != Level::Missing)
    } else {
        works(&SOCKETS) || works(&["tap", "user namespaces"])
    }
}

/// The findings about sockets on an interface.
const SOCKETS: [&str; 2] = ["packet sockets", "af_xdp"];

/// How a finding affects the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// Works.
    Ok,
    /// Works with a caveat.
    Note,
    /// Does not work.
    Missing,
}

/// One fact, and the remedy if it is a problem.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    level: Level,
    /// The subject: `memlock`, `interface eth0`.
    subject: String,
    fact: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(subject: impl Into<String>, fact: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            subject: subject.into(),
            fact: fact.into(),
            remedy: None,
        }
    }

    fn note(
        subject: impl Into<String>,
        fact: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Note,
            remedy: Some(remedy.into()),
            ..Self::ok(subject, fact)
        }
    }

    fn missing(
        subject: impl Into<String>,
        fact: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Missing,
            ..Self::note(subject, fact, remedy)
        }
    }

    fn print(&self, json: bool) {
        if json {
            return print_json(self);
        }
        let mark = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Missing => "MISSING",
        };
        say!("{mark:<8}{:<20}{}", self.subject, self.fact);
        if let Some(remedy) = &self.remedy {
            say!("{:<28}-> {remedy}", "");
        }
    }
}

/// The file system that facts are read from: `/`, or a test fixture.
struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The content of a file without trailing whitespace; `None` if it cannot be read.
    fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim_end().to_owned())
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// File names in a directory, sorted.
    fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path));
        let mut names: Vec<_> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    fn interfaces(&self) -> Vec<String> {
        let mut names = self.list("sys/class/net");
        // `bonding_masters` is a file.
        names.retain(|name| {
            let path = self.root.join("sys/class/net").join(name);
            name != "lo" && path.is_dir()
        });
        names
    }
}

/// Standard output of another program; an error if it is not installed or fails.
fn output_of(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let text = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(text.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests;
