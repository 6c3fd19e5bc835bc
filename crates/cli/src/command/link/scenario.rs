//! [`Scenario`]: the words of the QUIC network simulator
//! (<https://github.com/quic-interop/quic-network-simulator>, `sim/scenarios`), as in
//! `simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25`.
//!
//! The client is COMMAND, the server the far end.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::args::Times;
use crate::path::{Blackhole, PathConfig};

/// The paths up and down of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scenario {
    pub(super) up: PathConfig,
    pub(super) down: PathConfig,
}

/// Properties that a scenario may have, besides those of every one.
const SCENARIOS: [(&str, &[&str]); 4] = [
    ("simple-p2p", &[]),
    (
        "drop-rate",
        &[
            "rate_to_client",
            "burst_to_client",
            "rate_to_server",
            "burst_to_server",
        ],
    ),
    ("corrupt-rate", &["rate_to_client", "rate_to_server"]),
    ("blackhole", &["on", "off", "repeat"]),
];
/// Properties of every scenario.
const COMMON: [&str; 3] = ["delay", "bandwidth", "queue"];

/// The properties of a scenario that are not yet used.
struct Properties(BTreeMap<String, String>);

impl Properties {
    fn optional<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.0.remove(name) else {
            return Ok(None);
        };
        let parsed = value.parse();
        parsed
            .map(Some)
            .map_err(|_| format!("`--{name}={value}` is out of range or lacks its unit"))
    }

    fn required<T: FromStr>(&mut self, name: &str) -> Result<T, String> {
        self.optional(name)?
            .ok_or_else(|| format!("`--{name}=` is missing"))
    }

    /// A share in percent; none if absent.
    fn share(&mut self, name: &str) -> Result<f64, String> {
        let share: f64 = self.optional(name)?.unwrap_or_default();
        let range = 0.0..=100.0;
        let share = range.contains(&share).then_some(share);
        share.ok_or_else(|| format!("`--{name}` is a number from 0 to 100"))
    }
}

/// A rate with ns-3's units: `10Mbps` is 10 Mbit/s.
struct Bandwidth {
    bits_per_s: u64,
}

impl FromStr for Bandwidth {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let units = [
            ("Gbps", 1e9),
            ("Mbps", 1e6),
            ("kbps", 1e3),
            ("Kbps", 1e3),
            ("bps", 1.0),
        ];
        let found = units.into_iter().find_map(|(unit, worth)| {
            let digits = text.strip_suffix(unit)?;
            digits.parse::<f64>().ok().map(|number| number * worth)
        });
        // Less than a packet in ten seconds is a mistake, more than tc can say too.
        let bits = found.filter(|bits| (1_000.0..=1e12).contains(bits));
        let bits_per_s = bits.ok_or(())? as u64;
        Ok(Self { bits_per_s })
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let Some((_, own)) = SCENARIOS.into_iter().find(|(known, _)| *known == name) else {
            let names = SCENARIOS.map(|(name, _)| name).join(", ");
            return Err(format!("`{name}` is not supported; these are: {names}"));
        };
        let mut properties = Properties(BTreeMap::new());
        for word in words {
            let pair = word
                .strip_prefix("--")
                .and_then(|word| word.split_once('='));
            let (property, value) = pair.ok_or_else(|| format!("`{word}` is not --NAME=VALUE"))?;
            // As ns-3 knows them, with a hyphen too.
            let property = property.replace('-', "_");
            if !COMMON.iter().chain(own).any(|known| *known == property) {
                return Err(format!("{name} has no `--{property}`"));
            }
            properties.0.insert(property, value.to_owned());
        }
        let (up, down) = paths(&mut properties, name == "corrupt-rate")?;
        Ok(Self { up, down })
    }
}

/// The paths up and down. In `corrupt-rate` the rates are of bit errors, in the others of losses.
fn paths(
    properties: &mut Properties,
    is_corrupted: bool,
) -> Result<(PathConfig, PathConfig), String> {
    let delay: Times = properties.required("delay")?;
    let Bandwidth { bits_per_s } = properties.required("bandwidth")?;
    let queue: u32 = properties.required("queue")?;
    let blackhole = match properties.optional::<Times>("on")? {
        Some(on) => Some(Blackhole {
            on: on.0,
            off: properties.required::<Times>("off")?.0,
            repeat: properties.optional("repeat")?.unwrap_or(1),
        }),
        None => None,
    };
    let path = |rate: f64, burst: Option<u32>| PathConfig {
        // ns-3's device queue; the burst is one packet of the largest size.
        queue: format!("tbf rate {bits_per_s}bit burst 1600 latency 1s; pfifo limit {queue}"),
        delay: delay.0,
        loss: if is_corrupted { 0.0 } else { rate },
        loss_burst: burst,
        corrupt: if is_corrupted { rate } else { 0.0 },
        blackhole,
        ..PathConfig::default()
    };
    let to_client = (
        properties.share("rate_to_client")?,
        properties.optional("burst_to_client")?,
    );
    let to_server = (
        properties.share("rate_to_server")?,
        properties.optional("burst_to_server")?,
    );
    Ok((
        path(to_server.0, to_server.1),
        path(to_client.0, to_client.1),
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_simulators_examples_build() {
        let link = "--delay=15ms --bandwidth=10Mbps --queue=25";
        let parse = |words: String| words.parse::<Scenario>();
        let simple = parse(format!("simple-p2p {link}")).expect("known");
        assert_eq!(
            simple.up.queue,
            "tbf rate 10000000bit burst 1600 latency 1s; pfifo limit 25"
        );
        assert_eq!(
            (simple.up.delay, &simple.up),
            (Duration::from_millis(15), &simple.down)
        );
        let rates = "--rate_to_client=10 --rate_to_server=20";
        let drop = format!("drop-rate {link} {rates} --burst_to_client=3 --burst_to_server=4");
        let drop = parse(drop).expect("known");
        assert_eq!((drop.down.loss, drop.down.loss_burst), (10.0, Some(3)));
        assert_eq!(
            (drop.up.loss, drop.up.loss_burst, drop.up.corrupt),
            (20.0, Some(4), 0.0)
        );
        let single = parse(format!("drop-rate {link} {rates}")).expect("known");
        assert_eq!(
            (
                single.down.loss,
                single.down.loss_burst,
                single.down.corrupt
            ),
            (10.0, None, 0.0)
        );
        let corrupt = parse(format!("corrupt-rate {link} {rates}")).expect("known");
        assert_eq!(
            (corrupt.down.corrupt, corrupt.up.corrupt, corrupt.up.loss),
            (10.0, 20.0, 0.0)
        );
        let hole = parse(format!("blackhole {link} --on=10s --off=2s")).expect("known");
        let expected = Blackhole {
            on: Duration::from_secs(10),
            off: Duration::from_secs(2),
            repeat: 1,
        };
        assert_eq!(hole.up.blackhole, Some(expected));
        for path in [simple.up, drop.up, corrupt.down, hole.down] {
            path.build::<tautline_base::Packet<()>>()
                .expect("tc's words");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (words, part) in [
            ("rebind --delay=15ms", "`rebind` is not supported"),
            (
                "simple-p2p --delay=15 --bandwidth=10Mbps --queue=25",
                "`--delay=15`",
            ),
            (
                "simple-p2p --delay=15ms --bandwidth=10Mbps",
                "`--queue=` is missing",
            ),
            (
                "simple-p2p --delay=15ms --bandwidth=10mbit --queue=25",
                "`--bandwidth=10mbit`",
            ),
            ("simple-p2p --on=1s", "simple-p2p has no `--on`"),
            (
                "drop-rate --delay=1ms --bandwidth=1Mbps --queue=9 --rate_to_client=101",
                "0 to 100",
            ),
            ("simple-p2p 15ms", "--NAME=VALUE"),
        ] {
            let error = words.parse::<Scenario>().expect_err(words);
            assert!(error.contains(part), "{words}: {error}");
        }
    }
}
