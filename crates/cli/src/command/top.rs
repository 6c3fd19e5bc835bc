//! `tautline top`: the queues of a running middlebox on the terminal.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use tautline_live::{Screen, Snapshot, View};

use crate::control::{Request, State, ask};
use crate::failure::Failure;

/// Interval between redraws.
const PICTURE: Duration = Duration::from_millis(200);

/// Shows the queues of a running middlebox on the whole terminal; q ends it, not the middlebox.
#[derive(Args, Debug)]
pub(super) struct Top {
    /// The middlebox's --control
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
}

impl Top {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (quit, ended) = channel();
        let view = View::new(self.socket.display().to_string());
        let quit = move || {
            let _already_ended = quit.send(());
        };
        let Some(screen) = Screen::open(view, quit)? else {
            let problem = "standard output is no terminal; `tautline ctl show` prints";
            return Err(std::io::Error::other(problem).into());
        };
        loop {
            let answer = ask(&self.socket, &Request::Show).map_err(Failure::file(&self.socket))?;
            let time = answer.ports.first().map_or(0.0, |port| port.time_s);
            screen.show(Snapshot {
                at: Duration::try_from_secs_f64(time).unwrap_or_default(),
                ports: answer.ports.into_iter().map(State::port).collect(),
            });
            if ended.recv_timeout(PICTURE) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
        }
    }
}
