//! `cake`: the grammar of tc-cake(8).

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use tautline_base::{Bytes, Drops, Instant, Item, Rate};
use tautline_qdisc::Cake;
use tautline_qdisc::cake::{
    AckFilter, Bandwidth, Config, Framing, Isolation, Overhead, PRESETS, Profile, Stats, TinStats,
    Tins,
};
use tautline_qdisc::units;

use crate::discipline::{Change, Inspect, Target, reconfigure_leaf};
use crate::report::{Report, Value};
use crate::words::{NUMBER, Options, ParseError, Part, RATE, SIZE, TIME, Word, Words};

impl Options for Config {
    fn kind(&self) -> &'static str {
        "cake"
    }

    fn help(&self) -> &'static str {
        "bandwidth RATE|unlimited|autorate-ingress, rtt TIME|datacentre|lan|metro|regional|internet|oceanic|satellite|\
         interplanetary, besteffort|diffserv8|diffserv4|diffserv3|precedence, flowblind|srchost|dsthost|hosts|flows|\
         dual-srchost|dual-dsthost|triple-isolate, nat|nonat, wash|nowash, split-gso|no-split-gso, ack-filter|\
         ack-filter-aggressive|no-ack-filter, memlimit SIZE, fwmark MASK, ptm|atm|noatm, overhead N|conservative|raw, mpu N, \
         ingress|egress, ethernet, ether-vlan, docsis, via-ethernet, pppoe-ptm, bridged-ptm, pppoa-vcmux, pppoa-llc, \
         pppoe-vcmux, pppoe-llcsnap, ipoa-vcmux, ipoa-llcsnap, bridged-vcmux, bridged-llcsnap, mtu SIZE, profile design|linux, \
         seed N, perturbation N, linux (all as Linux does)"
    }

    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "bandwidth" => {
                let rate = words.value(option, units::parse_rate, RATE)?;
                self.bandwidth = if rate == Rate::ZERO {
                    Bandwidth::Unlimited
                } else {
                    Bandwidth::Shaped(rate)
                };
            }
            "unlimited" => self.bandwidth = Bandwidth::Unlimited,
            "autorate-ingress" => {
                self.bandwidth = Bandwidth::AutorateIngress {
                    start: self.bandwidth.at_first(),
                }
            }
            "rtt" => self.rtt = words.value(option, units::parse_time, TIME)?,
            "diffserv" => self.tins = Tins::Diffserv4,
            "nat" => self.nat = true,
            "nonat" => self.nat = false,
            "wash" => self.wash = true,
            "nowash" => self.wash = false,
            "ingress" => self.ingress = true,
            "egress" => self.ingress = false,
            "split-gso" => self.split_gso = true,
            "no-split-gso" => self.split_gso = false,
            "memlimit" => {
                let limit = words.value(option, units::parse_size, SIZE)?;
                self.memory_limit = Some(limit).filter(|&limit| limit != Bytes::ZERO);
            }
            "fwmark" => {
                let mask = |text: &str| u32::try_from(units::parse_integer(text)?).ok();
                self.fwmark = words.value(option, mask, "a mask of 32 bits, e.g. 0xff")?;
            }
            "mtu" => self.mtu = words.value(option, units::parse_size, SIZE)?,
            "profile" => self.profile = words.value(option, parse_profile, "design or linux")?,
            "linux" => self.profile = Profile::Linux,
            "seed" => self.seed = words.value(option, units::parse_integer, NUMBER)?,
            "perturbation" => {
                self.perturbation = words.value(option, units::parse_integer, NUMBER)?
            }
            _ => {
                return self
                    .overhead
                    .set(option, words)
                    .map(|known| known || set_name(self, option.text));
            }
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let flag = |name| (name, Value::Flag(true));
        let rate = self.bandwidth.at_first();
        let is_autorate = matches!(self.bandwidth, Bandwidth::AutorateIngress { .. });
        let mut options = vec![];
        if rate > Rate::ZERO {
            options.push(("bandwidth", Value::Rate(rate)));
        } else if !is_autorate {
            options.push(flag("unlimited"));
        }
        if is_autorate {
            options.push(flag("autorate-ingress"));
        }
        options.extend([
            flag(self.tins.name()),
            flag(self.isolation.name()),
            flag(if self.nat { "nat" } else { "nonat" }),
            flag(if self.wash { "wash" } else { "nowash" }),
            flag(if self.ingress { "ingress" } else { "egress" }),
            flag(self.ack_filter.name()),
            flag(if self.split_gso {
                "split-gso"
            } else {
                "no-split-gso"
            }),
            ("rtt", Value::Time(self.rtt)),
        ]);
        options.extend(self.overhead.options());
        if let Some(limit) = self.memory_limit {
            options.push(("memlimit", Value::Size(limit)));
        }
        if self.fwmark != 0 {
            options.push(("fwmark", Value::Word(format!("{:#x}", self.fwmark))));
        }
        options.extend([
            ("mtu", Value::Size(self.mtu)),
            ("profile", Value::Word(self.profile.to_string())),
        ]);
        options.push(("seed", Value::Count(self.seed)));
        options
    }
}

/// Sets what a word says that stands for itself; false if it says nothing.
fn set_name(config: &mut Config, word: &str) -> bool {
    if let Some(tins) = Tins::ALL.into_iter().find(|tins| tins.name() == word) {
        config.tins = tins;
    } else if let Some(isolation) = Isolation::ALL
        .into_iter()
        .find(|isolation| isolation.name() == word)
    {
        config.isolation = isolation;
    } else if let Some((_, rtt)) = PRESETS.into_iter().find(|(name, _)| *name == word) {
        config.rtt = rtt;
    } else if let Some(filter) = ACK_FILTERS.into_iter().find(|filter| filter.name() == word) {
        config.ack_filter = filter;
    } else {
        return false;
    }
    true
}

const ACK_FILTERS: [AckFilter; 3] = [AckFilter::Off, AckFilter::On, AckFilter::Aggressive];

fn parse_profile(text: &str) -> Option<Profile> {
    [Profile::Design, Profile::Linux]
        .into_iter()
        .find(|profile| profile.to_string() == text)
}

impl Part for Overhead {
    fn set(&mut self, option: Word<'_>, words: &mut Words<'_>) -> Result<bool, ParseError> {
        match option.text {
            "overhead" => {
                self.bytes = Some(words.value(
                    option,
                    |text| text.parse().ok(),
                    "a number from -64 to 256",
                )?)
            }
            "mpu" => {
                self.mpu =
                    words.value(option, |text| text.parse().ok(), "a number from 0 to 256")?
            }
            "raw" => {
                *self = Self {
                    mpu: self.mpu,
                    ..Self::default()
                }
            }
            "noatm" => self.framing = Framing::None,
            "atm" => self.framing = Framing::Atm,
            "ptm" => self.framing = Framing::Ptm,
            // May be repeated: one tag each.
            "ether-vlan" => self.bytes = Some(self.bytes.unwrap_or(0).saturating_add(4)),
            // Without meaning in `tc` too, since CAKE looks where the network header begins.
            "via-ethernet" => {}
            keyword => return Ok(self.set_link(keyword)),
        }
        Ok(true)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = Vec::new();
        if self.bytes.is_none() {
            options.push(("raw", Value::Flag(true)));
        }
        if self.bytes.is_some() || self.framing != Framing::None {
            options.push((self.framing.name(), Value::Flag(true)));
        }
        options.extend(
            self.bytes
                .map(|bytes| ("overhead", Value::Signed(bytes.into()))),
        );
        if self.mpu != 0 {
            options.push(("mpu", Value::Count(self.mpu.into())));
        }
        options
    }
}

impl<P: Item> Change<P> for Cake<P> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        reconfigure_leaf(self.config().clone(), target, words, |config| {
            self.reconfigure(config, now, drops)
        })
    }
}

impl<P> Inspect for Cake<P> {
    /// Parameters, memory, sizes, and a class for every tin, the least urgent first.
    fn report(&self) -> Report {
        let Stats {
            overlimits,
            memory_used,
            memory_limit,
            capacity_estimate,
            network_size,
            adjusted_size,
            mean_offset,
        } = self.stats();
        Report {
            kind: "cake",
            options: self.config().options(),
            overlimits,
            counters: vec![
                ("memory_used", Value::Size(memory_used)),
                ("memory_limit", Value::Size(memory_limit)),
                ("capacity_estimate", Value::Rate(capacity_estimate)),
                ("min_network_size", Value::Count(network_size.0.into())),
                ("max_network_size", Value::Count(network_size.1.into())),
                ("min_adj_size", Value::Count(adjusted_size.0.into())),
                ("max_adj_size", Value::Count(adjusted_size.1.into())),
                ("avg_hdr_offset", Value::Count(mean_offset.into())),
            ],
            classes: self.tins().map(tin_report).collect(),
            ..Report::default()
        }
    }
}

fn tin_report(tin: TinStats) -> Report {
    let count = |count: usize| Value::Count(count as u64);
    Report {
        kind: tin.name,
        counters: vec![
            ("thresh", Value::Rate(tin.threshold)),
            ("target", Value::Time(tin.target)),
            ("interval", Value::Time(tin.interval)),
            ("pk_delay", Value::Time(tin.peak_delay)),
            ("av_delay", Value::Time(tin.average_delay)),
            ("sp_delay", Value::Time(tin.base_delay)),
            ("backlog", Value::Size(tin.backlog)),
            ("pkts", Value::Count(tin.packets)),
            ("bytes", Value::Count(tin.bytes.get())),
            ("way_inds", Value::Count(tin.way_hits)),
            ("way_miss", Value::Count(tin.way_misses)),
            ("way_cols", Value::Count(tin.way_collisions)),
            ("drops", Value::Count(tin.drops)),
            ("marks", Value::Count(tin.marks)),
            ("ack_drop", Value::Count(tin.ack_drops)),
            ("sp_flows", count(tin.sparse_flows)),
            ("bk_flows", count(tin.bulk_flows)),
            ("un_flows", count(tin.unresponsive_flows)),
            ("max_len", Value::Count(tin.max_len.get())),
            ("quantum", Value::Count(tin.quantum.into())),
        ],
        ..Report::default()
    }
}
