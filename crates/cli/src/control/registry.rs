//! Where control sockets are found: `$XDG_RUNTIME_DIR/tautline`, `/run/tautline` and the directories
//! `/run/tautline-NAME` of the systemd unit.
//!
//! A middlebox links its socket there, wherever that is; a link of `tautline link` has its socket
//! there.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::converse;
use super::request::Request;
use super::state::State;

/// Longest wait for the answer of a process that may be stopped.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A process with a control socket.
pub struct Running {
    /// Name in the registry.
    pub name: String,
    /// Its socket.
    pub socket: PathBuf,
    /// Both ways.
    pub ports: Vec<State>,
}

/// Every process whose control socket this user may open, by name.
pub fn running() -> Vec<Running> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for entry in directories().iter().flat_map(|path| entries(path)) {
        let Some(socket) = fs::canonicalize(&entry).ok().filter(|path| is_socket(path)) else {
            continue;
        };
        if !known.insert(socket.clone()) {
            continue;
        }
        // One that does not answer was killed, or belongs to another user.
        if let Ok(ports) = show(&entry) {
            found.push(Running {
                name: name_of(&entry),
                socket,
                ports,
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn show(socket: &Path) -> io::Result<Vec<State>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(converse(&stream, &Request::Show)?.ports)
}

/// The name of a socket; `/run/tautline-wan/control` is `wan`.
fn name_of(socket: &Path) -> String {
    let text = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let name = text(socket).unwrap_or_default();
    let unit = socket.parent().and_then(text);
    match unit
        .as_deref()
        .and_then(|unit| unit.strip_prefix("tautline-"))
    {
        Some(unit) if name == "control" => unit.to_owned(),
        _ => name,
    }
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The directory of this user, and those of the system.
fn directories() -> Vec<PathBuf> {
    let mut all = vec![own_directory()];
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "tautline" || name.starts_with("tautline-")
    };
    all.extend(entries(Path::new("/run")).into_iter().filter(is_ours));
    all
}

fn own_directory() -> PathBuf {
    let user = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    user.map_or_else(|| PathBuf::from("/run"), PathBuf::from)
        .join("tautline")
}

/// A path in the directory of this user for the socket of `name`; nothing if it cannot be made.
pub fn place(name: &str) -> Option<PathBuf> {
    let directory = own_directory();
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory);
    made.ok().map(|()| directory.join(name))
}

/// A name of a control socket elsewhere, removed on drop.
#[derive(Debug)]
pub(super) struct Registration(PathBuf);

impl Registration {
    /// Registers `socket` as `name`, or with the process number if a running process has that name.
    /// Nothing if the registry cannot be written: the process is then found by its path only.
    pub(super) fn new(name: &str, socket: &Path) -> Option<Self> {
        let socket = std::path::absolute(socket).ok()?;
        let numbered = format!("{name}-{}", std::process::id());
        [name, &numbered].into_iter().find_map(|name| {
            let entry = place(name).filter(|entry| *entry != socket)?;
            if UnixStream::connect(&entry).is_err() {
                let _absent = fs::remove_file(&entry);
            }
            symlink(&socket, &entry).ok().map(|()| Self(entry))
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _already_removed = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_the_unit_are_named_after_their_directory() {
        let name = |path: &str| name_of(Path::new(path));
        assert_eq!(name("/run/tautline-wan/control"), "wan");
        assert_eq!(name("/run/tautline/eth0-eth1"), "eth0-eth1");
        assert_eq!(name("/run/tautline-wan/other"), "other");
    }
}
