//! `cake`: the grammar of tc-cake(8).

use alloc::format;
use alloc::vec;

use tautline_base::{Bytes, Item, Rate};
use tautline_qdisc::Cake;
use tautline_qdisc::cake::{
    AckFilter, Bandwidth, Config, Framing, Isolation, Overhead, PRESETS, Profile, Tins,
};
use tautline_qdisc::units;

use crate::discipline::{Configured, configured};
use crate::report::{Report, Value, tin_report};
use crate::words::parameter::*;
use crate::words::{Expected, Options, Word, Words};

impl Parameters for Config {
    const KIND: &'static str = "cake";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        custom!(
            "bandwidth",
            ["RATE"],
            |config, option, words| {
                config.bandwidth = match words.read(option, &RATE)? {
                    Rate::ZERO => Bandwidth::Unlimited,
                    rate => Bandwidth::Shaped(rate),
                };
            },
            |config| {
                let rate = config.bandwidth.at_first();
                (rate > Rate::ZERO).then_some(("bandwidth", Value::Rate(rate)))
            }
        ),
        switch!(bandwidth, "unlimited" => Bandwidth::Unlimited),
        custom!(
            "autorate-ingress",
            [],
            |config, _option, _words| {
                let start = config.bandwidth.at_first();
                config.bandwidth = Bandwidth::AutorateIngress { start };
            },
            |config| {
                let is_autorate = matches!(config.bandwidth, Bandwidth::AutorateIngress { .. });
                is_autorate.then_some(("autorate-ingress", Value::Flag(true)))
            }
        ),
        switch!(
            tins,
            "besteffort" => Tins::BestEffort,
            "diffserv8" => Tins::Diffserv8,
            "diffserv4" => Tins::Diffserv4,
            "diffserv3" => Tins::Diffserv3,
            "precedence" => Tins::Precedence,
            "diffserv" => Tins::Diffserv4,
        ),
        switch!(
            isolation,
            "flowblind" => Isolation::FlowBlind,
            "srchost" => Isolation::SrcHost,
            "dsthost" => Isolation::DstHost,
            "hosts" => Isolation::Hosts,
            "flows" => Isolation::Flows,
            "dual-srchost" => Isolation::DualSrcHost,
            "dual-dsthost" => Isolation::DualDstHost,
            "triple-isolate" => Isolation::TripleIsolate,
        ),
        switch!(nat, "nat" => true, "nonat" => false),
        switch!(wash, "wash" => true, "nowash" => false),
        switch!(ingress, "ingress" => true, "egress" => false),
        switch!(
            ack_filter,
            "ack-filter" => AckFilter::On,
            "ack-filter-aggressive" => AckFilter::Aggressive,
            "no-ack-filter" => AckFilter::Off,
        ),
        switch!(split_gso, "split-gso" => true, "no-split-gso" => false),
        // Zero is refused: `tc` takes it for a target of 1 us and leaves the interval.
        value!("rtt", TIME, rtt),
        custom!(
            "datacentre"
                | "lan"
                | "metro"
                | "regional"
                | "internet"
                | "oceanic"
                | "satellite"
                | "interplanetary",
            [],
            |config, option, _words| {
                let named = PRESETS.into_iter().find(|(name, _)| *name == option.text);
                config.rtt = named.map_or(config.rtt, |(_, rtt)| rtt);
            },
            |_| None
        ),
        part!(overhead: Overhead),
        custom!(
            "memlimit",
            ["SIZE"],
            |config, option, words| {
                let limit = words.read(option, &SIZE)?;
                config.memory_limit = (limit > Bytes::ZERO).then_some(limit);
            },
            |config| Some(("memlimit", Value::Size(config.memory_limit?)))
        ),
        changed!("fwmark", MASK, fwmark),
        value!("mtu", SIZE, mtu),
        choice!("profile", profile, "design" => Profile::Design, "linux" => Profile::Linux),
        value!("seed", INTEGER, seed),
        secret!("perturbation", INTEGER, perturbation),
        preset!("linux", "(all as Linux does)", |config| config.profile =
            Profile::Linux),
    ];
}

const MASK: Syntax<u32> = Syntax {
    name: "MASK",
    expected: Expected::Text("a mask of 32 bits, e.g. 0xff"),
    parse: |text| u32::try_from(units::parse_c_integer(text)?).ok(),
    show: |mask| Value::Word(format!("{mask:#x}")),
};

impl Parameters for Overhead {
    const KIND: &'static str = "cake";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        custom!(
            "raw",
            [],
            |overhead, _option, _words| {
                let mpu = overhead.mpu;
                *overhead = Self {
                    mpu,
                    ..Self::default()
                };
            },
            |overhead| {
                let raw = overhead.bytes.is_none() || overhead.raw;
                raw.then_some(("raw", Value::Flag(true)))
            }
        ),
        custom!(
            "noatm" | "atm" | "ptm",
            [],
            |overhead, option, _words| {
                overhead.framing = match option.text {
                    "atm" => Framing::Atm,
                    "ptm" => Framing::Ptm,
                    _ => Framing::None,
                };
            },
            |overhead| {
                let cooked = overhead.bytes.is_some() && !overhead.raw;
                let shown = cooked || overhead.framing != Framing::None;
                shown.then_some((overhead.framing.name(), Value::Flag(true)))
            }
        ),
        custom!(
            "overhead",
            ["N"],
            |overhead, option, words| {
                overhead.bytes = Some(words.read(option, &OVERHEAD)?);
                overhead.raw = is_after_raw(option, words);
            },
            |overhead| Some(("overhead", (OVERHEAD.show)(overhead.bytes.as_ref()?)))
        ),
        changed!("mpu", MPU, mpu),
        // Repeated, it counts one tag each.
        custom!(
            "ether-vlan",
            [],
            |overhead, option, words| {
                let before = bytes_so_far(overhead, option, words);
                overhead.bytes = Some(before.saturating_add(VLAN_TAG));
                overhead.raw = is_after_raw(option, words);
            },
            |_| None
        ),
        // `via-ethernet` has no effect, as in `tc`: CAKE locates the network header itself.
        custom!(
            "ethernet"
                | "docsis"
                | "conservative"
                | "pppoe-ptm"
                | "bridged-ptm"
                | "pppoa-vcmux"
                | "pppoa-llc"
                | "pppoe-vcmux"
                | "pppoe-llcsnap"
                | "ipoa-vcmux"
                | "ipoa-llcsnap"
                | "bridged-vcmux"
                | "bridged-llcsnap"
                | "via-ethernet",
            [],
            |overhead, option, words| {
                let before = bytes_so_far(overhead, option, words);
                if overhead.set_link(option.text) {
                    overhead.raw = is_after_raw(option, words);
                    let alone = option.text == "conservative";
                    let added = |bytes: i16| bytes.saturating_add(if alone { 0 } else { before });
                    overhead.bytes = overhead.bytes.map(added);
                }
            },
            |_| None
        ),
    ];
}

const VLAN_TAG: i16 = 4;

/// The overhead that earlier words of this command give. The names of links and of tags add up in
/// any order; what an earlier command gave is replaced.
fn bytes_so_far(overhead: &Overhead, option: Word<'_>, words: &Words<'_>) -> i16 {
    let gives = |word: Word<'_>| {
        matches!(word.text, "ether-vlan" | "overhead") || Overhead::of_link(word.text).is_some()
    };
    let given = overhead.bytes.filter(|_| words.before(option).any(gives));
    given.unwrap_or(0)
}

/// Whether `raw` is among the earlier words of this command: bytes are then added to the length with
/// the link header (`TCA_CAKE_RAW`, tc-cake(8)).
fn is_after_raw(option: Word<'_>, words: &Words<'_>) -> bool {
    words.before(option).any(|word| word.text == "raw")
}

const OVERHEAD: Syntax<i16> = Syntax {
    name: "N",
    expected: Expected::Text("a number from -64 to 256"),
    parse: |text| text.parse().ok(),
    show: |bytes| Value::Signed((*bytes).into()),
};

const MPU: Syntax<u16> = Syntax {
    expected: Expected::Text("a number from 0 to 256"),
    ..decimal()
};

impl<P: Item> Configured for Cake<P> {
    configured!(Config, |cake, config, now, drops| cake
        .reconfigure(config, now, drops));

    /// Memory, sizes, and a class for every tin, the least urgent first.
    fn details(&self) -> Report {
        let stats = self.stats();
        Report {
            overlimits: stats.overlimits,
            counters: vec![
                ("memory_used", Value::Size(stats.memory_used)),
                ("memory_limit", Value::Size(stats.memory_limit)),
                ("capacity_estimate", Value::Rate(stats.capacity_estimate)),
                (
                    "min_network_size",
                    Value::Count(stats.network_size.0.into()),
                ),
                (
                    "max_network_size",
                    Value::Count(stats.network_size.1.into()),
                ),
                ("min_adj_size", Value::Count(stats.adjusted_size.0.into())),
                ("max_adj_size", Value::Count(stats.adjusted_size.1.into())),
                ("avg_hdr_offset", Value::Count(stats.mean_offset.into())),
            ],
            classes: self.tins().map(|tin| tin_report(&tin)).collect(),
            ..Report::default()
        }
    }
}
