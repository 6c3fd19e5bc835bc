//! Compressed acknowledgments of segments out of order, and what they report.

use super::*;

const SOONER: Instant = Instant::from_secs(8);

/// The acknowledgment owed after `payload` arrived at `offset`, where acknowledgments may be
/// compressed. One that is due is sent.
fn owed_after(receiver: &mut Receiver, offset: u64, payload: &[u8]) -> Acknowledgment {
    let compression = Some(Compression {
        most: 44,
        by: SOONER,
    });
    receiver.acks.quick = 0;
    receiver.accept(offset, whole(payload), false, (WAIT, compression));
    let owed = receiver.acks.owed();
    if owed == Acknowledgment::Now {
        receiver.acknowledged();
    }
    receiver.acks.quick = 0;
    owed
}

/// A receiver that has reported a loss three times and compresses acknowledgments from now on.
fn compressing() -> Receiver {
    let mut receiver = receiver(1 << 20);
    for offset in [10_001, 11_001, 12_001] {
        let owed = owed_after(&mut receiver, offset, &[7; 1000]);
        assert_eq!(owed, Acknowledgment::Now, "the loss is reported");
    }
    let owed = owed_after(&mut receiver, 20_001, &[7; 1000]);
    assert_eq!(owed, Acknowledgment::By(SOONER));
    receiver
}

/// Linux `tcp_sack_compress_send_ack`: a range apart from both of the latest blocks is reported now.
#[test]
fn a_third_range_ends_the_compression_of_acknowledgments() {
    for (third, owed) in [
        (5_001, Acknowledgment::Now),
        (30_001, Acknowledgment::Now),
        (19_001, Acknowledgment::By(SOONER)),
        (13_001, Acknowledgment::By(SOONER)),
    ] {
        let found = owed_after(&mut compressing(), third, &[7; 1000]);
        assert_eq!(found, owed, "{third}");
    }
}

/// RFC 2883 §4: the second block of the option holds the duplicate.
#[test]
fn a_duplicate_of_an_older_block_is_reported_with_its_block() {
    let mut receiver = compressing();
    assert_eq!(
        owed_after(&mut receiver, 30_001, &[7; 1000]),
        Acknowledgment::Now
    );
    owed_after(&mut receiver, 40_001, &[7; 1000]);
    let compression = Some(Compression {
        most: 44,
        by: SOONER,
    });
    receiver.accept(20_001, whole(&[7; 1000]), false, (WAIT, compression));
    let reported: Vec<_> = receiver.reports().take(2).collect();
    assert_eq!(reported, [20_001..21_001, 20_001..21_001]);
}

/// Linux `tcp_sack_new_ofo_skb`: the acknowledgment leaves before the range becomes a block.
#[test]
fn the_acknowledgment_before_a_third_range_does_not_report_it() {
    for third in [5_001, 30_001] {
        let mut receiver = compressing();
        let compression = Some(Compression {
            most: 44,
            by: SOONER,
        });
        receiver.accept(third, whole(&[7; 1000]), false, (WAIT, compression));
        let reported: Vec<_> = receiver.reports().collect();
        assert_eq!(reported, [20_001..21_001, 10_001..13_001]);
        receiver.acknowledged();
        assert_eq!(receiver.reports().next(), Some(third..third + 1000));
    }
}

#[test]
fn the_first_acknowledgments_beyond_the_next_hole_leave_at_once() {
    let mut receiver = compressing();
    let filled = owed_after(&mut receiver, 1, &[7; 20_000]);
    assert_eq!(filled, Acknowledgment::Now);
    let next_hole = owed_after(&mut receiver, 50_001, &[7; 1000]);
    assert_eq!(next_hole, Acknowledgment::Now);
}
