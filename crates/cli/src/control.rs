//! The control socket of a middlebox, and its HTTP server.
//!
//! A client writes a JSON object per line and reads one per line:
//!
//! ```text
//! {"command":"show"}
//! {"command":"change","way":"to_right","words":"target 10ms"}
//! {"command":"replace","way":"to_left","words":"cake bandwidth 20mbit"}
//! {"command":"capture","points":"leaving","snaplen":128}
//! ```
//! After the answer to `capture` the server writes pcapng until the client hangs up.
//!
//! The threads that serve clients touch no packet: they send each request to the thread that forwards
//! and wait for its answer.

mod bridge;
mod capture;
mod client;
mod http;
mod metrics;
pub mod registry;
mod request;
mod state;
mod talkers;

use std::fs::remove_file;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::fs::Mode;
use rustix::process::umask;
use tautline_rt::event_fd::EventFd;

use crate::failure::Failure;
use capture::Subscription;
use registry::Registration;
use request::write_line;

pub use bridge::{Observer, handle, pictures};
pub use capture::{Feed, PacketTap, Points, Taps, Wanted};
pub use client::{ask, capture};
pub use request::{Answer, Request, Way};
pub use state::State;
pub use talkers::{Talkers, TopTalkers};

/// Longest line that a client may send.
const LINE: u64 = 64 << 10;

/// Work for the forwarding thread.
enum Work {
    Request(Request),
    Capture(Subscription),
}

/// Work, and where its outcome goes.
struct Pending {
    work: Work,
    reply: Sender<Answer>,
}

/// The end of the control socket at the thread that forwards.
#[derive(Default)]
pub struct Control {
    requests: Option<Receiver<Pending>>,
    socket: Option<PathBuf>,
    registration: Option<Registration>,
}

/// Where clients come from.
#[derive(Default)]
pub struct Doors<'a> {
    /// Path of the socket, which only its owner may open.
    pub socket: Option<&'a Path>,
    /// Address of the HTTP server; clients on other machines change nothing without the token.
    pub http: Option<(SocketAddr, Option<String>)>,
}

impl Control {
    /// Listens at `doors`. `wake` wakes the thread that forwards, `feed` describes it to captures.
    ///
    /// # Errors
    /// If another program listens there, or the system refuses.
    pub fn listen(doors: Doors<'_>, wake: &Arc<EventFd>, feed: Feed) -> Result<Self, Failure> {
        let Doors { socket, http } = doors;
        let (sender, requests) = channel();
        let client = Client {
            requests: sender,
            wake: Arc::clone(wake),
            feed,
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
            registration: None,
        })
    }

    /// Lets [`registry::running`] find the socket as `name`.
    #[must_use]
    pub fn registered(mut self, name: &str) -> Self {
        let socket = self.socket.as_deref();
        self.registration = socket.and_then(|socket| Registration::new(name, socket));
        self
    }

    /// Answers every request that has come; captures begin at `taps`.
    pub fn serve(&self, taps: &Taps, mut handle: impl FnMut(Request) -> Answer) {
        let requests = self.requests.iter().flat_map(Receiver::try_iter);
        for Pending { work, reply } in requests {
            let answer = match work {
                Work::Request(request) => handle(request),
                Work::Capture(subscription) => Answer::of(taps.add(subscription)),
            };
            // A client that hung up has no use for the answer.
            let _ = reply.send(answer);
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
    feed: Feed,
}

impl Client {
    fn ask(&self, request: Request) -> Answer {
        self.hand_over(Work::Request(request))
    }

    fn hand_over(&self, work: Work) -> Answer {
        let (reply, answer) = channel();
        let ended = || Answer::of(Err("the middlebox has ended".to_owned()));
        if self.requests.send(Pending { work, reply }).is_err() {
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
            if !line.ends_with(b"\n") {
                return Ok(());
            }
            let answer = match serde_json::from_slice(&line) {
                Ok(Request::Capture(wanted)) => return self.capture(stream, wanted),
                Ok(request) => self.ask(request),
                Err(error) => Answer::of(Err(error.to_string())),
            };
            write_line(stream, &answer)?;
        }
    }

    fn capture(&self, stream: &UnixStream, wanted: Wanted) -> io::Result<()> {
        let (subscription, records) = Subscription::new(wanted);
        let answer = self.hand_over(Work::Capture(subscription));
        write_line(stream, &answer)?;
        match answer.error {
            Some(_) => Ok(()),
            None => {
                let has_hung_up = || capture::has_hung_up(stream);
                capture::write(stream, records, wanted, &self.feed, has_hung_up)
            }
        }
    }
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
