//! One network interface: driver, queues, offloads that falsify measurements, XDP programs, and the
//! modes in which AF_XDP binds to it.

use super::{Finding, Machine, output_of};

/// Offloads that make packets of several segments or leave checksums unfinished.
const OFFLOADS: [&str; 5] = [
    "tx-checksumming",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
];

/// Findings about the interface `name`.
pub(super) fn examine(machine: &Machine, name: &str) -> Vec<Finding> {
    let subject = format!("interface {name}");
    let directory = format!("sys/class/net/{name}");
    let Some(mtu) = machine.read(&format!("{directory}/mtu")) else {
        return vec![Finding::missing(
            subject,
            "does not exist",
            "`ip link` lists the interfaces",
        )];
    };
    let queues = machine.list(&format!("{directory}/queues"));
    let count = |kind: &str| {
        queues
            .iter()
            .filter(|queue| queue.starts_with(kind))
            .count()
    };
    let receive = count("rx-");
    let driver = output_of("ethtool", &["-i", name])
        .ok()
        .and_then(|text| Some(text.lines().next()?.strip_prefix("driver: ")?.to_owned()))
        .unwrap_or_else(|| "unknown".into());
    let mut findings = vec![Finding::ok(
        &*subject,
        format!(
            "driver {driver}, MTU {mtu}, {receive} receive and {} transmit queues, {}",
            count("tx-"),
            machine
                .read(&format!("{directory}/operstate"))
                .unwrap_or_default(),
        ),
    )];
    if receive > 1 {
        findings.push(Finding::note(
            &*subject,
            format!("{receive} receive queues, each with an AF_XDP socket and packet buffers"),
            format!("`ethtool -L {name} combined 1` leads all to one"),
        ));
    }
    findings.extend(vlans(machine, &subject, &directory));
    findings.push(offloads(&subject, name, &driver));
    findings.extend(programs(&subject, name));
    findings
}

/// Frames with a VLAN tag reach the kernel's interface of that VLAN only.
fn vlans(machine: &Machine, subject: &str, directory: &str) -> Option<Finding> {
    let uppers = machine.list(directory);
    let vlans = uppers.iter().filter_map(|link| {
        let upper = link.strip_prefix("upper_")?;
        let event = machine.read(&format!("sys/class/net/{upper}/uevent"))?;
        event.contains("DEVTYPE=vlan").then_some(upper)
    });
    let vlans: Vec<_> = vlans.collect();
    (!vlans.is_empty()).then(|| {
        Finding::note(
            subject,
            "it carries VLANs: --device packet drops frames with a tag",
            format!("for one of them --iface {}", vlans.join(" or ")),
        )
    })
}

fn offloads(subject: &str, name: &str, driver: &str) -> Finding {
    let text = match output_of("ethtool", &["-k", name]) {
        Ok(text) => text,
        Err(error) => {
            return Finding::note(
                subject,
                format!("offloads are unknown: ethtool: {error}"),
                "install ethtool",
            );
        }
    };
    let on = enabled(&text);
    if on.is_empty() {
        Finding::ok(subject, "no offloads that falsify measurements")
    } else if driver == "veth" {
        Finding::note(
            subject,
            format!(
                "{} on: a kernel peer's packets have unfinished checksums and 64 KiB",
                on.join(", ")
            ),
            format!(
                "--device packet takes them as they are; for AF_XDP `ethtool -K {name} tx off tso off gso off gro off` at both ends"
            ),
        )
    } else {
        Finding::note(
            subject,
            format!("{} on: captures show merged packets", on.join(", ")),
            format!("`ethtool -K {name} tso off gso off gro off` where single packets matter"),
        )
    }
}

/// The offloads that `ethtool -k` says are on.
fn enabled(text: &str) -> Vec<&'static str> {
    let is_on = |name: &&str| {
        text.lines().any(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(": on"))
        })
    };
    OFFLOADS.into_iter().filter(is_on).collect()
}

fn programs(subject: &str, name: &str) -> Option<Finding> {
    let text = output_of("ip", &["-j", "link", "show", "dev", name]).ok()?;
    let links: serde_json::Value = serde_json::from_str(&text).ok()?;
    let program = &links[0]["xdp"];
    (!program.is_null()).then(|| {
        Finding::note(
            subject,
            format!(
                "XDP program {} is attached, and only one fits",
                program["prog"]["id"]
            ),
            format!(
                "--device packet works beside it; for AF_XDP stop its owner, or `ip link set {name} xdp off`"
            ),
        )
    })
}

/// The outcome of binding an AF_XDP socket with copies and without.
#[cfg(feature = "af-xdp")]
pub(super) fn bind(name: &str) -> Vec<Finding> {
    use std::net::Ipv4Addr;

    use tautline_xdp_io::{Bind, Config, Take, XdpDevice};

    let subject = format!("interface {name}");
    let attempt = |(bind, mode): (Bind, &str)| {
        // A documentation address (RFC 5737), so that no real packets are taken.
        let take = Take::Addresses(vec![Ipv4Addr::new(192, 0, 2, 1).into()]);
        let interface = name.to_owned();
        let opened = XdpDevice::open(Config {
            interface,
            take,
            bind,
            ..Config::default()
        });
        match opened {
            Ok((device, _)) => Finding::ok(
                &*subject,
                format!("AF_XDP binds, {mode}: {}", device.mode()),
            ),
            Err(error) => {
                let fact = format!("AF_XDP does not bind, {mode}: {error}");
                let remedy = "--device packet works on every interface";
                match bind {
                    // Every driver that binds copies.
                    Bind::Copy => Finding::missing(&*subject, fact, remedy),
                    _ => Finding::note(&*subject, fact, remedy),
                }
            }
        }
    };
    [(Bind::Copy, "copy"), (Bind::ZeroCopy, "zero copy")]
        .map(attempt)
        .into()
}

/// Without AF_XDP there is nothing to bind.
#[cfg(not(feature = "af-xdp"))]
pub(super) fn bind(name: &str) -> Vec<Finding> {
    vec![Finding::missing(
        format!("interface {name}"),
        "this program was built without AF_XDP, --bind tries nothing",
        "`cargo install --path crates/cli --features af-xdp`",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_are_those_that_are_on() {
        let text = "Features for eth0:\nrx-checksumming: on\ntx-checksumming: on\n\ttx-checksum-ipv4: off\n\
                    tcp-segmentation-offload: off [fixed]\ngeneric-receive-offload: on\n";
        assert_eq!(
            enabled(text),
            ["tx-checksumming", "generic-receive-offload"]
        );
    }
}
