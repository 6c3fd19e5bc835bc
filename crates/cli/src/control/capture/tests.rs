use tautline_base::DropReason;

use super::*;

fn event(what: What) -> PacketEvent {
    PacketEvent {
        at: Instant::from_nanos(1 << 40),
        what,
        socket: None,
        seq: 0,
        len: 60,
        sojourn: Duration::from_micros(1500),
    }
}

/// The capture of every record in `ring`.
fn written(mut ring: Consumer<u8>) -> Vec<u8> {
    let capture = Capture::new(Vec::new(), CaptureConfig::default()).expect("memory");
    let mut capture = capture.named(vec!["right".to_owned()], Vec::new());
    let mut frame = Vec::new();
    while let Some(head) = pop(&mut ring, &mut frame) {
        keep(&mut capture, &head, &frame);
    }
    capture.finish().expect("memory")
}

fn contains(file: &[u8], text: &str) -> bool {
    file.windows(text.len()).any(|part| part == text.as_bytes())
}

fn tapped(wanted: Wanted, ring: usize) -> (PacketTap, Consumer<u8>) {
    let taps = Taps::default();
    let (subscription, reader) = Subscription::with_ring(&wanted, ring);
    taps.add(subscription).expect("the first");
    (taps.tap(0), reader)
}

#[test]
fn records_keep_their_place_mark_and_reason() {
    for reason in DropReason::ALL {
        assert_eq!(
            decode(code(What::Dropped(reason)).expect("captured")),
            What::Dropped(reason)
        );
    }
    let (mut tap, reader) = tapped(Wanted::default(), RING);
    for what in [
        What::Born,
        What::Queued,
        What::Marked,
        What::Ringed,
        What::Ringed,
    ] {
        tap.record(&event(what), &[7; 60]);
    }
    tap.record(&event(What::Dropped(DropReason::Target)), &[7; 60]);
    let file = written(reader);
    assert!(contains(&file, "right:ring") && !contains(&file, "right:qdisc-in"));
    for comment in ["verdict=CE", "verdict=pass", "verdict=drop reason=target"] {
        assert!(
            contains(&file, &format!("sojourn=1.500000ms {comment}")),
            "{comment}"
        );
    }
}

#[test]
fn a_full_ring_drops_records_and_the_next_one_counts_them() {
    let wanted = Wanted {
        points: Points::All,
        snaplen: 20,
        ..Wanted::default()
    };
    let (mut tap, mut reader) = tapped(wanted, 2 * (HEAD + 20));
    for _ in 0..5 {
        tap.record(&event(What::Queued), &[7; 60]);
    }
    let heads: Vec<_> = (0..2).map(|_| next(&mut reader)).collect();
    assert!(
        heads
            .iter()
            .all(|head| (head.kept, head.len, head.lost) == (20, 60, 0))
    );
    tap.record(&event(What::Received), &[7; 60]);
    assert_eq!(next(&mut reader).lost, 3);
    assert!(reader.is_empty());
}

/// The head of the next record, which is taken out.
fn next(reader: &mut Consumer<u8>) -> Head {
    let mut bytes = [0; HEAD];
    reader.pop_entire_slice(&mut bytes).expect("a record");
    let head = Head::parse(&bytes);
    reader
        .pop_entire_slice(&mut vec![0; head.kept as usize])
        .expect("its packet");
    head
}

#[test]
fn captures_are_limited_and_end_with_their_readers() {
    let taps = Taps::default();
    let mut readers = Vec::new();
    for _ in 0..CAPTURES {
        let (subscription, reader) = Subscription::with_ring(&Wanted::default(), 1024);
        taps.add(subscription).expect("room");
        readers.push(reader);
    }
    let more = || Subscription::with_ring(&Wanted::default(), 1024).0;
    assert!(taps.add(more()).is_err());
    readers.clear();
    taps.tap(0).record(&event(What::Ringed), &[7; 60]);
    assert!(taps.0.borrow().is_empty());
}
