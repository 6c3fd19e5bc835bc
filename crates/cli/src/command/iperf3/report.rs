//! [`Report`]: iperf3's tables, or its JSON.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Iperf3;
use super::flow::{Flow, Sample};
use super::protocol::{Params, Results, StreamResult};
use crate::report::{print_json, say, wall_clock};

const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

/// Output of one end about a test.
pub(super) struct Report {
    json: bool,
    is_server: bool,
    unit: Option<char>,
    params: Params,
    streams: Vec<Stream>,
    start: Value,
    intervals: Vec<Value>,
    /// RTTs of all sending connections, in microseconds.
    rtts: Vec<u32>,
}

/// A stream and the extremes of its connection.
struct Stream {
    id: u32,
    sends: bool,
    local: SocketAddr,
    peer: SocketAddr,
    max_cwnd: u64,
    max_window: u64,
    rtts: Vec<u32>,
}

/// How a test begins.
pub(super) struct Head<'a> {
    /// The server as the client calls it.
    pub(super) host: &'a str,
    pub(super) cookie: &'a [u8],
    /// Segment size of the control connection.
    pub(super) mss: u32,
}

/// A failed client's JSON.
pub(super) fn print_error(why: &str) {
    print_json(&json!({"start": {}, "intervals": [], "end": {}, "error": why}));
}

impl Report {
    pub(super) fn new(args: &Iperf3, params: &Params, flows: &[Flow]) -> Self {
        let streams = flows.iter().map(|flow| Stream {
            id: flow.id,
            sends: flow.sends,
            local: flow.local,
            peer: flow.peer,
            max_cwnd: 0,
            max_window: 0,
            rtts: Vec::new(),
        });
        Self {
            json: args.json,
            is_server: args.server,
            unit: args.format,
            params: params.clone(),
            streams: streams.collect(),
            start: Value::Null,
            intervals: Vec::new(),
            rtts: Vec::new(),
        }
    }

    /// The test begins with the peer at `peer`.
    pub(super) fn begin(&mut self, head: &Head<'_>, peer: SocketAddr) {
        if !self.json {
            return self.begin_text(head, peer);
        }
        let params = &self.params;
        let now = wall_clock();
        let connected = self.streams.iter().map(|stream| {
            json!({
                "socket": stream.id,
                "local_host": stream.local.ip(),
                "local_port": stream.local.port(),
                "remote_host": stream.peer.ip(),
                "remote_port": stream.peer.port(),
            })
        });
        let mut start = json!({
            "connected": connected.collect::<Value>(),
            "version": concat!("tautline ", env!("TAUTLINE_VERSION")),
            "system_info": std::fs::read_to_string("/proc/version").unwrap_or_default().trim(),
            "timestamp": {"timesecs": now.as_secs()},
            "cookie": String::from_utf8_lossy(head.cookie),
            "tcp_mss_default": head.mss,
            "target_bitrate": params.bandwidth,
            "sock_bufsize": params.window.unwrap_or(0),
            "test_start": {
                "protocol": if params.udp { "UDP" } else { "TCP" },
                "num_streams": params.parallel,
                "blksize": params.len,
                "omit": params.omit,
                "duration": params.time,
                "bytes": params.num,
                "blocks": params.blockcount,
                "reverse": u8::from(params.reverse),
                "bidir": u8::from(params.bidirectional),
                "tos": params.tos,
                "target_bitrate": params.bandwidth,
            },
        });
        let (key, host) = if self.is_server {
            ("accepted_connection", peer.ip().to_string())
        } else {
            ("connecting_to", head.host.to_owned())
        };
        start[key] = json!({"host": host, "port": peer.port()});
        self.start = start;
    }

    fn begin_text(&self, head: &Head<'_>, peer: SocketAddr) {
        if self.is_server {
            say!(
                "Accepted connection from {}, port {}",
                peer.ip(),
                peer.port()
            );
        } else {
            say!("Connecting to host {}, port {}", head.host, peer.port());
            if self.params.reverse {
                say!("Reverse mode, remote host {} is sending", head.host);
            }
        }
        for stream in &self.streams {
            let (local, peer) = (stream.local, stream.peer);
            say!(
                "[{:3}] local {} port {} connected to {} port {}",
                stream.id,
                local.ip(),
                local.port(),
                peer.ip(),
                peer.port()
            );
        }
        say!("{}", self.heading(false));
    }

    /// Keeps the RTTs of a sample between two intervals.
    pub(super) fn sample_rtt(&mut self, samples: &[Sample], omitted: bool) {
        let rtts = samples.iter().filter_map(|sample| sample.tcp);
        let rtts = rtts.map(|tcp| tcp.rtt).filter(|rtt| *rtt > 0 && !omitted);
        self.rtts.extend(rtts);
    }

    /// An interval from `times.0` to `times.1` ends.
    pub(super) fn interval(
        &mut self,
        before: &[Sample],
        after: &[Sample],
        times: (Duration, Duration),
        omitted: bool,
    ) {
        self.sample_rtt(after, omitted);
        let mut rows = Vec::new();
        for ((stream, before), after) in self.streams.iter_mut().zip(before).zip(after) {
            if let Some(tcp) = after.tcp.filter(|_| !omitted) {
                stream.max_cwnd = stream.max_cwnd.max(tcp.cwnd);
                stream.max_window = stream.max_window.max(tcp.peer_window);
                stream.rtts.push(tcp.rtt);
            }
            let mut row = Row::new(times, after.bytes - before.bytes, stream.sends);
            row.packets = after.packets - before.packets;
            row.lost = after.lost.saturating_sub(before.lost);
            row.jitter = after.jitter;
            row.retransmits = after
                .tcp
                .zip(before.tcp)
                .map(|(after, before)| after.retransmits - before.retransmits);
            row.sample = *after;
            rows.push((stream.id, row));
        }
        let groups = self.groups(&rows);
        if self.json {
            let interval = self.interval_json(&rows, &groups, omitted);
            self.intervals.push(interval);
        } else {
            self.interval_text(&rows, &groups, omitted);
        }
    }

    fn interval_text(&self, rows: &[(u32, Row)], groups: &[(bool, Row)], omitted: bool) {
        let end = if omitted { "  (omitted)" } else { "" };
        for (sends, sum) in groups {
            for (id, row) in rows.iter().filter(|(_, row)| row.sends == *sends) {
                self.print_row(&format!("{id:3}"), row, None, end);
            }
            if self.params.parallel > 1 {
                self.print_row("SUM", sum, None, end);
            }
        }
        if self.streams.len() > 1 {
            say!("{RULE}");
        }
    }

    fn interval_json(&self, rows: &[(u32, Row)], groups: &[(bool, Row)], omitted: bool) -> Value {
        let object = |row: &Row| {
            let mut object = row.json(self.params.udp);
            object.insert("omitted".into(), omitted.into());
            object
        };
        let streams = rows.iter().map(|(id, row)| {
            let mut object = object(row);
            object.insert("socket".into(), (*id).into());
            if let Some(tcp) = row.sample.tcp {
                object.insert("snd_cwnd".into(), tcp.cwnd.into());
                object.insert("snd_wnd".into(), tcp.peer_window.into());
                object.insert("rtt".into(), tcp.rtt.into());
                object.insert("rttvar".into(), tcp.rttvar.into());
                object.insert("pmtu".into(), tcp.path_mtu.into());
            }
            Value::Object(object)
        });
        let mut interval = json!({"streams": streams.collect::<Value>()});
        for ((_, sum), name) in groups.iter().zip(["sum", "sum_bidir_reverse"]) {
            interval[name] = Value::Object(object(sum));
        }
        interval
    }

    /// Sums by direction, in the order of the streams.
    fn groups(&self, rows: &[(u32, Row)]) -> Vec<(bool, Row)> {
        let mut groups: Vec<(bool, Row)> = Vec::new();
        for (_, row) in rows {
            match groups.iter_mut().find(|(sends, _)| *sends == row.sends) {
                Some((_, sum)) => sum.add(row),
                None => groups.push((row.sends, *row)),
            }
        }
        groups
    }

    /// The test is over.
    pub(super) fn end(&mut self, ours: &Results, theirs: &Results) {
        let mut pairs = Vec::new();
        for (stream, own) in self.streams.iter().zip(&ours.streams) {
            let other = theirs.streams.iter().find(|other| other.id == stream.id);
            let other = other.copied().unwrap_or_default();
            let (sent, received) = if stream.sends {
                (own, &other)
            } else {
                (&other, own)
            };
            let sent = Row::of(sent, stream.sends, true);
            let mut received = Row::of(received, stream.sends, false);
            received.packets = sent.packets.max(received.packets);
            pairs.push((stream, sent, received));
        }
        if self.json {
            let end = self.end_json(&pairs, ours, theirs);
            print_json(&json!({"start": self.start, "intervals": self.intervals, "end": end}));
        } else {
            self.end_text(&pairs);
        }
        // A test's report is complete when a reader of a pipe needs it.
        let _ = std::io::stdout().flush();
    }

    fn end_text(&self, pairs: &[(&Stream, Row, Row)]) {
        if self.streams.len() == 1 {
            say!("{RULE}");
        }
        say!("{}", self.heading(true));
        for (stream, sent, received) in pairs {
            let id = format!("{:3}", stream.id);
            self.print_row(&id, sent, Some("sender"), "");
            self.print_row(&id, received, Some("receiver"), "");
        }
        if self.params.parallel > 1 {
            for (sent, received) in self.sums(pairs) {
                self.print_row("SUM", &sent, Some("sender"), "");
                self.print_row("SUM", &received, Some("receiver"), "");
            }
        }
        if let Some(latency) = self.latency() {
            say!(
                "\nRTT of the sending connections: min {} ms, p50 {} ms, p95 {} ms, max {} ms",
                latency["min_ms"],
                latency["p50_ms"],
                latency["p95_ms"],
                latency["max_ms"]
            );
        }
        if !self.is_server {
            say!("\niperf Done.");
        }
    }

    /// Sums of what was sent and received, by direction.
    fn sums(&self, pairs: &[(&Stream, Row, Row)]) -> Vec<(Row, Row)> {
        let sent: Vec<_> = pairs
            .iter()
            .map(|(stream, sent, _)| (stream.id, *sent))
            .collect();
        let received: Vec<_> = pairs
            .iter()
            .map(|(stream, _, received)| (stream.id, *received))
            .collect();
        let (sent, received) = (self.groups(&sent), self.groups(&received));
        let pairs = sent.into_iter().zip(received);
        pairs
            .map(|((_, sent), (_, received))| (sent, received))
            .collect()
    }

    fn end_json(&self, pairs: &[(&Stream, Row, Row)], ours: &Results, theirs: &Results) -> Value {
        let udp = self.params.udp;
        let streams = pairs.iter().map(|(stream, sent, received)| {
            let (mut sender, mut receiver) = (sent.json(udp), received.json(udp));
            sender.insert("socket".into(), stream.id.into());
            receiver.insert("socket".into(), stream.id.into());
            if udp {
                receiver.insert("out_of_order".into(), received.sample.out_of_order.into());
                return json!({"udp": receiver});
            }
            let rtts = &stream.rtts;
            let mean =
                rtts.iter().map(|rtt| u64::from(*rtt)).sum::<u64>() / rtts.len().max(1) as u64;
            let connection = [
                ("max_snd_cwnd", stream.max_cwnd),
                ("max_snd_wnd", stream.max_window),
                ("max_rtt", rtts.iter().max().copied().unwrap_or(0).into()),
                ("min_rtt", rtts.iter().min().copied().unwrap_or(0).into()),
                ("mean_rtt", mean),
            ];
            sender.extend(connection.map(|(name, value)| (name.into(), value.into())));
            json!({"sender": sender, "receiver": receiver})
        });
        let mut end = json!({
            "streams": streams.collect::<Value>(),
            "cpu_utilization_percent": {
                "host_total": ours.cpu_util_total,
                "host_user": ours.cpu_util_user,
                "host_system": ours.cpu_util_system,
                "remote_total": theirs.cpu_util_total,
                "remote_user": theirs.cpu_util_user,
                "remote_system": theirs.cpu_util_system,
            },
        });
        for ((sent, received), suffix) in self.sums(pairs).iter().zip(["", "_bidir_reverse"]) {
            end[format!("sum_sent{suffix}")] = Value::Object(sent.json(udp));
            end[format!("sum_received{suffix}")] = Value::Object(received.json(udp));
            if udp && suffix.is_empty() {
                end["sum"] = Value::Object(received.json(udp));
            }
        }
        let first_sends = self.streams.first().is_some_and(|stream| stream.sends);
        let ends = [&ours.congestion_used, &theirs.congestion_used];
        let [sender, receiver] = if first_sends {
            ends
        } else {
            [ends[1], ends[0]]
        };
        if !udp {
            end["sender_tcp_congestion"] = json!(sender);
            end["receiver_tcp_congestion"] = json!(receiver);
        }
        if let Some(latency) = self.latency() {
            end["latency_under_load"] = latency;
        }
        end
    }

    /// Quantiles of the RTT in milliseconds; nothing if this end sends nothing over TCP.
    fn latency(&self) -> Option<Value> {
        let mut rtts = self.rtts.clone();
        rtts.sort_unstable();
        let last = rtts.len().checked_sub(1)?;
        let quantile = |percent: usize| f64::from(rtts[last * percent / 100]) / 1e3;
        Some(json!({
            "samples": rtts.len(),
            "min_ms": quantile(0),
            "p50_ms": quantile(50),
            "p95_ms": quantile(95),
            "p99_ms": quantile(99),
            "max_ms": quantile(100),
        }))
    }

    fn heading(&self, at_end: bool) -> String {
        let role = if self.params.bidirectional {
            "[Role]"
        } else {
            ""
        };
        let sends = self.streams.iter().any(|stream| stream.sends);
        let rest = match (self.params.udp, sends || at_end) {
            (true, true) if !at_end => "         Total Datagrams",
            (true, _) => "         Jitter    Lost/Total Datagrams",
            (false, true) if at_end => "         Retr",
            (false, true) => "         Retr  Cwnd",
            (false, false) => "",
        };
        format!("[ ID]{role} Interval           Transfer     Bitrate{rest}")
    }

    /// `whose` row it is, in the summary.
    fn print_row(&self, id: &str, row: &Row, whose: Option<&str>, end: &str) {
        let role = match (self.params.bidirectional, row.sends, self.is_server) {
            (false, ..) => "",
            (_, true, true) => "[TX-S]",
            (_, false, true) => "[RX-S]",
            (_, true, false) => "[TX-C]",
            (_, false, false) => "[RX-C]",
        };
        let (from, to) = row.times;
        let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
        let bytes = scaled(row.bytes as f64, 1024.0, None);
        let rate = match self.unit {
            Some(unit) if unit.is_ascii_uppercase() => {
                scaled(row.rate() / 8.0, 1024.0, Some(unit)) + "Bytes"
            }
            unit => scaled(row.rate(), 1000.0, unit) + "bits",
        };
        let is_end = whose.is_some();
        let rest = if self.params.udp && (is_end || !row.sends) {
            let share = 100.0 * row.lost as f64 / row.packets.max(1) as f64;
            let jitter = row.jitter.as_secs_f64() * 1e3;
            format!(
                "{jitter:6.3} ms  {}/{} ({share:.2}%)",
                row.lost, row.packets
            )
        } else if self.params.udp {
            format!("{}", row.packets)
        } else {
            let retransmits = row
                .retransmits
                .map_or(String::new(), |count| count.to_string());
            let cwnd = row.sample.tcp.filter(|_| !is_end);
            let cwnd = cwnd.map_or(String::new(), |tcp| {
                scaled(tcp.cwnd as f64, 1024.0, None) + "Bytes"
            });
            format!("{retransmits:>4}   {cwnd}")
        };
        let whose = whose.map_or(String::new(), |whose| format!("  {whose}"));
        say!("[{id}]{role} {from:6.2}-{to:<6.2} sec  {bytes}Bytes  {rate}/sec  {rest}{whose}{end}");
    }
}

/// A number with three figures and a letter for its power; `unit` selects the letter.
fn scaled(value: f64, step: f64, unit: Option<char>) -> String {
    let letters = ["", "K", "M", "G", "T"];
    let power = match unit {
        Some(unit) => letters
            .iter()
            .position(|letter| letter.starts_with(unit.to_ascii_uppercase()))
            .unwrap_or(0),
        None => (0..letters.len() - 1)
            .find(|power| value < 0.9995 * step.powi(*power as i32 + 1))
            .unwrap_or(letters.len() - 1),
    };
    let value = value / step.powi(power as i32);
    let digits = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:4.digits$} {}", letters[power])
}

/// Amount that a stream or several moved in a time.
#[derive(Clone, Copy)]
struct Row {
    times: (Duration, Duration),
    bytes: u64,
    sends: bool,
    retransmits: Option<u64>,
    packets: u64,
    lost: u64,
    jitter: Duration,
    sample: Sample,
}

impl Row {
    fn new(times: (Duration, Duration), bytes: u64, sends: bool) -> Self {
        Self {
            times,
            bytes,
            sends,
            retransmits: None,
            packets: 0,
            lost: 0,
            jitter: Duration::ZERO,
            sample: Sample::default(),
        }
    }

    /// One end of a stream, in the whole test.
    fn of(result: &StreamResult, sends: bool, is_sender: bool) -> Self {
        let time = Duration::try_from_secs_f64(result.end_time).unwrap_or_default();
        let is_counted = is_sender && (0.0..1e18).contains(&result.retransmits);
        Self {
            retransmits: is_counted.then_some(result.retransmits as u64),
            packets: result.packets,
            lost: if is_sender { 0 } else { result.errors as u64 },
            jitter: if is_sender {
                Duration::ZERO
            } else {
                Duration::try_from_secs_f64(result.jitter).unwrap_or_default()
            },
            ..Self::new((Duration::ZERO, time), result.bytes, sends)
        }
    }

    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.lost += other.lost;
        self.jitter = self.jitter.max(other.jitter);
        self.times.1 = self.times.1.max(other.times.1);
        self.retransmits = self.retransmits.zip(other.retransmits).map(|(a, b)| a + b);
        self.sample.tcp = None;
    }

    /// bit/s.
    fn rate(&self) -> f64 {
        let time = (self.times.1 - self.times.0).as_secs_f64();
        self.bytes as f64 * 8.0 / time.max(1e-9)
    }

    fn json(&self, udp: bool) -> Map<String, Value> {
        let (from, to) = self.times;
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("start", from.as_secs_f64().into());
        put("end", to.as_secs_f64().into());
        put("seconds", (to - from).as_secs_f64().into());
        put("bytes", self.bytes.into());
        put("bits_per_second", self.rate().into());
        put("sender", self.sends.into());
        if let Some(retransmits) = self.retransmits {
            put("retransmits", retransmits.into());
        }
        if udp {
            put("packets", self.packets.into());
            put("jitter_ms", (self.jitter.as_secs_f64() * 1e3).into());
            put("lost_packets", self.lost.into());
            let share = 100.0 * self.lost as f64 / self.packets.max(1) as f64;
            put("lost_percent", share.into());
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_figures() {
        for (value, step, text) in [
            (0.0, 1000.0, "0.00 "),
            (20.7e9, 1000.0, "20.7 G"),
            (999_900.0, 1000.0, "1.00 M"),
            (2_591_293_440.0, 1024.0, "2.41 G"),
            (655_360.0, 1024.0, " 640 K"),
        ] {
            assert_eq!(scaled(value, step, None), text);
        }
        assert_eq!(scaled(21.132e9, 1000.0, Some('m')), "21132 M");
    }
}
