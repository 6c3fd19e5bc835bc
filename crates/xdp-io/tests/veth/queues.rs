//! Queues of one device or of several, and their resets.

use std::cell::Cell;

use super::*;

#[test]
fn a_driver_without_native_xdp_falls_back_and_says_so() {
    let pair = veth_or_skip!();
    let end = End {
        interface: "br7".into(),
        ..pair.left.clone()
    };
    end.ip(&["link", "add", "br7", "type", "bridge"]);
    end.ip(&["link", "set", "br7", "up"]);
    assert!(!Port::new(&end).device.mode().native);
    let insist = Config {
        driver: Driver::Native,
        ..end.config()
    };
    assert!(matches!(
        Port::open(&end, insist),
        Err(OpenError::Unsupported { .. })
    ));
}

#[test]
fn one_attachment_serves_every_queue() {
    let pair = veth_or_skip!(2);
    assert_eq!(
        pair.left
            .inside(|| interface_queues(&pair.left.interface))
            .unwrap(),
        2
    );
    let open = |end: &End| {
        end.inside(|| {
            let attachment = Arc::new(
                Attachment::new(
                    &end.interface,
                    &Take::Addresses(vec![end.address.into()]),
                    Driver::Auto,
                )
                .unwrap(),
            );
            [0, 1].map(|queue| {
                let config = Config {
                    queue,
                    ..end.config()
                };
                let (device, frames) = XdpDevice::open_on(Arc::clone(&attachment), config).unwrap();
                Port {
                    device,
                    pool: Pool::new(frames),
                }
            })
        })
    };
    let ([mut left0, mut left1], [mut right0, mut right1]) = (open(&pair.left), open(&pair.right));
    // A veth delivers on the queue it was sent from.
    transfer(&mut left1, &mut right1, &pair.right, 100);
    transfer(&mut left0, &mut right0, &pair.right, 50);
    assert_eq!(right0.device.statistics().device.received, 50);
    drop((left1, right1));
    transfer(&mut left0, &mut right0, &pair.right, 50);
    drop((left0, right0));
    assert!(!xdp_on(&pair.right));
}

#[test]
fn all_queues_are_one_device() {
    let pair = veth_or_skip!(2);
    let (left, right) = (&pair.left, &pair.right);
    let open = |only| right.inside(|| XdpQueues::open(right.config(), only).unwrap());
    let (mut all, frames) = open(None);
    assert_eq!(all.queues().len(), 2);
    // A veth delivers on the queue it was sent from.
    for (queue, count) in [(0, 70), (1, 140), (0, 30)] {
        let config = Config {
            queue,
            ..left.config()
        };
        let mut sender = Port::open(left, config).unwrap();
        (0..count).for_each(|mark| sender.put(right, mark));
        sender.device.doorbell(NOW);
        sender.settle();
        assert!(rustix::event::poll(&mut [readable(&all)], None).is_ok());
        let mut received = 0;
        while let Some(frame) = all.receive(NOW) {
            all.recycle(frame.frame);
            received += 1;
        }
        assert_eq!(received, count);
    }
    let each = |queue: &XdpDevice| queue.statistics().device;
    assert_eq!(
        all.queues()
            .iter()
            .map(|queue| (each(queue).received, each(queue).foreign_frames))
            .collect::<Vec<_>>(),
        [(100, 0), (140, 0)]
    );
    drop((all, frames));
    assert_eq!(open(Some(1)).0.queues().len(), 1);
}

#[test]
fn a_stalled_device_is_opened_anew_and_carries_frames_of_the_old_one() {
    let pair = pair_or_skip!();
    let (mut left, mut right) = (queues(&pair.left), queues(&pair.right));
    transfer(&mut left, &mut right, &pair.right, 100);
    // A frame that the program holds meanwhile.
    right.put(&pair.left, 1);
    right.device.doorbell(NOW);
    sleep(Duration::from_millis(50));
    let received = left.device.receive(NOW).expect("it arrived");
    right.settle();
    for round in 1..=3 {
        // Staged and never submitted: nothing completes them, while the link is up.
        (0..5).for_each(|mark| left.put(&pair.right, mark));
        stall(&pair.left, &mut left);
        assert_eq!(reset(&pair.left, &mut left), 5);
        let rebinds = left.device.rebinds();
        assert_eq!((rebinds.count, rebinds.dropped), (round, 5 * round));
        assert!(
            rebinds
                .to_string()
                .starts_with("the driver completed no packet")
        );
        // More frames than the new device has of its own.
        transfer(&mut left, &mut right, &pair.right, 10_000);
        transfer(&mut right, &mut left, &pair.left, 1000);
    }
    left.device.recycle(received.frame);
}

#[test]
fn a_driver_that_no_reset_helps_is_given_up() {
    let pair = pair_or_skip!();
    let mut left = queues(&pair.left);
    left.put(&pair.right, 1);
    stall(&pair.left, &mut left);
    assert_eq!(reset(&pair.left, &mut left), 1);
    left.put(&pair.right, 1);
    stall(&pair.left, &mut left);
    let end = pair
        .left
        .inside(|| (left.device.is_gone(), left.device.failure()));
    assert_eq!(end, (true, Some(Failure::Stalled)));
}

#[test]
fn silence_after_the_link_came_back_opens_the_sockets_anew_once() {
    let pair = pair_or_skip!();
    let (mut left, mut right) = (queues(&pair.left), queues(&pair.right));
    transfer(&mut right, &mut left, &pair.left, 1);
    let now = Cell::new(NOW);
    // A quarter of a second later.
    let needs_reset = |port: &mut Port<XdpQueues>| {
        now.set(now.get() + Duration::from_millis(250));
        let now = now.get();
        pair.left.inside(|| port.device.needs_reset(now))
    };
    let mut flap = |port: &mut Port<XdpQueues>| {
        pair.left.ip(&["link", "set", &pair.left.interface, "down"]);
        assert!(!needs_reset(port));
        pair.left.ip(&["link", "set", &pair.left.interface, "up"]);
        sleep(Duration::from_millis(1500));
        assert!(!needs_reset(port));
        // Nobody answers.
        transfer(port, &mut right, &pair.right, 10);
    };
    assert!(!needs_reset(&mut left));
    flap(&mut left);
    // Three seconds after the second change.
    assert_eq!((1..).find(|_| needs_reset(&mut left)), Some(13));
    assert_eq!(reset(&pair.left, &mut left), 0);
    assert!(left.device.rebinds().to_string().contains("link came back"));
    assert!(!needs_reset(&mut left));
    flap(&mut left);
    assert!((0..20).all(|_| !needs_reset(&mut left)), "not twice");
}

#[test]
fn queues_that_appear_while_the_device_is_open_are_served() {
    let pair = veth_or_skip!(2);
    let (left, right) = (&pair.left, &pair.right);
    // The driver wants as many queues that receive as the peer has queues that send.
    let set = |end: &End, way, count| end.exec(&["ethtool", "-L", &end.interface, way, count]);
    set(left, "tx", "1");
    set(right, "rx", "1");
    let mut all = queues(right);
    assert_eq!(all.device.queues().len(), 1);
    assert!(right.inside(|| !all.device.needs_reset(NOW)));
    set(right, "rx", "2");
    set(left, "tx", "2");
    assert_eq!(reset(right, &mut all), 0);
    assert_eq!(all.device.queues().len(), 2);
    assert!(all.device.rebinds().to_string().contains("queues changed"));
    for queue in [0, 1] {
        let config = Config {
            queue,
            ..left.config()
        };
        let mut sender = Port::open(left, config).unwrap();
        transfer(&mut sender, &mut all, right, 100);
    }
}

#[test]
fn each_queue_is_a_device_of_its_own() {
    let pair = veth_or_skip!(2);
    let (left, right) = (&pair.left, &pair.right);
    let refused = right.inside(|| XdpQueues::open_each(&right.config(), 3));
    assert!(matches!(
        refused,
        Err(OpenError::Queues {
            count: 3,
            queues: 2,
            ..
        })
    ));
    let devices = right.inside(|| XdpQueues::open_each(&right.config(), 2));
    for (queue, (device, frames)) in (0..).zip(devices.expect("two queues")) {
        let config = Config {
            queue,
            ..left.config()
        };
        let mut sender = Port::open(left, config).unwrap();
        let mut receiver = Port {
            device,
            pool: Pool::new(frames),
        };
        transfer(&mut sender, &mut receiver, right, 100);
        receiver.put(left, 1);
        stall(right, &mut receiver);
        assert_eq!(reset(right, &mut receiver), 1);
        transfer(&mut sender, &mut receiver, right, 100);
    }
}

fn readable(device: &XdpQueues) -> rustix::event::PollFd<'_> {
    rustix::event::PollFd::new(device, rustix::event::PollFlags::IN)
}

#[test]
fn a_link_that_is_down_is_not_woken_at_every_reap() {
    let pair = pair_or_skip!();
    let mut left = Port::new(&pair.left);
    pair.left.ip(&["link", "set", &pair.left.interface, "down"]);
    left.put(&pair.right, 1);
    left.device.doorbell(NOW);
    let before = left.device.statistics().device.wakes;
    for turn in 0..1000 {
        left.device
            .reap(NOW + Duration::from_millis(turn), &mut Vec::new());
    }
    let wakes = left.device.statistics().device.wakes - before;
    assert!((90..=110).contains(&wakes), "{wakes} wakes in a second");
    // Ten seconds without a completion, but the link is the reason.
    left.device
        .reap(NOW + Duration::from_secs(10), &mut Vec::new());
    assert_eq!(left.device.failure(), Some(Failure::LinkDown));
    assert!(!left.device.is_gone());
}

#[test]
fn a_driver_that_completes_nothing_is_noticed() {
    let pair = pair_or_skip!();
    let mut left = Port::new(&pair.left);
    // Staged and never submitted: nothing completes it, while the link is up.
    left.put(&pair.right, 1);
    let mut failure_after = |seconds| {
        let now = NOW + Duration::from_secs(seconds);
        left.device.reap(now, &mut Vec::new());
        pair.left.inside(|| left.device.failure())
    };
    assert_eq!(failure_after(1), None);
    assert_eq!(failure_after(2), Some(Failure::Stalled));
}
