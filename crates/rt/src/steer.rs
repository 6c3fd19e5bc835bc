//! [`steered`]: the queues of one NIC, each a device with a host and a thread of its own, all hosts with the same addresses.
//!
//! RSS assigns a flow to a queue by a hash that a program does not know. A connection that a peer opens stays
//! at the queue of its SYN. The answers to a connection that a host opens arrive at any queue, and so do
//! ARP replies. Therefore each host opens connections from ports of its own ([`own_port`]), and a device
//! passes packets to those ports on to the device of their host. It copies to all what every host
//! needs: ARP replies, neighbor advertisements, ICMP errors.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll;
use tautline_base::headers::u16_at;
use tautline_base::{Device, Frame, Instant, Medium, Packet, Received, Tso};

use crate::event_fd::EventFd;

/// Ports of connections that hosts open: `net.ipv4.ip_local_port_range` of Linux.
const PORTS: std::ops::Range<u16> = 32_768..61_000;
/// Frames of each device for packets that other devices pass on.
const FRAMES: usize = 256;

/// A port from which host `index` of `count` may open a connection; `random` selects among them.
///
/// # Panics
/// If `index` is not below `count`, or there are fewer ports than hosts.
pub fn own_port(index: usize, count: usize, random: u64) -> u16 {
    assert!(
        index < count && count <= PORTS.len(),
        "a host without ports"
    );
    let each = (PORTS.len() / count) as u64;
    PORTS.start + ((random % each) as usize * count + index) as u16
}

/// One of several devices on the queues of a NIC.
#[derive(Debug)]
pub struct Steered<D: Device> {
    inner: D,
    index: usize,
    inboxes: Arc<[Inbox]>,
    spare: Vec<D::Frame>,
    /// Readable if the device or the inbox is.
    readiness: OwnedFd,
    /// Packets that this device passed on.
    passed: u64,
}

/// Packets that other devices have passed on.
#[derive(Debug)]
struct Inbox {
    packets: Mutex<Packets>,
    /// Whether there are packets; changed under the lock.
    is_filled: AtomicBool,
    event_fd: EventFd,
}

/// At most [`FRAMES`] packets; more are dropped.
#[derive(Debug, Default)]
struct Packets {
    waiting: VecDeque<Vec<u8>>,
    free: Vec<Vec<u8>>,
}

impl Inbox {
    fn packets(&self) -> MutexGuard<'_, Packets> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: &[u8]) {
        let mut packets = self.packets();
        if packets.waiting.len() < FRAMES {
            let mut packet = packets.free.pop().unwrap_or_default();
            packet.clear();
            packet.extend_from_slice(bytes);
            packets.waiting.push_back(packet);
            self.is_filled.store(true, Ordering::Release);
            self.event_fd.signal();
        }
    }
}

/// A device, and its frames for sending.
pub type WithFrames<D> = (D, Vec<<D as Device>::Frame>);

/// Makes a group of the devices of all queues, in their order, each with its frames for sending, of
/// which it keeps some to receive into.
///
/// # Errors
/// If the process has no file descriptor left.
pub fn steered<D>(devices: Vec<WithFrames<D>>) -> io::Result<Vec<WithFrames<Steered<D>>>>
where
    D: Device + AsFd,
{
    let inbox = |_: &_| {
        Ok(Inbox {
            packets: Mutex::default(),
            is_filled: AtomicBool::new(false),
            event_fd: EventFd::new()?,
        })
    };
    let inboxes: Arc<[Inbox]> = devices.iter().map(inbox).collect::<io::Result<_>>()?;
    let steer = |(index, (inner, mut frames)): (usize, WithFrames<D>)| {
        let spare = frames.split_off(frames.len().saturating_sub(FRAMES));
        let device = Steered {
            readiness: watch(&inner, &inboxes[index])?,
            inner,
            index,
            inboxes: Arc::clone(&inboxes),
            spare,
            passed: 0,
        };
        Ok((device, frames))
    };
    devices.into_iter().enumerate().map(steer).collect()
}

fn watch(device: &impl AsFd, inbox: &Inbox) -> io::Result<OwnedFd> {
    let readiness = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for fd in [device.as_fd(), inbox.event_fd.as_fd()] {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&readiness, fd, data, epoll::EventFlags::IN)?;
    }
    Ok(readiness)
}

/// The hosts that a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hosts {
    /// The one at the queue where it arrived.
    This,
    /// The one that owns its destination port.
    Of(u16),
    /// All.
    All,
}

impl Hosts {
    fn of(frame: &[u8]) -> Self {
        const ARP_REPLY: u16 = 2;
        let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
        let (protocol, transport) = match u16_at(frame, 12) {
            Some(0x0806) if u16_at(frame, 20) == Some(ARP_REPLY) => return Self::All,
            // A fragment without ports stays where its first one may be.
            Some(0x0800) if u16_at(frame, 20).is_none_or(|word| word & 0x1fff != 0) => {
                return Self::This;
            }
            Some(0x0800) => (byte(23), 14 + 4 * usize::from(byte(14) & 15)),
            Some(0x86dd) => (byte(20), 54),
            _ => return Self::This,
        };
        match protocol {
            6 | 17 => match u16_at(frame, transport + 2) {
                Some(port) if PORTS.contains(&port) => Self::Of(port),
                _ => Self::This,
            },
            // Echo requests and neighbor solicitations are answered once.
            1 if byte(transport) != 8 => Self::All,
            58 if !matches!(byte(transport), 128 | 135) => Self::All,
            _ => Self::This,
        }
    }
}

impl<D: Device> Steered<D> {
    /// The device of the queue.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device of the queue, for its own settings.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Packets that arrived at this queue and were passed on to another host.
    pub const fn passed(&self) -> u64 {
        self.passed
    }

    /// The next packet that another device has passed on.
    fn take_passed(&mut self) -> Option<Received<D::Frame>> {
        let inbox = &self.inboxes[self.index];
        if !inbox.is_filled.load(Ordering::Acquire) {
            return None;
        }
        let mut packets = inbox.packets();
        let Some(packet) = packets.waiting.front() else {
            inbox.event_fd.clear();
            inbox.is_filled.store(false, Ordering::Release);
            return None;
        };
        let mut frame = self.spare.pop()?;
        let len = packet.len().min(frame.bytes().len());
        frame.bytes_mut()[..len].copy_from_slice(&packet[..len]);
        let packet = packets.waiting.pop_front();
        packets.free.extend(packet);
        Some(Received::new(frame, 0, len as u32))
    }

    /// Passes a packet on. Returns false if it is not for this host.
    fn is_for_us(&mut self, bytes: &[u8]) -> bool {
        match Hosts::of(bytes) {
            Hosts::This => true,
            Hosts::Of(port) => {
                let owner = usize::from(port - PORTS.start) % self.inboxes.len();
                if owner != self.index {
                    self.inboxes[owner].push(bytes);
                    self.passed += 1;
                }
                owner == self.index
            }
            Hosts::All => {
                for (index, inbox) in self.inboxes.iter().enumerate() {
                    if index != self.index {
                        inbox.push(bytes);
                    }
                }
                true
            }
        }
    }
}

impl<D: Device + AsFd> Device for Steered<D> {
    type Frame = D::Frame;

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn medium(&self) -> Medium {
        self.inner.medium()
    }

    fn tso(&self) -> Option<Tso> {
        self.inner.tso()
    }

    fn completes(&self) -> bool {
        self.inner.completes()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn put(&mut self, packet: Packet<D::Frame>, now: Instant) {
        self.inner.put(packet, now);
    }

    fn doorbell(&mut self, now: Instant) {
        self.inner.doorbell(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<D::Frame>>) {
        self.inner.reap(now, done);
    }

    fn announces_completions(&self) -> bool {
        self.inner.announces_completions()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn receive(&mut self, now: Instant) -> Option<Received<D::Frame>> {
        if let Some(passed) = self.take_passed() {
            return Some(passed);
        }
        loop {
            let received = self.inner.receive(now)?;
            if self.is_for_us(received.bytes()) {
                return Some(received);
            }
            self.inner.recycle(received.frame);
        }
    }

    fn recycle(&mut self, frame: D::Frame) {
        if self.spare.len() < FRAMES {
            self.spare.push(frame);
        } else {
            self.inner.recycle(frame);
        }
    }

    fn is_gone(&mut self) -> bool {
        self.inner.is_gone()
    }

    fn needs_reset(&mut self) -> bool {
        self.inner.needs_reset()
    }

    fn reset(&mut self, lost: &mut Vec<Packet<D::Frame>>) {
        self.inner.reset(lost);
        // The descriptor may be another one.
        if let Ok(readiness) = watch(&self.inner, &self.inboxes[self.index]) {
            self.readiness = readiness;
        }
    }
}

impl<D: Device> AsFd for Steered<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tautline_base::HeapFrame;

    use crate::cable::cable;

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
        let mut frame = HeapFrame::new();
        let bytes = frame.bytes_mut();
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[23] = 6;
        bytes[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    }

    fn arp_reply() -> HeapFrame {
        let mut frame = HeapFrame::new();
        let bytes = frame.bytes_mut();
        bytes[12..14].copy_from_slice(&[8, 6]);
        bytes[21] = 2;
        frame
    }

    #[test]
    fn packets_reach_the_host_of_their_port_and_arp_reaches_all() {
        let now = Instant::ZERO;
        let (mut near, mut devices) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let [one, other] = cable().expect("descriptors");
            near.push(one);
            devices.push((other, (0..300).map(|_| HeapFrame::new()).collect()));
        }
        let mut group = steered(devices).expect("descriptors");
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
        assert_eq!(group[1].0.passed(), 2);
    }
}
