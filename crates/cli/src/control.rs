//! The control socket of a middlebox, and its HTTP server, which `send` and `receive` have too.
//!
//! A client writes a JSON object per line and reads one per line:
//!
//! ```text
//! {"command":"show"}
//! {"command":"change","way":"to_right","words":"target 10ms"}
//! {"command":"replace","way":"to_left","words":"cake bandwidth 20mbit"}
//! {"command":"capture","points":"leaving","snaplen":128}
//! ```
//! A middlebox with several pairs of interfaces shows all of them; the other requests name one, as
//! `"pair":"lan"`.
//!
//! After the answer to `capture` the server writes pcapng until the client hangs up.
//!
//! The server has 32 clients at a time, and tells a further one so. A client that has sent no whole line
//! for a minute, or takes no part of an answer for as long, is disconnected.
//!
//! The threads that serve clients touch no packet: they send each request to the thread that forwards,
//! one for each pair, and wait for its answer.

mod bridge;
mod capture;
mod client;
mod connection;
mod http;
mod metrics;
mod packet_log;
pub mod registry;
mod request;
mod state;
mod talkers;
mod transfer;

use std::cell::Cell;
use std::fs::remove_file;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::umask;
use tautline_base::Instant;
use tautline_rt::Clock;
use tautline_rt::event_fd::EventFd;

use crate::accept::accepted;
use crate::check::Unusable;
use crate::failure::Failure;
use capture::Subscription;
use registry::Registration;
use request::write_line;

pub use bridge::{Observer, handle, pictures};
pub use capture::{Feed, PacketTap, Points, Taps, Wanted};
pub use client::{ask, capture};
pub use packet_log::PacketLog;
pub use request::{Answer, Request, Way};
pub use state::State;
pub use talkers::{Talkers, TopTalkers};
pub use transfer::TransferControl;

/// Longest line that a client may send.
const LINE: u64 = 64 << 10;
/// Clients at one time.
const CLIENTS: usize = 32;
/// Longest wait for a client's next request, and for the client to take a part of an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

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

/// The end of the control socket at the thread that forwards a pair.
#[derive(Default)]
pub struct Control {
    requests: Option<Receiver<Pending>>,
    forwarder: Arc<OnceLock<Forwarder>>,
    /// Removed with the last pair.
    _endpoints: Option<Arc<OpenEndpoints>>,
}

/// The socket and its name in the registry, which are removed on drop.
struct OpenEndpoints {
    socket: Option<PathBuf>,
    _registration: Option<Registration>,
}

/// A thread that forwards, as clients see it.
struct Pair {
    /// Empty if the middlebox has one pair only.
    name: String,
    requests: Sender<Pending>,
    forwarder: Arc<OnceLock<Forwarder>>,
}

/// The wake-up of a thread that forwards, and its clock.
struct Forwarder {
    wake: Arc<EventFd>,
    feed: Feed,
}

/// Where clients come from.
#[derive(Default)]
pub struct Endpoints<'a> {
    /// Path of the socket, which only its owner may open.
    pub socket: Option<&'a Path>,
    /// Address of the HTTP server; clients on other machines change nothing without the token.
    pub http: Option<(SocketAddr, Option<String>)>,
}

impl Control {
    /// Listens at `endpoints` for requests to one thread. The registry calls it `registered`, if given.
    ///
    /// # Errors
    /// If another program listens there, or the system refuses.
    pub fn listen(endpoints: Endpoints<'_>, registered: Option<&str>) -> Result<Self, Failure> {
        let mut controls = Self::listen_for(endpoints, &[""], registered)?;
        Ok(controls.pop().unwrap_or_default())
    }

    /// Listens at `endpoints` for requests to a thread for each of `pairs`, in their order. The registry
    /// calls the socket `registered`, if given.
    ///
    /// # Errors
    /// If another program listens there, or the system refuses.
    pub fn listen_for(
        endpoints: Endpoints<'_>,
        pairs: &[&str],
        registered: Option<&str>,
    ) -> Result<Vec<Self>, Failure> {
        let Endpoints { socket, http } = endpoints;
        let (pairs, ends): (Vec<_>, Vec<_>) = pairs.iter().map(|name| Pair::new(name)).unzip();
        let client = Client {
            pairs: pairs.into(),
        };
        if let Some(path) = socket {
            let listener = bind(path).map_err(Failure::file(path))?;
            let client = client.clone();
            std::thread::spawn(move || client.serve(&listener));
        }
        if let Some((address, token)) = http {
            let listener = TcpListener::bind(address).map_err(|error| {
                let problem = format!("{error}; name an address of this machine and a free port");
                Unusable::new("http", address, problem)
            })?;
            let site = http::Site { client, token };
            std::thread::spawn(move || site.serve(&listener));
        }
        let registration = socket.zip(registered);
        let endpoints = Arc::new(OpenEndpoints {
            socket: socket.map(Path::to_owned),
            _registration: registration.and_then(|(socket, name)| Registration::new(name, socket)),
        });
        let controls = ends.into_iter().map(|control| Self {
            _endpoints: Some(Arc::clone(&endpoints)),
            ..control
        });
        Ok(controls.collect())
    }

    /// The calling thread serves the requests from now on. `wake` wakes it, `feed` describes it to
    /// captures.
    pub fn attach(&self, wake: &Arc<EventFd>, feed: Feed) {
        let wake = Arc::clone(wake);
        let first = self.forwarder.set(Forwarder { wake, feed });
        debug_assert!(first.is_ok(), "one thread serves a pair");
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

impl Drop for OpenEndpoints {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _already_removed = remove_file(socket);
        }
    }
}

impl Pair {
    /// A pair and its end at the thread that will forward.
    fn new(name: &str) -> (Self, Control) {
        let (requests, received) = channel();
        let control = Control {
            requests: Some(received),
            ..Control::default()
        };
        let pair = Self {
            name: name.to_owned(),
            requests,
            forwarder: Arc::clone(&control.forwarder),
        };
        (pair, control)
    }

    /// The answer of the thread, unless it has ended.
    fn hand_over(&self, work: Work) -> Option<Answer> {
        let (reply, answer) = channel();
        self.requests.send(Pending { work, reply }).ok()?;
        // A thread that attaches itself later finds the request then.
        if let Some(forwarder) = self.forwarder.get() {
            forwarder.wake.signal();
        }
        answer.recv().ok()
    }
}

/// The end of a client's thread.
#[derive(Clone)]
struct Client {
    pairs: Arc<[Pair]>,
}

impl Client {
    /// The answer of the pair that a request names, or of all pairs that run.
    fn ask(&self, request: Request) -> Answer {
        if request != Request::Show {
            let pair = self.pair(request.pair());
            return pair.map_or_else(
                |why| Answer::of(Err(why)),
                |pair| pair.hand_over(Work::Request(request)).unwrap_or_else(ended),
            );
        }
        let shown = self.pairs.iter().filter_map(|pair| {
            let mut answer = pair.hand_over(Work::Request(Request::Show))?;
            for port in &mut answer.ports {
                port.pair.clone_from(&pair.name);
            }
            Some(answer)
        });
        let both = shown.reduce(|mut all, answer| {
            all.ports.extend(answer.ports);
            all
        });
        both.unwrap_or_else(ended)
    }

    /// The pair of that name; without one the only pair.
    fn pair(&self, name: Option<&str>) -> Result<&Pair, String> {
        let found = match (name, &*self.pairs) {
            (None, [only]) => Some(only),
            _ => self.pairs.iter().find(|pair| Some(&*pair.name) == name),
        };
        found.ok_or_else(|| {
            let names: Vec<_> = self.pairs.iter().map(|pair| &*pair.name).collect();
            match names.as_slice() {
                [""] => "there is one pair only; name none".to_owned(),
                names => format!("name one of the pairs: {}", names.join(", ")),
            }
        })
    }

    /// Serves every connection on a thread of its own.
    fn serve(self, listener: &UnixListener) {
        let client = Arc::new(self);
        for stream in accepted(listener.incoming()) {
            if Arc::strong_count(&client) > CLIENTS {
                let why = format!("{CLIENTS} clients are connected; end one, and try again");
                // It may have hung up.
                let _ = write_line(&stream, &Answer::of(Err(why)));
                continue;
            }
            let client = Arc::clone(&client);
            // Without a thread for it the client is disconnected.
            let _ = std::thread::Builder::new()
                .name("control".into())
                .spawn(move || client.converse(&stream, CLIENT_TIMEOUT));
        }
    }

    /// Answers a client whose next request is never later than `limit`.
    fn converse(&self, stream: &UnixStream, limit: Duration) -> io::Result<()> {
        stream.set_write_timeout(Some(limit))?;
        let clock = Clock::start();
        let until = Cell::new(clock.now() + limit);
        let lines = BufReader::new(InTime {
            stream,
            clock,
            until: &until,
        });
        let capture = answer_lines(lines, stream, |request| {
            let answer = self.ask(request);
            until.set(clock.now() + limit);
            answer
        });
        match capture {
            Ok(Some(wanted)) => {
                // Its reader may pause as long as it likes: it loses packets, and is told how many.
                stream.set_write_timeout(None)?;
                self.capture(stream, &wanted)
            }
            Err(error) if is_late(&error) => {
                let why = format!("no whole request has come for {limit:?}");
                write_line(stream, &Answer::of(Err(why)))
            }
            ended => ended.map(drop),
        }
    }

    fn capture(&self, stream: &UnixStream, wanted: &Wanted) -> io::Result<()> {
        let pair = match self.pair(wanted.pair.as_deref()) {
            Ok(pair) => pair,
            Err(why) => return write_line(stream, &Answer::of(Err(why))),
        };
        let (subscription, records) = Subscription::new(wanted);
        let answer = pair.hand_over(Work::Capture(subscription));
        let answer = answer.unwrap_or_else(ended);
        write_line(stream, &answer)?;
        // A thread that has answered is attached.
        match pair.forwarder.get().filter(|_| answer.error.is_none()) {
            None => Ok(()),
            Some(Forwarder { feed, .. }) => {
                let has_hung_up = || capture::has_hung_up(stream);
                capture::write(stream, records, wanted.snaplen, feed, has_hung_up)
            }
        }
    }
}

/// Reads of a stream, which fail from `until` on.
struct InTime<'a> {
    stream: &'a UnixStream,
    clock: Clock,
    until: &'a Cell<Instant>,
}

impl Read for InTime<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.get() - self.clock.now();
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

/// Whether a read or a write has taken too long.
fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// The answer to a request for threads that have ended.
fn ended() -> Answer {
    Answer::of(Err("the program has ended".to_owned()))
}

/// Answers the requests in `lines` until they end, one is longer than 64 KiB, or one asks for a capture,
/// which is returned.
///
/// # Errors
/// Those of the streams.
pub fn answer_lines(
    mut lines: impl BufRead,
    mut out: impl Write,
    mut answer: impl FnMut(Request) -> Answer,
) -> io::Result<Option<Wanted>> {
    loop {
        let mut line = Vec::new();
        lines.by_ref().take(LINE).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Ok(None);
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(Request::Capture(wanted)) => return Ok(Some(wanted)),
            Ok(request) => answer(request),
            Err(error) => Answer::of(Err(error.to_string())),
        };
        write_line(&mut out, &answer)?;
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
