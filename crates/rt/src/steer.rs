//! [`steered`]: the queues of one NIC, each a device with a host and a thread of its own, all hosts with the same addresses.
//!
//! RSS assigns a flow to a queue by a hash that a program does not know. A connection that a peer opens is
//! accepted at the queue of its SYN. The answers to a connection that a host opens arrive at any queue, and so
//! do ARP replies. Therefore each host opens connections from ports of its own ([`own_port`]), and a device
//! passes packets to those ports on to the device of their host. It copies to all what every host
//! needs: ARP replies, announcements of neighbors, ICMP errors. If RSS changes, segments of an accepted
//! connection follow it to the host that accepted it.
//!
//! RSS goes on to deliver to the queue of a host that has ended. A device that is dropped is therefore
//! served by another of its group, to whose host its packets then are as if they had arrived there.
//! [`covered`] does only this, for forwarders, which have no ports of their own.

mod accepted;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll;
use rustix::io::Errno;
use tautline_base::headers::u16_at;
use tautline_base::{Device, Frame, Instant, KeptPacket, Medium, Packet, Received, Tso};

use self::accepted::Accepted;
use crate::event_fd::EventFd;

/// Ports of connections that hosts open: `net.ipv4.ip_local_port_range` of Linux.
const PORTS: std::ops::Range<u16> = 32_768..61_000;
/// Frames of each device for packets that other devices pass on.
const FRAMES: usize = 256;
/// Why a device cannot be missing.
const PRESENT: &str = "a device is taken only when it is dropped";

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
pub struct Steered<D: Device + AsFd> {
    /// Taken when this is dropped.
    inner: Option<D>,
    index: usize,
    group: Arc<[Member<D>]>,
    /// Packets go to the hosts of their ports and connections; without it they stay at their queue.
    accepted: Option<Arc<Accepted>>,
    /// For packets of other devices: at most `spares`.
    spare: Vec<D::Frame>,
    spares: usize,
    /// Packets that this device passed on.
    passed: u64,
    /// The own queue was asked first last time.
    own_first: bool,
}

/// The part of a device that the others of its group use.
#[derive(Debug)]
struct Member<D> {
    packets: Mutex<Packets>,
    /// Whether there are packets; changed under the lock.
    is_filled: AtomicBool,
    event_fd: EventFd,
    /// Readable if the device, one that it serves for another, or `event_fd` is.
    readiness: OwnedFd,
    /// Devices of hosts that have ended; `None` once this one has.
    adopted: Mutex<Option<Vec<D>>>,
    /// Whether this host has ended.
    has_ended: AtomicBool,
    /// Whether there are such devices.
    has_adopted: AtomicBool,
}

/// Packets that other devices have passed on: at most [`FRAMES`], more are dropped.
#[derive(Debug, Default)]
struct Packets {
    waiting: VecDeque<Vec<u8>>,
    free: Vec<Vec<u8>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: AsFd> Member<D> {
    fn new(device: &D) -> io::Result<Self> {
        let member = Self {
            packets: Mutex::default(),
            is_filled: AtomicBool::new(false),
            event_fd: EventFd::new()?,
            readiness: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            adopted: Mutex::new(Some(Vec::new())),
            has_ended: AtomicBool::new(false),
            has_adopted: AtomicBool::new(false),
        };
        member.watch(member.event_fd.as_fd())?;
        member.watch(device.as_fd())?;
        Ok(member)
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        match epoll::add(&self.readiness, fd, data, epoll::EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn push(&self, bytes: &[u8]) {
        let mut packets = locked(&self.packets);
        if packets.waiting.len() < FRAMES {
            let mut packet = packets.free.pop().unwrap_or_default();
            packet.clear();
            packet.extend_from_slice(bytes);
            packets.waiting.push_back(packet);
            self.is_filled.store(true, Ordering::Release);
            self.event_fd.signal();
        }
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Serves `devices` from now on, unless it has ended itself.
    fn adopt(&self, devices: &mut Vec<D>) {
        if let Some(adopted) = &mut *locked(&self.adopted) {
            for device in devices.iter() {
                // Unwatched, it is still served whenever the host has its turn.
                let _ = self.watch(device.as_fd());
            }
            adopted.append(devices);
            self.has_adopted.store(true, Ordering::Release);
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
    grouped(devices, Some(Accepted::new()), FRAMES)
}

/// Like [`steered`], for forwarders: every packet stays at the queue where it arrived, and only a device
/// that is dropped is served by another. Each keeps one frame, so that its forwarder must recycle
/// what it receives before it receives again.
///
/// # Errors
/// If the process has no file descriptor left.
pub fn covered<D>(devices: Vec<WithFrames<D>>) -> io::Result<Vec<WithFrames<Steered<D>>>>
where
    D: Device + AsFd,
{
    grouped(devices, None, 1)
}

fn grouped<D>(
    devices: Vec<WithFrames<D>>,
    accepted: Option<Accepted>,
    spares: usize,
) -> io::Result<Vec<WithFrames<Steered<D>>>>
where
    D: Device + AsFd,
{
    let members = devices.iter().map(|(device, _)| Member::new(device));
    let group: Arc<[Member<D>]> = members.collect::<io::Result<_>>()?;
    let accepted = accepted.map(Arc::new);
    let steer = |(index, (inner, mut frames)): (usize, WithFrames<D>)| {
        let device = Steered {
            inner: Some(inner),
            index,
            group: Arc::clone(&group),
            accepted: accepted.clone(),
            spare: frames.split_off(frames.len().saturating_sub(spares)),
            spares,
            passed: 0,
            own_first: false,
        };
        (device, frames)
    };
    Ok(devices.into_iter().enumerate().map(steer).collect())
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
            Some(0x0806) if u16_at(frame, 20) == Some(ARP_REPLY) || is_announcement(frame) => {
                return Self::All;
            }
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

/// Whether an ARP message is about its own sender: a neighbor that has moved announces itself so to all (RFC
/// 5227 §3).
fn is_announcement(frame: &[u8]) -> bool {
    let [sender, target] = [28, 38].map(|at| frame.get(at..at + 4));
    sender.is_some() && sender == target
}

impl<D: Device + AsFd> Steered<D> {
    /// The device of the queue.
    pub const fn inner(&self) -> &D {
        self.inner.as_ref().expect(PRESENT)
    }

    /// The device of the queue, for its own settings.
    pub const fn inner_mut(&mut self) -> &mut D {
        self.inner.as_mut().expect(PRESENT)
    }

    /// Packets that arrived at this queue and were passed on to another host.
    pub const fn passed(&self) -> u64 {
        self.passed
    }

    /// The next packet of the own queue that is for this host.
    fn take_own(&mut self, now: Instant) -> Option<Received<D::Frame>> {
        loop {
            let received = self.inner_mut().receive(now)?;
            if self.is_for_us(received.bytes()) {
                return Some(received);
            }
            self.inner_mut().recycle(received.frame);
        }
    }

    /// The next packet that another device has passed on.
    fn take_passed(&mut self) -> Option<Received<D::Frame>> {
        let member = &self.group[self.index];
        if !member.is_filled.load(Ordering::Acquire) {
            return None;
        }
        let mut packets = locked(&member.packets);
        let Some(packet) = packets.waiting.front() else {
            member.event_fd.clear();
            member.is_filled.store(false, Ordering::Release);
            return None;
        };
        let received = copied(packet, &mut self.spare)?;
        let packet = packets.waiting.pop_front();
        packets.free.extend(packet);
        Some(received)
    }

    /// The next packet for this host from a device whose host has ended.
    fn take_adopted(&mut self, now: Instant) -> Option<Received<D::Frame>> {
        let group = Arc::clone(&self.group);
        let member = &group[self.index];
        if !member.has_adopted.load(Ordering::Acquire) {
            return None;
        }
        for device in locked(&member.adopted).iter_mut().flatten() {
            while !self.spare.is_empty()
                && let Some(received) = device.receive(now)
            {
                let ours = self.is_for_us(received.bytes());
                let taken = ours.then(|| copied(received.bytes(), &mut self.spare));
                device.recycle(received.frame);
                if let Some(Some(taken)) = taken {
                    return Some(taken);
                }
            }
        }
        None
    }

    /// Resets each device of a host that has ended if it needs that to work again, and drops one that is
    /// gone. The packets that such a reset takes back are nobody's any more.
    fn tend_adopted(&self, now: Instant) {
        let member = &self.group[self.index];
        if !member.has_adopted.load(Ordering::Acquire) {
            return;
        }
        let mut adopted = locked(&member.adopted);
        let Some(devices) = &mut *adopted else {
            return;
        };
        devices.retain_mut(|device| !device.is_gone());
        for device in devices {
            if device.needs_reset(now) {
                device.reset(&mut Vec::new());
                let _ = member.watch(device.as_fd());
            }
        }
    }

    /// Passes a packet on. Returns false if it is not for this host.
    fn is_for_us(&mut self, bytes: &[u8]) -> bool {
        let Some(accepted) = &self.accepted else {
            return true;
        };
        match Hosts::of(bytes) {
            Hosts::This => {
                let offset = self.medium().network_offset(bytes);
                // Nobody else would reset what a host that has ended leaves behind.
                let lives = |host: usize| !self.group[host].has_ended();
                let owner = accepted.host(bytes, offset, self.index, lives);
                self.deliver(owner, bytes)
            }
            Hosts::Of(port) => {
                let owner = usize::from(port - PORTS.start) % self.group.len();
                self.deliver(owner, bytes)
            }
            Hosts::All => {
                for (index, member) in self.group.iter().enumerate() {
                    if index != self.index {
                        member.push(bytes);
                    }
                }
                true
            }
        }
    }

    /// Passes a packet on to host `owner` unless that is this one. Returns whether it is.
    fn deliver(&mut self, owner: usize, bytes: &[u8]) -> bool {
        if owner != self.index {
            self.group[owner].push(bytes);
            self.passed += 1;
        }
        owner == self.index
    }
}

impl<D: Device + AsFd> Device for Steered<D> {
    type Frame = D::Frame;

    fn mtu(&self) -> usize {
        self.inner().mtu()
    }

    fn medium(&self) -> Medium {
        self.inner().medium()
    }

    fn tso(&self) -> Option<Tso> {
        self.inner().tso()
    }

    fn completes(&self) -> bool {
        self.inner().completes()
    }

    fn gathers(&self) -> bool {
        self.inner().gathers()
    }

    fn accepts(&self, frame: &D::Frame) -> bool {
        self.inner().accepts(frame)
    }

    fn room(&self) -> usize {
        self.inner().room()
    }

    fn put(&mut self, packet: Packet<D::Frame>, now: Instant) {
        if let Some(accepted) = &self.accepted {
            accepted.note(&packet, self.index);
        }
        self.inner_mut().put(packet, now);
    }

    fn doorbell(&mut self, now: Instant) {
        self.inner_mut().doorbell(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<D::Frame>>) {
        self.inner_mut().reap(now, done);
        let member = &self.group[self.index];
        if member.has_adopted.load(Ordering::Acquire) {
            // The last packets of hosts that have ended: nobody waits for them, but they count as in flight.
            for device in locked(&member.adopted).iter_mut().flatten() {
                device.reap(now, &mut Vec::new());
            }
        }
    }

    fn announces_completions(&self) -> bool {
        self.inner().announces_completions()
    }

    fn has_completed(&self) -> bool {
        self.inner().has_completed()
    }

    fn in_flight(&self) -> usize {
        self.inner().in_flight()
    }

    fn receive(&mut self, now: Instant) -> Option<Received<D::Frame>> {
        // In turn: a flood of passed packets does not keep the host from its own queue, nor the reverse.
        self.own_first = !self.own_first;
        if self.own_first
            && let Some(received) = self.take_own(now)
        {
            return Some(received);
        }
        let others = self.take_passed().or_else(|| self.take_adopted(now));
        others.or_else(|| self.take_own(now))
    }

    fn recycle(&mut self, frame: D::Frame) {
        if self.spare.len() < self.spares {
            self.spare.push(frame);
        } else {
            self.inner_mut().recycle(frame);
        }
    }

    /// A packet of another device is in a frame of this one, too.
    fn keep(&mut self, received: Received<D::Frame>) -> Result<KeptPacket, Received<D::Frame>> {
        self.inner_mut().keep(received)
    }

    fn is_gone(&mut self) -> bool {
        self.inner_mut().is_gone()
    }

    /// Also resets the devices of hosts that have ended, if they need it.
    fn needs_reset(&mut self, now: Instant) -> bool {
        self.tend_adopted(now);
        self.inner_mut().needs_reset(now)
    }

    fn reset(&mut self, lost: &mut Vec<Packet<D::Frame>>) {
        self.inner_mut().reset(lost);
        // The descriptor may be another one. Unwatched, it is still served when the host has its turn.
        let _ = self.group[self.index].watch(self.inner().as_fd());
    }
}

impl<D: Device + AsFd> AsFd for Steered<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group[self.index].readiness.as_fd()
    }
}

/// The device goes to the next one whose host lives, and closes after the last host.
impl<D: Device + AsFd> Drop for Steered<D> {
    fn drop(&mut self) {
        let member = &self.group[self.index];
        member.has_ended.store(true, Ordering::Release);
        let adopted = locked(&member.adopted).take();
        let mut devices: Vec<D> = adopted
            .into_iter()
            .flatten()
            .chain(self.inner.take())
            .collect();
        let others = (1..self.group.len()).map(|ahead| (self.index + ahead) % self.group.len());
        for other in others {
            self.group[other].adopt(&mut devices);
        }
    }
}

/// A packet in a frame of `spare`, if there is one.
fn copied<F: Frame>(packet: &[u8], spare: &mut Vec<F>) -> Option<Received<F>> {
    let mut frame = spare.pop()?;
    let len = packet.len().min(frame.bytes().len());
    frame.bytes_mut()[..len].copy_from_slice(&packet[..len]);
    Some(Received::new(frame, 0, len as u32))
}
