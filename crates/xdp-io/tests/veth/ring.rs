//! Rings and frames of one device: ownership, room, reset.

use super::*;

#[test]
fn frames_do_not_overlap() {
    let pair = pair_or_skip!();
    let (_device, mut frames) = pair
        .left
        .inside(|| XdpDevice::open(pair.left.config()))
        .unwrap();
    for (i, frame) in frames.iter_mut().enumerate() {
        frame.bytes_mut().fill(i as u8);
        frame.bytes_mut()[..8].copy_from_slice(&i.to_ne_bytes());
    }
    for (i, frame) in frames.iter().enumerate() {
        assert_eq!(frame.bytes()[..8], i.to_ne_bytes());
        assert!(frame.bytes()[8..].iter().all(|byte| *byte == i as u8));
    }
}

#[test]
fn what_the_kernel_would_not_complete_is_completed_here() {
    let pair = pair_or_skip!();
    let mut port = Port::new(&pair.left);
    for len in [0, 13] {
        let frame = port.pool.take().unwrap();
        port.device.put(Packet::new(frame, len), NOW);
    }
    assert_eq!(port.device.in_flight(), 2);
    port.device.doorbell(NOW);
    port.settle();
    assert_eq!(port.device.statistics().device.runts, 2);
    assert_eq!(port.device.statistics().kernel.unwrap().transmit_invalid, 0);
}

#[test]
fn frames_of_another_device_are_refused() {
    let pair = pair_or_skip!();
    let (mut left, mut right) = (Port::new(&pair.left), Port::new(&pair.right));
    left.device.recycle(right.pool.take().unwrap());
    assert_eq!(left.device.statistics().device.foreign_frames, 1);
    let foreign = Packet::new(right.pool.take().unwrap(), 60);
    let put = std::panic::AssertUnwindSafe(|| left.device.put(foreign, NOW));
    assert!(
        std::panic::catch_unwind(put).is_err(),
        "putting one is a bug of the caller"
    );
}

#[test]
fn the_ring_fills_up_and_room_says_so() {
    let pair = pair_or_skip!();
    let config = Config {
        transmit_ring: 64,
        transmit_frames: 256,
        ..pair.left.config()
    };
    let (mut left, mut right) = (
        Port::open(&pair.left, config).unwrap(),
        Port::new(&pair.right),
    );
    let mut sent = 0;
    while left.device.room() > 0 {
        left.put(&pair.right, sent);
        sent += 1;
    }
    assert_eq!(sent, 64);
    left.device.doorbell(NOW);
    if net::nics().is_some() {
        // igb overlooks a wake soon after the attach, once in some ten runs; a reap wakes it again.
        left.settle();
    }
    assert_eq!(left.device.room(), 64, "the kernel has taken the burst");
    assert_eq!(right.marks(64).len(), 64);
    left.settle();
}

#[test]
fn a_link_that_is_down_keeps_packets_and_sends_them_later() {
    let pair = pair_or_skip!();
    let (mut left, mut right) = (Port::new(&pair.left), Port::new(&pair.right));
    pair.left.ip(&["link", "set", &pair.left.interface, "down"]);
    left.put(&pair.right, 42);
    left.device.doorbell(NOW);
    assert_eq!(left.device.failure(), Some(Failure::LinkDown));
    assert_eq!(left.device.in_flight(), 1);
    pair.left.ip(&["link", "set", &pair.left.interface, "up"]);
    pair.left.wait_for_link();
    left.settle();
    let failure = pair.left.inside(|| left.device.failure());
    assert_eq!(failure, None);
    assert_eq!(right.marks(1), [42]);
}

/// A device that only receives has no next wake that would find the link up.
#[test]
fn the_failure_of_a_link_that_was_down_ends_without_a_wake() {
    let pair = pair_or_skip!();
    let mut left = Port::new(&pair.left);
    let mut failure = || pair.left.inside(|| left.device.failure());
    pair.left.ip(&["link", "set", &pair.left.interface, "down"]);
    assert_eq!(failure(), None, "nobody has tried to send");
    left.put(&pair.right, 1);
    left.device.doorbell(NOW);
    let mut failure = || pair.left.inside(|| left.device.failure());
    assert_eq!(failure(), Some(Failure::LinkDown));
    pair.left.ip(&["link", "set", &pair.left.interface, "up"]);
    pair.left.wait_for_link();
    let wakes = left.device.statistics().device.wakes;
    assert_eq!(pair.left.inside(|| left.device.failure()), None);
    assert_eq!(left.device.statistics().device.wakes, wakes);
    left.settle();
}

#[test]
fn a_reset_gives_every_packet_back_and_bars_reuse_until_the_kernel_lets_go() {
    let pair = pair_or_skip!();
    let (mut left, mut right) = (Port::new(&pair.left), Port::new(&pair.right));
    pair.left.ip(&["link", "set", &pair.left.interface, "down"]);
    for mark in 0..10 {
        left.put(&pair.right, mark);
    }
    left.device.doorbell(NOW);
    left.put(&pair.right, 10); // staged only
    let mut lost = Vec::new();
    left.device.reset(&mut lost);
    assert_eq!((lost.len(), left.device.in_flight()), (11, 0));
    for packet in lost {
        let _ = left.pool.settle(packet);
    }
    assert_eq!(left.pool.outstanding(), 0);
    assert_eq!(
        left.device.room(),
        0,
        "the kernel may still send what it has"
    );
    pair.left.ip(&["link", "set", &pair.left.interface, "up"]);
    pair.left.wait_for_link();
    for turn in 0..1000 {
        left.reap(NOW + Duration::from_millis(turn));
        if left.device.room() > 0 {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    assert!(left.device.room() > 0);
    assert_eq!(left.device.statistics().device.late_completed, 10);
    assert_eq!(right.marks(10).len(), 10);
    transfer(&mut left, &mut right, &pair.right, 100);
}
