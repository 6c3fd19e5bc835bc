//! Frames and packets of several chunks cross in both directions, in either hook.

use super::*;

#[test]
fn frames_cross_both_ways_and_all_are_accounted_for() {
    let pair = pair_or_skip!();
    let (mut left, mut right) = (Port::new(&pair.left), Port::new(&pair.right));
    let mode = left.device.mode();
    if net::nics().is_none() {
        assert_eq!(mode.to_string(), "native driver mode, copy");
    }
    let reason = match (mode.zero_copy, mode.native) {
        (true, _) => None,
        (false, true) => Some(CopyReason::Driver),
        (false, false) => Some(CopyReason::GenericHook),
    };
    assert_eq!(left.device.copy_reason(), reason);
    assert_eq!(left.device.mtu(), 1500);
    // More than the reserve for receiving, so every chunk goes round at least once.
    transfer(&mut left, &mut right, &pair.right, 10_000);
    transfer(&mut right, &mut left, &pair.left, 10_000);
    for port in [&left, &right] {
        let statistics = port.device.statistics();
        let (ours, kernel) = (
            statistics.device,
            statistics.kernel.expect("the kernel counts"),
        );
        assert_eq!(
            (ours.transmitted, ours.completed, ours.received),
            (10_000, 10_000, 10_000)
        );
        assert_eq!(
            (
                ours.bad_received,
                ours.bad_completed,
                ours.late_completed,
                ours.foreign_frames
            ),
            (0, 0, 0, 0)
        );
        assert_eq!(
            (
                kernel.receive_dropped,
                kernel.receive_ring_full,
                kernel.transmit_invalid
            ),
            (0, 0, 0)
        );
    }
}

#[test]
fn generic_mode_carries_frames_too() {
    let pair = pair_or_skip!();
    let open = |end: &End| {
        Port::open(
            end,
            Config {
                driver: Driver::Skb,
                ..end.config()
            },
        )
        .unwrap()
    };
    let (mut left, mut right) = (open(&pair.left), open(&pair.right));
    assert_eq!(right.device.mode().to_string(), "generic (SKB) mode, copy");
    transfer(&mut left, &mut right, &pair.right, 1000);
}

/// A packet of `len` bytes for `to` that differs from others of its `mark` and length.
fn patterned(frame: &mut [u8], len: usize, to: &End, mark: u64) {
    for (place, byte) in frame[..len].iter_mut().enumerate() {
        *byte = (place % 251) as u8 ^ mark as u8;
    }
    write_frame(frame, len, to.address, mark);
}

/// Sends packets of the lengths at which the number of chunks changes, on the way out or in; checks
/// that each arrives as it was.
fn transfer_jumbo(from: &mut Port, to: &mut Port, destination: &End) {
    // Sent: 3776 bytes in the first chunk, 4096 in the others; received: 3776 in each.
    let lengths = [60, 3776, 3777, 7552, 7553, 7872, 7873, 9000, 9014, 60, 9014];
    let mut expected = vec![0; 9014];
    let mut sent = 0;
    for round in 0..200 {
        for (mark, len) in (round..).zip(lengths) {
            let mut frame = from.pool.take().expect("the reserve is large enough");
            patterned(frame.bytes_mut(), len, destination, mark);
            from.device.put(Packet::new(frame, len as u32), NOW);
        }
        from.device.doorbell(NOW);
        for (mark, len) in (round..).zip(lengths) {
            let received = (0..1000).find_map(|_| {
                from.reap(NOW);
                let received = to.device.receive(NOW);
                if received.is_none() {
                    sleep(Duration::from_millis(1));
                }
                received
            });
            let received = received.expect("it arrives");
            patterned(&mut expected, len, destination, mark);
            assert!(received.bytes() == &expected[..len], "{len} bytes, {mark}");
            to.device.recycle(received.frame);
            sent += 1;
        }
    }
    let (ours, theirs) = (from.device.statistics(), to.device.statistics());
    assert_eq!(
        (ours.device.transmitted, theirs.device.received),
        (sent, sent)
    );
    assert_eq!(theirs.device.bad_received + ours.device.bad_completed, 0);
    for kernel in [ours.kernel, theirs.kernel].map(|kernel| kernel.expect("the kernel counts")) {
        assert_eq!((kernel.receive_dropped, kernel.transmit_invalid), (0, 0));
    }
}

#[test]
fn packets_span_chunks_in_either_hook() {
    for driver in [Driver::Native, Driver::Skb] {
        let pair = veth_or_skip!();
        jumbo(&pair);
        let open = |end: &End| {
            Port::open(
                end,
                Config {
                    driver,
                    ..end.config()
                },
            )
            .unwrap()
        };
        let (mut left, mut right) = (open(&pair.left), open(&pair.right));
        assert_eq!(left.device.mtu(), 9000);
        transfer_jumbo(&mut left, &mut right, &pair.right);
        transfer_jumbo(&mut right, &mut left, &pair.left);
        left.settle();
        right.settle();
    }
}

#[test]
fn a_received_packet_waits_for_a_frame_that_holds_its_chunks() {
    let pair = veth_or_skip!();
    jumbo(&pair);
    let (mut left, mut right) = (Port::new(&pair.left), Port::new(&pair.right));
    const HELD: u64 = 64;
    for mark in 0..=HELD {
        let mut frame = left.pool.take().unwrap();
        patterned(frame.bytes_mut(), 9014, &pair.right, mark);
        left.device.put(Packet::new(frame, 9014), NOW);
    }
    left.device.doorbell(NOW);
    left.settle();
    let mut held: Vec<_> = std::iter::from_fn(|| right.device.receive(NOW)).collect();
    assert_eq!(held.len(), HELD as usize);
    right.device.recycle(held.pop().unwrap().frame);
    let last = right.device.receive(NOW).expect("the one that waited");
    assert_eq!(last.bytes().last_chunk(), Some(&HELD.to_be_bytes()));
    right.device.recycle(last.frame);
}

#[test]
fn packets_of_a_larger_mtu_survive_a_rebind_at_a_smaller_one() {
    let pair = veth_or_skip!();
    jumbo(&pair);
    let mut left = queues(&pair.left);
    let mut queued = left.pool.take().unwrap();
    patterned(queued.bytes_mut(), 9014, &pair.right, 7);
    left.put(&pair.right, 1);
    pair.left
        .ip(&["link", "set", &pair.left.interface, "mtu", "1500"]);
    stall(&pair.left, &mut left);
    assert_eq!(reset(&pair.left, &mut left), 1);
    // Too long for the link, which drops it.
    left.device.put(Packet::new(queued, 9014), NOW);
    left.device.doorbell(NOW);
    left.settle();
}
