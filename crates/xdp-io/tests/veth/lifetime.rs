//! Removal, renaming, `kill -9`: ends of devices, interfaces and processes.

use super::*;

#[test]
fn an_interface_with_a_new_name_is_still_served() {
    let mut pair = veth_or_skip!();
    let (mut left, mut right) = (queues(&pair.left), queues(&pair.right));
    let names = ["link", "set", &pair.left.interface, "name", "other"];
    pair.left.ip(&names);
    pair.left.interface = "other".into();
    transfer(&mut left, &mut right, &pair.right, 100);
    left.put(&pair.right, 1);
    stall(&pair.left, &mut left);
    assert_eq!(reset(&pair.left, &mut left), 1);
    transfer(&mut left, &mut right, &pair.right, 100);
    transfer(&mut right, &mut left, &pair.left, 100);
}

#[test]
fn an_interface_in_another_namespace_is_gone() {
    let pair = veth_or_skip!();
    let (mut left, mut right) = (queues(&pair.left), queues(&pair.right));
    transfer(&mut left, &mut right, &pair.right, 100);
    let Pair {
        left: from,
        right: to,
        ..
    } = &pair;
    from.ip(&["link", "set", &from.interface, "netns", &to.namespace]);
    left.put(to, 1);
    left.device.doorbell(NOW);
    let is_gone = from.inside(|| left.device.is_gone());
    assert_eq!(
        (is_gone, left.device.failure()),
        (true, Some(Failure::Removed))
    );
    let mut lost = Vec::new();
    left.device.reset(&mut lost);
    assert_eq!(lost.len(), 1);
    for packet in lost {
        let _ = left.pool.settle(packet);
    }
}

#[test]
fn dropping_the_device_leaves_no_program_behind() {
    let pair = pair_or_skip!();
    for _ in 0..3 {
        let port = Port::new(&pair.right);
        assert!(xdp_on(&pair.right));
        drop(port);
        assert!(!xdp_on(&pair.right));
        kernel_answers(&pair.left, &pair.right);
    }
}

#[test]
fn killing_the_process_leaves_no_program_behind() {
    let pair = pair_or_skip!();
    let end = &pair.right;
    let program = std::env::current_exe().unwrap();
    let mut holder = std::process::Command::new("ip")
        .args(["netns", "exec", &end.namespace])
        .arg(program)
        .args([
            "--exact",
            "lifetime::child_holds_a_device",
            "--ignored",
            "--nocapture",
        ])
        .env("TAUTLINE_HOLD", &end.interface)
        .spawn()
        .unwrap();
    for _ in 0..500 {
        if xdp_on(end) {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    assert!(xdp_on(end), "the child holds the device");
    assert!(
        matches!(Port::open(end, end.config()), Err(OpenError::Busy { .. })),
        "two owners"
    );
    holder.kill().unwrap(); // SIGKILL
    holder.wait().unwrap();
    let mut port = Port::new(end); // at once: the kernel may still be cleaning up
    let mut left = Port::new(&pair.left);
    transfer(&mut left, &mut port, end, 100);
    drop((port, left));
    assert!(!xdp_on(end));
    kernel_answers(&pair.left, &pair.right);
}

#[test]
#[ignore = "run by killing_the_process_leaves_no_program_behind"]
fn child_holds_a_device() {
    let interface = std::env::var("TAUTLINE_HOLD").unwrap();
    let take = Take::Addresses(vec!["10.77.0.2".parse().unwrap()]);
    let _device = XdpDevice::open(Config {
        interface,
        take,
        ..Config::default()
    })
    .unwrap();
    sleep(Duration::from_secs(60));
}

#[test]
fn frames_outlive_their_device() {
    let pair = pair_or_skip!();
    let Port { device, mut pool } = Port::new(&pair.left);
    let mut frame = pool.take().unwrap();
    drop(device);
    frame.bytes_mut().fill(7);
    assert!(frame.bytes().iter().all(|byte| *byte == 7));
    std::thread::spawn(move || drop(frame)).join().unwrap();
    drop(pool);
    Port::new(&pair.left); // the queue is free again
}

#[test]
fn a_removed_interface_is_a_failure_and_loses_no_frame() {
    let pair = veth_or_skip!();
    let mut left = Port::new(&pair.left);
    pair.left.ip(&["link", "delete", &pair.left.interface]);
    left.put(&pair.right, 1);
    left.device.doorbell(NOW);
    assert_eq!(left.device.failure(), Some(Failure::Removed));
    let mut lost = Vec::new();
    left.device.reset(&mut lost);
    assert_eq!(
        (lost.len(), left.device.in_flight(), left.device.room()),
        (1, 0, 0)
    );
    for packet in lost {
        let _ = left.pool.settle(packet);
    }
    assert_eq!(left.pool.outstanding(), 0);
}

#[test]
fn an_idle_receiver_hears_of_the_removal_too() {
    let pair = veth_or_skip!();
    let mut left = Port::new(&pair.left);
    assert_eq!(left.device.failure(), None);
    pair.right.ip(&["link", "delete", &pair.right.interface]); // takes its peer along
    sleep(Duration::from_millis(50));
    assert_eq!(left.device.failure(), Some(Failure::Removed));
}
