//! [`Iperf`] and [`Server`]: the client and the server of `iperf3`, as far as they matter to TCP.
//!
//! A control connection comes first. The client says who it is in [`COOKIE`] bytes; the server asks for the
//! parameters of the test, which come as two messages; then it asks for the streams. They are opened
//! one after the other and begin with the cookie, too. When the server has all of them, it says on the control
//! connection that the test starts and that it runs, one byte each; the client acknowledges them and sends on all
//! streams at once. The client's clock begins there. The server's runs a round trip longer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tautline_base::{Instant, SocketId};
use tautline_sim::AppError;
use tautline_sim::app::{Application, Context};
use tautline_stack::{Event, Recv, SocketOption, TcpConfig};

/// Length of the first message of each connection.
const COOKIE: usize = 37;
/// Length of the message that says how long the parameters of a test are.
const LENGTH: usize = 4;
/// Length of the parameters without the name of the controller (iperf3 3.12).
const PARAMETERS: usize = 140;
/// Bytes that the server has sent on the control connection when the test runs: it asks for parameters and for
/// streams, and says that the test starts and runs.
const RUNNING: usize = 4;
/// How long after its TCP wakes it an end runs: the kernel processes packets that arrive together
/// first, as those do which a bucket of tokens let through at once.
const SWITCHING: Duration = Duration::from_micros(1);
/// How long the client writes a segment's data: the kernel reads the clock, which costs so much simulated time.
const WRITING: Duration = Duration::from_nanos(256);
/// Data of a segment.
const SEGMENT: usize = 1448;
/// Data of one write.
static CHUNK: [u8; 128 << 10] = [0; 128 << 10];

/// The one processor of client and server: neither of them runs while the client writes, and of the two the server runs
/// next.
#[derive(Clone, Default)]
pub(crate) struct Processor {
    /// When it is free, in nanoseconds.
    free: Arc<AtomicU64>,
}

impl Processor {
    /// The client writes from `now` on for so long, or after what it writes already.
    fn occupy(&self, now: Instant, time: Duration) {
        let free = self.free_at().max(now) + time;
        self.free.store(free.as_nanos(), Ordering::Relaxed);
    }

    fn free_at(&self) -> Instant {
        Instant::from_nanos(self.free.load(Ordering::Relaxed))
    }

    /// When the processor is free again, if the client still writes at `now`.
    fn busy_until(&self, now: Instant) -> Option<Instant> {
        Some(self.free_at()).filter(|free| *free > now)
    }
}

/// A system call of the client.
enum Call {
    Connect,
    /// Writes so many bytes.
    Write(SocketId, usize),
    /// Sets the options of a stream.
    SetOptions(SocketId),
    /// Writes to all streams, one after the other.
    Begin,
    /// Writes to a stream that is not the first.
    Fill(SocketId),
}

/// Sends streams without end.
pub(crate) struct Iperf {
    remote: SocketAddr,
    count: usize,
    /// Length of the parameters.
    parameters: usize,
    tcp: Arc<TcpConfig>,
    /// Of the control connection.
    control_tcp: Arc<TcpConfig>,
    /// Set once a stream is open, after its first message.
    options: Vec<SocketOption>,
    control: Option<SocketId>,
    /// Bytes that came on the control connection.
    heard: usize,
    streams: Vec<SocketId>,
    /// Calls that the client makes next, one after the other.
    calls: VecDeque<Call>,
    began: bool,
    /// Streams to write to.
    writable: Vec<SocketId>,
    /// When the client runs again.
    runs_at: Option<Instant>,
    processor: Processor,
    /// Time that the first write to a stream takes.
    filling: Duration,
}

impl Iperf {
    /// Sends `count` streams under `congestion` to `remote`. They get the options when they are open.
    pub(crate) fn new(
        remote: SocketAddr,
        (count, congestion): (usize, &str),
        (tcp, options): (TcpConfig, Vec<SocketOption>),
        processor: Processor,
    ) -> Self {
        // iperf3 sets TCP_NODELAY on both ends of the control connection.
        let control_tcp = TcpConfig {
            nagle: false,
            ..tcp.clone()
        };
        Self {
            remote,
            count,
            parameters: PARAMETERS + congestion.len(),
            tcp: tcp.into(),
            control_tcp: control_tcp.into(),
            options,
            control: None,
            heard: 0,
            streams: Vec::new(),
            calls: VecDeque::new(),
            began: false,
            writable: Vec::new(),
            runs_at: None,
            processor,
            filling: Duration::ZERO,
        }
    }

    /// About when a client whose last stream opened at `now` sends its first data.
    pub(crate) fn begin(now: Instant, rtt: Duration) -> Instant {
        now + rtt + SWITCHING
    }

    /// Reads the control connection, and notes what the server asks for.
    fn listen(&mut self, cx: &mut Context<'_>, control: SocketId) -> Result<(), AppError> {
        let before = self.heard;
        self.heard += read(cx, control)?;
        for byte in before + 1..=self.heard {
            match byte {
                1 => self
                    .calls
                    .extend([LENGTH, self.parameters].map(|len| Call::Write(control, len))),
                2 => self.calls.push_back(Call::Connect),
                RUNNING => self.calls.push_back(Call::Begin),
                _ => {}
            }
        }
        Ok(())
    }

    fn make(&mut self, cx: &mut Context<'_>, call: Call) -> Result<(), AppError> {
        match call {
            Call::Connect => {
                cx.connect(self.remote, Arc::clone(&self.tcp), 0)?;
            }
            Call::Write(socket, len) => {
                cx.send(socket, &CHUNK[..len])?;
            }
            Call::SetOptions(socket) => {
                for option in &self.options {
                    cx.host.set_option(socket, option.clone())?;
                }
            }
            Call::Begin => {
                self.began = true;
                let Some((first, others)) = self.streams.split_first() else {
                    return Ok(());
                };
                self.filling = fill(cx, *first)?;
                let all = self.filling * self.streams.len() as u32;
                self.processor.occupy(cx.now, all);
                self.calls.extend(others.iter().copied().map(Call::Fill));
            }
            Call::Fill(socket) => {
                fill(cx, socket)?;
            }
        }
        Ok(())
    }

    /// Makes the next call, and notes when another follows: the kernel sends what one call wrote before the next.
    fn call(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if let Some(call) = self.calls.pop_front() {
            self.make(cx, call)?;
        }
        self.runs_at = match self.calls.front() {
            Some(Call::Fill(_)) => Some(cx.now + self.filling),
            Some(_) => Some(cx.now + SWITCHING),
            None if self.writable.is_empty() => None,
            None => Some(cx.now + SWITCHING),
        };
        Ok(())
    }
}

/// Writes to `socket` until its send buffer is full, and returns the time that takes.
fn fill(cx: &mut Context<'_>, socket: SocketId) -> Result<Duration, AppError> {
    let mut segments = 0;
    loop {
        match cx.send(socket, &CHUNK)? {
            0 => return Ok(WRITING * segments),
            bytes => segments += (bytes / SEGMENT) as u32,
        }
    }
}

/// Reads everything, and returns how many bytes it was.
fn read(cx: &mut Context<'_>, socket: SocketId) -> Result<usize, AppError> {
    let mut bytes = 0;
    while let Recv::Data(count) = cx.recv(socket)? {
        bytes += count;
    }
    Ok(bytes)
}

impl Application for Iperf {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let control = cx.connect(self.remote, Arc::clone(&self.control_tcp), 0)?;
        self.control = Some(control);
        Ok(())
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Connected(socket) => {
                self.calls.push_back(Call::Write(socket, COOKIE));
                if self.control != Some(socket) {
                    cx.measured.connections += 1;
                    self.streams.push(socket);
                    self.calls.push_back(Call::SetOptions(socket));
                    if self.streams.len() < self.count {
                        self.calls.push_back(Call::Connect);
                    }
                }
            }
            Event::Writable(socket) if self.began => self.writable.push(socket),
            Event::Readable(_) => {}
            Event::Closed { why, .. } => return Err(AppError::Closed(why)),
            _ => return Ok(()),
        }
        self.runs_at = self.runs_at.or(Some(cx.now + SWITCHING));
        Ok(())
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if self.runs_at.take_if(|at| *at <= cx.now).is_none() {
            return Ok(());
        }
        if let Some(Call::Fill(_)) = self.calls.front() {
            return self.call(cx);
        }
        if let Some(free) = self.processor.busy_until(cx.now) {
            self.runs_at = Some(free + SWITCHING);
            return Ok(());
        }
        if let Some(control) = self.control {
            self.listen(cx, control)?;
        }
        for socket in std::mem::take(&mut self.writable) {
            let time = fill(cx, socket)?;
            self.processor.occupy(cx.now, time);
        }
        self.call(cx)
    }

    fn deadline(&self) -> Option<Instant> {
        self.runs_at
    }

    fn is_done(&self) -> bool {
        false
    }

    fn connections(&self) -> &[SocketId] {
        &self.streams
    }
}

/// Reads everything that arrives at `port`.
pub(crate) struct Server {
    port: u16,
    tcp: Arc<TcpConfig>,
    /// Streams of the test.
    count: usize,
    /// Bytes that come on the control connection before the streams.
    introduction: usize,
    control: Option<SocketId>,
    /// Bytes that came on the control connection.
    heard: usize,
    /// Streams whose cookie has come.
    streams: Vec<SocketId>,
    readable: Vec<SocketId>,
    runs_at: Option<Instant>,
    /// Messages of one byte for the client, and when they are sent.
    messages: Option<(Instant, usize)>,
    processor: Processor,
}

impl Server {
    /// Waits for a test of `count` streams under `congestion`.
    pub(crate) fn new(
        port: u16,
        (count, congestion): (usize, &str),
        tcp: TcpConfig,
        processor: Processor,
    ) -> Self {
        let tcp = TcpConfig {
            nagle: false,
            ..tcp
        };
        Self {
            port,
            tcp: tcp.into(),
            count,
            introduction: COOKIE + LENGTH + PARAMETERS + congestion.len(),
            control: None,
            heard: 0,
            streams: Vec::new(),
            readable: Vec::new(),
            runs_at: None,
            messages: None,
            processor,
        }
    }

    /// Notes that `bytes` were read from `socket`. Returns how many messages the server answers with.
    fn note(&mut self, socket: SocketId, bytes: usize) -> usize {
        if self.control == Some(socket) {
            self.heard += bytes;
            let is_whole = self.heard == COOKIE || self.heard == self.introduction;
            return usize::from(bytes > 0 && is_whole);
        }
        if bytes == 0 || self.streams.len() == self.count || self.streams.contains(&socket) {
            return 0;
        }
        self.streams.push(socket);
        if self.streams.len() == self.count {
            2
        } else {
            0
        }
    }
}

impl Application for Server {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        cx.listen(self.port, Arc::clone(&self.tcp), 0).map(|_| ())
    }

    fn on_event(
        &mut self,
        cx: &mut Context<'_>,
        event: Event,
        _token: u32,
    ) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                self.control = self.control.or(Some(socket));
                cx.own(socket, 0);
                self.readable.push(socket);
            }
            Event::Readable(socket) => self.readable.push(socket),
            Event::Closed { why, .. } => return Err(AppError::Closed(why)),
            _ => {}
        }
        self.runs_at = self.runs_at.or(Some(cx.now + SWITCHING));
        Ok(())
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if let Some((_, count)) = self.messages.take_if(|(at, _)| *at <= cx.now)
            && let Some(control) = self.control
        {
            cx.send(control, &CHUNK[..1])?;
            self.messages = (count > 1).then_some((cx.now + SWITCHING, count - 1));
        }
        if self.runs_at.take_if(|at| *at <= cx.now).is_none() {
            return Ok(());
        }
        self.runs_at = self.processor.busy_until(cx.now);
        if self.runs_at.is_some() {
            return Ok(());
        }
        for socket in std::mem::take(&mut self.readable) {
            let bytes = read(cx, socket)?;
            let messages = self.note(socket, bytes);
            if messages > 0 {
                self.messages = Some((cx.now, messages));
            }
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        let messages = self.messages.map(|(at, _)| at);
        [messages, self.runs_at].into_iter().flatten().min()
    }

    fn is_done(&self) -> bool {
        true
    }
}
