//! `tautline link -- COMMAND`: runs a program behind a link of configurable rate, queue, delay and
//! loss, without root.
//!
//! ```text
//! namespace of COMMAND        namespace of the link        namespace of --serve
//!   10.77.0.1  link0 ═══ veth ═══ m0 ▏this process▕ m1 ═══ veth ═══ far0  10.77.0.2
//! ```
//! The three network namespaces belong to a new user namespace and disappear with their last
//! process. Inside COMMAND another `tautline link` adds a second link: the namespace it was started
//! in becomes its far end and routes to the first.
//!
//! With `--internet` the interface `m1` is a TAP interface whose other side is a gateway outside, in
//! the process that was started.

pub mod comcast;
mod internet;
pub mod mahimahi;
mod namespace;
mod options;
mod scenario;
mod topology;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitCode, ExitStatus};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Serialize;
use tautline_base::{Device, HeapFrame, Instant};
use tautline_bql::{Limit, LimitKind};
use tautline_live::PortState;
use tautline_qdisc::Stats;
use tautline_rt::bridge::{Bridge, Side};
use tautline_rt::packet_device::{Config, PacketDevice};
use tautline_rt::{Clock, EventLoop, Forwarder, Idle, Progress, stop_on_signals, system_seed};
use tautline_tc::{DynQdisc, Inspect, Report};

use crate::control::{
    Answer, Control, Endpoints, Feed, Observer, PacketLog, Request, Talkers, Taps, handle, registry,
};
use crate::failure::Failure;
use crate::path::PathConfig;
use crate::report::{micros, rounded, wall_clock};
use topology::Topology;

pub(super) use namespace::ip;
pub(super) use options::LinkArgs;

/// Most frames per direction: two seconds of full packets at 100 Mbit/s, 32 MiB.
const FRAMES: usize = 16_384;
/// The same with offload, 64 MiB.
const LARGE_FRAMES: usize = 1024;
/// Frames to begin with.
const FIRST_FRAMES: usize = 64;

type Frames = tautline_base::Packet<HeapFrame>;

/// The link: a bridge between `m0` and `m1` with a qdisc per direction.
struct Link {
    bridge: Bridge<PacketDevice, PacketDevice, Observer>,
    /// Names of the ways, up and down.
    ways: [String; 2],
    begun: Instant,
    control: Control,
    taps: Taps,
    feed: Feed,
}

impl Link {
    fn open(
        (up, down): (&PathConfig, &PathConfig),
        offload: bool,
        event_loop: &EventLoop,
    ) -> Result<Self, Failure> {
        let taps = Taps::default();
        let side = |interface: &str, path: &PathConfig, place| -> Result<_, Failure> {
            let queue: Box<dyn DynQdisc<Frames>> = Box::new(path.build()?);
            let device = PacketDevice::open(&Config::new(interface))?;
            let large = device.tso().filter(|_| offload);
            let (len, most) = large.map_or((HeapFrame::LEN, FRAMES), |tso| {
                (tso.frame_len(), LARGE_FRAMES)
            });
            let frames = (0..FIRST_FRAMES)
                .map(|_| HeapFrame::with_len(len))
                .collect();
            let limit: Box<dyn Limit> = LimitKind::default().build()?;
            let observer = Observer {
                tap: taps.tap(place),
                talkers: Some(Talkers::new(device.medium(), system_seed()?)),
            };
            let side = Side::new(device, frames, Stats::new(queue), limit);
            Ok(side.growing_to(most).traced(observer))
        };
        let (left, right) = (side("m0", down, 1)?, side("m1", up, 0)?);
        let ways = ["up", "down"].map(str::to_owned);
        let feed = Feed {
            clock: event_loop.clock(),
            places: ways.clone(),
        };
        Ok(Self {
            bridge: Bridge::new(left, right, system_seed()?),
            control: control(event_loop, feed.clone()),
            feed,
            ways,
            begun: event_loop.clock().now(),
            taps,
        })
    }

    fn summary(&self, seconds: f64) -> [Summary; 2] {
        let Bridge { left, right, .. } = &self.bridge;
        [("down", left, right), ("up", right, left)].map(|(way, to, from)| {
            Summary::new(
                way,
                &PortState::of(way, to.port()),
                &to.port().qdisc().report(),
                from.received().no_memory,
                seconds,
            )
        })
    }
}

/// The control socket, for captures; a link works without one.
fn control(event_loop: &EventLoop, feed: Feed) -> Control {
    let Some(socket) = registry::place(&format!("link-{}", std::process::id())) else {
        return Control::default();
    };
    let endpoints = Endpoints {
        socket: Some(&socket),
        http: None,
    };
    let control = Control::listen(endpoints, None).unwrap_or_default();
    control.attach(&event_loop.event_fd(), feed);
    control
}

impl Forwarder for Link {
    fn turn(&mut self, now: Instant) -> Progress {
        let (bridge, ways, begun) = (&mut self.bridge, &self.ways, self.begun);
        self.control.serve(&self.taps, |request| match request {
            Request::Replace { .. } => {
                let why = "that would remove the link's delay and loss; use change";
                Answer::of(Err(why.to_owned()))
            }
            request => handle(bridge, (ways, ways), request, (begun, now)),
        });
        if self.bridge.turn(now) {
            Progress::Again
        } else {
            Progress::Wait(self.bridge.wake(now).map(|wake| wake.at))
        }
    }

    fn devices(&self) -> [BorrowedFd<'_>; 2] {
        let Bridge { left, right, .. } = &self.bridge;
        [left, right].map(|side| side.port().ring().device().as_fd())
    }
}

/// Counters of one direction over the whole run.
#[derive(Serialize)]
struct Summary {
    event: &'static str,
    /// `down` (to COMMAND) or `up`.
    way: &'static str,
    seconds: f64,
    mbit_per_s: f64,
    packets: u64,
    /// Time in the queue, without the delay of the path.
    sojourn_p50_us: f64,
    sojourn_p99_us: f64,
    /// Packets dropped by the queue.
    drops: u64,
    marks: u64,
    /// Packets lost by `--loss`, or because no frame was free.
    lost: u64,
}

impl Summary {
    fn new(
        way: &'static str,
        port: &PortState,
        report: &Report,
        no_memory: u64,
        seconds: f64,
    ) -> Self {
        let queue = report.children.first();
        let sojourn = queue.and_then(|queue| queue.sojourn.as_ref());
        let quantile = |percent| sojourn.map_or(0.0, |sojourn| micros(sojourn.percentile(percent)));
        let drops = queue
            .and_then(|queue| queue.common.as_ref())
            .map_or(0, |common| common.drops);
        let all: u64 = port.drops.iter().map(|(_, count)| count).sum();
        Self {
            event: "summary",
            way,
            seconds: rounded(seconds),
            mbit_per_s: rounded(port.sent.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9)),
            packets: port.sent.packets,
            sojourn_p50_us: quantile(50),
            sojourn_p99_us: quantile(99),
            drops,
            marks: port.marks,
            lost: all.saturating_sub(drops) + no_memory,
        }
    }

    /// Prints to standard error: standard output belongs to COMMAND.
    fn print(&self, json: bool) {
        if json {
            let line = serde_json::to_string(self).unwrap_or_default();
            return eprintln!("{line}");
        }
        eprintln!(
            "link: {:>4} {:9.3} Mbit/s in {:.1} s  {} packets  queue p50 {:.1} ms p99 {:.1} ms  {} dropped  {} marked  {} lost",
            self.way,
            self.mbit_per_s,
            self.seconds,
            self.packets,
            self.sojourn_p50_us / 1e3,
            self.sojourn_p99_us / 1e3,
            self.drops,
            self.marks,
            self.lost,
        );
    }
}

/// The exit code of a shell for a child's status.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// A file, and the thread that writes to it.
type Recording = (PathBuf, JoinHandle<io::Result<()>>);

/// The process group of `--serve`, terminated on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _already_over = kill_process_group(Pid::from_child(&self.0), Signal::TERM);
        let _no_use_for_its_status = self.0.wait();
    }
}

impl LinkArgs {
    /// Runs COMMAND behind the link and returns its exit status.
    pub(super) fn run(&self) -> ExitCode {
        let outcome = match self.inside {
            None => self.paths().and_then(|_| {
                let is_first = topology::level() == 0;
                if self.internet && is_first {
                    internet::run()
                } else {
                    namespace::reenter()
                }
            }),
            Some(descriptor) => self.inside(descriptor),
        };
        match outcome {
            Ok(code) => code,
            Err(failure) => {
                eprintln!("link: {failure}");
                // As `timeout` and `chroot` exit for their own failures.
                ExitCode::from(125)
            }
        }
    }

    fn inside(&self, outer: i32) -> Result<ExitCode, Failure> {
        let (up, down) = self.paths()?;
        let topology = Topology::make(outer, self.outside.as_deref(), self.offload)?;
        let event_loop = EventLoop::new(Clock::start(), Idle::Sleep)?;
        let mut link = Link::open((&up, &down), self.offload, &event_loop)?;
        let recordings = self.start_recordings(&link, [&up, &down])?;
        stop_on_signals(event_loop.stopper())?;
        let server = self.start_server(&topology)?;
        let begun = event_loop.clock().now();
        let (pid, waiting) = self.start_command(&topology, event_loop.stopper())?;
        event_loop.run_forwarder(&mut link)?;
        let seconds = (event_loop.clock().now() - begun).as_secs_f64();
        if !waiting.is_finished() {
            // A signal ended the loop; the command may not have received it.
            let _already_over = kill_process(pid, Signal::TERM);
        }
        let status = waiting
            .join()
            .map_err(|_| io::Error::other("the wait for the command failed"))??;
        drop(server);
        for line in link.summary(seconds) {
            line.print(self.json);
        }
        // The recordings end with the last tap.
        drop(link);
        for (path, thread) in recordings {
            let written = thread.join();
            let written = written.map_err(|_| io::Error::other("the recording failed"))?;
            written.map_err(Failure::file(path))?;
        }
        Ok(exit_code(status))
    }

    /// Starts the capture and the logs of `paths`, up and down, that the options ask for.
    fn start_recordings(
        &self,
        link: &Link,
        paths: [&PathConfig; 2],
    ) -> Result<Vec<Recording>, Failure> {
        let mut recordings = Vec::new();
        if let Some(path) = &self.pcapng {
            let file = File::create(path).map_err(Failure::file(path))?;
            let thread = link.taps.record(file, link.feed.clone());
            recordings.push((path.clone(), thread.map_err(io::Error::other)?));
        }
        let titles = ["uplink", "downlink"].into_iter().zip(0..);
        for ((file, path), (title, place)) in self.logs().into_iter().zip(paths).zip(titles) {
            let Some(file) = file else { continue };
            let clock = link.feed.clock;
            let epoch = wall_clock().saturating_sub(clock.now() - Instant::ZERO);
            let out = File::create(&file).map_err(Failure::file(&file))?;
            let log = PacketLog::new(out, title, epoch.as_millis(), path.trace.clone())?;
            let thread = link.taps.log(log, place, clock);
            recordings.push((file, thread.map_err(io::Error::other)?));
        }
        Ok(recordings)
    }

    fn start_server(&self, topology: &Topology) -> Result<Option<Server>, Failure> {
        let Some(words) = &self.serve else {
            return Ok(None);
        };
        let child = topology.start_server(words).map_err(Failure::file("sh"))?;
        let server = Server(child);
        topology.await_listener()?;
        Ok(Some(server))
    }

    /// Starts COMMAND, and a thread that waits for it and then stops the event loop.
    fn start_command(
        &self,
        topology: &Topology,
        stopper: tautline_rt::Stopper,
    ) -> Result<(Pid, JoinHandle<io::Result<ExitStatus>>), Failure> {
        let program = &self.command[0];
        let mut child = topology
            .start_command(program, &self.command[1..])
            .map_err(Failure::file(program))?;
        let pid = Pid::from_child(&child);
        let waiting = std::thread::spawn(move || {
            let status = child.wait();
            stopper.stop();
            status
        });
        Ok((pid, waiting))
    }
}
