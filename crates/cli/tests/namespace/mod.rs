//! Commands in user and network namespaces of their own.

use std::process::{Command, Output};

/// A command in namespaces of its own; nothing if this machine makes none.
pub(crate) fn unshared(program: &str, words: &[&str]) -> Option<Output> {
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net"]);
        command.args(words).output()
    };
    if !unshare(&["true"]).is_ok_and(|output| output.status.success()) {
        eprintln!("not tested: no user namespaces here");
        return None;
    }
    Some(unshare(&[&[program], words].concat()).expect("it worked before"))
}
