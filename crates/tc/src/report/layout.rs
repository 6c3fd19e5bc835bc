//! [`Layout`]: in which order and under which names `tc` shows the parameters and counters of a
//! kind.

/// How `tc` shows the parameters and counters of one kind. What it does not know is shown after
/// what it does.
pub(super) struct Layout {
    /// `tc`'s name of the kind.
    kind: &'static str,
    /// Parameters in `tc`'s order (a `~` stands for a space). `quantum#` stands for a number
    /// without unit, `minburst:mtu` is shown as `mtu`, `mpu|0b` is shown with `0b` where it is
    /// missing, `+direct_packets_stat` is a counter that `tc` shows among them, `perturb@` counts
    /// seconds, `-noecn` is shown in JSON only, `=bands` is a word that always stands there.
    options: &'static str,
    /// The lines of counters. `{prob}` stands for a value, `{drop_next|0us}` for one that may be
    /// missing, `{burst#}` for one without unit, `{size#12}` for one twelve wide, and text
    /// in brackets is shown if its value is neither missing nor zero.
    pub(super) counters: &'static [&'static str],
}

/// A token of [`Layout::options`], taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Its name in the report.
    pub(super) name: &'static str,
    /// Its name to `tc`.
    pub(super) shown: &'static str,
    /// Text shown if it is missing.
    pub(super) missing: Option<&'static str>,
    /// Shown without unit.
    pub(super) bare: bool,
    /// Shown in JSON only.
    pub(super) hidden: bool,
    /// A word that is no parameter.
    pub(super) literal: bool,
    /// A counter.
    pub(super) counter: bool,
    /// A time that `tc` counts in seconds.
    pub(super) seconds: bool,
}

impl Parameter {
    fn of(token: &'static str) -> Self {
        let (token, literal) = token
            .strip_prefix('=')
            .map_or((token, false), |token| (token, true));
        let (token, counter) = token
            .strip_prefix('+')
            .map_or((token, false), |token| (token, true));
        let (token, hidden) = token
            .strip_prefix('-')
            .map_or((token, false), |token| (token, true));
        let (token, missing) = token
            .split_once('|')
            .map_or((token, None), |(token, missing)| (token, Some(missing)));
        let (token, bare) = token
            .strip_suffix('#')
            .map_or((token, false), |token| (token, true));
        let (token, seconds) = token
            .strip_suffix('@')
            .map_or((token, false), |token| (token, true));
        let (name, shown) = token.split_once(':').unwrap_or((token, token));
        Self {
            name,
            shown,
            missing,
            bare,
            hidden,
            literal,
            counter,
            seconds,
        }
    }
}

impl Layout {
    /// Of what `tc` does not know.
    pub(super) const UNKNOWN: Self = Self {
        kind: "",
        options: "",
        counters: &[],
    };

    /// Parameters in `tc`'s order.
    pub(super) fn parameters(&self) -> impl Iterator<Item = Parameter> {
        self.options.split_ascii_whitespace().map(Parameter::of)
    }

    /// Whether `tc` shows the counter `name` among the parameters.
    pub(super) fn moves(&self, name: &str) -> bool {
        self.parameters()
            .any(|parameter| parameter.counter && parameter.name == name)
    }

    /// The layout of the qdisc `kind`; nothing known if `tc` has no such thing.
    pub(super) fn of(kind: &str) -> &'static Self {
        DISCIPLINES
            .iter()
            .find(|layout| layout.kind == kind)
            .unwrap_or(&Self::UNKNOWN)
    }

    /// The layout of the classes of `kind`.
    pub(super) fn of_class(kind: &str) -> &'static Self {
        CLASSES
            .iter()
            .find(|layout| layout.kind == kind)
            .unwrap_or(&Self::UNKNOWN)
    }
}

const DISCIPLINES: &[Layout] = &[
    Layout {
        kind: "pfifo",
        options: "limit",
        counters: &[],
    },
    Layout {
        kind: "pfifo_fast",
        options: "bands priomap",
        counters: &[],
    },
    Layout {
        kind: "codel",
        options: "limit target ce_threshold interval ecn -noecn",
        counters: &[
            "  count {count} lastcount {lastcount} ldelay {ldelay}[{dropping} dropping] drop_next {drop_next|0us}",
            "  maxpacket {maxpacket} ecn_mark {ecn_mark} drop_overlimit {drop_overlimit}[ ce_mark {ce_mark}]",
        ],
    },
    Layout {
        kind: "fq_codel",
        options: "limit flows quantum# target ce_threshold ce_threshold_selector interval memory_limit ecn -noecn \
                  drop_batch",
        counters: &[
            "  maxpacket {maxpacket} drop_overlimit {drop_overlimit} new_flow_count {new_flow_count} ecn_mark {ecn_mark}\
             [ ce_mark {ce_mark}][ drop_overmemory {drop_overmemory}][ memory_used {memory_used}]",
            "  new_flows_len {new_flows_len} old_flows_len {old_flows_len}",
        ],
    },
    Layout {
        kind: "pie",
        options: "limit target tupdate alpha beta ecn -noecn bytemode -nobytemode dq_rate_estimator -no_dq_rate_estimator",
        counters: &[
            // Tools that know only the departure rate estimator (flent) want `avg_dq_rate` at all
            // times.
            "  prob {prob} delay {delay} avg_dq_rate {avg_dq_rate}",
            "  pkts_in {pkts_in} overlimit {overlimit} dropped {dropped} maxq {maxq} ecn_mark {ecn_mark}",
        ],
    },
    Layout {
        kind: "fq_pie",
        options: "limit flows target tupdate alpha beta quantum memory_limit ecn_prob ecn -noecn bytemode -nobytemode \
                  dq_rate_estimator -no_dq_rate_estimator",
        counters: &[
            "  pkts_in {pkts_in} overlimit {overlimit} overmemory {overmemory} dropped {dropped} ecn_mark {ecn_mark}",
            "  new_flow_count {new_flow_count} new_flows_len {new_flows_len} old_flows_len {old_flows_len} memory_used \
             {memory_used#}",
        ],
    },
    Layout {
        kind: "red",
        options: "limit min max ecn -noecn harddrop adaptive nodrop ewma probability",
        counters: &["  marked {marked} early {early} pdrop {pdrop} other {other}"],
    },
    Layout {
        kind: "fq",
        options: "limit flow_limit buckets orphan_mask bands priomap weights nopacing quantum initial_quantum maxrate \
                  low_rate_threshold refill_delay timer_slack horizon horizon_drop",
        counters: &[
            "  flows {flows} (inactive {inactive} throttled {throttled_flows}[ next_packet_delay {next_packet_delay}])",
            "  gc {gc} highprio {highprio}[ fastpath {fastpath}] throttled {throttled}[ latency {latency}][ ce_mark {ce_mark}]",
        ],
    },
    Layout {
        kind: "tbf",
        options: "rate burst mpu|0b peakrate minburst:mtu lat limit overhead linklayer|ethernet",
        counters: &[],
    },
    Layout {
        kind: "cake",
        options: "bandwidth unlimited:bandwidth~unlimited autorate-ingress besteffort precedence diffserv3 diffserv4 diffserv8 \
                  flowblind srchost dsthost hosts flows dual-srchost dual-dsthost triple-isolate nat nonat wash nowash ingress \
                  -egress ack-filter ack-filter-aggressive no-ack-filter split-gso no-split-gso rtt raw noatm atm ptm \
                  overhead|0 mpu memlimit fwmark",
        counters: &[
            " memory used: {memory_used} of {memory_limit}",
            " capacity estimate: {capacity_estimate}",
            " min/max network layer size: {min_network_size#12} / {max_network_size#7}",
            " min/max overhead-adjusted size: {min_adj_size#8} / {max_adj_size#7}",
            " average network hdr offset: {avg_hdr_offset#12}",
        ],
    },
    Layout {
        kind: "sfq",
        options: "limit quantum depth headdrop flows divisor perturb@ min max probability ecn",
        counters: &[],
    },
    Layout {
        kind: "netem",
        options: "limit# delay loss duplicate reorder corrupt rate slot ecn gap",
        counters: &[],
    },
    Layout {
        kind: "htb",
        options: "r2q default +direct_packets_stat =ver =3.17 direct_qlen",
        counters: &[],
    },
    Layout {
        kind: "dualpi2",
        options: "limit",
        counters: &[
            "  prob {prob} delay_c {delay_c} delay_l {delay_l}",
            "  pkts_in_c {pkts_in_c} pkts_in_l {pkts_in_l} maxq {maxq}",
            "  ecn_mark {ecn_mark} step_mark {step_mark} credit {credit}",
        ],
    },
    Layout {
        kind: "prio",
        options: "bands priomap",
        counters: &[],
    },
];

const CLASSES: &[Layout] = &[
    Layout {
        kind: "htb",
        options: "prio quantum# rate overhead ceil linklayer|ethernet burst mpu|0b cburst level",
        counters: &[
            " lended: {lended} borrowed: {borrowed} giants: {giants}",
            " tokens: {tokens} ctokens: {ctokens}",
        ],
    },
    Layout {
        kind: "drr",
        options: "quantum",
        counters: &[" deficit {deficit#}b"],
    },
];
