//! Reassembly, window and acknowledgments of one receiver.

mod compression;

use super::*;
use proptest::prelude::*;
use tautline_base::KeptPacket;

const NOW: Instant = Instant::from_secs(2);
const LATER: Instant = Instant::from_secs(9);
const WAIT: Wait = Wait {
    deadline: LATER,
    soon: NOW,
};
const BOUNDS: Bounds = Bounds {
    least: Duration::ZERO,
    most: Duration::ZERO,
    srtt: Duration::ZERO,
    rto: Duration::ZERO,
    tick: Duration::ZERO,
    silence: None,
};

impl Receiver {
    fn read(&mut self, out: &mut [u8]) -> usize {
        let count = self.peek(out);
        self.consume(count, NOW);
        count
    }
}

/// Merged segments count as the segments they are: the unit of acknowledgments and windows
/// stays one of them, and one acknowledgment answers for all.
#[test]
fn segments_that_come_as_one_are_acknowledged_once() {
    let mut receiver = receiver(1 << 20);
    receiver.acks.quick = 0;
    for (len, owed) in [
        (1000, Acknowledgment::By(LATER)),
        (10_000, Acknowledgment::Now),
        (999, Acknowledgment::By(LATER)),
    ] {
        receiver.accept(
            receiver.next(),
            merged(&vec![7; len], 1000.min(len as u64)),
            false,
            (WAIT, None),
        );
        assert_eq!(
            (receiver.window.peer_segment, receiver.acks.owed()),
            (1000, owed),
            "{len}"
        );
        if owed == Acknowledgment::Now {
            receiver.acknowledged();
        }
    }
}

/// Linux `tcp_event_data_recv`: sixteen segments from the first data on are acknowledged at once,
/// and again after a silence; else the SYN-ACK is one of the sixteen.
#[test]
fn quick_acknowledgments_are_counted_from_the_data() {
    let at = Instant::from_millis;
    for (silence, first, again) in [(None, 15, 0), (Some(Duration::from_millis(300)), 16, 16)] {
        let mut receiver = receiver(1 << 20);
        receiver.acknowledged();
        let bounds = Bounds { silence, ..BOUNDS };
        let mut quick = |begin: u64| {
            let segments = (begin..).take_while(|number| {
                receiver.note_payload((1, 500), bounds, at(number * 10));
                receiver.window.size = 1 << 20;
                receiver.accept(receiver.next(), whole(&[7; 500]), false, (WAIT, None));
                let owed = receiver.acks.owed();
                receiver.acknowledged();
                owed == Acknowledgment::Now
            });
            segments.count()
        };
        assert_eq!(quick(0), first, "{silence:?}");
        assert_eq!(quick(1000), again, "{silence:?}");
    }
}

/// Linux compares two readings of jiffies with a timeout in jiffies (`tcp_event_data_recv`): a gap of 310.3 ms that begins
/// 0.5 ms after a tick is 31, no more than the timeout.
#[test]
fn a_silence_is_counted_in_ticks() {
    let at = |micros: u64| Instant::from_nanos(micros * 1000);
    for (tick, is_silence) in [(0, true), (10, false)] {
        let mut receiver = receiver(1 << 20);
        let bounds = Bounds {
            silence: Some(Duration::from_millis(310)),
            tick: Duration::from_millis(tick),
            ..BOUNDS
        };
        receiver.note_payload((1, 500), bounds, at(500));
        receiver.acks.quick = 0;
        receiver.note_payload((1, 500), bounds, at(310_800));
        assert_eq!(receiver.acks.quick > 0, is_silence, "ticks of {tick} ms");
    }
}

/// Linux `tcp_incr_quickack`: half of the offered window, sixteen segments at most.
#[test]
fn a_small_window_gets_fewer_quick_acknowledgments() {
    for (window, quick) in [
        (1000, 2),
        (2500, 1),
        (10_000, 5),
        (32_000, 16),
        (60_000, 16),
    ] {
        let mut receiver = receiver(window);
        receiver.acks.quick = 0;
        receiver.acknowledge_quickly(1000);
        assert_eq!(receiver.acks.quick, quick, "{window} bytes");
    }
}

/// Linux `__tcp_ack_snd_check` and `tcp_cleanup_rbuf`: four segments that arrive before the application
/// reads are acknowledged when it does, where they narrow the window; else every second one.
/// Each range of data out of order is a buffer, one of more than seventeen segments is several
/// (`MAX_SKB_FRAGS`), and unread data are at least one.
#[test]
fn half_the_memory_of_buffers_is_taken_off() {
    let mut receiver = Receiver::new(100_000, 100_000).charging(50, 400);
    receiver.synchronized();
    receiver.advertise(0, None);
    receiver.window.peer_segment = 1000;
    let mut charged = |offset: u64, segments: usize| {
        for segment in 0..segments as u64 {
            let data = whole(&[7; 1000]);
            receiver.accept(offset + segment * 1000, data, false, (WAIT, None));
        }
        receiver.charged().expect("memory is charged").bytes
    };
    assert_eq!(charged(1, 0), 0);
    assert_eq!(charged(1, 1), 700);
    assert_eq!(charged(3001, 17), 700 + 8700);
    assert_eq!(charged(20_001, 1), 700 + 9400);
    assert_eq!(charged(30_001, 1), 700 + 9400 + 700);
}

/// A receiver as Linux has it after the handshake and the first message of iperf3: 131 072 bytes of memory, windows in
/// units of 128 bytes, segments of 1448.
fn linux_receiver() -> Receiver {
    let mut receiver = Receiver::new(65_536, 3_048_576)
        .charging(50, 1280)
        .offering(7);
    receiver.agreed(7, 1448);
    receiver.synchronized();
    receiver.advertise(0, None);
    receiver.accept(1, whole(&[7; 37]), false, (WAIT, None));
    receiver.consume(37, NOW);
    receiver.advertise(7, None);
    receiver.acknowledged();
    receiver
}

/// The windows, in units, of Linux 6.1 in a capture: a segment of the first buffer is kept from the window
/// (`tcp_init_buffer_space`), unread segments take half their memory, and each window is rounded up, but
/// the edge stays (`__tcp_select_window`, `tcp_select_window`).
#[test]
fn windows_are_those_of_a_capture() {
    let mut receiver = linux_receiver();
    let mut windows = [0; 10];
    for window in &mut windows {
        let next = receiver.next();
        receiver.accept(next, whole(&[7; 1448]), false, (WAIT, None));
        *window = u32::from(receiver.advertise(7, None)) * 128;
    }
    let captured = [
        64_128, 63_488, 62_848, 62_080, 61_312, 60_672, 59_904, 59_136, 58_496,
    ];
    assert_eq!(windows[..9], captured);
    receiver.consume(10 * 1448, NOW);
    assert_eq!(receiver.advertise(7, None), 501, "64 088 bytes, rounded up");
    for _ in 0..20 {
        receiver.accept(receiver.next(), whole(&[7; 1448]), false, (WAIT, None));
        receiver.consume(1448, NOW);
        assert_eq!(receiver.advertise(7, None), 501, "nothing opens it");
    }
}

/// The segment that arrives has taken its memory when the window opens (`tcp_grow_window`): of a buffer that grows to
/// 65 700 bytes it offers 64 336, rounded up to 64 384, as in a capture.
#[test]
fn the_window_opens_beside_the_segment_that_arrives() {
    for is_expected in [false, true] {
        let mut receiver = linux_receiver();
        receiver.accept(receiver.next(), whole(&[7; 1448]), false, (WAIT, None));
        receiver.consume(1448, NOW);
        receiver.window.capacity = 65_700;
        receiver.window.reserve(0);
        for _ in 0..3 {
            if is_expected {
                receiver.accept_next(whole(&[7; 1448]), WAIT);
            } else {
                receiver.accept(receiver.next(), whole(&[7; 1448]), false, (WAIT, None));
            }
            receiver.consume(1448, NOW);
            let window = u32::from(receiver.advertise(7, None)) * 128;
            assert_eq!(window, 64_384, "{is_expected}");
        }
    }
}

/// Linux `__tcp_select_window`: with less than half of the buffer free nothing is acknowledged quickly, and the
/// window is rounded down; with less than a sixteenth it offers nothing beyond its promises.
#[test]
fn a_crowded_buffer_offers_less_and_acknowledges_no_more_at_once() {
    let mut receiver = Receiver::new(64_000, 64_000).charging(100, 0).offering(7);
    receiver.agreed(7, 1000);
    receiver.synchronized();
    receiver.advertise(0, None);
    for (segments, quick, offer) in [
        (32, 9, 32_000),
        (1, 0, 30_976),
        (27, 0, 4000 / 128 * 128),
        (1, 0, 0),
    ] {
        receiver.acks.quick = 9;
        for _ in 0..segments {
            receiver.accept(receiver.next(), whole(&[7; 1000]), false, (WAIT, None));
            receiver.acknowledged();
            receiver.acks.quick = 9;
        }
        receiver.advertise(7, None);
        let charged = receiver.charged();
        let offered = receiver.window.offer(None, charged);
        assert_eq!(
            (receiver.acks.quick, offered),
            (quick, offer),
            "{charged:?}"
        );
    }
}

/// Sixteen segments behind a hole are read with the one that fills it, in one buffer; of seventeen the
/// read measures only that one, no more than the ten expected. 17 000 bytes make a window of 120 000,
/// in segments of 2012 bytes of memory, half of which is window.
#[test]
fn the_window_follows_the_first_buffer_of_a_read() {
    for (behind, capacity) in [(16, 120 * 1006), (17, 30_000)] {
        let mut receiver = Receiver::new(30_000, 500_000).sizing_on_read(true);
        receiver.synchronized();
        receiver.advertise(0, None);
        let size = |receiver: &mut Receiver, secs| {
            let echo = Some((1, Duration::from_millis(20)));
            let now = Instant::from_secs(secs);
            receiver.right_size((500_000, Some(500)), now, (1000, 1000), echo);
        };
        size(&mut receiver, 1);
        size(&mut receiver, 2);
        for segment in (1..=behind).chain([0]) {
            let data = whole(&[7; 1000]);
            receiver.accept(1 + segment * 1000, data, false, (WAIT, None));
        }
        receiver.consume(receiver.readable(), NOW);
        size(&mut receiver, 3);
        assert_eq!(receiver.window.capacity, capacity, "{behind}");
    }
}

/// Linux `tcp_init_buffer_space`: where reads size the window, what is read within a round trip of the first data
/// says nothing yet. After a quiet time, and where arrivals size it, the first sample ends a round trip at once.
#[test]
fn the_first_round_trip_begins_with_the_connection_where_reads_size_the_window() {
    for (on_read, was_quiet, grows) in [
        (Some(500), false, false),
        (Some(500), true, true),
        (None, false, true),
    ] {
        let mut receiver = Receiver::new(30_000, 500_000).sizing_on_read(on_read.is_some());
        receiver.synchronized();
        receiver.advertise(0, None);
        let size = |receiver: &mut Receiver, millis, knows: bool| {
            let echo = knows.then_some((1, Duration::from_millis(20)));
            let now = Instant::from_millis(millis);
            receiver.right_size((500_000, on_read), now, (1000, 1000), echo);
        };
        let read = |receiver: &mut Receiver, millis| {
            for _ in 0..16 {
                let next = receiver.next();
                receiver.accept(next, whole(&[7; 1000]), false, (WAIT, None));
            }
            receiver.consume(receiver.readable(), Instant::from_millis(millis));
            receiver.advertise(0, None);
        };
        size(&mut receiver, 1000, on_read.is_some());
        read(&mut receiver, 1005);
        if was_quiet {
            receiver.window.sizing = None;
            size(&mut receiver, 5000, true);
            read(&mut receiver, 5005);
        }
        size(&mut receiver, if was_quiet { 5010 } else { 1010 }, true);
        assert_eq!(
            receiver.window.capacity > 30_000,
            grows,
            "{on_read:?} {was_quiet}"
        );
    }
}

#[test]
fn a_pushed_segment_that_was_expected_counts_as_pushed() {
    let mut receiver = Receiver::new(10_000, 10_000);
    receiver.synchronized();
    receiver.acknowledged();
    receiver.acks.quick = 0;
    receiver.advertise(0, None);
    receiver.window.peer_segment = 1000;
    let arriving = Incoming {
        pushed: true,
        ..whole(&[7; 1000])
    };
    receiver.accept_next(arriving, WAIT);
    assert!(receiver.acks.delays_push());
}

/// Linux 6.1.57 and later (`tcp_measure_rcv_mss`, `ICSK_ACK_PUSHED` in `tcp_cleanup_rbuf`).
#[test]
fn a_pushed_segment_is_acknowledged_when_all_is_read() {
    let cases = [
        (true, true, 1000, Acknowledgment::Now),
        (true, true, 999, Acknowledgment::By(LATER)),
        (true, false, 1000, Acknowledgment::By(LATER)),
        (false, true, 1000, Acknowledgment::By(LATER)),
    ];
    for (follows, pushed, read, owed) in cases {
        let mut receiver = Receiver::new(10_000, 10_000).following_reads(follows);
        receiver.synchronized();
        receiver.acknowledged();
        receiver.acks.quick = 0;
        receiver.window.peer_segment = 1000;
        receiver.advertise(0, None);
        let arriving = Incoming {
            pushed,
            ..whole(&[7; 1000])
        };
        receiver.accept(receiver.next(), arriving, false, (WAIT, None));
        receiver.consume(read, NOW);
        receiver.announce_window(0, None);
        assert_eq!(receiver.acks.owed(), owed, "{follows} {pushed} {read}");
        receiver.acknowledged();
        receiver.accept(receiver.next(), whole(&[7; 1000]), false, (WAIT, None));
        receiver.consume(2000, NOW);
        receiver.announce_window(0, None);
        let delayed = Acknowledgment::By(LATER);
        assert_eq!(receiver.acks.owed(), delayed, "the push is acknowledged");
    }
}

#[test]
fn unread_data_delays_acknowledgments_until_it_is_read() {
    for (follows, sent, read) in [
        (true, 0, Acknowledgment::Now),
        (false, 2, Acknowledgment::None),
    ] {
        let mut receiver = Receiver::new(10_000, 10_000)
            .charging(50, 0)
            .following_reads(follows);
        receiver.synchronized();
        receiver.acks.quick = 0;
        receiver.advertise(0, None);
        let mut acknowledgments = 0;
        for _ in 0..4 {
            receiver.accept(receiver.next(), whole(&[7; 1000]), false, (WAIT, None));
            if receiver.acks.owed() == Acknowledgment::Now {
                acknowledgments += 1;
                receiver.acknowledged();
                receiver.advertise(0, None);
            }
        }
        assert_eq!(acknowledgments, sent, "{follows}");
        receiver.consume(4000, NOW);
        receiver.announce_window(0, None);
        assert_eq!(receiver.acks.owed(), read, "{follows}");
    }
}

/// Text of one segment.
fn whole(bytes: &[u8]) -> Incoming<'_> {
    merged(bytes, bytes.len() as u64)
}

/// The same in memory of twice its size, to keep.
fn kept(bytes: &[u8]) -> Option<KeptBytes> {
    Some(KeptBytes::of(KeptPacket {
        bytes: Box::new(bytes.to_vec()),
        memory: 2 * bytes.len(),
    }))
}

/// Segments of `size` bytes that came as one.
fn merged(bytes: &[u8], size: u64) -> Incoming<'_> {
    Incoming {
        bytes,
        kept: None,
        size,
        pushed: false,
    }
}

fn receiver(capacity: u64) -> Receiver {
    let mut receiver = Receiver::new(capacity, capacity);
    receiver.synchronized();
    receiver.advertise(0, None);
    receiver
}

fn byte(offset: u64) -> u8 {
    (offset * 7 % 251) as u8
}

fn text(range: Range<u64>) -> Vec<u8> {
    range.map(byte).collect()
}

proptest! {
    #[test]
    fn any_order_of_overlapping_segments_yields_the_stream(
        segments in prop::collection::vec((1u64..600, 1u64..80), 1..80),
        reads in prop::collection::vec(0usize..200, 80),
        scale in 0u8..4,
    ) {
        let mut receiver = receiver(256);
        let mut read: Vec<u8> = Vec::new();
        for ((start, len), want) in segments.into_iter().chain((1..600).step_by(37).map(|s| (s, 40))).zip(reads.iter().cycle()) {
            receiver.accept(start, whole(&text(start..start + len)), false, (WAIT, None));
            let mut out = vec![0; *want];
            let got = receiver.read(&mut out);
            read.extend(&out[..got]);
            let edge = receiver.edge();
            receiver.advertise(scale, None);
            prop_assert!(receiver.edge() >= edge, "the right edge never moves left");
            prop_assert!(receiver.bytes.memory() <= 8 * 64 + 32 * 8, "memory is bounded by the window");
            for block in receiver.sack_blocks() {
                prop_assert!(block.start > receiver.next() && block.end <= receiver.edge());
            }
        }
        prop_assert_eq!(&read, &text(1..1 + read.len() as u64));
    }
}

proptest! {
    /// Payloads that are kept, among copied ones and some that arrive ahead; every way to read shows the
    /// stream, and memory goes with what is unread.
    #[test]
    fn kept_payloads_and_pages_yield_the_stream(
        steps in prop::collection::vec((1u64..200, 0usize..3, 0usize..300, 0usize..3), 1..80),
    ) {
        let mut receiver = receiver(1 << 16);
        let mut read: Vec<u8> = Vec::new();
        for (len, way, want, reading) in steps {
            let (next, payload) = (receiver.next(), text(receiver.next()..receiver.next() + len));
            prop_assert!(receiver.takes_next(payload.len()));
            if way == 0 {
                receiver.accept(next + len, whole(&text(next + len..next + 2 * len)), false, (WAIT, None));
            }
            if way == 2 {
                let before = receiver.memory();
                let incoming = Incoming { kept: kept(&payload), ..whole(&payload) };
                if want % 2 == 0 {
                    receiver.accept_next(incoming, WAIT);
                } else {
                    receiver.accept(next, incoming, false, (WAIT, None));
                }
                prop_assert!(receiver.memory() >= before + 2 * payload.len());
            } else {
                receiver.accept(next, whole(&payload), false, (WAIT, None));
            }
            read.extend(read_by(&mut receiver, reading, want));
            receiver.acknowledged();
            receiver.advertise(0, None);
        }
        let mut rest = vec![0; receiver.readable()];
        prop_assert_eq!(receiver.read(&mut rest), rest.len());
        read.extend(rest);
        prop_assert_eq!(&read, &text(1..receiver.next()));
        receiver.bytes.trim();
        receiver.bytes.trim();
        prop_assert!(receiver.bytes.memory() < 8192, "{} bytes of nothing", receiver.bytes.memory());
    }
}

/// Reads in one of three ways, up to `want` bytes or a kept payload.
fn read_by(receiver: &mut Receiver, way: usize, want: usize) -> Vec<u8> {
    match way {
        0 => {
            let mut out = vec![0; want];
            let got = receiver.read(&mut out);
            out.truncate(got);
            out
        }
        1 => {
            let lent = receiver.readable_bytes();
            assert!(receiver.readable() == 0 || !lent.is_empty());
            let lent = lent[..lent.len().min(want)].to_vec();
            receiver.consume(lent.len(), NOW);
            lent
        }
        _ => {
            let kept = receiver.kept_bytes();
            let kept = kept.map(|kept| kept.bytes).unwrap_or_default();
            assert!(kept.len() <= receiver.readable());
            receiver.consume(kept.len(), NOW);
            kept.into()
        }
    }
}

proptest! {
    /// Segments around the next byte, kept or not, cut by bytes received before, by the window and by
    /// the end of the stream.
    #[test]
    fn kept_and_overlapping_segments_yield_the_stream(
        segments in prop::collection::vec(
            (-90i64..120, 1u64..90, any::<bool>(), 0usize..200, 0usize..3), 1..120),
    ) {
        const END: u64 = 1000;
        let mut receiver = receiver(256);
        let mut read: Vec<u8> = Vec::new();
        let rest = (0..END).map(|at| (0, 40, at % 3 > 0, 30, at as usize % 3));
        for (distance, len, is_kept, want, way) in segments.into_iter().chain(rest) {
            let start = receiver.next().saturating_add_signed(distance).clamp(1, END);
            let end = END.min(start + len);
            let payload = text(start..end);
            let kept = is_kept.then(|| kept(&payload)).flatten();
            let incoming = Incoming { kept, ..whole(&payload) };
            receiver.accept(start, incoming, end == END, (WAIT, None));
            read.extend(read_by(&mut receiver, way, want));
            receiver.acknowledged();
            receiver.advertise(0, None);
        }
        prop_assert!(receiver.finished());
        prop_assert_eq!(&read, &text(1..END));
    }
}

#[test]
fn fin_is_taken_in_order_and_nothing_after_it() {
    let mut receiver = receiver(100);
    assert_eq!(
        receiver.accept(11, whole(&text(11..21)), true, (WAIT, None)),
        Accepted {
            wakes_reader: false,
            finished: false
        }
    );
    assert_eq!(
        receiver.accept(21, whole(b"after the end"), false, (WAIT, None)),
        Accepted::default()
    );
    assert_eq!(
        receiver.accept(1, whole(&text(1..11)), false, (WAIT, None)),
        Accepted {
            wakes_reader: true,
            finished: true
        }
    );
    assert_eq!(receiver.next(), 22);
    let mut out = [0; 64];
    assert_eq!(receiver.read(&mut out), 20);
    assert!(receiver.finished() && receiver.readable() == 0);
}

#[test]
fn a_fin_below_what_was_received_is_ignored() {
    let mut receiver = receiver(100);
    receiver.accept(1, whole(&text(1..21)), false, (WAIT, None));
    receiver.read(&mut [0; 20]);
    for end in [0, 1, 5, 20] {
        assert_eq!(
            receiver.accept(end, whole(&[]), true, (WAIT, None)),
            Accepted::default(),
            "FIN at {end}"
        );
        assert_eq!(receiver.readable(), 0);
    }
    assert!(receiver.accept(21, whole(&[]), true, (WAIT, None)).finished);
}

#[test]
fn the_first_copy_of_a_byte_wins() {
    let mut receiver = receiver(100);
    receiver.accept(3, whole(b"cd"), false, (WAIT, None));
    receiver.accept(1, whole(b"abXY"), false, (WAIT, None));
    let mut out = [0; 4];
    assert_eq!(receiver.read(&mut out), 4);
    assert_eq!(&out, b"abcd");
}

/// A segment at the far end of the window costs the pages it lies in and their table, not the
/// window.
#[test]
fn memory_goes_with_what_has_arrived() {
    let mut receiver = receiver(1 << 20);
    receiver.advertise(5, None);
    assert_eq!(receiver.bytes.memory(), 0);
    let far = (1 << 20) - 200;
    receiver.accept(far, whole(&text(far..far + 100)), false, (WAIT, None));
    assert_eq!(receiver.out_of_order(), 1);
    let table = (1 << 20) / 64 * size_of::<usize>();
    // And the 64 bytes that say where both are.
    assert!(
        receiver.bytes.memory() <= 3 * 64 + 2 * table + 64,
        "{}",
        receiver.bytes.memory()
    );
    // What was missing arrives: the far bytes are there.
    receiver.accept(1, whole(&text(1..far)), false, (WAIT, None));
    let mut out = vec![0; 1 << 20];
    assert_eq!(receiver.read(&mut out) as u64, far + 99);
    assert_eq!(out[..far as usize + 99], text(1..far + 100));
}

#[test]
fn a_quiet_connection_holds_no_memory() {
    let mut receiver = receiver(1 << 20);
    assert_eq!(receiver.release_at(), None);
    receiver.accept(1, whole(&text(1..5001)), false, (WAIT, None));
    assert_eq!(receiver.release_at(), None, "there is something to read");
    receiver.release_memory(LATER + KEEP);
    receiver.read(&mut [0; 5000]);
    let at = receiver.release_at().expect("there is memory");
    receiver.release_memory(at - Duration::from_nanos(1));
    assert!(receiver.bytes.memory() >= 5000, "what comes next finds it");
    receiver.release_memory(at);
    assert_eq!((receiver.bytes.memory(), receiver.release_at()), (0, None));
    // Not even the page that was begun.
    receiver.accept(5001, whole(&text(5001..5002)), false, (WAIT, None));
    receiver.read(&mut [0; 1]);
    receiver.release_memory(receiver.release_at().expect("there is memory"));
    assert_eq!(receiver.bytes.memory(), 0);
    // Out-of-order data is no silence.
    receiver.accept(6001, whole(&text(6001..6101)), false, (WAIT, None));
    assert_eq!(receiver.release_at(), None);
    receiver.accept(5002, whole(&text(5002..6001)), false, (WAIT, None));
    let mut out = [0; 1200];
    assert_eq!(receiver.read(&mut out), 1099);
    assert_eq!(out[..1099], text(5002..6101));
}

#[test]
fn every_second_byte_is_bounded() {
    let mut receiver = receiver(1 << 20);
    for i in 0..10_000 {
        receiver.accept(3 + 2 * i, whole(b"x"), false, (WAIT, None));
    }
    assert_eq!(receiver.out_of_order(), MAX_RANGES);
}

#[test]
fn sack_reports_the_latest_first() {
    let mut receiver = receiver(1000);
    for start in [10, 30, 50, 70] {
        receiver.accept(start, whole(&text(start..start + 5)), false, (WAIT, None));
    }
    receiver.accept(35, whole(&text(35..40)), false, (WAIT, None));
    let blocks: Vec<_> = receiver.sack_blocks().collect();
    assert_eq!(blocks, [30..40, 70..75, 50..55, 10..15]);
}

#[test]
fn acknowledges_every_second_full_segment_after_the_quick_start() {
    let mut receiver = receiver(1 << 20);
    receiver.acks.quick = 0;
    receiver.acknowledged();
    let segment = vec![0; 1448];
    receiver.accept(1, whole(&segment), false, (WAIT, None));
    assert_eq!(receiver.acks.owed(), Acknowledgment::By(LATER));
    receiver.acks.on_deadline(BOUNDS, Instant::ZERO);
    assert_eq!(receiver.acks.owed(), Acknowledgment::By(LATER));
    receiver.acks.on_deadline(BOUNDS, LATER);
    assert_eq!(receiver.acks.owed(), Acknowledgment::Now);
    receiver.acknowledged();
    for start in [1449, 2897] {
        receiver.accept(start, whole(&segment), false, (WAIT, None));
    }
    assert_eq!(receiver.acks.owed(), Acknowledgment::Now);
}

#[test]
fn every_segment_is_acknowledged_while_the_window_opens() {
    let acknowledgments = |start: u64| {
        let mut receiver = Receiver::new(start, 100_000);
        receiver.synchronized();
        receiver.acks.quick = 0;
        receiver.window.capacity = 40_000;
        receiver.advertise(0, None);
        let mut count = 0;
        for segment in 0..20 {
            receiver.accept(1 + segment * 1000, whole(&[7; 1000]), false, (WAIT, None));
            if receiver.acks.owed() == Acknowledgment::Now {
                receiver.acknowledged();
                count += 1;
            }
        }
        count
    };
    // Ten steps of two segments from 20 000 to 40 000; then every second segment.
    assert_eq!((acknowledgments(20_000), acknowledgments(40_000)), (15, 10));
}

fn has_reopened(receiver: &Receiver) -> bool {
    let unread = receiver.readable() as u64;
    receiver
        .window
        .has_reopened((unread, receiver.next()), 0, (None, None))
}

#[test]
fn the_window_is_reopened_when_it_doubles() {
    let mut receiver = receiver(10_000);
    receiver.window.peer_segment = 1000;
    for segment in 0..10 {
        receiver.accept(1 + segment * 1000, whole(&[1; 1000]), false, (WAIT, None));
    }
    receiver.advertise(0, None);
    assert!(!has_reopened(&receiver));
    receiver.read(&mut [0; 1999]);
    assert!(!has_reopened(&receiver));
    receiver.read(&mut [0; 1]);
    assert!(has_reopened(&receiver));
    // More than 16 bits can say is no news.
    let mut large = self::receiver(1 << 20);
    large.accept(1, whole(&[1; 1000]), false, (WAIT, None));
    large.advertise(0, None);
    large.read(&mut [0; 1000]);
    assert!(!has_reopened(&large));
}

#[test]
fn what_arrived_twice_is_reported_first_and_once() {
    let mut receiver = receiver(1000);
    receiver.accept(1, whole(&text(1..51)), false, (WAIT, None));
    receiver.accept(101, whole(&text(101..151)), false, (WAIT, None));
    receiver.accept(201, whole(&text(201..251)), false, (WAIT, None));
    assert!(receiver.duplicate.is_none());
    // Below what is acknowledged, wholly and in part; above a hole, beside the block that holds
    // it; beyond what is there.
    for (range, blocks) in [
        (11..31, vec![11..31, 201..251, 101..151]),
        (31..61, vec![31..51, 201..251, 101..151]),
        (111..131, vec![111..131, 101..151, 201..251]),
        (241..261, vec![241..251, 201..261, 101..151]),
    ] {
        receiver.accept(range.start, whole(&text(range)), false, (WAIT, None));
        assert_eq!(receiver.acks.owed(), Acknowledgment::Now);
        assert_eq!(receiver.reports().collect::<Vec<_>>(), blocks);
        receiver.acknowledged();
        assert_eq!(receiver.reports().collect::<Vec<_>>(), blocks[1..]);
    }
}

#[test]
fn the_window_follows_what_is_read_and_opens_by_what_arrives() {
    let mut receiver = Receiver::new(10_000, 100_000);
    receiver.synchronized();
    receiver.advertise(0, None);
    let mut edge = receiver.edge();
    assert_eq!(edge, 10_001);
    let mut offset = 1;
    for round in 1u32..=10 {
        let now = Instant::from_millis(20 * u64::from(round));
        while offset + 1000 <= edge {
            receiver.right_size(
                (100_000, None),
                now,
                (1000, 1000),
                Some((round, Duration::from_millis(20))),
            );
            receiver.accept(offset, whole(&[7; 1000]), false, (WAIT, None));
            offset += 1000;
        }
        while receiver.read(&mut [0; 9000]) > 0 {}
        receiver.advertise(0, None);
        assert!(receiver.edge() >= edge, "the right edge never moves left");
        assert!(receiver.edge() <= offset + receiver.window.capacity);
        edge = receiver.edge();
    }
    // Ten thousand a round trip are no more than expected: the first flight is ten segments.
    assert_eq!(receiver.window.capacity, 10_000);
    let mut fast = Receiver::new(30_000, 100_000);
    fast.synchronized();
    fast.advertise(0, None);
    fast.right_size(
        (100_000, None),
        Instant::ZERO,
        (1000, 1000),
        Some((1, Duration::from_millis(20))),
    );
    for segment in 0..30 {
        fast.accept(1 + segment * 1000, whole(&[7; 1000]), false, (WAIT, None));
    }
    while fast.read(&mut [0; 9000]) > 0 {}
    fast.right_size((100_000, None), Instant::from_secs(1), (1000, 1000), None);
    assert_eq!(fast.window.capacity, 100_000, "no more than allowed");
    assert_eq!(
        (fast.advertise(0, None), fast.window.size),
        (30_000, 30_000)
    );
    fast.accept(30_001, whole(&[7; 1000]), false, (WAIT, None));
    assert_eq!(
        fast.window.size, 32_000,
        "two segments for each that arrives"
    );
}

#[test]
fn held_data_is_taken_off_the_window_where_it_is_charged() {
    let edges = |charge: u8| {
        let mut receiver = receiver(10_000).charging(charge, 0);
        receiver.advertise(0, None);
        let mut edges = vec![receiver.edge()];
        // Two segments behind a hole; the one before it; the one in it. All is read at once.
        for offset in [2001, 3001, 1, 1001] {
            receiver.accept(offset, whole(&[7; 1000]), false, (WAIT, None));
            while receiver.read(&mut [0; 9000]) > 0 {}
            receiver.advertise(0, None);
            edges.push(receiver.edge());
        }
        edges
    };
    assert_eq!(edges(0), [10_001, 10_001, 10_001, 11_001, 14_001]);
    // Half of 2000 bytes: the data behind the hole takes the room that became free.
    assert_eq!(edges(50), [10_001, 10_001, 10_001, 10_001, 14_001]);
}
