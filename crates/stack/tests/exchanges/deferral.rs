//! Whether a packet of several segments leaves at once or waits for the next acknowledgment, which
//! may admit a larger one (Linux `tcp_tso_should_defer`). The round trip is 0.8 ms.

use crate::play;

const EIGHT: &str = "
0.001 > . 1(1000) ack 1
> . 1001(1000) ack 1
> . 2001(1000) ack 1
> . 3001(1000) ack 1
> . 4001(1000) ack 1
> . 5001(1000) ack 1
> . 6001(1000) ack 1
> . 7001(1000) ack 1
";
/// The rest of a window of ten segments.
const TWO: &str = "> . 8001(1000) ack 1
> . 9001(1000) ack 1
";

/// Plays eight segments of what the application does at 1 ms, then the rest, on a device that takes
/// large packets.
fn passes(window: u32, application: &str, rest: &str) -> Result<(), String> {
    let text = format!(
        "# RFC 1122 §4.2.3.4: a sender waits where that makes its packets larger.
0.000 established rtt 800us win {window} <mss 1000>
0.001 {application}{EIGHT}{rest}"
    );
    play("of deferral", &text, true).map(|_| ())
}

const SIX_AT_1_9: &str = "
0.0019 < . 1 ack 3001
0.0019 > . 10001(1000) ack 1
> . 11001(1000) ack 1
> . 12001(1000) ack 1
> . 13001(1000) ack 1
> . 14001(1000) ack 1
> . 15001(1000) ack 1
";

#[test]
fn a_packet_waits_while_less_than_a_third_of_the_window_is_free() {
    let rest = format!("{TWO}0.0018 < . 1 ack 1001{SIX_AT_1_9}");
    assert_eq!(passes(65535, "send 30000", &rest), Ok(()));
    let with_fin = "send 80000\nshutdown";
    assert_eq!(passes(65535, with_fin, &rest), Ok(()));
}

#[test]
fn the_last_packet_of_a_stream_does_not_wait() {
    let rest = format!(
        "{TWO}0.0018 < . 1 ack 1001
0.0018 > . 10001(1000) ack 1
> . 11001(1000) ack 1
"
    );
    assert_eq!(passes(65535, "send 13000\nshutdown", &rest), Ok(()));
}

#[test]
fn a_packet_waits_no_longer_than_half_a_round_trip() {
    let opens_at = |at: &str| format!("{at} < . 1 ack 1 win 10000\n");
    let early = opens_at("0.0011") + TWO;
    assert_eq!(passes(8_000, "send 30000", &early), Ok(()));
    let late = opens_at("0.0015") + "0.00175 idle\n";
    assert_eq!(passes(8_000, "send 30000", &late), Ok(()));
}
