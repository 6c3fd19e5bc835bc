//! Words of `fq`.

use super::*;
use tautline_qdisc::fq::{Config, Priorities, Weighted};

/// As `tc` of iproute2 6.1 reads them.
#[test]
fn integers_may_be_octal_or_hexadecimal() {
    for (words, same) in [
        ("fq quantum 02000", "fq quantum 1024"),
        ("fq initial_quantum 0X400", "fq initial_quantum 1Kb"),
        ("fq orphan_mask 0777", "fq orphan_mask 511"),
        ("fq_codel quantum 0400", "fq_codel quantum 256b"),
        ("pie alpha 0x10 beta 010", "pie alpha 16 beta 8"),
        ("fq_pie alpha 1.5 beta 020", "fq_pie alpha 1.5 beta 16"),
        ("sfq perturb 0x10", "sfq perturb 16"),
        ("sfq perturb 010", "sfq perturb 8s"),
        ("cake fwmark 0400", "cake fwmark 0x100"),
    ] {
        let [read, expected] = [words, same].map(|words| words.parse::<Kind>().expect(words));
        assert_eq!(read, expected, "{words}");
    }
}

#[test]
fn words_set_every_parameter_and_come_back() {
    let words = "fq limit 5p flow_limit 6p buckets 7 orphan_mask 8 bands 3 priomap 0 1 2 0 1 2 0 1 2 0 1 2 0 1 2 0 weights 16384 \
                 20000 30000 nopacing quantum 300b initial_quantum 400b maxrate 5Mbit low_rate_threshold 6Kbit refill_delay 7ms \
                 timer_slack 8us offload_horizon 9us horizon 1s horizon_cap ce_threshold 2ms";
    let kind: Kind = words.parse().expect("valid");
    assert_eq!(kind.to_string(), words);
    let Kind::Fq(config) = &kind else {
        panic!("fq")
    };
    let Priorities::Bands(Weighted { priomap, weights }) = &config.priorities else {
        panic!("bands")
    };
    assert_eq!(
        (priomap[15], weights[2], config.offload_horizon),
        (0, Bytes::new(30_000), Duration::from_micros(9))
    );
    let default = "fq limit 10000p flow_limit 100p buckets 1024 orphan_mask none bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 \
                   weights 589824 196608 65536 quantum 3028b initial_quantum 15140b low_rate_threshold 550Kbit refill_delay 40ms \
                   timer_slack 10us offload_horizon 0ns horizon 10s horizon_drop";
    assert_eq!("fq".parse::<Kind>().expect("valid").to_string(), default);
    assert_eq!("fq linux".parse(), Ok(Kind::Fq(Config::linux())));
    for words in [
        "fq linux",
        "fq linux orphan_mask none horizon_cap",
        "fq nopacing pacing maxrate 1mbit maxrate unlimited",
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
    for words in [
        "fq bands 4",
        "fq priomap 1 2",
        "fq weights 1 2 x",
        "fq orphan_mask 4294967296",
        "fq maxrate none",
    ] {
        words.parse::<Kind>().expect_err(words);
    }
}

/// iproute2 reads these with `get_time64`, the others of `fq` with `get_time`. `delay` and jitter of
/// netem are such times since `TCA_NETEM_LATENCY64` is set (March 2024).
#[test]
fn a_bare_number_counts_nanoseconds_where_tc_says_so() {
    for (words, shown) in [
        ("fq timer_slack 100", "timer_slack 100ns"),
        ("fq timer_slack 10us", "timer_slack 10us"),
        ("fq horizon 100", "horizon 100us"),
        ("netem slot 100 200", "slot 100ns 200ns"),
        ("fq offload_horizon 100", "offload_horizon 100us"),
        ("netem delay 100", "delay 100ns"),
        ("netem delay 100us 20 5%", "delay 100us 20ns 5%"),
    ] {
        let tree: Tree = words.parse().expect(words);
        let text = std::format!("{tree}");
        assert!(text.contains(shown), "{words}: {text}");
    }
}
