//! Words of `sfq`.

use super::*;
use tautline_qdisc::Sfq;
use tautline_qdisc::red::Params;
use tautline_qdisc::sfq::{Config, FlowRed};

#[test]
fn words_are_read_and_written() {
    let all = "sfq limit 3000p quantum 3028b depth 100 headdrop flows 512 divisor 16384 perturb 10s redflowlimit 100000b min 8000b max \
               60000b avpkt 1200b burst 30 probability 0.2 gentle ecn harddrop seed 4";
    let kind: Kind = all.parse().expect(all);
    assert_eq!(kind.to_string(), all);
    let Kind::Sfq(config) = kind else {
        panic!("sfq parses")
    };
    let red = Params {
        min: Some(Bytes::new(8000)),
        max: Some(Bytes::new(60_000)),
        avpkt: Bytes::new(1200),
        burst: Some(30),
        probability: 0.2,
        gentle: true,
        ..Params::default()
    };
    let expected = Config {
        limit: 3000,
        quantum: Bytes::new(3028),
        depth: 100,
        headdrop: true,
        flows: 512,
        divisor: 16_384,
        perturb: Some(Duration::from_secs(10)),
        red: Some(FlowRed {
            limit: Bytes::new(100_000),
            red,
            ecn: true,
            harddrop: true,
        }),
        seed: Some(4),
    };
    assert_eq!(config, expected);
    let plain = "sfq limit 127p quantum 1514b depth 127 flows 128 divisor 1024";
    for words in [
        "sfq",
        "sfq perturb 10 headdrop taildrop perturb 0",
        "sfq redflowlimit 10k ecn gentle harddrop redflowlimit 0",
    ] {
        assert_eq!(words.parse::<Kind>().expect(words).to_string(), plain);
    }
    let quiet: Kind =
        "sfq perturb 1500ms redflowlimit 1Mb ecn noecn harddrop noharddrop gentle nogentle"
            .parse()
            .expect("valid");
    assert_eq!(quiet.to_string().parse(), Ok(quiet));
}

#[test]
fn contradictions_are_refused_by_name() {
    for (words, parameter) in [
        ("limit 0", "limit"),
        ("quantum 63", "quantum"),
        ("quantum 2Mb", "quantum"),
        ("depth 0p", "depth"),
        ("depth 128", "depth"),
        ("flows 65409", "flows"),
        ("divisor 1000", "divisor"),
        ("divisor 131072", "divisor"),
        ("perturb 10ms", "perturb"),
        ("ecn", "redflowlimit"),
        ("redflowlimit 2", "min"),
        ("redflowlimit 100000 min 10k max 5k", "max"),
    ] {
        let Kind::Sfq(config) = ["sfq ", words].concat().parse().expect(words) else {
            panic!("sfq parses")
        };
        assert_eq!(
            Sfq::<Probe>::new(config).expect_err(words).parameter,
            parameter
        );
    }
    for words in ["sfq perturb soon", "sfq flows 1/2", "sfq bandwidth 1mbit"] {
        assert!(words.parse::<Kind>().is_err(), "{words}");
    }
}
