//! The control socket of a middlebox, and its HTTP server.
//!
//! A client writes a JSON object per line and reads one per line:
//!
//! ```text
//! {"command":"show"}
//! {"command":"change","way":"to_right","words":"target 10ms"}
//! {"command":"replace","way":"to_left","words":"cake bandwidth 20mbit"}
//! ```
//! The threads that serve clients touch no packet: they send each request to the thread that forwards
//! and wait for its answer.

mod http;
mod metrics;
mod state;

use std::fs::remove_file;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::fs::Mode;
use rustix::process::umask;
use serde::{Deserialize, Serialize};
use tautline_rt::event_fd::EventFd;

use crate::failure::Failure;

pub use state::State;

/// Longest line that a client may send.
const LINE: u64 = 64 << 10;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The state of both ways.
    Show,
    /// Changes parameters, as `tc qdisc change` does.
    Change {
        /// Direction of the qdisc.
        way: Way,
        /// tc's words.
        words: String,
    },
    /// Puts another qdisc in the place of the present one.
    Replace {
        /// Direction of the qdisc.
        way: Way,
        /// tc's words.
        words: String,
    },
}

/// A direction through a middlebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Leaves at the right interface.
    #[value(name = "to_right")]
    ToRight,
    /// Leaves at the left interface.
    #[value(name = "to_left")]
    ToLeft,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Absent if the request was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Both ways, for `show`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<State>,
}

impl Answer {
    /// The outcome of a change.
    pub fn of(outcome: Result<(), String>) -> Self {
        Self {
            error: outcome.err(),
            ports: Vec::new(),
        }
    }
}

/// A request for the forwarding thread.
struct Pending {
    request: Request,
    reply: Sender<Answer>,
}

/// The end of the control socket at the thread that forwards.
#[derive(Default)]
pub struct Control {
    requests: Option<Receiver<Pending>>,
    socket: Option<PathBuf>,
}

impl Control {
    /// Listens on `socket` and serves HTTP at `http`, if they are given; other machines change nothing
    /// over HTTP without the token. `wake` wakes the thread that forwards.
    ///
    /// # Errors
    /// If another program listens there, or the system refuses.
    pub fn listen(
        socket: Option<&Path>,
        http: Option<(SocketAddr, Option<String>)>,
        wake: &Arc<EventFd>,
    ) -> Result<Self, Failure> {
        let (sender, requests) = channel();
        let client = Client {
            requests: sender,
            wake: Arc::clone(wake),
        };
        if let Some(path) = socket {
            let listener = bind(path).map_err(Failure::file(path))?;
            let client = client.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let client = client.clone();
                    std::thread::spawn(move || client.converse(&stream));
                }
            });
        }
        if let Some((address, token)) = http {
            let listener = TcpListener::bind(address)?;
            let site = http::Site { client, token };
            std::thread::spawn(move || site.serve(&listener));
        }
        Ok(Self {
            requests: Some(requests),
            socket: socket.map(Path::to_owned),
        })
    }

    /// Answers every request that has come.
    pub fn serve(&self, mut handle: impl FnMut(Request) -> Answer) {
        let requests = self.requests.iter().flat_map(Receiver::try_iter);
        for Pending { request, reply } in requests {
            // A client that hung up has no use for the answer.
            let _ = reply.send(handle(request));
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _already_removed = remove_file(socket);
        }
    }
}

/// The end of a client's thread.
#[derive(Clone)]
struct Client {
    requests: Sender<Pending>,
    wake: Arc<EventFd>,
}

impl Client {
    fn ask(&self, request: Request) -> Answer {
        let (reply, answer) = channel();
        let ended = || Answer::of(Err("the middlebox has ended".to_owned()));
        if self.requests.send(Pending { request, reply }).is_err() {
            return ended();
        }
        self.wake.signal();
        answer.recv().unwrap_or_else(|_| ended())
    }

    fn converse(&self, stream: &UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            reader.by_ref().take(LINE).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(());
            }
            let answer = if line.ends_with(b"\n") {
                serde_json::from_slice(&line).map_or_else(
                    |error| Answer::of(Err(error.to_string())),
                    |request| self.ask(request),
                )
            } else {
                return Ok(());
            };
            write_line(stream, &answer)?;
        }
    }
}

/// Sends `request` to the middlebox at `socket`.
///
/// # Errors
/// If no server listens there, or this version cannot parse the answer.
pub fn ask(socket: &Path, request: &Request) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    write_line(&stream, request)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

fn write_line(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// A listening socket that only its owner may open; replaces a stale one without a server.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another program listens there",
        ));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        remove_file(path)?;
    }
    let before = umask(Mode::RWXG | Mode::RWXO);
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

#[cfg(test)]
mod tests;
