//! [`Layout`]: in which order and under which names `tc` shows the parameters and counters of a kind.

/// How `tc` shows the parameters and counters of one kind. What it does not know is shown after what it does.
pub(super) struct Layout {
    /// `tc`'s name of the kind.
    kind: &'static str,
    /// Parameters in `tc`'s order. `quantum#` stands for a number without unit, `latency:lat` is shown as `lat`, `-noecn` is shown
    /// in JSON only, `=ver` is a word that always stands there.
    pub(super) options: &'static str,
    /// The lines of counters. `{prob}` stands for a value, `{drop_next|0us}` for one that may be missing, `{burst#}` for one
    /// without unit, and what stands in brackets is shown if the value in it is neither missing nor zero.
    pub(super) counters: &'static [&'static str],
}

impl Layout {
    /// The layout of the discipline `kind`; nothing known if `tc` has no such thing.
    pub(super) fn of(kind: &str) -> &'static Self {
        DISCIPLINES.iter().find(|layout| layout.kind == kind).unwrap_or(&UNKNOWN)
    }

    /// The layout of the classes of `kind`.
    pub(super) fn of_class(kind: &str) -> &'static Self {
        CLASSES.iter().find(|layout| layout.kind == kind).unwrap_or(&UNKNOWN)
    }
}

const UNKNOWN: Layout = Layout { kind: "", options: "", counters: &[] };

const DISCIPLINES: &[Layout] = &[
    Layout { kind: "pfifo", options: "limit", counters: &[] },
    Layout {
        kind: "pfifo_fast",
        options: "=bands =3 =priomap =1 =2 =2 =2 =1 =2 =0 =0 =1 =1 =1 =1 =1 =1 =1 =1",
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
];

const CLASSES: &[Layout] = &[];
