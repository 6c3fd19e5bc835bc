//! Devices on real veth pairs, in namespaces of their own. Without root or AF_XDP each test prints
//! why it is skipped.

mod net;

use std::sync::Arc;
use std::time::Duration;

use net::{End, Pair, write_frame};
use tautline_base::{Device, Frame, Instant, Packet, Pool};
use tautline_xdp_io::{
    Attachment, Bind, Config, CopyReason, Driver, Failure, OpenError, Take, UmemFrame, XdpDevice,
    XdpQueues, interface_mac, interface_queues,
};

const NOW: Instant = Instant::ZERO;

#[expect(clippy::disallowed_methods, reason = "waits for a kernel")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// The pair, or a printed reason and the end of the test.
macro_rules! pair_or_skip {
    () => {
        pair_or_skip!(1)
    };
    ($queues:expr) => {
        match net::blocked_by() {
            None => Pair::new($queues),
            Some(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
        }
    };
}

/// A device with its transmit reserve.
struct Port<D = XdpDevice> {
    device: D,
    pool: Pool<UmemFrame>,
}

impl Port {
    fn open(end: &End, config: Config) -> Result<Self, OpenError> {
        let (device, frames) = end.inside(|| XdpDevice::open(config))?;
        Ok(Self {
            device,
            pool: Pool::new(frames),
        })
    }

    fn new(end: &End) -> Self {
        Self::open(end, end.config()).expect("nobody else has this interface")
    }
}

impl<D: Device<Frame = UmemFrame>> Port<D> {
    fn put(&mut self, to: &End, mark: u64) {
        let mut frame = self.pool.take().expect("the reserve is large enough");
        write_frame(frame.bytes_mut(), 60, to.address, mark);
        self.device.put(Packet::new(frame, 60), NOW);
    }

    fn reap(&mut self, now: Instant) {
        let mut done = Vec::new();
        self.device.reap(now, &mut done);
        for packet in done {
            let _ = self.pool.settle(packet);
        }
    }

    /// Reaps until nothing is in flight.
    fn settle(&mut self) {
        for turn in 0..1000 {
            self.reap(NOW + Duration::from_millis(turn));
            if self.device.in_flight() == 0 {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        assert_eq!(
            (self.device.in_flight(), self.pool.outstanding()),
            (0, 0),
            "every frame is back"
        );
    }

    /// The marks of the frames that arrive until `count` have or a second has passed.
    fn marks(&mut self, count: usize) -> Vec<u64> {
        let mut marks = Vec::new();
        for _ in 0..1000 {
            while let Some(received) = self.device.receive(NOW) {
                let tail = received.bytes().last_chunk().expect("no frame is shorter");
                marks.push(u64::from_be_bytes(*tail));
                self.device.recycle(received.frame);
            }
            if marks.len() >= count {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        marks
    }
}

/// Sends `count` marked frames in bursts; checks that all arrive in order.
fn transfer<D: Device<Frame = UmemFrame>>(
    from: &mut Port<D>,
    to: &mut Port<impl Device<Frame = UmemFrame>>,
    destination: &End,
    count: u64,
) {
    const BURST: u64 = 500;
    for start in (0..count).step_by(BURST as usize) {
        let burst = start..count.min(start + BURST);
        burst.clone().for_each(|mark| from.put(destination, mark));
        from.device.doorbell(NOW);
        assert_eq!(to.marks(burst.clone().count()), burst.collect::<Vec<_>>());
        from.settle();
    }
}

#[test]
fn frames_cross_both_ways_and_all_are_accounted_for() {
    let pair = pair_or_skip!();
    let (mut left, mut right) = (Port::new(&pair.left), Port::new(&pair.right));
    assert_eq!(left.device.mode().to_string(), "native driver mode, copy");
    assert_eq!(left.device.copy_reason(), Some(CopyReason::Driver));
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

/// Raises the MTU of both ends to 9000.
fn jumbo(pair: &Pair) {
    for end in [&pair.left, &pair.right] {
        end.ip(&["link", "set", &end.interface, "mtu", "9000"]);
    }
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
        let pair = pair_or_skip!();
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
    let pair = pair_or_skip!();
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
    let pair = pair_or_skip!();
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

#[test]
fn a_driver_without_native_xdp_falls_back_and_says_so() {
    let pair = pair_or_skip!();
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
    let pair = pair_or_skip!(2);
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
    let pair = pair_or_skip!(2);
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

/// All queues of `end` as one device.
fn queues(end: &End) -> Port<XdpQueues> {
    let opened = end.inside(|| XdpQueues::open(end.config(), None));
    let (device, frames) = opened.expect("nobody else has this interface");
    Port {
        device,
        pool: Pool::new(frames),
    }
}

/// Lets six seconds pass without a completion, while the kernel knows that the link is up.
fn stall(end: &End, port: &mut Port<XdpQueues>) {
    let state = || end.ip(&["link", "show", &end.interface]);
    while !state().contains("state UP") {
        sleep(Duration::from_millis(10));
    }
    let later = NOW + Duration::from_secs(6);
    port.device.reap(later, &mut Vec::new());
}

/// Resets a device that needs it, from inside the namespace of `end`. Returns the packets it lost.
fn reset(end: &End, port: &mut Port<XdpQueues>) -> usize {
    let mut lost = Vec::new();
    end.inside(|| {
        assert!(!port.device.is_gone());
        assert!(port.device.needs_reset());
        port.device.reset(&mut lost);
        assert!(!port.device.needs_reset());
    });
    let count = lost.len();
    for packet in lost {
        let _ = port.pool.settle(packet);
    }
    count
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
fn an_interface_with_a_new_name_is_still_served() {
    let mut pair = pair_or_skip!();
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
    let pair = pair_or_skip!();
    let (mut left, mut right) = (queues(&pair.left), queues(&pair.right));
    transfer(&mut left, &mut right, &pair.right, 100);
    let Pair {
        left: from,
        right: to,
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
fn a_driver_that_no_reset_helps_is_given_up() {
    let pair = pair_or_skip!();
    let mut left = queues(&pair.left);
    for _ in 0..4 {
        left.put(&pair.right, 1);
        stall(&pair.left, &mut left);
        assert_eq!(reset(&pair.left, &mut left), 1);
    }
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
    let needs_reset = |port: &mut Port<XdpQueues>| pair.left.inside(|| port.device.needs_reset());
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
    assert!((0..10).any(|_| needs_reset(&mut left)));
    assert_eq!(reset(&pair.left, &mut left), 0);
    assert!(left.device.rebinds().to_string().contains("link came back"));
    assert!(!needs_reset(&mut left));
    flap(&mut left);
    assert!((0..10).all(|_| !needs_reset(&mut left)), "not twice");
}

#[test]
fn queues_that_appear_while_the_device_is_open_are_served() {
    let pair = pair_or_skip!(2);
    let (left, right) = (&pair.left, &pair.right);
    // The driver wants as many queues that receive as the peer has queues that send.
    let set = |end: &End, way, count| end.exec(&["ethtool", "-L", &end.interface, way, count]);
    set(left, "tx", "1");
    set(right, "rx", "1");
    let mut all = queues(right);
    assert_eq!(all.device.queues().len(), 1);
    assert!(right.inside(|| !all.device.needs_reset()));
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
    let pair = pair_or_skip!(2);
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
    assert_eq!(failure_after(4), None);
    assert_eq!(failure_after(5), Some(Failure::Stalled));
}

#[test]
fn only_our_address_is_redirected() {
    let pair = pair_or_skip!();
    let Pair { left, right } = &pair;
    let mut port = Port::new(right);
    // The kernel's own address answers through the attached program, both ARP and ICMP.
    left.exec(&[
        "ping",
        "-c",
        "3",
        "-i",
        "0.1",
        "-W",
        "2",
        &right.kernel_address.to_string(),
    ]);
    assert_eq!(
        port.device.statistics().device.received,
        0,
        "the kernel's traffic stays with the kernel"
    );
    // For our address the kernel asks by ARP, which reaches us and not the kernel.
    let ours = right.address.to_string();
    let _ = std::process::Command::new("ip")
        .args([
            "netns",
            "exec",
            &left.namespace,
            "ping",
            "-c",
            "1",
            "-W",
            "1",
            &ours,
        ])
        .output();
    let received = port.device.receive(NOW).expect("an ARP request");
    assert_eq!(received.bytes()[12..14], [8, 6]);
    assert_eq!(received.bytes()[38..42], right.address.octets());
    port.device.recycle(received.frame);
}

/// The verifier has to like the program, and the kernel to send what it looks for.
#[test]
fn only_solicitations_for_our_ipv6_address_are_redirected() {
    let pair = pair_or_skip!();
    let Pair { left, right } = &pair;
    for (end, address) in [(left, "fd00:77::a"), (right, "fd00:77::b")] {
        end.exec(&[
            "sh",
            "-c",
            &format!(
                "echo 0 > /proc/sys/net/ipv6/conf/{}/disable_ipv6",
                end.interface
            ),
        ]);
        end.ip(&[
            "address",
            "add",
            &format!("{address}/64"),
            "dev",
            &end.interface,
            "nodad",
        ]);
    }
    // Shares its group with the kernel's address, whose last 24 bits are the same.
    let ours: std::net::Ipv6Addr = "fd00:77::1:0:0:b".parse().unwrap();
    let config = Config {
        take: Take::Addresses(vec![ours.into()]),
        ..right.config()
    };
    let (mut device, _frames) = right.inside(|| XdpDevice::open(config)).unwrap();
    left.exec(&[
        "ping",
        "-6",
        "-c",
        "2",
        "-i",
        "0.1",
        "-W",
        "2",
        "fd00:77::b",
    ]);
    assert_eq!(
        device.statistics().device.received,
        0,
        "the kernel's traffic stays with the kernel"
    );
    let asks = [
        "netns",
        "exec",
        &left.namespace,
        "ping",
        "-6",
        "-c",
        "1",
        "-W",
        "1",
        &ours.to_string(),
    ];
    let _ = std::process::Command::new("ip").args(asks).output();
    let received = device.receive(NOW).expect("a solicitation");
    assert_eq!(received.bytes()[12..14], [0x86, 0xdd]);
    assert_eq!(received.bytes()[62..78], ours.octets());
    device.recycle(received.frame);
}

/// An ICMP echo request from `from`'s address to the kernel's at the other end, as an Ethernet
/// frame of `len` bytes, an even number.
fn write_echo_request(bytes: &mut [u8], len: usize, from: &End, to: &End) {
    write_frame(bytes, len, to.kernel_address, 0);
    bytes[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    bytes[23] = 1;
    bytes[26..30].copy_from_slice(&from.address.octets());
    bytes[34..42].copy_from_slice(&[8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    bytes[42..len].fill(0x5a);
    for (start, end, at) in [(14, 34, 24), (34, len, 36)] {
        let words = bytes[start..end]
            .chunks(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[at..at + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
    }
}

#[test]
fn a_kernel_without_xdp_answers_us() {
    let pair = pair_or_skip!();
    kernel_echoes(&pair, 60);
}

#[test]
fn a_kernel_answers_packets_that_span_chunks() {
    let pair = pair_or_skip!();
    jumbo(&pair);
    kernel_echoes(&pair, 9014);
}

/// The kernel at the right answers an echo request of `len` bytes from the left.
fn kernel_echoes(pair: &Pair, len: usize) {
    let Pair { left, right } = pair;
    let mut port = Port::new(left);
    let mac = left
        .inside(|| interface_mac(&left.interface))
        .expect("it exists");
    let mac_text = mac.map(|byte| format!("{byte:02x}")).join(":");
    right.ip(&[
        "neighbour",
        "add",
        &left.address.to_string(),
        "lladdr",
        &mac_text,
        "dev",
        &right.interface,
    ]);
    let mut frame = port.pool.take().expect("one is free");
    write_echo_request(frame.bytes_mut(), len, left, right);
    let peer = right
        .inside(|| interface_mac(&right.interface))
        .expect("it exists");
    frame.bytes_mut()[..6].copy_from_slice(&peer);
    port.device.put(Packet::new(frame, len as u32), NOW);
    port.device.doorbell(NOW);
    port.settle();
    sleep(Duration::from_millis(50));
    let reply = port.device.receive(NOW).expect("an echo reply");
    assert_eq!(reply.bytes().len(), len);
    assert_eq!(reply.bytes()[..6], mac);
    assert_eq!(
        (reply.bytes()[23], reply.bytes()[34], &reply.bytes()[38..42]),
        (1, 0, &[0x12, 0x34, 0, 1][..])
    );
    assert!(reply.bytes()[42..].iter().all(|byte| *byte == 0x5a));
    port.device.recycle(reply.frame);
}

/// The XDP program as `ip -d link` shows it.
fn xdp_on(end: &End) -> bool {
    end.ip(&["-d", "link", "show", &end.interface])
        .contains("prog/xdp")
}

fn kernel_answers(end: &End, peer: &End) {
    end.exec(&[
        "ping",
        "-c",
        "1",
        "-W",
        "2",
        &peer.kernel_address.to_string(),
    ]);
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
            "child_holds_a_device",
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
    sleep(Duration::from_millis(100));
    left.settle();
    assert_eq!(left.device.failure(), None);
    assert_eq!(right.marks(1), [42]);
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
    sleep(Duration::from_millis(100));
    left.settle();
    assert!(left.device.room() > 0);
    assert_eq!(left.device.statistics().device.late_completed, 10);
    assert_eq!(right.marks(10).len(), 10);
    transfer(&mut left, &mut right, &pair.right, 100);
}

#[test]
fn a_removed_interface_is_a_failure_and_loses_no_frame() {
    let pair = pair_or_skip!();
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
    let pair = pair_or_skip!();
    let mut left = Port::new(&pair.left);
    assert_eq!(left.device.failure(), None);
    pair.right.ip(&["link", "delete", &pair.right.interface]); // takes its peer along
    sleep(Duration::from_millis(50));
    assert_eq!(left.device.failure(), Some(Failure::Removed));
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let pair = pair_or_skip!();
    let end = &pair.left;
    let refusal = |config| {
        Port::open(end, config)
            .map(|_| ())
            .expect_err("must be refused")
            .to_string()
    };
    let missing = refusal(Config {
        interface: "tl-none".into(),
        ..end.config()
    });
    assert!(
        missing.contains("tl-none") && missing.contains("ip -br link"),
        "{missing}"
    );
    let generic = refusal(Config {
        bind: Bind::ZeroCopy,
        driver: Driver::Skb,
        ..end.config()
    });
    assert!(generic.contains("generic hook"), "{generic}");
    let queue = refusal(Config {
        queue: 9,
        ..end.config()
    });
    assert!(
        queue.contains("queue 9") && queue.contains("ethtool -l"),
        "{queue}"
    );
    let queue = refusal(Config {
        queue: 5000,
        ..end.config()
    });
    assert!(queue.contains("queue 5000"), "{queue}");
    let zero_copy = refusal(Config {
        bind: Bind::ZeroCopy,
        ..end.config()
    });
    assert!(
        zero_copy.contains("zero copy") && zero_copy.contains("Bind::Auto"),
        "{zero_copy}"
    );
    end.ip(&["link", "set", &end.interface, "mtu", "3000"]);
    let mtu = refusal(Config {
        bind: Bind::ZeroCopy,
        ..end.config()
    });
    assert!(mtu.contains("mtu 2022"), "{mtu}");
    end.ip(&["link", "set", &end.interface, "mtu", "9000"]);
    assert!(Port::open(end, end.config()).is_ok(), "in several chunks");
    end.ip(&["link", "set", &end.interface, "mtu", "65535"]);
    let mtu = refusal(end.config());
    assert!(
        mtu.contains("MTU of 65535") && mtu.contains("mtu 60394"),
        "{mtu}"
    );
    end.ip(&["link", "set", &end.interface, "mtu", "1500"]);
    pair.right
        .ip(&["link", "set", &pair.right.interface, "mtu", "9000"]);
    let peer = refusal(end.config());
    assert!(peer.contains("peer") && peer.contains("1500"), "{peer}");
}

/// Runs an ignored test of this file through `wrapper`; answers what it printed.
fn child(wrapper: &[&str], test: &str) -> String {
    let program = std::env::current_exe().expect("this file runs");
    let output = std::process::Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .expect("the wrapper exists");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
#[ignore = "run by the two tests below"]
fn child_is_refused() {
    let interface = std::env::var("TAUTLINE_HOLD").unwrap_or_else(|_| "lo".into());
    let take = Take::Addresses(vec!["10.77.0.2".parse().unwrap()]);
    let refusal = XdpDevice::open(Config {
        interface,
        take,
        ..Config::default()
    })
    .expect_err("must be refused");
    println!("{refusal}");
}

#[test]
fn a_missing_capability_is_named() {
    if let Some(reason) = net::blocked_by() {
        eprintln!("skipped: {reason}");
        return;
    }
    let said = child(
        &["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
        "child_is_refused",
    );
    assert!(
        said.contains("no permission") && said.contains("CAP_BPF"),
        "{said}"
    );
}

#[test]
fn too_little_lockable_memory_is_explained_with_numbers() {
    let pair = pair_or_skip!();
    let unlocked = [
        "setpriv",
        "--bounding-set=-ipc_lock,-sys_resource",
        "--inh-caps=-ipc_lock,-sys_resource",
    ];
    let limited = [
        "prlimit",
        "--memlock=65536:65536",
        "env",
        "TAUTLINE_HOLD=vleft",
    ];
    let inside = ["ip", "netns", "exec", &pair.left.namespace];
    let said = child(
        &[&inside[..], &limited, &unlocked].concat(),
        "child_is_refused",
    );
    assert!(
        said.contains("33554432 bytes")
            && said.contains("65536 bytes")
            && said.contains("ulimit -l"),
        "{said}"
    );
}
