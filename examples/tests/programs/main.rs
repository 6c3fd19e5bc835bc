//! The programs as users run them: the built binaries, their exit status and what they say.

mod command_line;
mod conversation;
mod middlebox;
mod namespaces;
mod queues;
mod transfer;

use std::process::{Command, Output};

/// Runs `program` to its end.
fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// Its standard error, which is one line if it failed early.
fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .trim_end()
        .to_owned()
}
