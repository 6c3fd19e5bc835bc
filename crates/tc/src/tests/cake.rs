//! The grammar of tc-cake(8), and what is refused.

use super::*;
use tautline_base::{Drops, Instant, Rate};
use tautline_qdisc::Cake;
use tautline_qdisc::cake::*;

/// The configuration that `tc` would make of `words`.
fn config(words: &str) -> Config {
    match format!("cake {words}").parse() {
        Ok(Kind::Cake(config)) => config,
        other => panic!("{words}: {other:?}"),
    }
}

#[test]
fn defaults_are_those_of_tc() {
    let kind: Kind = "cake".parse().expect("valid");
    assert_eq!(
        kind.to_string(),
        "cake unlimited diffserv3 triple-isolate nonat nowash egress no-ack-filter split-gso rtt 100ms raw mtu 1514b \
         profile design seed 0"
    );
    assert_eq!(config(""), Config::default());
    assert_eq!(config("linux"), Config::linux());
}

#[test]
fn every_word_sets_its_parameter() {
    let words = "bandwidth 20mbit rtt 30ms diffserv8 dual-srchost nat wash no-split-gso ack-filter-aggressive memlimit 32Mb \
                 fwmark 0xff00 ptm overhead -12 mpu 64 ingress mtu 9014 profile linux seed 7 perturbation 0x2a";
    let expected = Config {
        bandwidth: Bandwidth::Shaped(Rate::mbit(20)),
        tins: Tins::Diffserv8,
        isolation: Isolation::DualSrcHost,
        nat: true,
        wash: true,
        ingress: true,
        ack_filter: AckFilter::Aggressive,
        split_gso: false,
        rtt: Duration::from_millis(30),
        overhead: Overhead {
            bytes: Some(-12),
            mpu: 64,
            framing: Framing::Ptm,
            ..Overhead::default()
        },
        memory_limit: Some(Bytes::mib(32)),
        fwmark: 0xff00,
        mtu: Bytes::new(9014),
        profile: Profile::Linux,
        seed: 7,
        perturbation: Some(42),
    };
    assert_eq!(config(words), expected);
    let back = format!(
        "{words} unlimited internet diffserv3 triple-isolate nonat nowash split-gso no-ack-filter memlimit 0 fwmark 0 raw mpu 0 \
         egress mtu 1514 profile design seed 0 perturbation 0"
    );
    let perturbation = Some(0);
    assert_eq!(
        config(&back),
        Config {
            perturbation,
            ..Config::default()
        }
    );
}

#[test]
fn every_name_of_tc_is_known() {
    for (word, rtt) in [
        ("datacentre", Duration::from_micros(100)),
        ("lan", Duration::from_millis(1)),
        ("metro", Duration::from_millis(10)),
        ("regional", Duration::from_millis(30)),
        ("internet", Duration::from_millis(100)),
        ("oceanic", Duration::from_millis(300)),
        ("satellite", Duration::from_secs(1)),
        ("interplanetary", Duration::from_secs(1000)),
    ] {
        assert_eq!(config(word).rtt, rtt, "{word}");
    }
    for tins in Tins::ALL {
        assert_eq!(config(tins.name()).tins, tins);
    }
    for isolation in Isolation::ALL {
        assert_eq!(config(isolation.name()).isolation, isolation);
    }
    assert_eq!(config("diffserv").tins, Tins::Diffserv4);
    assert_eq!(
        config("autorate-ingress").bandwidth,
        Bandwidth::AutorateIngress { start: Rate::ZERO }
    );
    let start = Rate::mbit(9);
    assert_eq!(
        config("bandwidth 9mbit autorate-ingress").bandwidth,
        Bandwidth::AutorateIngress { start }
    );
    assert_eq!(
        config("autorate-ingress bandwidth 9mbit").bandwidth,
        Bandwidth::Shaped(start)
    );
    assert_eq!(config("bandwidth 0").bandwidth, Bandwidth::Unlimited);
    assert_eq!(config("ack-filter").ack_filter, AckFilter::On);
    let overhead = |words| config(words).overhead;
    assert_eq!(
        overhead("ethernet ether-vlan ether-vlan"),
        Overhead {
            bytes: Some(46),
            mpu: 84,
            ..Overhead::default()
        }
    );
    for words in [
        "pppoe-ptm ether-vlan",
        "ether-vlan pppoe-ptm",
        "overhead 4 pppoe-ptm",
    ] {
        assert_eq!(overhead(words).bytes, Some(34), "{words}: names add up");
    }
    assert_eq!(overhead("ether-vlan conservative").bytes, Some(48));
    assert_eq!(overhead("atm docsis").framing, Framing::None);
    assert_eq!(
        overhead("pppoe-ptm via-ethernet"),
        Overhead {
            bytes: Some(30),
            framing: Framing::Ptm,
            ..Overhead::default()
        }
    );
    assert_eq!(
        overhead("ether-vlan atm"),
        Overhead {
            bytes: Some(4),
            framing: Framing::Atm,
            ..Overhead::default()
        }
    );
    assert_eq!(overhead("conservative noatm").framing, Framing::None);
    assert_eq!(overhead("conservative raw"), Overhead::default());
    assert_eq!(overhead("mpu 010 ptm mpu 08").mpu, 8, "decimal");
    let raw = Overhead {
        bytes: Some(10),
        raw: true,
        ..Overhead::default()
    };
    assert_eq!(overhead("raw overhead 10"), raw);
    assert_eq!(
        overhead("overhead 10 raw via-ethernet"),
        Overhead::default()
    );
}

#[test]
fn what_is_printed_is_read_again() {
    for words in [
        "",
        "linux",
        "bandwidth 12345678bit besteffort flowblind nat wash ingress ack-filter memlimit 5000 fwmark 0xff mtu 9014",
        "autorate-ingress precedence hosts conservative mpu 64 rtt 1us seed 5",
        "atm raw no-split-gso",
        "raw atm",
        "overhead -64",
        "docsis ether-vlan interplanetary",
    ] {
        let kind: Kind = format!("cake {words}").parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    for (words, message) in [
        ("rtt 0", "cake: `rtt` must be at least 1us, not 0ns"),
        (
            "overhead 257",
            "cake: `overhead` must be from -64 to 256, not 257",
        ),
        (
            "overhead -65",
            "cake: `overhead` must be from -64 to 256, not -65",
        ),
        ("mpu 257", "cake: `mpu` must be from 0 to 256, not 257"),
        ("mtu 63", "cake: `mtu` must be from 64b to 1Mb, not 63b"),
        (
            "fwmark 0x100000000",
            "`0x100000000` is no value for `fwmark`: give a mask of 32 bits, e.g. 0xff",
        ),
        (
            "overhead 1.5",
            "`1.5` is no value for `overhead`: give a number from -64 to 256",
        ),
        (
            "bandwidth fast",
            "`fast` is no value for `bandwidth`: give a rate, e.g. 20mbit, 1gbit",
        ),
    ] {
        let error = build::<Probe>(&format!("cake {words}")).expect_err(words);
        assert_eq!(error.to_string(), message);
    }
    let stopped = Config {
        bandwidth: Bandwidth::Shaped(Rate::ZERO),
        ..Config::default()
    };
    assert_eq!(
        Cake::<Probe>::new(stopped)
            .err()
            .map(|error| error.parameter),
        Some("bandwidth")
    );
    let error = build::<Probe>("cake fq").expect_err("unknown").to_string();
    assert!(
        error.contains("`fq` is no option of cake") && error.contains("ether-vlan"),
        "{error}"
    );
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut queue = Cake::<Probe>::new(config("bandwidth 1mbit perturbation 0")).expect("valid");
    let (mut drops, now) = (Drops::new(), Instant::from_millis(1));
    for words in [
        "bandwidth 2mbit mpu 300",
        "bandwidth 2mbit perturbation 1",
        "bandwidth 2mbit rtt",
    ] {
        queue
            .change(Target::Root, &mut Words::new(words), now, &mut drops)
            .expect_err(words);
        assert_eq!(queue.rate(), Some(Rate::mbit(1)), "{words}");
    }
    queue
        .change(
            Target::Root,
            &mut Words::new("bandwidth 2mbit"),
            now,
            &mut drops,
        )
        .expect("valid");
    assert_eq!(queue.rate(), Some(Rate::mbit(2)));
    queue
        .change(Target::Root, &mut Words::new("unlimited"), now, &mut drops)
        .expect("valid");
    assert_eq!(queue.rate(), None);
}

/// As `tc qdisc show` shows them (iproute2 6.1), and read again.
#[test]
fn overhead_may_be_added_to_raw_lengths() {
    for (words, shown) in [
        ("raw overhead 10", "raw overhead 10"),
        ("raw conservative mpu 64", "raw atm overhead 48 mpu 64"),
        ("mpu 64 raw pppoe-vcmux", "raw atm overhead 32 mpu 64"),
        ("raw docsis", "raw overhead 18 mpu 64"),
        ("raw ether-vlan", "raw overhead 4"),
        ("raw overhead 10 ptm", "raw ptm overhead 10"),
        ("raw atm", "raw atm overhead 0"),
        ("overhead 10", "noatm overhead 10"),
    ] {
        let kind = Kind::Cake(config(words));
        assert_eq!(kind.to_string().parse(), Ok(kind.clone()), "{words}");
        let report = kind.build::<Probe>().expect(words).report().to_string();
        let expected = ["rtt 100ms ", shown, " "].concat();
        assert!(report.contains(&expected), "{words}: {report}");
    }
    let mut queue = build::<Probe>("cake raw overhead 10").expect("valid");
    let mut drops = Drops::new();
    let raw = |text: &str| text.contains("raw overhead 10");
    assert!(raw(&queue.report().to_string()));
    queue
        .change(
            Target::Root,
            &mut Words::new("overhead 10"),
            Instant::ZERO,
            &mut drops,
        )
        .expect("valid");
    assert!(!raw(&queue.report().to_string()), "another command");
}
