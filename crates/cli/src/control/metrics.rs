//! Counters in Prometheus' text format 0.0.4. Counters that `tc` has too carry the names of
//! node_exporter's qdisc collector; all others begin with `tautline_`.

use std::fmt::Write;

use super::State;

/// The metrics of both ways.
pub(super) fn text(ports: &[State]) -> String {
    let mut page = Page(String::new());
    let (counter, gauge) = ("counter", "gauge");
    page.add(ports, "node_qdisc_bytes_total", counter, |of| of.sent.bytes);
    page.add(ports, "node_qdisc_packets_total", counter, |of| {
        of.sent.packets
    });
    page.add(ports, "node_qdisc_drops_total", counter, |of| {
        of.drops.iter().map(|(_, count)| count).sum()
    });
    page.add(ports, "node_qdisc_overlimits_total", counter, |of| {
        of.overlimits
    });
    page.add(ports, "node_qdisc_current_queue_length", gauge, |of| {
        of.backlog.packets
    });
    page.add(ports, "node_qdisc_backlog", gauge, |of| of.backlog.bytes);
    page.add(ports, "tautline_received_packets_total", counter, |of| {
        of.taken.packets
    });
    page.add(ports, "tautline_marks_total", counter, |of| of.marks);
    page.add(ports, "tautline_ring_bytes", gauge, |of| of.ring.bytes);
    let limited: Vec<_> = ports
        .iter()
        .filter(|of| of.ring_limit.is_some())
        .cloned()
        .collect();
    page.add(&limited, "tautline_ring_limit_bytes", gauge, |of| {
        of.ring_limit.unwrap_or_default()
    });
    page.drops(ports);
    page.sojourn(ports);
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }

    fn add(&mut self, ports: &[State], name: &str, kind: &str, value: impl Fn(&State) -> u64) {
        self.line(format_args!("# TYPE {name} {kind}"));
        for of in ports {
            self.line(format_args!("{name}{{{}}} {}", labels(of), value(of)));
        }
    }

    fn drops(&mut self, ports: &[State]) {
        self.line(format_args!("# TYPE tautline_drops_total counter"));
        for of in ports {
            for (reason, count) in &of.drops {
                let (labels, reason) = (labels(of), escaped(reason));
                self.line(format_args!(
                    "tautline_drops_total{{{labels},reason=\"{reason}\"}} {count}"
                ));
            }
        }
    }

    /// A histogram with a bucket per power of two from 1 µs to 17 s. Its sum takes each packet at the
    /// middle of its bucket.
    fn sojourn(&mut self, ports: &[State]) {
        const NAME: &str = "tautline_sojourn_seconds";
        self.line(format_args!("# TYPE {NAME} histogram"));
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

fn labels(of: &State) -> String {
    format!(
        "device=\"{}\",kind=\"{}\"",
        escaped(&of.interface),
        escaped(&of.kind)
    )
}

/// A label's value: backslash, quote and line feed are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
