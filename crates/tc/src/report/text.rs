//! A [`Report`] as `tc -s -d qdisc show` and `tc -s -d class show` print it, without their blanks
//! at line ends.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::cake;
use super::parts::Parts;
use super::tc;
use super::tree::{Parent, Shown, handle, is_among_parameters};
use super::{ClassShow, QdiscShow, Report, Value};
use tautline_qdisc::stats::{Flow, FlowCounts, Sojourn};

impl fmt::Display for Report {
    /// The qdiscs, then the classes, each as `tc` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.qdisc_show())?;
        let classes = self.class_show().to_string();
        if classes.is_empty() {
            Ok(())
        } else {
            write!(f, "\n{classes}")
        }
    }
}

impl fmt::Display for QdiscShow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.qdiscs().iter().flat_map(qdisc).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for ClassShow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.shown_classes().iter().flat_map(class).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The lines of one qdisc.
fn qdisc(shown: &Shown<'_>) -> Vec<String> {
    let report = shown.report;
    let place = match shown.place {
        Parent::Root => "root refcnt 2".to_string(),
        Parent::Below(class) => format!("parent {class}"),
    };
    let (moved, counters): (Vec<_>, Vec<_>) = report
        .counters
        .iter()
        .partition(|(name, _)| is_among_parameters(report.kind, name));
    let mut line = Parameters {
        kind: report.kind,
        line: format!("qdisc {} {} {place}", report.kind, handle(report.id)),
        left: report.options.iter().chain(moved).collect(),
    };
    line.show_qdisc();
    let more = line.more(&SFQ_RED);
    let mut lines = Vec::from([line.finish()]);
    lines.extend(more);
    lines.extend(common(report));
    lines.extend(Counters::new(counters).of_qdisc(report.kind));
    lines.extend(sojourn(report));
    lines.extend(cake::table(report));
    lines.extend(flows(report));
    lines
}

/// The lines of one class.
fn class(shown: &Shown<'_>) -> Vec<String> {
    let report = shown.report;
    let place = match shown.place {
        Parent::Root => "root".to_string(),
        Parent::Below(class) => format!("parent {class}"),
    };
    let leaf = report
        .leaf()
        .map_or_else(String::new, |leaf| format!(" leaf {leaf}"));
    let mut line = Parameters {
        kind: report.kind,
        line: format!("class {} {} {place}{leaf}", report.kind, handle(report.id)),
        left: report.options.iter().collect(),
    };
    line.show_class();
    let mut lines = Vec::from([line.finish()]);
    lines.extend(common(report));
    lines.extend(Counters::new(report.counters.iter().collect()).of_class(report.kind));
    lines.extend(sojourn(report));
    lines
}

/// The first line of a qdisc or a class: parameters in `tc`'s order, then those it lacks.
struct Parameters<'a> {
    kind: &'static str,
    line: String,
    left: Vec<&'a (&'static str, Value)>,
}

/// Counters of RED in `sfq`, which `tc` shows in two lines below the parameters.
const SFQ_RED: [&str; 2] = [
    "prob_mark prob_mark_head prob_drop",
    "forced_mark forced_mark_head forced_drop",
];

impl<'a> Parameters<'a> {
    fn show_qdisc(&mut self) {
        match self.kind {
            "pfifo" | "bfifo" | "pfifo_head_drop" => {
                self.show("limit");
            }
            "codel" => {
                self.show("limit target ce_threshold interval ecn");
                self.hide("noecn");
            }
            "fq_codel" => {
                self.show("limit flows").bare("quantum");
                self.show("target ce_threshold ce_threshold_selector interval");
                self.show("memory_limit ecn drop_batch");
                self.hide("noecn");
            }
            "pie" => {
                self.show("limit target tupdate alpha beta ecn bytemode dq_rate_estimator");
                self.hide("noecn nobytemode no_dq_rate_estimator");
            }
            "fq_pie" => {
                self.show("limit flows target tupdate alpha beta");
                self.show("quantum memory_limit ecn_prob ecn bytemode dq_rate_estimator");
                self.hide("noecn nobytemode no_dq_rate_estimator");
            }
            "red" => {
                self.show("limit min max ecn harddrop adaptive nodrop probability");
            }
            "fq" => {
                self.show("limit flow_limit buckets orphan_mask bands");
                self.show("priomap weights nopacing quantum initial_quantum");
                self.show("maxrate").show_nonzero("low_rate_threshold");
                self.show("refill_delay ce_threshold timer_slack");
                self.show("horizon horizon_drop horizon_cap");
            }
            "tbf" => {
                self.show("rate burst").show_or("mpu", "0b");
                self.show("peakrate").show_as("minburst", "mtu", tc::text);
                self.show("lat overhead");
                self.show_or("linklayer", "ethernet");
            }
            "cake" => self.show_cake(),
            "sfq" => {
                self.show("limit quantum depth headdrop flows divisor");
                self.show_as("perturb", "perturb", seconds);
                self.show("min max probability ecn harddrop");
            }
            "netem" => {
                self.bare("limit").show("delay loss duplicate reorder");
                self.show("corrupt rate slot ecn gap");
            }
            "htb" => {
                self.show("r2q default direct_packets_stat");
                self.line.extend([" ver ", tc::HTB_VERSION]);
                self.show("direct_qlen");
            }
            _ => {}
        }
    }

    fn show_cake(&mut self) {
        if self.left.iter().all(|(name, _)| *name != "unlimited") {
            self.show_or("bandwidth", "unlimited");
        }
        self.show_as("unlimited", "bandwidth unlimited", tc::text);
        self.hide("egress");
        let alone = |(_, value): &&&(_, Value)| matches!(value, Value::Flag(_));
        let words: Vec<_> = self
            .left
            .iter()
            .take_while(alone)
            .map(|(name, _)| *name)
            .collect();
        self.show(&words.join(" ")).show("rtt raw noatm atm ptm");
        self.show_or("overhead", "0");
        self.show("mpu memlimit fwmark");
    }

    fn show_class(&mut self) {
        match self.kind {
            "htb" => {
                self.show("prio").bare("quantum").show("rate overhead ceil");
                self.show_or("linklayer", "ethernet");
                self.show("burst").show_or("mpu", "0b");
                self.show("cburst level");
            }
            "drr" => {
                self.show("quantum");
            }
            "ets" => {
                self.bare("quantum");
            }
            _ => {}
        }
    }

    /// Shows the parameters named, where they are set.
    fn show(&mut self, names: &str) -> &mut Self {
        for name in names.split_whitespace() {
            self.show_as(name, name, tc::text);
        }
        self
    }

    /// Shows `name` without its unit.
    fn bare(&mut self, name: &'static str) -> &mut Self {
        self.show_as(name, name, tc::bare)
    }

    /// Shows `name`, or `missing` in its place.
    fn show_or(&mut self, name: &'static str, missing: &str) {
        if self.left.iter().any(|(option, _)| *option == name) {
            self.show(name);
        } else {
            self.line.extend([" ", name, " ", missing]);
        }
    }

    /// Shows `name` under the name that `tc` has for it.
    fn show_as(&mut self, name: &str, shown: &str, text: fn(&Value) -> String) -> &mut Self {
        if let Some(value) = take(&mut self.left, name) {
            match Parts::of(self.kind, name, value) {
                Some(parts) if parts.is_zero() => {}
                Some(parts) => self.push(shown, value, &parts.text()),
                None => self.push(shown, value, &text(value)),
            }
        }
        self
    }

    /// Shows `name` unless it is zero.
    fn show_nonzero(&mut self, name: &str) {
        self.left
            .retain(|(option, value)| *option != name || !value.is_zero());
        self.show(name);
    }

    /// The lines of `names`, where they are given.
    fn more(&mut self, names: &[&str]) -> Vec<String> {
        let mut line = |names: &&str| {
            let taken = |name| Some((name, take(&mut self.left, name)?));
            let values = names.split_whitespace().filter_map(taken);
            let line: String = values
                .map(|(name, value)| format!(" {name} {}", tc::text(value)))
                .collect();
            (!line.is_empty()).then(|| format!(" {line}"))
        };
        names.iter().filter_map(&mut line).collect()
    }

    /// Leaves out words that `tc` has in JSON only.
    fn hide(&mut self, names: &str) {
        self.left
            .retain(|(name, _)| names.split_whitespace().all(|hidden| hidden != *name));
    }

    fn push(&mut self, name: &str, value: &Value, text: &str) {
        match value {
            Value::Flag(false) => {}
            Value::Flag(true) => self.line.extend([" ", name]),
            _ => self.line.extend([" ", name, " ", text]),
        }
    }

    /// The line, ending in the parameters that `tc` lacks.
    fn finish(mut self) -> String {
        for (name, value) in core::mem::take(&mut self.left) {
            self.push(name, value, &value.to_string());
        }
        self.line
    }
}

fn seconds(value: &Value) -> String {
    match value {
        Value::Time(time) => format!("{}sec", time.as_secs()),
        value => tc::text(value),
    }
}

fn take<'a>(values: &mut Vec<&'a (&'static str, Value)>, name: &str) -> Option<&'a Value> {
    let at = values.iter().position(|(other, _)| *other == name)?;
    Some(&values.remove(at).1)
}

/// The lines that all have.
fn common(report: &Report) -> Vec<String> {
    let Some(common) = &report.common else {
        return Vec::new();
    };
    let (overlimits, requeues) = (report.overlimits, report.requeues);
    let backlog = tc::text(&Value::Size(common.backlog.bytes));
    let sent = format!(
        " Sent {} bytes {} pkt (dropped {}, overlimits {overlimits} requeues {requeues})",
        common.sent_bytes.get(),
        common.sent_packets,
        common.drops
    );
    Vec::from([
        sent,
        format!(
            " backlog {backlog} {}p requeues {requeues}",
            common.backlog.packets
        ),
    ])
}

/// The lines of counters.
struct Counters<'a> {
    lines: Vec<String>,
    left: Vec<&'a (&'static str, Value)>,
}

impl<'a> Counters<'a> {
    fn new(left: Vec<&'a (&'static str, Value)>) -> Self {
        let lines = Vec::new();
        Self { lines, left }
    }

    /// The lines of one kind of qdisc: those of `tc`, then one of the counters that it lacks.
    fn of_qdisc(mut self, kind: &str) -> Vec<String> {
        match kind {
            "codel" => {
                let (count, delay) = (self.all("count"), self.all("ldelay"));
                let dropping = self.set("dropping");
                self.push(format!(
                    " {count} lastcount 0{delay}{dropping} drop_next 0us"
                ));
                self.line("maxpacket ecn_mark drop_overlimit", "ce_mark");
            }
            "fq_codel" => {
                let always = "maxpacket drop_overlimit new_flow_count ecn_mark";
                self.line(always, "ce_mark drop_overmemory memory_used");
                self.line("new_flows_len old_flows_len", "");
            }
            "pie" => {
                // Tools that know only the departure rate estimator (flent) want `avg_dq_rate` at
                // all times.
                self.line("prob delay avg_dq_rate", "");
                self.line("pkts_in overlimit dropped maxq ecn_mark", "");
            }
            "fq_pie" => {
                self.line("pkts_in overlimit overmemory dropped ecn_mark", "");
                self.line("new_flow_count new_flows_len old_flows_len memory_used", "");
            }
            "red" => self.line("marked early pdrop other", ""),
            "fq" => {
                let [flows, inactive, throttled] =
                    ["flows", "inactive", "throttled_flows"].map(|name| self.text(name));
                let delay = self.set("next_packet_delay");
                let flows =
                    format!("  flows {flows} (inactive {inactive} throttled {throttled}){delay}");
                self.push(flows);
                let (collected, passed_by) = (self.all("gc highprio"), self.set("fastpath"));
                let (throttled, late) = (self.all("throttled"), self.set("latency ce_mark"));
                self.push(format!(" {collected}{passed_by}{throttled}{late}"));
            }
            "cake" => self.of_cake(),
            "dualpi2" => {
                self.line("prob delay_c delay_l", "");
                self.line("pkts_in_c pkts_in_l maxq", "");
                self.line("ecn_mark step_mark credit", "");
            }
            _ => {}
        }
        self.finish()
    }

    fn of_cake(&mut self) {
        let [used, limit, capacity] =
            ["memory_used", "memory_limit", "capacity_estimate"].map(|name| self.text(name));
        self.push(format!(" memory used: {used} of {limit}"));
        self.push(format!(" capacity estimate: {capacity}"));
        let [min, max] = ["min_network_size", "max_network_size"].map(|name| self.text(name));
        self.push(format!(" min/max network layer size: {min:>12} / {max:>7}"));
        let [min, max] = ["min_adj_size", "max_adj_size"].map(|name| self.text(name));
        self.push(format!(
            " min/max overhead-adjusted size: {min:>8} / {max:>7}"
        ));
        let offset = self.text("avg_hdr_offset");
        self.push(format!(" average network hdr offset: {offset:>12}"));
    }

    /// The lines of one kind of class.
    fn of_class(mut self, kind: &str) -> Vec<String> {
        match kind {
            "htb" => {
                let [lent, borrowed, giants] =
                    ["lended", "borrowed", "giants"].map(|name| self.text(name));
                self.push(format!(
                    " lended: {lent} borrowed: {borrowed} giants: {giants}"
                ));
                let [tokens, ceil_tokens] = ["tokens", "ctokens"].map(|name| self.text(name));
                self.push(format!(" tokens: {tokens} ctokens: {ceil_tokens}"));
            }
            "drr" => {
                let deficit = self.text("deficit");
                self.push(format!(" deficit {deficit}b"));
            }
            _ => {}
        }
        self.finish()
    }

    fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// A line of the counters named in `always`, and of those in `if_set` that are not zero.
    fn line(&mut self, always: &str, if_set: &str) {
        let line = format!(" {}{}", self.all(always), self.set(if_set));
        self.push(line);
    }

    /// The value of `name`; 0 if it is missing.
    fn text(&mut self, name: &str) -> String {
        take(&mut self.left, name).map_or_else(|| "0".into(), tc::text)
    }

    /// The counters named and their values, each after a space.
    fn all(&mut self, names: &str) -> String {
        let pair = |name| format!(" {name} {}", self.text(name));
        names.split_whitespace().map(pair).collect()
    }

    /// The named counters that are present and nonzero.
    fn set(&mut self, names: &str) -> String {
        let taken = |name| Some((name, take(&mut self.left, name)?));
        let values = names.split_whitespace().filter_map(taken);
        values.map(|(name, value)| pair(name, value)).collect()
    }

    /// The lines, ending in one of the counters that `tc` lacks.
    fn finish(mut self) -> Vec<String> {
        let rest: String = self
            .left
            .iter()
            .map(|(name, value)| pair(name, value))
            .collect();
        if !rest.is_empty() {
            self.push(format!(" {rest}"));
        }
        self.lines
    }
}

/// A counter after a space, if it is not zero.
fn pair(name: &str, value: &Value) -> String {
    match value {
        value if value.is_zero() => String::new(),
        Value::Flag(_) => format!(" {name}"),
        value => format!(" {name} {}", tc::text(value)),
    }
}

/// The line that `tc` lacks.
fn sojourn(report: &Report) -> Option<String> {
    let sojourn = report
        .sojourn
        .as_ref()
        .filter(|sojourn| sojourn.count() > 0)?;
    Some(format!("  {}", times(sojourn)))
}

fn times(sojourn: &Sojourn) -> String {
    let [p50, p95, p99] =
        [50, 95, 99].map(|percent| tc::text(&Value::Time(sojourn.percentile(percent))));
    let [last, max] = [sojourn.last, sojourn.max].map(|time| tc::text(&Value::Time(time)));
    format!("sojourn last {last} p50 {p50} p95 {p95} p99 {p99} max {max}")
}

/// Flows that are shown one by one; JSON has all.
const FLOWS_SHOWN: usize = 16;

/// A line for each of the flows that sent most, and one for those that had no place.
fn flows(report: &Report) -> Vec<String> {
    let shown = report
        .flows
        .iter()
        .enumerate()
        .filter(|(rank, flow)| *rank < FLOWS_SHOWN || flow.hash.is_none());
    shown
        .map(|(_, flow)| {
            let Flow {
                counts:
                    FlowCounts {
                        dequeued,
                        dropped,
                        sojourn,
                        ..
                    },
                ..
            } = flow;
            let (name, bytes, packets) = (flow.name(), dequeued.bytes.get(), dequeued.segments);
            format!(
                "  flow {name} sent {bytes} bytes {packets} pkt dropped {} {}",
                dropped.packets,
                times(sojourn)
            )
        })
        .collect()
}
