//! The matrix: which qdiscs, in which configuration, are given which traces.

use crate::acks::Acks;
use crate::large;
use crate::trace::{Arrival, Traffic, job};

/// A trace, by its recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Input {
    /// UDP of the usual kinds.
    Udp(Traffic),
    /// Acknowledgments of TCP.
    Acks(Acks),
    /// TCP packets of several segments among others.
    Large,
}

impl Input {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Udp(traffic) => traffic.name(),
            Self::Acks(acks) => acks.name(),
            Self::Large => "large".to_owned(),
        }
    }

    pub(crate) fn trace(self, millis: u32) -> Vec<Arrival> {
        match self {
            Self::Udp(traffic) => traffic.trace(millis),
            Self::Acks(acks) => acks.trace(millis),
            Self::Large => large::trace(millis),
        }
    }
}

/// How runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Packet by packet: the qdisc draws no random numbers.
    Exact,
    /// By counts and delays over ten seeds.
    Statistical,
}

/// A qdisc in one configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Qdisc and configuration: `fq_codel-default`.
    pub(crate) name: &'static str,
    /// `tc`'s words, of the kernel and of ours.
    pub(crate) words: &'static str,
    /// Words for ours alone: the timer of the kernel in the rig has 100 ticks per second, and PIE's
    /// is set up 50 ms before the trace begins.
    pub(crate) ours: &'static str,
    /// Whether it stands below a token bucket of 12 Mbit/s, or is the root itself.
    pub(crate) shaped: bool,
    /// Depth of that bucket in bytes. It cuts packets that are longer.
    pub(crate) burst: u32,
    /// Commands for its classes, children and filters; its handle is `10:`.
    pub(crate) below: &'static [&'static str],
    /// How much later than asked the kernel may wake it, unless something else wakes the kernel in
    /// between.
    pub(crate) slack_ns: u64,
    /// Packets each of its FIFOs holds: the transmit queue length of the device.
    pub(crate) txqueuelen: u32,
    pub(crate) way: Way,
    pub(crate) inputs: &'static [Input],
}

const fn usual() -> [Input; 7] {
    let [a, b, c, d, e, f, g] = Traffic::USUAL;
    [
        Input::Udp(a),
        Input::Udp(b),
        Input::Udp(c),
        Input::Udp(d),
        Input::Udp(e),
        Input::Udp(f),
        Input::Udp(g),
    ]
}

const USUAL: [Input; 7] = usual();
const WITH_HOSTS: [Input; 8] = {
    let [a, b, c, d, e, f, g] = usual();
    [a, b, c, d, e, f, g, Input::Udp(Traffic::Hosts)]
};
const WITH_DEPARTURES: [Input; 8] = {
    let [a, b, c, d, e, f, g] = usual();
    [a, b, c, d, e, f, g, Input::Udp(Traffic::Departures)]
};
const ACKS: [Input; 6] = {
    let [a, b, c, d, e, f] = Acks::ALL;
    [
        Input::Acks(a),
        Input::Acks(b),
        Input::Acks(c),
        Input::Acks(d),
        Input::Acks(e),
        Input::Acks(f),
    ]
};

const fn exact(name: &'static str, words: &'static str) -> Setup {
    Setup {
        name,
        words,
        ours: "",
        shaped: true,
        burst: 1600,
        below: &[],
        slack_ns: 0,
        txqueuelen: 1000,
        way: Way::Exact,
        inputs: &USUAL,
    }
}

/// Large packets; the shaper above leaves them whole.
const fn large(name: &'static str, words: &'static str) -> Setup {
    Setup {
        burst: 100_000,
        inputs: &[Input::Large],
        ..exact(name, words)
    }
}

const fn statistical(name: &'static str, words: &'static str) -> Setup {
    Setup {
        way: Way::Statistical,
        ..exact(name, words)
    }
}

/// Filters by DSCP into the classes 10:1 (EF, CS6), 10:2 (AF4x) and 10:3 (the rest).
macro_rules! by_dscp {
    ($($before:literal,)*) => {
        &[
            $($before,)*
            "tc filter add dev DEV parent 10: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid 10:1",
            "tc filter add dev DEV parent 10: protocol ip prio 1 u32 match ip tos 0xc0 0xfc flowid 10:1",
            "tc filter add dev DEV parent 10: protocol ip prio 2 u32 match ip tos 0x88 0xfc flowid 10:2",
            "tc filter add dev DEV parent 10: protocol ip prio 2 u32 match ip tos 0x90 0xfc flowid 10:2",
            "tc filter add dev DEV parent 10: protocol ip prio 3 u32 match u32 0 0 flowid 10:3",
        ]
    };
}

/// Kinds whose default departs from Linux on purpose.
const WITH_PROFILE: &[&str] = &[
    "pfifo_fast",
    "codel",
    "htb",
    "fq_codel",
    "fq",
    "cake",
    "red",
    "pie",
    "fq_pie",
    "netem",
];

/// All of it.
pub(crate) const SETUPS: &[Setup] = &[
    Setup {
        ..exact("pfifo_fast-default", "pfifo_fast")
    },
    Setup {
        txqueuelen: 40,
        ..exact("pfifo_fast-short", "pfifo_fast")
    },
    Setup {
        below: &[
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 80",
            "tc qdisc add dev DEV parent 10:2 handle 12: pfifo limit 80",
            "tc qdisc add dev DEV parent 10:3 handle 13: pfifo limit 80",
        ],
        ..exact("prio-priomap", "prio")
    },
    Setup {
        below: by_dscp!(
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 30",
            "tc qdisc add dev DEV parent 10:2 handle 12: codel limit 5000",
            "tc qdisc add dev DEV parent 10:3 handle 13: bfifo limit 90000",
        ),
        ..exact("prio-filters", "prio bands 4")
    },
    Setup {
        shaped: false,
        ..exact("tbf-limit", "tbf rate 10mbit burst 20000 limit 100000")
    },
    Setup {
        shaped: false,
        ..exact(
            "tbf-peakrate",
            "tbf rate 8mbit burst 60000 latency 80ms peakrate 14mbit mtu 1600",
        )
    },
    Setup {
        shaped: false,
        ..exact(
            "tbf-atm",
            "tbf rate 12mbit burst 4000 limit 60000 overhead 24 mpu 96 linklayer atm",
        )
    },
    Setup {
        shaped: false,
        below: by_dscp!(
            "tc class add dev DEV parent 10: classid 10:100 htb rate 12mbit burst 3000 cburst 3000",
            "tc class add dev DEV parent 10:100 classid 10:1 htb rate 2mbit ceil 12mbit prio 0 burst 6000 cburst 3000 quantum 1514",
            "tc class add dev DEV parent 10:100 classid 10:2 htb rate 6mbit ceil 10mbit prio 1 burst 3000 cburst 3000 quantum 3028",
            "tc class add dev DEV parent 10:100 classid 10:3 htb rate 1mbit ceil 12mbit prio 1 burst 3000 cburst 3000 quantum 1514",
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:2 handle 12: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:3 handle 13: pfifo limit 60",
        ),
        ..exact("htb-flat", "htb default 3")
    },
    Setup {
        shaped: false,
        below: &[
            "tc class add dev DEV parent 10: classid 10:100 htb rate 12mbit ceil 12mbit burst 3000 cburst 3000",
            "tc class add dev DEV parent 10:100 classid 10:20 htb rate 7mbit ceil 12mbit burst 4000 cburst 3000",
            "tc class add dev DEV parent 10:100 classid 10:30 htb rate 3mbit ceil 9mbit burst 4000 cburst 3000",
            "tc class add dev DEV parent 10:20 classid 10:21 htb rate 2mbit ceil 12mbit prio 2 burst 3000 cburst 3000 quantum 1600",
            "tc class add dev DEV parent 10:20 classid 10:22 htb rate 3mbit ceil 8mbit prio 1 burst 3000 cburst 3000 quantum 4000",
            "tc class add dev DEV parent 10:30 classid 10:31 htb rate 1mbit ceil 5mbit prio 2 burst 3000 cburst 3000 quantum 1600",
            "tc qdisc add dev DEV parent 10:21 handle 21: pfifo limit 100",
            "tc qdisc add dev DEV parent 10:22 handle 22: fq_codel flows 65535",
            "tc qdisc add dev DEV parent 10:31 handle 31: sfq limit 100 divisor 65536",
            "tc filter add dev DEV parent 10: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid 10:22",
            "tc filter add dev DEV parent 10: protocol ip prio 1 u32 match ip tos 0x88 0xfc flowid 10:22",
            "tc filter add dev DEV parent 10: protocol ip prio 2 u32 match ip tos 0x08 0xfc flowid 10:31",
            "tc filter add dev DEV parent 10: protocol ip prio 2 u32 match ip tos 0x20 0xfc flowid 10:31",
        ],
        ..exact("htb-tree", "htb default 21")
    },
    Setup {
        below: by_dscp!(
            "tc class add dev DEV parent 10: classid 10:1 drr quantum 1514",
            "tc class add dev DEV parent 10: classid 10:2 drr quantum 1514",
            "tc class add dev DEV parent 10: classid 10:3 drr quantum 1514",
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:2 handle 12: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:3 handle 13: pfifo limit 60",
        ),
        ..exact("drr-equal", "drr")
    },
    Setup {
        below: by_dscp!(
            "tc class add dev DEV parent 10: classid 10:1 drr quantum 500",
            "tc class add dev DEV parent 10: classid 10:2 drr quantum 1100",
            "tc class add dev DEV parent 10: classid 10:3 drr quantum 2300",
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 40",
            "tc qdisc add dev DEV parent 10:2 handle 12: codel limit 5000",
            "tc qdisc add dev DEV parent 10:3 handle 13: pfifo limit 80",
        ),
        ..exact("drr-weighted", "drr")
    },
    Setup {
        ..exact("codel-default", "codel")
    },
    Setup {
        ..exact("codel-ecn", "codel limit 200 ecn")
    },
    Setup {
        ..exact(
            "codel-slow",
            "codel target 20ms interval 200ms ecn ce_threshold 12ms",
        )
    },
    Setup {
        ..exact("fq_codel-default", "fq_codel flows 65535")
    },
    Setup {
        ..exact("fq_codel-noecn", "fq_codel limit 200 flows 65535 noecn")
    },
    Setup {
        ..exact(
            "fq_codel-small",
            "fq_codel limit 400 flows 65535 quantum 300 drop_batch 8 memory_limit 500000",
        )
    },
    Setup {
        inputs: &WITH_DEPARTURES,
        ours: "hz 100",
        ..exact(
            "fq-limits",
            "fq limit 300 flow_limit 60 timer_slack 0 orphan_mask 65535",
        )
    },
    Setup {
        inputs: &WITH_DEPARTURES,
        shaped: false,
        ours: "hz 100",
        slack_ns: 10_000,
        ..exact(
            "fq-maxrate",
            "fq maxrate 2mbit initial_quantum 6000 flow_limit 200 orphan_mask 65535",
        )
    },
    Setup {
        ours: "hz 100",
        ..exact(
            "fq-quantum",
            "fq quantum 900 initial_quantum 900 maxrate 4mbit timer_slack 0 orphan_mask 65535",
        )
    },
    Setup {
        ..exact("sfq-default", "sfq divisor 65536")
    },
    Setup {
        ..exact(
            "sfq-deep",
            "sfq limit 400 flows 500 depth 50 divisor 65536 quantum 3028",
        )
    },
    Setup {
        ..exact(
            "sfq-headdrop",
            "sfq limit 60 flows 20 depth 40 divisor 65536 headdrop quantum 800",
        )
    },
    Setup {
        shaped: false,
        ..exact("cake-besteffort", "cake bandwidth 12mbit besteffort flows")
    },
    Setup {
        shaped: false,
        ..exact("cake-diffserv4", "cake bandwidth 12mbit diffserv4 flows")
    },
    Setup {
        shaped: false,
        ..exact(
            "cake-diffserv8",
            "cake bandwidth 12mbit diffserv8 flows wash",
        )
    },
    Setup {
        shaped: false,
        inputs: &WITH_HOSTS,
        ..exact(
            "cake-triple",
            "cake bandwidth 12mbit besteffort triple-isolate",
        )
    },
    Setup {
        shaped: false,
        inputs: &WITH_HOSTS,
        ..exact(
            "cake-dual",
            "cake bandwidth 12mbit besteffort dual-srchost rtt 50ms",
        )
    },
    Setup {
        shaped: false,
        ..exact(
            "cake-overhead",
            "cake bandwidth 12mbit besteffort flows overhead 24 atm mpu 96",
        )
    },
    Setup {
        shaped: false,
        ..exact(
            "cake-ptm",
            "cake bandwidth 12mbit diffserv3 flows pppoe-ptm ether-vlan ingress",
        )
    },
    Setup {
        shaped: false,
        ..exact(
            "cake-memory",
            "cake bandwidth 12mbit besteffort flows memlimit 200kb rtt 300ms",
        )
    },
    Setup {
        shaped: false,
        inputs: &ACKS,
        ..exact(
            "cake-ack-filter",
            "cake bandwidth 1mbit besteffort flows ack-filter",
        )
    },
    Setup {
        shaped: false,
        inputs: &ACKS,
        ..exact(
            "cake-ack-aggressive",
            "cake bandwidth 1mbit besteffort flows ack-filter-aggressive",
        )
    },
    Setup {
        ..exact("cake-unlimited", "cake unlimited diffserv4 flows")
    },
    Setup {
        shaped: false,
        ..exact(
            "cake-autorate",
            "cake bandwidth 12mbit besteffort flows autorate-ingress",
        )
    },
    Setup {
        ..statistical(
            "red-drop",
            "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.1 bandwidth 12mbit",
        )
    },
    Setup {
        ..statistical(
            "red-adaptive",
            "red limit 400000 min 20000 max 120000 avpkt 1000 burst 40 probability 0.02 bandwidth 12mbit ecn adaptive",
        )
    },
    Setup {
        ..statistical(
            "sfq-red",
            "sfq limit 600 flows 200 depth 120 divisor 65536 redflowlimit 60000 min 8000 max 24000 avpkt 1000 burst 20 probability 0.1 ecn",
        )
    },
    Setup {
        ours: "hz 100 first_update 450ms",
        ..statistical("pie-default", "pie")
    },
    Setup {
        ours: "hz 100 first_update 450ms",
        ..statistical(
            "pie-ecn",
            "pie limit 500 target 25ms tupdate 20ms ecn bytemode dq_rate_estimator",
        )
    },
    Setup {
        ours: "hz 100 first_update 450ms",
        ..statistical("fq_pie-default", "fq_pie flows 2048")
    },
    Setup {
        ours: "hz 100 first_update 450ms",
        ..statistical(
            "fq_pie-ecn",
            "fq_pie limit 600 flows 2048 quantum 600 ecn ecn_prob 30",
        )
    },
    Setup {
        shaped: false,
        ..statistical(
            "netem-jitter",
            "netem limit 20000 delay 30ms 10ms distribution normal loss 3% duplicate 2%",
        )
    },
    Setup {
        shaped: false,
        ..statistical(
            "netem-gemodel",
            "netem limit 20000 delay 10ms rate 16mbit loss gemodel 2% 20% 80% 0.1%",
        )
    },
    Setup {
        shaped: false,
        ..statistical(
            "netem-reorder",
            "netem limit 20000 delay 20ms 4ms 25% reorder 20% 50% gap 4 corrupt 2%",
        )
    },
    Setup {
        shaped: false,
        ..statistical(
            "netem-slots",
            "netem limit 20000 delay 5ms rate 20mbit slot 8ms 24ms packets 30 bytes 24000",
        )
    },
    large("large-pfifo_fast", "pfifo_fast"),
    large("large-codel", "codel"),
    large("large-fq_codel", "fq_codel flows 65535"),
    Setup {
        ours: "hz 100",
        ..large(
            "large-fq",
            "fq limit 300 flow_limit 60 timer_slack 0 orphan_mask 65535",
        )
    },
    large("large-sfq", "sfq divisor 65536"),
    Setup {
        below: by_dscp!(
            "tc class add dev DEV parent 10: classid 10:1 drr quantum 1514",
            "tc class add dev DEV parent 10: classid 10:2 drr quantum 1514",
            "tc class add dev DEV parent 10: classid 10:3 drr quantum 1514",
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:2 handle 12: codel limit 5000",
            "tc qdisc add dev DEV parent 10:3 handle 13: bfifo limit 300000",
        ),
        ..large("large-drr", "drr")
    },
    Setup {
        shaped: false,
        below: by_dscp!(
            "tc class add dev DEV parent 10: classid 10:100 htb rate 12mbit burst 3000 cburst 3000",
            "tc class add dev DEV parent 10:100 classid 10:1 htb rate 2mbit ceil 12mbit prio 0 burst 6000 cburst 3000 quantum 1514",
            "tc class add dev DEV parent 10:100 classid 10:2 htb rate 6mbit ceil 10mbit prio 1 burst 3000 cburst 3000 quantum 3028",
            "tc class add dev DEV parent 10:100 classid 10:3 htb rate 1mbit ceil 12mbit prio 1 burst 3000 cburst 3000 quantum 1514",
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:2 handle 12: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:3 handle 13: pfifo limit 60",
        ),
        ..large("large-htb", "htb default 3")
    },
    Setup {
        shaped: false,
        ..large("large-tbf-cut", "tbf rate 12mbit burst 20000 limit 200000")
    },
    Setup {
        shaped: false,
        ..large(
            "large-cake-split",
            "cake bandwidth 12mbit besteffort flows split-gso",
        )
    },
    Setup {
        shaped: false,
        ..large(
            "large-cake-whole",
            "cake bandwidth 12mbit besteffort flows no-split-gso overhead 24 mpu 96",
        )
    },
    Setup {
        below: by_dscp!(
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:2 handle 12: pfifo limit 60",
            "tc qdisc add dev DEV parent 10:3 handle 13: pfifo limit 60",
        ),
        ..exact("ets-filters", "ets strict 1 quanta 1100 2300")
    },
    Setup {
        below: &[
            "tc qdisc add dev DEV parent 10:1 handle 11: pfifo limit 80",
            "tc qdisc add dev DEV parent 10:2 handle 12: pfifo limit 80",
            "tc qdisc add dev DEV parent 10:3 handle 13: pfifo limit 80",
            "tc qdisc add dev DEV parent 10:4 handle 14: pfifo limit 80",
        ],
        ..exact(
            "ets-priomap",
            "ets bands 4 strict 1 quanta 3000 priomap 3 2 3 2 1 2 0 0 1 2 3 1",
        )
    },
];

impl Setup {
    /// `tc`'s commands that build it on DEV.
    pub(crate) fn script(&self) -> String {
        let root = match self.shaped {
            true => format!(
                "tc qdisc add dev DEV root handle 1: tbf rate 12mbit burst {} limit 100000000\ntc qdisc add dev DEV parent 1:",
                self.burst
            ),
            false => "tc qdisc add dev DEV root".to_owned(),
        };
        format!(
            "{root} handle 10: {}\n{}",
            self.words,
            self.below.join("\n")
        )
    }

    /// The same for ours, in the profile `linux` or by default.
    pub(crate) fn ours(&self, linux: bool, seed: u32) -> String {
        let mut script = self.script().replace("dev DEV ", "");
        let seed = if self.has_seed() {
            format!("seed {seed}")
        } else {
            String::new()
        };
        if self.words.starts_with("pfifo_fast") {
            script = script.replace(
                "pfifo_fast",
                &format!("pfifo_fast limit {}", self.txqueuelen),
            );
        }
        script = script.replacen(
            &format!("10: {}", self.words),
            &format!("10: {} {} {seed}", self.words, self.ours),
            1,
        );
        // A profile comes first: it sets what later words change.
        for &kind in if linux { WITH_PROFILE } else { &[] } {
            let named = |line: &str| {
                line.rsplit_once(": ")
                    .is_some_and(|(_, words)| words.split(' ').next() == Some(kind))
            };
            let profiled = |line: &str| {
                if named(line) {
                    line.replacen(kind, &format!("{kind} linux"), 1)
                } else {
                    line.into()
                }
            };
            script = script
                .lines()
                .map(profiled)
                .collect::<Vec<String>>()
                .join("\n");
        }
        script.trim_end().into()
    }

    /// Name of its run with `input`.
    pub(crate) fn cell(&self, input: Input) -> String {
        format!("{}.{}", self.name, input.name())
    }

    /// Whether ours departs from Linux by default.
    pub(crate) fn has_profile(&self) -> bool {
        self.ours(true, 1) != self.ours(false, 1)
    }

    /// Whether it draws random numbers: CAKE, for the last byte of every quantum and for BLUE.
    pub(crate) fn is_random(&self) -> bool {
        self.way == Way::Statistical || self.words.starts_with("cake")
    }

    /// Whether it can be compared packet by packet.
    pub(crate) fn is_exact(&self) -> bool {
        self.way == Way::Exact
    }

    fn has_seed(&self) -> bool {
        self.is_random()
    }

    /// How long the traces last, in milliseconds.
    pub(crate) fn millis(&self) -> u32 {
        match self.way {
            Way::Exact => 4_000,
            Way::Statistical => 6_000,
        }
    }

    /// The job for the kernel.
    pub(crate) fn job(&self, input: Input) -> String {
        let script = format!(
            "ip link set DEV txqueuelen {}\n{}",
            self.txqueuelen,
            self.script()
        );
        job(&script, &input.trace(self.millis()))
    }
}
