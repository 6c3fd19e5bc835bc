//! Output of the programs: a line per second, a summary at the end; as text, or with `--json` one
//! object per line.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tautline_base::{Bytes, Device, Instant, Packet, Rate, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::{Qdisc, QueueStats, Stats};
use tautline_stack::{Host, TcpInfo, Tracer};

use crate::args::TransferArgs;
use crate::device::{ReceiveLosses, RingCounts};
use crate::failure::Failure;

/// Documentation of the output, for `--help`.
pub const HELP: &str = "\
Output with --json: one object per line. Every second and at the end, \"event\":\"interval\" with
  time_s                since the connection was established
  bytes                 payload acknowledged (sender) or received so far
  gbit_per_s            payload rate of this interval (goodput), 10^9 bit/s
  cwnd_bytes            congestion window
  srtt_us               smoothed round-trip time
  pacing_gbit_per_s     pacing rate, null when unlimited
  retransmits           segments sent again so far
  tsq_throttles         times TCP Small Queues held the connection back so far
  tsq_bytes             bytes below the socket: in qdisc and ring
  tsq_limit_bytes       the most of them allowed now, null when off
  qdisc_packets         backlog of the queueing discipline
  qdisc_bytes           the same in bytes
  qdisc_sojourn_us      99th percentile of the time this interval's packets spent in it
  drops                 packets dropped by the qdisc so far
  dql_limit_bytes       limit on the bytes in the device ring (--limit), null without one
  ring_bytes            bytes in the ring
At the end \"event\":\"summary\" with role, queue (of --queues, with a summary each), path, mode, cc, qdisc, bytes, seconds, gbit_per_s, sha256, retransmits, timeouts,
tsq_throttles, path_mtu (longest packet, if known), qdisc_sojourn_us (99th percentile over all packets), drops, dql_limit_bytes, ecn (off, classic, accecn), ce_delivered
(segments that the peer reports as marked), ce_received (marked segments received), ce_reductions (window reductions for
marks), rebinds (resets of the device after a stall or a change of its queues), receive_losses (of AF_XDP sockets: packets dropped,
dropped because of ring_full, times fill_ring_empty; else null), ring (of AF_XDP sockets: packets put into the transmit ring, of
them completed, taken back by a reset, left in it; else null), frames_in, frames_out, bad_frames, bad_checksums.
With --info, \"event\":\"info\" before it: ss (the connection as `ss -tin` would print it), and waited_for: by cause, connection_us (time that
the connection was blocked), bytes, and how long they waited: mean_us, p50_us, p99_us, longest_us, histogram (pairs of a
bucket's lower bound in us and its bytes). Causes: application, sndbuf, handshake, cwnd, rwnd, nagle, tsq, pacer, host, qdisc, ring.
Rates and counters are those of this end. A failure is one line on standard error and a non-zero exit status. With --out - the
lines go to standard error.";

/// Progress of a transfer.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    event: &'static str,
    time_s: f64,
    bytes: u64,
    gbit_per_s: f64,
    cwnd_bytes: u64,
    srtt_us: f64,
    pacing_gbit_per_s: Option<f64>,
    retransmits: u64,
    tsq_throttles: u64,
    tsq_bytes: u64,
    tsq_limit_bytes: Option<u64>,
    qdisc_packets: usize,
    qdisc_bytes: u64,
    qdisc_sojourn_us: f64,
    drops: u64,
    dql_limit_bytes: Option<u64>,
    ring_bytes: u64,
}

/// Outcome of a transfer.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Always `summary`.
    pub event: &'static str,
    /// `sender` or `receiver`.
    pub role: &'static str,
    /// Hardware queue of a host that serves one.
    pub queue: Option<u32>,
    /// `af_xdp`, `tap`, `packet` or `in-process`.
    pub path: &'static str,
    /// Mode in which the device was opened.
    pub mode: String,
    /// Congestion control.
    pub cc: &'static str,
    /// Queueing discipline.
    pub qdisc: &'static str,
    /// Payload moved.
    pub bytes: u64,
    /// From the established connection to the end of the stream.
    pub seconds: f64,
    /// Payload rate.
    pub gbit_per_s: f64,
    /// Digest of the payload.
    pub sha256: Option<String>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Times TSQ held the connection back.
    pub tsq_throttles: u64,
    /// Longest IP packet that the path carries, as far as it is known.
    pub path_mtu: u64,
    /// 99th percentile of the time in the qdisc.
    pub qdisc_sojourn_us: f64,
    /// Packets the qdisc dropped.
    pub drops: u64,
    /// Limit on the bytes in the device ring at the end; none without one.
    pub dql_limit_bytes: Option<u64>,
    /// Negotiated ECN: `off`, `classic` or `accecn`.
    pub ecn: &'static str,
    /// Segments the peer says arrived with a congestion mark.
    pub ce_delivered: u64,
    /// Segments that arrived with one.
    pub ce_received: u64,
    /// Reductions of the window for marks.
    pub ce_reductions: u64,
    /// Resets of the device after which it works again.
    pub rebinds: u64,
    /// Packets that the kernel lost on the way to AF_XDP sockets; `None` on other paths.
    pub receive_losses: Option<ReceiveLosses>,
    /// The ends of the packets put into AF_XDP rings; `None` on other paths.
    pub ring: Option<RingCounts>,
    /// Frames that arrived.
    pub frames_in: u64,
    /// Frames that left.
    pub frames_out: u64,
    /// Frames that were malformed.
    pub bad_frames: u64,
    /// Frames with a wrong checksum.
    pub bad_checksums: u64,
}

/// The last line of a demo: one transfer in ten numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Payload received.
    pub bytes: u64,
    /// Duration.
    pub seconds: f64,
    /// Payload rate.
    pub gbit_per_s: f64,
    /// Whether the received data equal the sent data.
    pub sha256_match: bool,
    /// `af_xdp`, `tap`, `packet` or `in-process`.
    pub path: &'static str,
    /// Congestion control of the sender.
    pub cc: &'static str,
    /// Queueing discipline of the sender.
    pub qdisc: &'static str,
    /// Segments the sender sent again.
    pub retransmits: u64,
    /// Times TSQ held the sender back.
    pub tsq_throttles: u64,
    /// Limit on the bytes in the sender's device ring at the end; none without one.
    pub dql_limit_bytes: Option<u64>,
}

/// Makes a line per interval of one transfer.
#[derive(Clone, Debug)]
pub struct Reporter {
    json: bool,
    /// Time of establishment of the connection.
    begun: Instant,
    /// Time and byte count at the start of the interval.
    last: (Instant, u64),
    queue: Box<QueueStats>,
}

const INTERVAL: Duration = Duration::from_secs(1);

impl Reporter {
    /// Begins when the connection is established.
    pub fn new(json: bool, now: Instant) -> Self {
        Self {
            json,
            begun: now,
            last: (now, 0),
            queue: Box::default(),
        }
    }

    /// Time of the next line.
    pub fn due(&self) -> Instant {
        self.last.0 + INTERVAL
    }

    /// Since the connection was established.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now - self.begun
    }

    /// Prints the line of the interval that ends now; `moved` says which bytes of the connection
    /// count.
    pub fn line<Q, D, T, L>(
        &mut self,
        host: &Host<Stats<Q>, D, T, L>,
        socket: SocketId,
        moved: impl FnOnce(&TcpInfo) -> u64,
        now: Instant,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let Some(info) = host.info(socket) else {
            return;
        };
        let interval = self.interval(host, &info, moved(&info), now);
        if self.json {
            print_json(&interval)
        } else {
            interval.print()
        }
    }

    fn interval<Q, D, T, L>(
        &mut self,
        host: &Host<Stats<Q>, D, T, L>,
        info: &TcpInfo,
        bytes: u64,
        now: Instant,
    ) -> Interval
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let (since, before) = std::mem::replace(&mut self.last, (now, bytes));
        let queue = host.port().qdisc().stats().clone();
        let previous = std::mem::replace(&mut *self.queue, queue);
        let sojourn = self.queue.sojourn.since(&previous.sojourn);
        let (backlog, limit) = (host.port().backlog(), host.port().ring().limit());
        Interval {
            event: "interval",
            time_s: rounded(self.elapsed(now).as_secs_f64()),
            bytes,
            gbit_per_s: gbit_per_s(bytes - before, now - since),
            cwnd_bytes: info.cwnd.get(),
            srtt_us: micros(info.srtt),
            pacing_gbit_per_s: (info.pacing_rate != Rate::MAX)
                .then(|| rounded(info.pacing_rate.as_bits_per_sec() as f64 / 1e9)),
            retransmits: info.retransmits,
            tsq_throttles: info.tsq_throttles,
            tsq_bytes: info.tsq_charged.get(),
            tsq_limit_bytes: info.tsq_limit.map(Bytes::get),
            qdisc_packets: backlog.packets,
            qdisc_bytes: backlog.bytes.get(),
            qdisc_sojourn_us: micros(sojourn.percentile(99)),
            drops: self.queue.drops(),
            dql_limit_bytes: limited(limit.limit()),
            ring_bytes: limit.in_flight().get(),
        }
    }
}

/// A limit as reported; `None` if unlimited.
pub fn limited(limit: Bytes) -> Option<u64> {
    (limit < Bytes::MAX).then_some(limit.get())
}

impl Interval {
    fn print(&self) {
        let pacing = self
            .pacing_gbit_per_s
            .map_or_else(|| "off".to_owned(), |rate| format!("{rate:.2}G"));
        say!(
            "{:6.1}s {:7.3} Gbit/s  cwnd {:>6}  srtt {:>7.0}us  pacing {:>7}  tsq {:>6}  qdisc {:>4}p {:>6} {:>6.0}us  \
             drops {}  retrans {}  dql {:>6}  ring {:>6}",
            self.time_s,
            self.gbit_per_s,
            short(self.cwnd_bytes),
            self.srtt_us,
            pacing,
            self.tsq_throttles,
            self.qdisc_packets,
            short(self.qdisc_bytes),
            self.qdisc_sojourn_us,
            self.drops,
            self.retransmits,
            self.dql_limit_bytes
                .map_or_else(|| "none".to_owned(), short),
            short(self.ring_bytes),
        );
    }
}

impl Summary {
    /// Prints it, and writes it to the file the options name.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn publish(&self, output: &TransferArgs) -> Result<(), Failure> {
        Self::publish_all(std::slice::from_ref(self), output)
    }

    /// The same for several, one per line.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn publish_all(all: &[Self], output: &TransferArgs) -> Result<(), Failure> {
        for summary in all {
            if output.json {
                print_json(summary);
            } else {
                summary.print();
            }
        }
        let Some(path) = &output.summary else {
            return Ok(());
        };
        let lines: String = all.iter().map(|each| json_line(each) + "\n").collect();
        std::fs::write(path, lines).map_err(Failure::file(path))
    }

    fn print(&self) {
        let Self {
            role,
            path,
            mode,
            cc,
            qdisc,
            ..
        } = self;
        let limit = self
            .dql_limit_bytes
            .map_or_else(|| "its ring".to_owned(), |limit| format!("{limit} bytes"));
        say!(
            "{role}: {} bytes in {:.3} s = {:.3} Gbit/s over {path} ({mode}), {cc}, {qdisc}",
            self.bytes,
            self.seconds,
            self.gbit_per_s
        );
        say!(
            "{role}: {} retransmits, {} timeouts, {} TSQ throttles, {} drops in the qdisc, 99 % of packets at most {:.0} us in \
             it, device limited to {}",
            self.retransmits,
            self.timeouts,
            self.tsq_throttles,
            self.drops,
            self.qdisc_sojourn_us,
            limit
        );
        if let Some(queue) = self.queue {
            say!(
                "{role}: queue {queue}: {} frames in, {} out, {} resets of the device",
                self.frames_in,
                self.frames_out,
                self.rebinds
            );
        }
        if let Some(ring) = &self.ring {
            say!("{role}: {ring}");
        }
        self.print_path();
        if let Some(digest) = &self.sha256 {
            say!("{role}: sha256 {digest}");
        }
    }

    /// Losses before the sockets, ECN marks and wrong checksums.
    fn print_path(&self) {
        let role = self.role;
        if let Some(losses) = self.receive_losses.filter(ReceiveLosses::any) {
            say!(
                "{role}: before the sockets: {} packets dropped as the receive ring was full, {} for other reasons, fill ring \
                 {} times empty",
                losses.ring_full,
                losses.dropped,
                losses.fill_ring_empty
            );
        }
        if self.ecn != "off" {
            say!(
                "{role}: ECN {}: {} marks delivered, {} received, {} reductions",
                self.ecn,
                self.ce_delivered,
                self.ce_received,
                self.ce_reductions
            );
        }
        if self.bad_checksums > 0 {
            say!(
                "{role}: {} frames had a wrong checksum. A Linux peer on a veth pair leaves checksums unfinished: \
                 `ethtool -K INTERFACE tx off` at its end",
                self.bad_checksums
            );
        }
    }
}

/// Prints a line as `println!` does, with [`print_line`].
macro_rules! say {
    ($($words:tt)*) => {
        $crate::report::print_line(format_args!($($words)*))
    };
}
pub(crate) use say;

/// One object on one line.
pub fn print_json(value: &impl Serialize) {
    print_line(format_args!("{}", json_line(value)));
}

/// Why a line could not be printed.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

/// Prints a line on standard output. If nobody reads any more, the program goes on without its lines;
/// any other error is in the end that of [`all_printed`].
pub fn print_line(line: std::fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout(), "{line}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        // The first says enough.
        let _ = UNPRINTED.set(error);
    }
}

/// Whether standard output has taken every line.
///
/// # Errors
/// If it has not, but for a pipe that nobody reads any more.
pub fn all_printed() -> Result<(), Failure> {
    match UNPRINTED.get() {
        None => Ok(()),
        Some(error) => {
            let error = error
                .raw_os_error()
                .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            Err(Failure::file("standard output")(error))
        }
    }
}

/// Takes standard output for data: lines are printed on standard error from now on.
///
/// # Errors
/// If the process has no descriptor left.
pub(crate) fn take_standard_output() -> io::Result<File> {
    let data = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(data.into())
}

pub(crate) fn json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and text are valid JSON")
}

/// Payload rate in 10⁹ bit/s; 0 if no time passed.
pub fn gbit_per_s(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        rounded(bytes as f64 * 8.0 / time.as_secs_f64() / 1e9)
    }
}

/// Microseconds, to a tenth.
pub fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e7).round() / 10.0
}

/// Six decimals are enough for any of our numbers.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// An amount in at most six characters.
fn short(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes}B"),
        10_000..10_000_000 => format!("{}kB", bytes / 1_000),
        _ => format!("{}MB", bytes / 1_000_000),
    }
}

/// Time since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "a report names its date, which no clock of a host knows"
)]
pub(crate) fn wall_clock() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
