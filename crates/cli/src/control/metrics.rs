//! Counters in Prometheus' text format 0.0.4. Counters that `tc` has too carry the names of
//! node_exporter's qdisc collector; all others begin with `tautline_`. Those of the connection exist in
//! `send` and `receive` only.

use std::fmt::Write;

use super::State;
use super::connection::ConnectionState;
use super::talkers::{Counters, End};

/// A metric's name, its text for `# HELP`, and its value in one direction.
type Metric = (&'static str, &'static str, fn(&State) -> Option<u64>);

/// Names that end in `_total` are counters, the others gauges.
const METRICS: [Metric; 10] = [
    ("node_qdisc_bytes_total", "Bytes sent by the qdisc.", |of| {
        Some(of.sent.bytes)
    }),
    (
        "node_qdisc_packets_total",
        "Packets sent by the qdisc.",
        |of| Some(of.sent.packets),
    ),
    (
        "node_qdisc_drops_total",
        "Packets dropped in this direction.",
        |of| Some(of.drops.iter().map(|(_, count)| count).sum()),
    ),
    (
        "node_qdisc_overlimits_total",
        "Times that the qdisc delayed a packet.",
        |of| Some(of.overlimits),
    ),
    (
        "node_qdisc_current_queue_length",
        "Packets in the qdisc.",
        |of| Some(of.backlog.packets),
    ),
    ("node_qdisc_backlog", "Bytes in the qdisc.", |of| {
        Some(of.backlog.bytes)
    }),
    (
        "tautline_received_packets_total",
        "Packets received for this direction.",
        |of| Some(of.taken.packets),
    ),
    (
        "tautline_marks_total",
        "Packets marked with congestion experienced.",
        |of| Some(of.marks),
    ),
    ("tautline_ring_bytes", "Bytes in the device ring.", |of| {
        Some(of.ring.bytes)
    }),
    (
        "tautline_ring_limit_bytes",
        "Limit on the bytes in the device ring.",
        |of| of.ring_limit,
    ),
];

/// A metric of a host.
type HostMetric = (&'static str, &'static str, fn(&Counters) -> f64);

/// Flows have no metrics: each new port would be a new series.
const HOST_METRICS: [HostMetric; 5] = [
    (
        "tautline_host_bytes_total",
        "Bytes sent in this direction, of the hosts that carry most.",
        |of| of.bytes as f64,
    ),
    (
        "tautline_host_packets_total",
        "Packets sent in this direction, of the hosts that carry most.",
        |of| of.packets as f64,
    ),
    (
        "tautline_host_drops_total",
        "Packets dropped in this direction, of the hosts that carry most.",
        |of| of.drops as f64,
    ),
    (
        "tautline_host_marks_total",
        "Packets marked in this direction, of the hosts that carry most.",
        |of| of.marks as f64,
    ),
    (
        "tautline_host_sojourn_seconds_total",
        "Sum of the time that the packets sent spent in the qdisc, of the hosts that carry most.",
        |of| of.sojourn_sum_ns as f64 / 1e9,
    ),
];

/// A metric of a connection.
type ConnectionMetric = (
    &'static str,
    &'static str,
    fn(&ConnectionState) -> Option<f64>,
);

/// A process has one connection, so they need no label for it.
const CONNECTION_METRICS: [ConnectionMetric; 10] = [
    (
        "tautline_tcp_acked_bytes_total",
        "Payload that the peer acknowledged.",
        |of| Some(of.acked_bytes as f64),
    ),
    (
        "tautline_tcp_received_bytes_total",
        "Payload received in order.",
        |of| Some(of.received_bytes as f64),
    ),
    ("tautline_tcp_cwnd_bytes", "Congestion window.", |of| {
        Some(of.cwnd_bytes as f64)
    }),
    (
        "tautline_tcp_srtt_seconds",
        "Smoothed round-trip time, 0 before a sample.",
        |of| Some(of.srtt_s),
    ),
    (
        "tautline_tcp_pacing_bytes_per_second",
        "Pacing rate, if there is one.",
        |of| of.pacing_bytes_per_s,
    ),
    (
        "tautline_tcp_retransmits_total",
        "Segments sent again.",
        |of| Some(of.retransmits as f64),
    ),
    (
        "tautline_tcp_timeouts_total",
        "Retransmission timeouts.",
        |of| Some(of.timeouts as f64),
    ),
    (
        "tautline_tsq_bytes",
        "Bytes of the connection in qdisc and ring, as TCP Small Queues counts them.",
        |of| Some(of.tsq_bytes as f64),
    ),
    (
        "tautline_tsq_limit_bytes",
        "Most of these bytes that TCP Small Queues allows now.",
        |of| of.tsq_limit_bytes.map(|limit| limit as f64),
    ),
    (
        "tautline_tsq_throttles_total",
        "Times that TCP Small Queues held the connection back.",
        |of| Some(of.tsq_throttles as f64),
    ),
];

/// The metrics of both ways, or of the way out of a transfer.
pub(super) fn text(ports: &[State]) -> String {
    let mut page = Page(String::new());
    for metric in METRICS {
        page.add(ports, metric);
    }
    page.drops(ports);
    page.sojourn(ports);
    for metric in HOST_METRICS {
        page.hosts(ports, metric);
    }
    if ports.iter().any(|of| of.connection.is_some()) {
        for metric in CONNECTION_METRICS {
            page.connections(ports, metric);
        }
        page.blocked(ports);
    }
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }

    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn add(&mut self, ports: &[State], (name, help, value): Metric) {
        self.begin(name, kind(name), help);
        for (of, value) in ports.iter().filter_map(|of| Some((of, value(of)?))) {
            self.line(format_args!("{name}{{{}}} {value}", labels(of)));
        }
    }

    fn drops(&mut self, ports: &[State]) {
        let help = "Packets dropped in this direction, by reason.";
        self.begin("tautline_drops_total", "counter", help);
        for of in ports {
            for (reason, count) in &of.drops {
                let (labels, reason) = (labels(of), escaped(reason));
                self.line(format_args!(
                    "tautline_drops_total{{{labels},reason=\"{reason}\"}} {count}"
                ));
            }
        }
    }

    fn connections(&mut self, ports: &[State], (name, help, value): ConnectionMetric) {
        self.begin(name, kind(name), help);
        for of in ports {
            if let Some(value) = of.connection.as_ref().and_then(value) {
                self.line(format_args!("{name}{{{}}} {value}", device(of)));
            }
        }
    }

    fn blocked(&mut self, ports: &[State]) {
        const NAME: &str = "tautline_tcp_blocked_seconds_total";
        let help = "Time that the connection was blocked, by cause.";
        self.begin(NAME, "counter", help);
        for of in ports {
            let causes = of.connection.iter().flat_map(|of| &of.blocked_s);
            for (cause, seconds) in causes {
                let (device, cause) = (device(of), escaped(cause));
                self.line(format_args!(
                    "{NAME}{{{device},cause=\"{cause}\"}} {seconds}"
                ));
            }
        }
    }

    fn hosts(&mut self, ports: &[State], (name, help, value): HostMetric) {
        self.begin(name, "counter", help);
        for of in ports {
            let device = device(of);
            for host in &of.talkers.hosts {
                let end = match host.end {
                    End::Source => "source",
                    End::Destination => "destination",
                };
                let (address, value) = (escaped(&host.address), value(&host.traffic));
                self.line(format_args!(
                    "{name}{{{device},address=\"{address}\",end=\"{end}\"}} {value}"
                ));
            }
        }
    }

    /// A histogram with a bucket per power of two from 1 µs to 17 s. Its sum takes each packet at the
    /// middle of its bucket.
    fn sojourn(&mut self, ports: &[State]) {
        const NAME: &str = "tautline_sojourn_seconds";
        self.begin(NAME, "histogram", "Time that packets spent in the qdisc.");
        for of in ports {
            let (labels, buckets) = (labels(of), &of.sojourn_ns);
            let below = |end: u64| {
                let counts = buckets.iter().filter(|(least, _)| *least < end);
                counts.map(|(_, count)| count).sum::<u64>()
            };
            for end in (10..=34).map(|log2| 1_u64 << log2) {
                let (seconds, count) = (end as f64 / 1e9, below(end));
                self.line(format_args!(
                    "{NAME}_bucket{{{labels},le=\"{seconds}\"}} {count}"
                ));
            }
            let middles = buckets
                .iter()
                .map(|(least, n)| 1.5 * *least as f64 * *n as f64);
            let (sum, count) = (middles.sum::<f64>() / 1e9, below(u64::MAX));
            self.line(format_args!(
                "{NAME}_bucket{{{labels},le=\"+Inf\"}} {count}"
            ));
            self.line(format_args!("{NAME}_sum{{{labels}}} {sum}"));
            self.line(format_args!("{NAME}_count{{{labels}}} {count}"));
        }
    }
}

fn kind(name: &str) -> &'static str {
    if name.ends_with("_total") {
        "counter"
    } else {
        "gauge"
    }
}

fn labels(of: &State) -> String {
    format!("{},kind=\"{}\"", device(of), escaped(&of.kind))
}

/// The interface, and its pair if the middlebox has several.
fn device(of: &State) -> String {
    let interface = escaped(&of.interface);
    match &*of.pair {
        "" => format!("device=\"{interface}\""),
        pair => format!("device=\"{interface}\",pair=\"{}\"", escaped(pair)),
    }
}

/// A label's value: backslash, quote and line feed are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
