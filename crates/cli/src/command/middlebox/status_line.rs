//! [`StatusLine`]: the counters of one direction of a middlebox over an interval or the whole run.

use serde::Serialize;
use tautline_base::{Frame, Instant};
use tautline_bql::Limit;
use tautline_qdisc::QueueStats;
use tautline_rt::bridge::{Received, Side};

use crate::control::Observer;
use crate::device::BoxedDevice;
use crate::report::{limited, micros, print_json, print_line, rounded};

/// Counters of one direction. `received` is the sum of `packets`, `drops`, `no_memory`, `too_long`
/// and the growth of the backlog.
#[derive(Serialize)]
pub(super) struct StatusLine<'a> {
    event: &'a str,
    time_s: f64,
    /// `to_right` or `to_left`.
    way: &'a str,
    /// Name of the pair, if the file has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pair: Option<&'a str>,
    /// Hardware queue of a thread that forwards one.
    queue: Option<u32>,
    mbit_per_s: f64,
    received: u64,
    packets: u64,
    drops: u64,
    marks: u64,
    backlog_packets: usize,
    backlog_bytes: u64,
    sojourn_p50_us: f64,
    sojourn_p99_us: f64,
    limit_bytes: Option<u64>,
    ring_bytes: u64,
    no_memory: u64,
    too_long: u64,
    /// Resets of the device that the way leaves at, since the start.
    rebinds: u64,
}

/// The words that a line begins with; see the fields of [`StatusLine`].
pub(super) struct Label<'a> {
    pub(super) event: &'a str,
    pub(super) way: &'a str,
    pub(super) pair: Option<&'a str>,
    pub(super) queue: Option<u32>,
}

/// Times of a line.
pub(super) struct Times {
    /// The start of the middlebox.
    pub(super) begun: Instant,
    /// The start of the interval.
    pub(super) since: Instant,
    pub(super) now: Instant,
}

/// The counters of one way when an interval began.
#[derive(Default)]
pub(super) struct Before {
    queue: QueueStats,
    received: Received,
}

impl<'a> StatusLine<'a> {
    /// The line about the way between two sides, and the end of the interval that `before` began.
    pub(super) fn new<F: Frame + Send + 'static>(
        label: Label<'a>,
        [from, to]: [&Side<BoxedDevice<F>, Observer>; 2],
        before: &mut Before,
        times: Times,
    ) -> Self {
        let (port, stats, received) = (to.port(), to.port().qdisc().stats(), from.received());
        let after = Before {
            queue: stats.clone(),
            received,
        };
        let before = std::mem::replace(before, after);
        let sojourn = stats.sojourn.since(&before.queue.sojourn);
        let sent = (stats.dequeued.bytes - before.queue.dequeued.bytes).get();
        let marks = |stats: &QueueStats| stats.dequeued.ce.saturating_sub(stats.enqueued.ce);
        let seconds = (times.now - times.since).as_secs_f64().max(1e-9);
        let (backlog, limit) = (port.backlog(), port.ring().limit());
        Self {
            event: label.event,
            time_s: rounded((times.now - times.begun).as_secs_f64()),
            way: label.way,
            pair: label.pair,
            queue: label.queue,
            mbit_per_s: rounded(sent as f64 * 8.0 / 1e6 / seconds),
            received: received.frames - before.received.frames,
            packets: stats.dequeued.packets - before.queue.dequeued.packets,
            drops: stats.drops() - before.queue.drops(),
            marks: marks(stats).saturating_sub(marks(&before.queue)),
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes.get(),
            sojourn_p50_us: micros(sojourn.percentile(50)),
            sojourn_p99_us: micros(sojourn.percentile(99)),
            limit_bytes: limited(limit.limit()),
            ring_bytes: limit.in_flight().get(),
            no_memory: received.no_memory - before.received.no_memory,
            too_long: received.too_long - before.received.too_long,
            rebinds: port.ring().device().condition().rebinds,
        }
    }

    pub(super) fn print(&self, json: bool) {
        if json {
            return print_json(self);
        }
        let pair = self.pair.map(|pair| format!("{pair} "));
        let queue = self.queue.map(|queue| format!("queue {queue} "));
        print_line(format_args!(
            "{}{}{:6.1}s {:>8}  {:8.2} Mbit/s  {:>8} received  {:>8} packets  {} dropped  {} marked  queue {}p {}b  sojourn p50 {:.0}us p99 {:.0}us  ring {}b",
            pair.unwrap_or_default(),
            queue.unwrap_or_default(),
            self.time_s,
            self.way,
            self.mbit_per_s,
            self.received,
            self.packets,
            self.drops,
            self.marks,
            self.backlog_packets,
            self.backlog_bytes,
            self.sojourn_p50_us,
            self.sojourn_p99_us,
            self.ring_bytes,
        ));
        if self.no_memory + self.too_long > 0 {
            print_line(format_args!(
                "        {:>8}  lost outside the qdisc: {} for want of frames (--frames), {} too long",
                self.way, self.no_memory, self.too_long
            ));
        }
    }
}
