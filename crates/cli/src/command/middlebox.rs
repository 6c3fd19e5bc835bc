//! A bump in the wire: every frame that arrives at one interface leaves at the other, in each
//! direction through a configurable qdisc: a shaper, an AQM, an emulated path. Over AF_XDP the kernel
//! receives nothing on the two interfaces meanwhile; they return to it however the process ends. With
//! packet sockets it still receives them.

#[cfg(feature = "af-xdp")]
mod af_xdp;
mod pairs;
mod status_line;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tautline_base::{Device, Frame, HeapFrame, Instant, Packet};
use tautline_bql::LimitKind;
use tautline_live::{Screen, Snapshot, View};
use tautline_qdisc::Stats;
use tautline_rt::bridge::{Bridge, Queue, Side};
use tautline_rt::packet_device::{Config, PacketDevice};
use tautline_rt::{
    Clock, Ended, EventLoop, Forwarder, Idle, Progress, Tap, stop_on_signals, system_seed,
};
use tautline_tc::build;

use crate::args::{DeviceKind, seconds};
use crate::check::Unusable;
use crate::control::{Control, Endpoints, Feed, Observer, Talkers, Taps, handle, pictures};
use crate::device::BoxedDevice;
use crate::failure::Failure;
#[cfg(feature = "af-xdp")]
use af_xdp::with_af_xdp;
use status_line::{Before, Label, StatusLine, Times};

const EXAMPLES: &str = "\
Examples:
  tautline middlebox --device packet --left veth1 --right veth2 --qdisc 'cake bandwidth 20mbit'
  tautline middlebox --left veth1 --right veth2 --to-right 'tbf rate 20mbit burst 5kb latency 1s; fq_codel' --to-left 'netem delay 20ms limit 4000'
  tautline middlebox --device tap --left tap0 --right tap1 --limit none
  tautline middlebox --left veth1 --right veth2 --qdisc 'tbf rate 10mbit burst 1500kb limit 10mb; codel' --live
A qdisc may be a whole tc script: commands separated by semicolons, with or without a leading `tc qdisc add dev X`.
An interval's line covers that interval, the summary the whole run; each packet counts once: received = packets + dropped + lost outside \
the qdisc + growth of the queue.
Percentiles of sojourn times are upper bounds, at most twice too large.
TAP interfaces that do not exist are created and removed with the middlebox. Over AF_XDP `netem duplicate` has no effect, because the \
UMEM has no spare frame for a copy; use --device tap. Over packet sockets (--device packet) frames with a VLAN tag do not pass, because \
the kernel has moved the tag out of them; a note says so when they arrive. TAP interfaces carry them.";

/// Forwards every frame between two interfaces, through a queueing discipline in each direction.
#[derive(Parser, Clone, Debug)]
#[command(version, after_help = EXAMPLES, args_override_self = true)]
pub struct MiddleboxArgs {
    /// First interface
    #[arg(
        long,
        required_unless_present = "config",
        default_value = "",
        hide_default_value = true
    )]
    left: String,
    /// Second interface
    #[arg(
        long,
        required_unless_present = "config",
        default_value = "",
        hide_default_value = true
    )]
    right: String,
    /// Backend for network I/O
    #[arg(long, value_enum, default_value_t)]
    device: DeviceKind,
    /// Qdisc of both directions, in tc's words
    #[arg(long, default_value = "fq_codel")]
    qdisc: String,
    /// Qdisc of the direction to the right interface
    #[arg(long)]
    to_right: Option<String>,
    /// Qdisc of the direction to the left interface
    #[arg(long)]
    to_left: Option<String>,
    /// Limit on the bytes in the device rings: dql, none, bytes:N, push
    #[arg(long, default_value_t)]
    limit: LimitKind,
    /// Frames per direction
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    frames: u32,
    /// Run for this many seconds
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
    /// One JSON object per line instead of text
    #[arg(long)]
    json: bool,
    /// Show the queues full-screen instead of printing lines; q quits. Ignored if the output is not
    /// a terminal
    #[arg(long, conflicts_with = "json")]
    live: bool,
    /// Poll without sleeping; uses a whole core
    #[arg(long)]
    busy_poll: bool,
    /// AF_XDP: forward each of this many hardware queues in a thread of its own, with its own qdiscs;
    /// frames of queue N leave at queue N
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["live", "control", "http"])]
    queues: Option<u32>,
    /// The queue that this thread forwards.
    #[arg(skip)]
    queue: Option<u32>,
    /// The pair that this thread forwards, if the file has several.
    #[arg(skip)]
    pair: Option<String>,
    /// Socket for `tautline ctl` and `tautline top`, which only this user may open
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve a live page at http://ADDRESS/, counters for Prometheus at /metrics; e.g. 127.0.0.1:9435
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// File with a token that lets clients on other machines change qdiscs over HTTP
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Options from a TOML file, `left = "eth0"` for --left eth0; the command line overrides them. Each
    /// table `[[pair]]` is a pair of interfaces with a name and options of its own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl MiddleboxArgs {
    /// Forwards until a signal, `--seconds` or the loss of an interface.
    ///
    /// # Errors
    /// If an option cannot work or a device fails.
    pub fn run(&self) -> Result<(), Failure> {
        let Some(file) = &self.config else {
            self.check()?;
            let registered = format!("{}-{}", self.left, self.right);
            let control = Control::listen(self.endpoints()?, Some(&registered))?;
            return self.forward(control);
        };
        match &*pairs::read(file)? {
            [only] if only.pair.is_none() => only.run(),
            several => pairs::run(file, several),
        }
    }

    /// Refuses what cannot work before anything is opened.
    fn check(&self) -> Result<(), Failure> {
        if self.left == self.right {
            let problem = "it is the left interface too; name the other one";
            return Err(Unusable::new("right", &self.right, problem).into());
        }
        for (option, name) in [("left", &self.left), ("right", &self.right)] {
            if name.is_empty() {
                return Err(Unusable::new(option, "", "name an interface").into());
            }
        }
        if let Some(queues) = self.queues.filter(|_| self.device != DeviceKind::AfXdp) {
            let problem = "it is an option of --device af_xdp; leave it out";
            return Err(Unusable::new("queues", queues, problem).into());
        }
        for words in [&self.to_right, &self.to_left] {
            build::<Packet<()>>(words.as_ref().unwrap_or(&self.qdisc))?;
        }
        Ok(())
    }

    /// Forwards, and serves the requests of `control`.
    fn forward(&self, control: Control) -> Result<(), Failure> {
        match self.device {
            DeviceKind::AfXdp => with_af_xdp(self, control),
            DeviceKind::Packet => {
                let left = open_packet(&self.left)?;
                run(self, left, open_packet(&self.right)?, control)
            }
            DeviceKind::Tap => {
                let left = open_tap(&self.left)?;
                run(self, left, open_tap(&self.right)?, control)
            }
        }
    }

    fn endpoints(&self) -> Result<Endpoints<'_>, Failure> {
        Ok(Endpoints {
            socket: self.control.as_deref(),
            http: self.http.zip(Some(self.token()?)),
        })
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.token_file else {
            return Ok(None);
        };
        let token = std::fs::read_to_string(file).map_err(Failure::file(file))?;
        let token = token.trim();
        if token.is_empty() {
            return Err(Unusable::new("token-file", file.display(), "it is empty").into());
        }
        Ok(Some(token.to_owned()))
    }
}

/// A bridge with a clock.
struct Middlebox<F: Frame> {
    bridge: BoxedBridge<F>,
    json: bool,
    begun: Instant,
    /// When the interval began.
    since: Instant,
    end: Option<Instant>,
    /// An interface was removed.
    gone: bool,
    before: [Box<Before>; 2],
    /// Port names: to the right, to the left.
    names: [String; 2],
    /// The live view in place of lines.
    screen: Option<Screen>,
    control: Control,
    taps: Taps,
    /// Interfaces that the ways leave at: right, left.
    interfaces: [String; 2],
    pair: Option<String>,
    queue: Option<u32>,
    /// The last line about each device, in the order of `interfaces`.
    said: [Option<String>; 2],
}

type BoxedBridge<F> = Bridge<BoxedDevice<F>, BoxedDevice<F>, Observer>;

/// Interval between lines.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval between redraws.
const PICTURE: Duration = Duration::from_millis(200);

impl<F: Frame + Send + 'static> Middlebox<F> {
    fn interval(&self) -> Duration {
        if self.screen.is_some() {
            PICTURE
        } else {
            INTERVAL
        }
    }

    /// Resets each device that needs it, and prints what happened to it.
    fn check_devices(&mut self, now: Instant) {
        let Bridge { left, right, .. } = &mut self.bridge;
        let sides = [right, left].into_iter().zip(&self.interfaces);
        for ((side, interface), said) in sides.zip(&mut self.said) {
            self.gone |= side.port_mut().ring_mut().device_mut().is_gone();
            side.reset_if_needed(now);
            let notice = side.port().ring().device().condition().notice;
            if let Some(line) = notice.as_ref().filter(|_| notice != *said) {
                eprintln!("note: {interface}: {line}");
                *said = notice;
            }
        }
    }

    /// The outcome of a run whose event loop has `ended`.
    fn outcome(&mut self, ended: Ended) -> Result<(), Failure> {
        match ended {
            Ended::Application | Ended::Stopped if !self.gone => Ok(()),
            _ => {
                let why = self.failure();
                Err(Failure::Device(
                    why.unwrap_or_else(|| "it receives no more".to_owned()),
                ))
            }
        }
    }

    /// The failure of one of the devices.
    fn failure(&mut self) -> Option<String> {
        let Bridge { left, right, .. } = &mut self.bridge;
        [left, right]
            .into_iter()
            .find_map(|side| side.port_mut().ring_mut().device_mut().failure())
    }

    /// A line for each way about the interval that ends now.
    fn report(&mut self, event: &str, now: Instant) {
        let Bridge { left, right, .. } = &self.bridge;
        if let Some(screen) = &self.screen {
            screen.show(Snapshot {
                at: now - self.begun,
                ports: pictures(&self.bridge, &self.names, self.begun).into(),
            });
            self.since = now;
            return;
        }
        let [there, back] = &mut self.before;
        for (way, from, to, before) in [
            ("to_right", left, right, there),
            ("to_left", right, left, back),
        ] {
            let label = Label {
                event,
                way,
                pair: self.pair.as_deref(),
                queue: self.queue,
            };
            let times = Times {
                begun: self.begun,
                since: self.since,
                now,
            };
            StatusLine::new(label, [from, to], before, times).print(self.json);
        }
        self.since = now;
    }
}

impl<F: Frame + Send + 'static> Forwarder for Middlebox<F> {
    fn turn(&mut self, now: Instant) -> Progress {
        let (bridge, names) = (&mut self.bridge, (&self.names, &self.interfaces));
        self.control.serve(&self.taps, |request| {
            handle(bridge, names, request, (self.begun, now))
        });
        let more = self.bridge.turn(now);
        if now >= self.since + self.interval() {
            self.report("interval", now);
            self.check_devices(now);
        }
        if self.gone || self.end.is_some_and(|end| now >= end) {
            return Progress::Done;
        }
        if more {
            return Progress::Again;
        }
        let wake = self.bridge.wake(now).map(|wake| wake.at);
        Progress::Wait(
            wake.into_iter()
                .chain([self.since + self.interval()])
                .chain(self.end)
                .min(),
        )
    }

    fn devices(&self) -> [BorrowedFd<'_>; 2] {
        let Bridge { left, right, .. } = &self.bridge;
        [left, right].map(|side| side.port().ring().device().as_fd())
    }
}

/// A device and the frames to begin with.
type Open<F> = (BoxedDevice<F>, Vec<F>);

/// Frames to begin with where they are on the heap: a middlebox that restarts forwards again sooner.
const FIRST_FRAMES: u32 = 64;

fn run<F: Frame + Send + 'static>(
    args: &MiddleboxArgs,
    left: Open<F>,
    right: Open<F>,
    control: Control,
) -> Result<(), Failure> {
    let taps = Taps::default();
    let bridge = bridge(args, left, right, &taps)?;
    let event_loop = event_loop(args.busy_poll)?;
    let begun = event_loop.clock().now();
    let end = args.seconds.map(|time| begun + time);
    let feed = Feed {
        clock: event_loop.clock(),
        places: [args.right.clone(), args.left.clone()],
    };
    control.attach(&event_loop.event_fd(), feed);
    announce(args);
    let screen = open_screen(args, event_loop.stopper())?;
    let mut middlebox = Middlebox {
        bridge,
        json: args.json,
        begun,
        since: begun,
        end,
        gone: false,
        before: [Box::default(), Box::default()],
        names: [
            format!("to right ({})", args.right),
            format!("to left ({})", args.left),
        ],
        screen,
        control,
        taps,
        interfaces: [args.right.clone(), args.left.clone()],
        pair: args.pair.clone(),
        queue: args.queue,
        said: [None, None],
    };
    let ended = event_loop.run_forwarder(&mut middlebox);
    // The terminal is itself again before anything is printed.
    middlebox.screen = None;
    let ended = ended?;
    middlebox.before = [Box::default(), Box::default()];
    middlebox.since = begun;
    middlebox.report("summary", event_loop.clock().now());
    middlebox.outcome(ended)
}

/// An event loop that ends on a signal.
fn event_loop(is_busy: bool) -> Result<EventLoop, Failure> {
    let idle = if is_busy { Idle::Spin } else { Idle::Sleep };
    let event_loop = EventLoop::new(Clock::start(), idle)?;
    stop_on_signals(event_loop.stopper())?;
    Ok(event_loop)
}

fn bridge<F: Frame + Send + 'static>(
    args: &MiddleboxArgs,
    left: Open<F>,
    right: Open<F>,
    taps: &Taps,
) -> Result<BoxedBridge<F>, Failure> {
    let words = |own: &Option<String>| own.clone().unwrap_or_else(|| args.qdisc.clone());
    let queue =
        |words: &str| -> Result<Queue<F>, Failure> { Ok(Stats::new(build::<Packet<F>>(words)?)) };
    let side = |(device, frames): Open<F>, words: &str, place| -> Result<_, Failure> {
        let observer = Observer {
            tap: taps.tap(place),
            talkers: (args.live || args.control.is_some() || args.http.is_some())
                .then(|| Ok::<_, Failure>(Talkers::new(device.medium(), system_seed()?)))
                .transpose()?,
        };
        let side = Side::new(device, frames, queue(words)?, args.limit.build()?);
        Ok(side.growing_to(args.frames as usize).traced(observer))
    };
    Ok(Bridge::new(
        side(left, &words(&args.to_left), 1)?,
        side(right, &words(&args.to_right), 0)?,
        system_seed()?,
    ))
}

/// One line about what is forwarded, on standard error.
fn announce(args: &MiddleboxArgs) {
    let of_queue = args.queue.map(|queue| format!(" (queue {queue})"));
    let of_queue = of_queue.unwrap_or_default();
    let (left, right) = (&args.left, &args.right);
    eprintln!("listening: {left} <-> {right}{of_queue}; Ctrl-C ends");
}

/// The live view, if requested.
fn open_screen(
    args: &MiddleboxArgs,
    stopper: tautline_rt::Stopper,
) -> Result<Option<Screen>, Failure> {
    if !args.live {
        return Ok(None);
    }
    let view = View::new(format!("{} <-> {}", args.left, args.right));
    Ok(Screen::open(view, move || stopper.stop())?)
}

fn open_packet(interface: &str) -> Result<Open<HeapFrame>, Failure> {
    let device = PacketDevice::open(&Config::new(interface))?;
    let frames = device.tso().map_or(HeapFrame::LEN, |tso| tso.frame_len());
    let frames = (0..FIRST_FRAMES).map(|_| HeapFrame::with_len(frames));
    Ok((Box::new(device), frames.collect()))
}

fn open_tap(interface: &str) -> Result<Open<HeapFrame>, Failure> {
    Ok((
        Box::new(Tap::open(interface)?),
        (0..FIRST_FRAMES).map(|_| HeapFrame::new()).collect(),
    ))
}

#[cfg(not(feature = "af-xdp"))]
fn with_af_xdp(_args: &MiddleboxArgs, _control: Control) -> Result<(), Failure> {
    Err(Failure::NoAfXdp)
}
