//! Words of `cobalt`.

use super::*;
use tautline_qdisc::cobalt::{Config, Params, Start};

#[test]
fn words_set_every_parameter_and_print_again() {
    let words = "cobalt limit 7 target 1ms interval 2s mtu_time 3us increment 0.5 decrement 25% blue_threshold 9ms noecn \
                 start linux seed 0x2a";
    let cobalt = Params {
        target: Duration::from_millis(1),
        interval: Duration::from_secs(2),
        mtu_time: Duration::from_micros(3),
        increment: 0.5,
        decrement: 0.25,
        blue_threshold: Some(Duration::from_millis(9)),
        ecn: false,
        start: Start::Linux,
    };
    assert_eq!(
        words.parse(),
        Ok(Kind::Cobalt(Config {
            limit: 7,
            cobalt,
            seed: 42
        }))
    );
    for words in [
        words,
        "cobalt",
        "cobalt linux",
        "cobalt ns3 ecn no_blue_threshold start patient",
    ] {
        let kind: Kind = words.parse().expect(words);
        assert_eq!(kind.to_string().parse(), Ok(kind), "{words}");
    }
    assert_eq!("cobalt linux".parse(), Ok(Kind::Cobalt(Config::linux())));
    assert_eq!("cobalt ns3".parse(), Ok(Kind::Cobalt(Config::ns3())));
}

#[test]
fn values_out_of_range_are_refused() {
    for (words, parameter) in [
        ("cobalt interval 0", "`interval`"),
        ("cobalt increment 2", "`increment`"),
        ("cobalt target 1x", "`target`"),
    ] {
        let error = build::<Probe>(words).expect_err(words).to_string();
        assert!(error.contains(parameter), "{error}");
    }
}
