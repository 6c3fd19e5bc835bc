//! Groups of devices at the ends of cables: which of them receives a packet, and who serves the queue of one that has ended.

use super::*;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tautline_base::HeapFrame;

use crate::cable::{End, cable};
use crate::frame_device::FrameDevice;

#[test]
fn each_host_has_ports_of_its_own() {
    for count in [1, 2, 3, 7] {
        for index in 0..count {
            for random in [0, 1, 12_345, u64::MAX] {
                let port = own_port(index, count, random);
                assert!(PORTS.contains(&port));
                assert_eq!(usize::from(port - PORTS.start) % count, index);
            }
        }
    }
}

/// An Ethernet frame of an IPv4 packet to `port`.
fn tcp(port: u16) -> HeapFrame {
    segment([0, port], 0)
}

/// The same from one port to another, with these flags.
fn segment(ports: [u16; 2], flags: u8) -> HeapFrame {
    let mut frame = HeapFrame::new();
    let bytes = frame.bytes_mut();
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    bytes[23] = 6;
    bytes[34..36].copy_from_slice(&ports[0].to_be_bytes());
    bytes[36..38].copy_from_slice(&ports[1].to_be_bytes());
    bytes[47] = flags;
    frame
}

fn arp_reply() -> HeapFrame {
    let mut frame = HeapFrame::new();
    let bytes = frame.bytes_mut();
    bytes[12..14].copy_from_slice(&[8, 6]);
    bytes[21] = 2;
    frame
}

type Cable = FrameDevice<End>;
type Group<D = Cable> = Vec<WithFrames<Steered<D>>>;

/// The near ends of three cables, and the far ends.
fn cables() -> (Vec<Cable>, Vec<WithFrames<Cable>>) {
    let (mut near, mut devices) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let [one, other] = cable().expect("descriptors");
        near.push(one);
        devices.push((other, (0..300).map(|_| HeapFrame::new()).collect()));
    }
    (near, devices)
}

/// The near ends of three cables, and the group at the far ends.
fn three() -> (Vec<Cable>, Group) {
    let (near, devices) = cables();
    (near, steered(devices).expect("descriptors"))
}

fn send(from: &mut Cable, port: u16) {
    from.put(Packet::new(tcp(port), 60), Instant::ZERO);
    from.doorbell(Instant::ZERO);
}

/// The devices that receive, as often as they do, in two turns.
fn receivers<D>(group: &mut [WithFrames<Steered<D>>]) -> Vec<usize>
where
    D: Device<Frame = HeapFrame> + AsFd,
{
    let mut reached = Vec::new();
    for _ in 0..2 {
        for (device, _) in &mut *group {
            while let Some(received) = device.receive(Instant::ZERO) {
                reached.push(device.index);
                device.recycle(received.frame);
            }
        }
    }
    reached
}

#[test]
fn packets_reach_the_host_of_their_port_and_arp_reaches_all() {
    let now = Instant::ZERO;
    let (mut near, mut group) = three();
    let mut arrive = |queue: usize, frame| {
        near[queue].put(Packet::new(frame, 60), now);
        near[queue].doorbell(now);
        // The device that it arrives at has the first turn.
        let mut reached = vec![0; 3];
        for index in [queue, 0, 1, 2] {
            let device = &mut group[index].0;
            while let Some(received) = device.receive(now) {
                reached[index] += 1;
                device.recycle(received.frame);
            }
        }
        reached
    };
    assert_eq!(arrive(1, tcp(5001)), [0, 1, 0], "a listener's");
    for index in 0..3 {
        let mut expected = [0; 3];
        expected[index] = 1;
        for queue in 0..3 {
            let port = own_port(index, 3, 77);
            assert_eq!(arrive(queue, tcp(port)), expected);
        }
    }
    assert_eq!(arrive(2, arp_reply()), [1, 1, 1]);
    let question = |[sender, target]: [u8; 2]| {
        let mut frame = arp_reply();
        let bytes = frame.bytes_mut();
        bytes[21] = 1;
        (bytes[31], bytes[41]) = (sender, target);
        frame
    };
    assert_eq!(
        arrive(2, question([9, 9])),
        [1, 1, 1],
        "a neighbor has moved"
    );
    assert_eq!(arrive(2, question([9, 8])), [0, 0, 1], "answered once");
    assert_eq!(group[1].0.passed(), 2);
}

/// `ethtool -X` moves a connection to another queue; without the table it would be reset there.
#[test]
fn segments_of_an_accepted_connection_follow_it_when_rss_changes() {
    const SYN: u8 = 0x02;
    const RST: u8 = 0x04;
    const ACK: u8 = 0x10;
    let now = Instant::ZERO;
    let (mut near, mut group) = three();
    let mut arrive = |group: &mut Group, queue: usize, ports, flags| {
        near[queue].put(Packet::new(segment(ports, flags), 60), now);
        near[queue].doorbell(now);
        receivers(group)
    };
    let answer = |group: &mut Group, host: usize, port, flags| {
        let answer = Packet::new(segment([5001, port], flags), 60);
        group[host].0.put(answer, now);
    };
    assert_eq!(arrive(&mut group, 0, [1000, 5001], SYN), [0]);
    answer(&mut group, 0, 1000, SYN | ACK);
    assert_eq!(arrive(&mut group, 2, [1000, 5001], ACK), [0]);
    assert_eq!(arrive(&mut group, 2, [1001, 5001], ACK), [2], "nobody's");
    answer(&mut group, 2, 1001, RST);
    assert_eq!(arrive(&mut group, 1, [1001, 5001], ACK), [1], "still");
    assert_eq!(group[2].0.passed(), 1);
    drop(group.remove(0));
    assert_eq!(arrive(&mut group, 2, [1000, 5001], ACK), [2], "to reset it");
}

/// Two hosts that answer one SYN reset each other's connection: the client acknowledges one answer, and
/// that acknowledgment goes to the host that answered last.
#[test]
fn a_syn_that_is_sent_again_goes_to_the_host_that_got_it_first() {
    const SYN: u8 = 0x02;
    let (mut near, mut group) = three();
    let mut arrive = |group: &mut Group, queue: usize, ports| {
        near[queue].put(Packet::new(segment(ports, SYN), 60), Instant::ZERO);
        near[queue].doorbell(Instant::ZERO);
        receivers(group)
    };
    assert_eq!(arrive(&mut group, 1, [1000, 5001]), [1]);
    assert_eq!(arrive(&mut group, 0, [1000, 5001]), [1], "not answered yet");
    assert_eq!(arrive(&mut group, 0, [1002, 5001]), [0], "another");
    drop(group.remove(1));
    assert_eq!(arrive(&mut group, 0, [1000, 5001]), [0], "it has ended");
    assert_eq!(arrive(&mut group, 2, [1000, 5001]), [0]);
}

/// RSS does not know that a host has ended: packets for the others still arrive at its queue.
#[test]
fn the_queue_of_a_host_that_has_ended_is_served_by_another() {
    let (mut near, mut group) = three();
    let mut arrive = |group: &mut Group, port| {
        send(&mut near[0], port);
        receivers(group)
    };
    let to = [0, 1, 2].map(|index| own_port(index, 3, 77));
    assert_eq!(arrive(&mut group, to[2]), [2]);
    let (first, _) = group.remove(0);
    let killed = std::thread::spawn(move || {
        let _first = first;
        panic!("the thread of a host is killed by its test");
    });
    assert!(killed.join().is_err());
    assert_eq!(arrive(&mut group, to[1]), [1]);
    assert_eq!(arrive(&mut group, to[2]), [2]);
    assert_eq!(arrive(&mut group, 5001), [1], "a listener's");
    assert_eq!(arrive(&mut group, to[0]), [], "nobody's");
    drop(group.remove(0));
    assert_eq!(arrive(&mut group, to[2]), [2]);
    drop(group.remove(0));
    assert!(arrive(&mut group, to[2]).is_empty());
}

#[test]
fn forwarders_keep_what_arrives_and_cover_a_queue_whose_forwarder_has_ended() {
    let (mut near, devices) = cables();
    let mut group = covered(devices).expect("descriptors");
    assert!(group.iter().all(|(_, frames)| frames.len() == 299));
    let of_the_last = own_port(2, 3, 77);
    for from in &mut near {
        send(from, of_the_last);
    }
    assert_eq!(receivers(&mut group), [0, 1, 2]);
    drop(group.remove(0));
    for _ in 0..3 {
        near.iter_mut().for_each(|from| send(from, of_the_last));
    }
    let reached = receivers(&mut group);
    let reached = [1, 2].map(|index| reached.iter().filter(|at| **at == index).count());
    assert_eq!(reached, [6, 3]);
}

/// Else the thread that serves both would never sleep again.
#[test]
fn a_device_with_a_queue_of_another_is_readable_only_while_packets_wait() {
    let (mut near, mut group) = three();
    drop(group.remove(0));
    let is_readable = |(device, _): &WithFrames<Steered<Cable>>| {
        let mut fds = [PollFd::new(device, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).expect("poll(2)") == 1
    };
    assert!(!is_readable(&group[0]));
    send(&mut near[0], 5001);
    assert!(is_readable(&group[0]));
    assert_eq!(receivers(&mut group), [1]);
    assert!(!is_readable(&group[0]));
}

/// A device that may be broken: it receives nothing until it is reset.
struct Fragile {
    inner: Cable,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_broken: AtomicBool,
    is_gone: AtomicBool,
}

impl Device for Fragile {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn gathers(&self) -> bool {
        true
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, now: Instant) {
        self.inner.put(packet, now);
    }

    fn doorbell(&mut self, now: Instant) {
        self.inner.doorbell(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        self.inner.reap(now, done);
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn receive(&mut self, now: Instant) -> Option<Received<HeapFrame>> {
        let works = !self.state.is_broken.load(Ordering::Relaxed);
        works.then(|| self.inner.receive(now)).flatten()
    }

    fn recycle(&mut self, frame: HeapFrame) {
        self.inner.recycle(frame);
    }

    fn keep(&mut self, received: Received<HeapFrame>) -> Result<KeptPacket, Received<HeapFrame>> {
        self.inner.keep(received)
    }

    fn is_gone(&mut self) -> bool {
        self.state.is_gone.load(Ordering::Relaxed)
    }

    fn needs_reset(&mut self, _now: Instant) -> bool {
        self.state.is_broken.load(Ordering::Relaxed)
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        self.state.is_broken.store(false, Ordering::Relaxed);
        self.inner.reset(lost);
    }
}

impl AsFd for Fragile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

#[test]
fn a_device_whose_host_has_ended_is_still_reset_and_closes_once_it_is_gone() {
    let states = [0, 1].map(|_| Arc::new(State::default()));
    let (mut near, devices) = cables();
    let fragile = |((inner, frames), state): (WithFrames<Cable>, &Arc<State>)| {
        let state = Arc::clone(state);
        (Fragile { inner, state }, frames)
    };
    let devices = devices.into_iter().zip(&states).map(fragile);
    let mut group = steered(devices.collect()).expect("descriptors");
    let mut last = group.pop().expect("two").0;
    assert!(last.gathers(), "as the device below");
    drop(group);
    let mut arrive = |last: &mut Steered<Fragile>| {
        send(&mut near[0], 5001);
        let mut arrived = 0;
        while let Some(received) = last.receive(Instant::ZERO) {
            last.recycle(received.frame);
            arrived += 1;
        }
        arrived
    };
    let [of_the_ended, _] = &states;
    assert_eq!(arrive(&mut last), 1);
    of_the_ended.is_broken.store(true, Ordering::Relaxed);
    assert_eq!(arrive(&mut last), 0);
    assert!(!last.needs_reset(Instant::ZERO), "its own works");
    assert_eq!(arrive(&mut last), 2);
    of_the_ended.is_gone.store(true, Ordering::Relaxed);
    assert!(!last.needs_reset(Instant::ZERO));
    assert_eq!(arrive(&mut last), 0);
    assert_eq!(Arc::strong_count(of_the_ended), 1, "it is closed");
}

#[test]
fn payloads_are_gathered_and_packets_kept_as_by_the_device_of_the_queue() {
    let state = Arc::default();
    let (mut near, mut devices) = cables();
    let (inner, frames) = devices.remove(0);
    let device = (Fragile { inner, state }, frames);
    let mut group = steered(vec![device]).expect("descriptors");
    let device = &mut group[0].0;
    assert!(device.gathers());
    send(&mut near[0], 5001);
    let received = device.receive(Instant::ZERO).expect("it was sent");
    let Ok(kept) = device.keep(received) else {
        panic!("the device below keeps packets");
    };
    assert_eq!((*kept.bytes).as_ref().len(), 60);
}

#[test]
fn passed_packets_do_not_keep_a_host_from_its_own_queue() {
    let now = Instant::ZERO;
    let (mut near, mut group) = three();
    send(&mut near[1], 80);
    let flood = own_port(1, 3, 5);
    let mut is_served = false;
    for _ in 0..10 {
        (0..64).for_each(|_| send(&mut near[0], flood));
        // As many as `Host::receive` takes.
        for (device, _) in &mut group[..2] {
            for _ in 0..64 {
                let Some(received) = device.receive(now) else {
                    break;
                };
                is_served |= u16_at(received.bytes(), 36) == Some(80);
                device.recycle(received.frame);
            }
        }
    }
    assert!(is_served);
}
