//! Two interfaces on one UMEM, with a forwarder between them: near - left | right - far.

use std::collections::BTreeSet;
use std::ops::Range;

use super::*;

/// Frames of each side for each purpose: a lost one is missed soon.
const FRAMES: u32 = 256;
const BURST: u64 = 64;

/// Two veth pairs; one end of each is in the namespace of the forwarder.
struct Chain {
    _pairs: [Pair; 2],
    near: End,
    left: End,
    right: End,
    far: End,
}

impl Chain {
    /// `None`, with the reason printed, where the test cannot run.
    fn new(queues: u32) -> Option<Self> {
        let of_nics = || net::nics().map(|_| "needs veth pairs".to_owned());
        if let Some(reason) = net::blocked_by().or_else(of_nics) {
            eprintln!("skipped: {reason}");
            return None;
        }
        let pairs = [Pair::new(queues), Pair::new(queues)];
        let (near, left) = (pairs[0].left.clone(), pairs[0].right.clone());
        let (there, far) = (pairs[1].left.clone(), pairs[1].right.clone());
        there.ip(&["link", "set", &there.interface, "netns", &left.namespace]);
        let right = End {
            namespace: left.namespace.clone(),
            ..there
        };
        right.set_up();
        Some(Self {
            _pairs: pairs,
            near,
            left,
            right,
            far,
        })
    }

    fn ends(&self) -> [&End; 4] {
        [&self.near, &self.left, &self.right, &self.far]
    }

    fn configs(&self) -> [Config; 2] {
        [&self.left, &self.right].map(|end| Config {
            take: Take::Everything,
            transmit_frames: FRAMES,
            receive_frames: FRAMES,
            transmit_ring: FRAMES,
            receive_ring: FRAMES,
            ..end.config()
        })
    }

    fn open(&self) -> XdpPair {
        let [left, right] = self.configs();
        let opened = self.left.inside(|| XdpPair::open(left, right));
        self.ends().into_iter().for_each(End::wait_for_link);
        opened.expect("nobody else has these interfaces")
    }

    /// The hosts at both ends.
    fn hosts(&self) -> [Port; 2] {
        [Port::new(&self.near), Port::new(&self.far)]
    }
}

/// The end of a packet on its way through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passed,
    /// Dropped as it arrives, or in its new owner's hands.
    DroppedAtOnce,
    DroppedLater,
}

/// Forwards as a bridge does.
struct Forwarder {
    left: Port<XdpQueues>,
    right: Port<XdpQueues>,
    apart: Option<Apart>,
    /// By the number of the packet.
    fate: fn(u64) -> Fate,
    /// The right side sends nothing.
    is_stuck: bool,
    count: u64,
    moved: u64,
    copied: u64,
    time: u64,
}

impl Forwarder {
    fn new(pair: XdpPair) -> Self {
        let port = |(device, frames)| Port {
            device,
            pool: Pool::new(frames),
        };
        Self {
            left: port(pair.left),
            right: port(pair.right),
            apart: pair.apart,
            fate: |_| Fate::Passed,
            is_stuck: false,
            count: 0,
            moved: 0,
            copied: 0,
            time: 0,
        }
    }

    fn turn(&mut self) {
        self.time += 1;
        let now = NOW + Duration::from_millis(self.time);
        self.forward(true);
        self.forward(false);
        self.left.device.doorbell(now);
        self.left.reap(now);
        if !self.is_stuck {
            self.right.device.doorbell(now);
            self.right.reap(now);
        }
    }

    fn forward(&mut self, to_right: bool) {
        let (from, to) = if to_right {
            (&mut self.left, &mut self.right)
        } else {
            (&mut self.right, &mut self.left)
        };
        while let Some(received) = from.device.receive(NOW) {
            self.count += 1;
            let fate = (self.fate)(self.count);
            let free = (fate != Fate::DroppedAtOnce).then(|| to.pool.take());
            let Some(mut free) = free.flatten() else {
                from.device.recycle(received.frame);
                continue;
            };
            let len = received.len;
            let is_exchange = received.start == 0
                && received.frame.bytes().len() == free.bytes().len()
                && to.device.accepts(&received.frame)
                && from.device.accepts(&free);
            let (frame, back) = if is_exchange {
                self.moved += 1;
                (received.frame, free)
            } else {
                self.copied += 1;
                let bytes = received.bytes();
                free.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
                (free, received.frame)
            };
            from.device.recycle(back);
            if fate == Fate::Passed && to.device.room() > 0 {
                to.device.put(Packet::new(frame, len), NOW);
            } else {
                to.pool.put_back(frame);
            }
        }
    }

    fn drops(&self) -> bool {
        self.is_stuck || (1..100).any(|count| (self.fate)(count) != Fate::Passed)
    }

    /// Drops left and right; panics if a frame is missing or a descriptor was refused.
    fn end(mut self) {
        self.left.settle();
        self.right.settle();
        for port in [&self.left, &self.right] {
            let counters = port.device.counters();
            let refused = [
                counters.bad_received,
                counters.bad_completed,
                counters.foreign_frames,
            ];
            assert_eq!(refused, [0; 3]);
        }
    }
}

/// A frame of `len` bytes to `to`, all of which depend on its mark.
fn bytes_of(to: &End, mark: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (mark as usize * 31 + at) as u8).collect();
    write_frame(&mut bytes, len, to.address, mark);
    bytes
}

/// Sends packets of `lengths` bytes through the forwarder in bursts; returns the number of those that
/// arrived, each of which is what was sent.
fn carry(
    forwarder: &mut Forwarder,
    [from, to]: [&mut Port; 2],
    destination: &End,
    (marks, lengths): (Range<u64>, fn(u64) -> usize),
) -> u64 {
    // Milliseconds after which what has not arrived was dropped.
    let patience = if forwarder.drops() { 50 } else { 1000 };
    let mut arrived = BTreeSet::new();
    for start in marks.clone().step_by(BURST as usize) {
        let burst = start..marks.end.min(start + BURST);
        for mark in burst.clone() {
            let bytes = bytes_of(destination, mark, lengths(mark));
            let mut frame = from.pool.take().expect("the reserve is large enough");
            frame.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
            from.device.put(Packet::new(frame, bytes.len() as u32), NOW);
        }
        from.device.doorbell(NOW);
        let mut silence = 0;
        while (arrived.len() as u64) < burst.end && silence < patience {
            silence += 1;
            forwarder.turn();
            while let Some(received) = to.device.receive(NOW) {
                let tail = received.bytes().last_chunk().expect("no frame is shorter");
                let mark = u64::from_be_bytes(*tail);
                assert!(marks.contains(&mark), "{mark}");
                assert!(received.bytes() == bytes_of(destination, mark, lengths(mark)));
                assert!(arrived.insert(mark), "{mark} came twice");
                to.device.recycle(received.frame);
                silence = 0;
            }
            if silence > 0 {
                sleep(Duration::from_millis(1));
            }
        }
        from.settle();
    }
    arrived.len() as u64
}

const fn ordinary(mark: u64) -> usize {
    60 + (mark * 37 % 1455) as usize
}

/// `count` packets each way, all of which arrive.
fn both_ways(chain: &Chain, forwarder: &mut Forwarder, [near, far]: &mut [Port; 2], count: u64) {
    let packets = || (0..count, ordinary as fn(u64) -> usize);
    let there = carry(forwarder, [&mut *near, &mut *far], &chain.far, packets());
    let back = carry(forwarder, [far, near], &chain.near, packets());
    assert_eq!((there, back), (count, count));
}

#[test]
fn frames_pass_between_two_interfaces_on_one_umem_without_a_copy() {
    let Some(chain) = Chain::new(1) else { return };
    let mut hosts = chain.hosts();
    // Twice: the first has left nothing behind.
    for _ in 0..2 {
        let mut forwarder = Forwarder::new(chain.open());
        assert!(forwarder.apart.is_none(), "{:?}", forwarder.apart);
        both_ways(&chain, &mut forwarder, &mut hosts, 5000);
        assert_eq!((forwarder.moved, forwarder.copied), (10_000, 0));
        forwarder.end();
    }
    for end in [&chain.left, &chain.right] {
        assert!(!xdp_on(end));
    }
}

#[test]
fn dropped_packets_leave_their_frames_with_the_side_that_needs_them() {
    let Some(chain) = Chain::new(1) else { return };
    let [mut near, mut far] = chain.hosts();
    let mut forwarder = Forwarder::new(chain.open());
    forwarder.fate = |count| match count % 4 {
        0 => Fate::DroppedAtOnce,
        1 => Fate::DroppedLater,
        _ => Fate::Passed,
    };
    let packets = || (0..4 * u64::from(FRAMES), ordinary as fn(u64) -> usize);
    let there = carry(&mut forwarder, [&mut near, &mut far], &chain.far, packets());
    let back = carry(
        &mut forwarder,
        [&mut far, &mut near],
        &chain.near,
        packets(),
    );
    let half = 2 * u64::from(FRAMES);
    assert_eq!((there, back), (half, half));
    // Both fill rings are as full as at the beginning.
    for (from, to) in [(&mut near, &chain.far), (&mut far, &chain.near)] {
        (0..FRAMES).for_each(|mark| from.put(to, mark.into()));
        from.device.doorbell(NOW);
        from.settle();
    }
    let before = forwarder.count;
    forwarder.turn();
    assert_eq!(forwarder.count - before, 2 * u64::from(FRAMES));
    let lost = |port: &Port<XdpQueues>| {
        let kernel = port.device.kernel();
        kernel.fill_ring_empty + kernel.receive_ring_full + kernel.receive_dropped
    };
    assert_eq!((lost(&forwarder.left), lost(&forwarder.right)), (0, 0));
    forwarder.end();
}

#[test]
fn a_side_that_sends_nothing_holds_no_frames_of_the_other() {
    let Some(chain) = Chain::new(1) else { return };
    let [mut near, mut far] = chain.hosts();
    let mut forwarder = Forwarder::new(chain.open());
    forwarder.is_stuck = true;
    let packets = |count: u32| (0..count.into(), ordinary as fn(u64) -> usize);
    let there = carry(
        &mut forwarder,
        [&mut near, &mut far],
        &chain.far,
        packets(3 * FRAMES),
    );
    assert_eq!((there, forwarder.right.pool.free()), (0, 0));
    let back = carry(
        &mut forwarder,
        [&mut far, &mut near],
        &chain.near,
        packets(5 * FRAMES),
    );
    assert_eq!(back, 5 * u64::from(FRAMES));
    forwarder.is_stuck = false;
    forwarder.turn();
    forwarder.end();
}

/// The other side would receive into what is still to be sent.
#[test]
fn frames_that_the_kernel_may_still_send_stay_with_their_side() {
    let Some(chain) = Chain::new(1) else { return };
    let Forwarder {
        mut left,
        mut right,
        ..
    } = Forwarder::new(chain.open());
    let link = |state| {
        chain
            .right
            .ip(&["link", "set", &chain.right.interface, state])
    };
    link("down");
    right.put(&chain.far, 1);
    right.device.doorbell(NOW);
    let mut lost = Vec::new();
    right.device.reset(&mut lost);
    assert_eq!(lost.len(), 1);
    let frame = left.pool.take().expect("it has sent nothing");
    assert!(!right.device.accepts(&frame));
    assert!(left.device.accepts(&frame));
    link("up");
    chain.right.wait_for_link();
    for turn in 0..1000 {
        right.reap(NOW + Duration::from_millis(turn));
        if right.device.accepts(&frame) {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    assert!(right.device.accepts(&frame));
}

#[test]
fn a_side_that_is_opened_anew_leaves_the_umem_to_the_other() {
    let Some(chain) = Chain::new(1) else { return };
    let mut hosts = chain.hosts();
    let mut forwarder = Forwarder::new(chain.open());
    both_ways(&chain, &mut forwarder, &mut hosts, 500);
    // The first socket of the UMEM goes first, then the other, then both again.
    for round in 0..4 {
        let (end, port) = if round % 2 == 0 {
            (&chain.left, &mut forwarder.left)
        } else {
            (&chain.right, &mut forwarder.right)
        };
        // Staged and never submitted: nothing completes them, while the link is up.
        (0..5).for_each(|mark| port.put(&chain.far, mark));
        stall(end, port);
        assert_eq!(reset(end, port), 5);
        assert_eq!(forwarder.copied, 2000 * round);
        both_ways(&chain, &mut forwarder, &mut hosts, 1000);
    }
    drop(forwarder);
    // Nothing keeps the queues.
    let forwarder = Forwarder::new(chain.open());
    assert!(forwarder.apart.is_none(), "{:?}", forwarder.apart);
    forwarder.end();
}

#[test]
fn the_other_side_works_on_after_one_was_removed() {
    let Some(chain) = Chain::new(1) else { return };
    let mut hosts = chain.hosts();
    let mut forwarder = Forwarder::new(chain.open());
    both_ways(&chain, &mut forwarder, &mut hosts, 500);
    let [near, mut far] = hosts;
    drop(near);
    chain.near.ip(&["link", "del", &chain.near.interface]);
    forwarder.left.put(&chain.near, 1);
    forwarder.left.device.doorbell(NOW);
    assert!(chain.left.inside(|| forwarder.left.device.is_gone()));
    let mut lost = Vec::new();
    forwarder.left.device.reset(&mut lost);
    assert_eq!(lost.len(), 1);
    for packet in lost {
        let _ = forwarder.left.pool.settle(packet);
    }
    let Forwarder { left, right, .. } = &mut forwarder;
    for _ in 0..10 {
        transfer(&mut far, right, &chain.right, 100);
        transfer(right, &mut far, &chain.far, 100);
    }
    assert_eq!(left.pool.outstanding(), 0);
    forwarder.end();
}

#[test]
fn packets_that_span_chunks_pass_between_two_interfaces_on_one_umem() {
    let Some(chain) = Chain::new(1) else { return };
    for end in chain.ends() {
        end.ip(&["link", "set", &end.interface, "mtu", "9000"]);
    }
    let mut hosts = chain.hosts();
    let mut forwarder = Forwarder::new(chain.open());
    assert!(forwarder.apart.is_none(), "{:?}", forwarder.apart);
    let lengths = |mark: u64| {
        if mark.is_multiple_of(3) {
            60
        } else {
            5000 + mark as usize
        }
    };
    let [near, far] = &mut hosts;
    let packets = || (0..900, lengths as fn(u64) -> usize);
    let there = carry(
        &mut forwarder,
        [&mut *near, &mut *far],
        &chain.far,
        packets(),
    );
    let back = carry(&mut forwarder, [far, near], &chain.near, packets());
    assert_eq!((there, back), (900, 900));
    // A short packet arrives in one chunk, and frames for sending have three.
    assert_eq!((forwarder.moved, forwarder.copied), (1200, 600));
    forwarder.end();
}

#[test]
fn interfaces_that_cannot_share_a_umem_have_one_each_and_the_reason_is_named() {
    let Some(chain) = Chain::new(1) else { return };
    for end in [&chain.right, &chain.far] {
        end.ip(&["link", "set", &end.interface, "mtu", "9000"]);
    }
    let mut hosts = chain.hosts();
    let mut forwarder = Forwarder::new(chain.open());
    let reason = forwarder.apart.as_ref().map(ToString::to_string);
    let reason = reason.expect("their frames differ");
    assert!(reason.contains("1500 and 9000"), "{reason}");
    both_ways(&chain, &mut forwarder, &mut hosts, 500);
    assert_eq!((forwarder.moved, forwarder.copied), (0, 1000));
    forwarder.end();
}

#[test]
fn pairs_of_queues_share_a_umem_each() {
    let Some(chain) = Chain::new(2) else { return };
    let pair = chain.open();
    assert!(matches!(pair.apart, Some(Apart::Queues { count: 2, .. })));
    drop(pair);
    let [left, right] = chain.configs();
    let pairs = chain.left.inside(|| XdpPair::open_each(&left, &right, 2));
    for pair in pairs.expect("two queues each") {
        assert!(pair.apart.is_none(), "{:?}", pair.apart);
        let ((left, of_left), (right, of_right)) = (pair.left, pair.right);
        assert!(left.accepts(&of_right[0]) && right.accepts(&of_left[0]));
    }
}
