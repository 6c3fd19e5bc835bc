//! Whether a packet of several segments leaves at once or waits for the next acknowledgment, which
//! may admit a larger one (Linux `tcp_tso_should_defer`). The round trip is 0.8 ms.

use crate::play;

/// Full segments that leave at once, from number `first` of the stream on.
fn leave(first: u32, count: u32) -> String {
    let segments = (first..first + count).map(|number| format!("> . {number}001(1000) ack 1\n"));
    segments.collect::<String>().replace("> . 0001(", "> . 1(")
}

/// Plays eight segments of what the application does at 1 ms, then the rest, on a device that takes
/// large packets.
fn passes(window: u32, application: &str, rest: &str) -> Result<(), String> {
    let text = format!(
        "# RFC 1122 §4.2.3.4: a sender waits where that makes its packets larger.
0.000 established rtt 800us win {window} <mss 1000>
0.001 {application}
{}{rest}",
        leave(0, 8)
    );
    play("of deferral", &text, true).map(|_| ())
}

#[test]
fn a_packet_waits_while_less_than_a_third_of_the_window_is_free() {
    let rest = format!(
        "{}0.0018 < . 1 ack 1001\n0.0019 < . 1 ack 3001\n{}",
        leave(8, 2),
        leave(10, 6)
    );
    assert_eq!(passes(65535, "send 30000", &rest), Ok(()));
    let with_fin = "send 80000\nshutdown";
    assert_eq!(passes(65535, with_fin, &rest), Ok(()));
}

#[test]
fn the_last_packet_of_a_stream_does_not_wait() {
    let rest = format!("{}0.0018 < . 1 ack 1001\n{}", leave(8, 2), leave(10, 2));
    assert_eq!(passes(65535, "send 13000\nshutdown", &rest), Ok(()));
}

#[test]
fn a_packet_waits_no_longer_than_half_a_round_trip() {
    let opens_at = |at: &str| format!("{at} < . 1 ack 1 win 10000\n");
    let early = opens_at("0.0011") + &leave(8, 2);
    assert_eq!(passes(8_000, "send 30000", &early), Ok(()));
    let late = opens_at("0.0015") + "0.00175 idle\n";
    assert_eq!(passes(8_000, "send 30000", &late), Ok(()));
}
