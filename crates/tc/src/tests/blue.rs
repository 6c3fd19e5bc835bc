//! Words of `blue`.

use super::*;
use tautline_qdisc::blue::Config;

#[test]
fn words_are_read_and_written() {
    let all = "blue limit 50p threshold 20p d1 0.25 d2 0.025 freeze_time 10ms ecn seed 3";
    let kind: Kind = all.parse().expect(all);
    assert_eq!(kind.to_string(), all);
    let config = Config {
        limit: 50,
        threshold: Some(20),
        d1: 0.25,
        d2: 0.025,
        freeze_time: Duration::from_millis(10),
        ecn: true,
        seed: 3,
    };
    assert_eq!(kind, Kind::Blue(config));
    for words in ["blue", "blue threshold 3 threshold none ecn noecn"] {
        assert_eq!(
            words.parse::<Kind>().expect(words).to_string(),
            "blue limit 1000p d1 0.02 d2 0.002 freeze_time 100ms seed 0"
        );
    }
    for words in [
        "blue d1 2",
        "blue threshold x",
        "blue freeze_time never",
        "blue target 5ms",
    ] {
        assert!(words.parse::<Kind>().is_err(), "{words}");
    }
}
