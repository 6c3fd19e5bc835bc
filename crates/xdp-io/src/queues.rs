//! [`XdpQueues`]: every queue of an interface as one [`Device`].
//!
//! A NIC spreads received packets over its queues by a hash (RSS), ARP included, and AF_XDP has one
//! socket per queue: a program that serves one queue misses the packets of the others. Some drivers
//! change the number of queues when a program attaches (virtio_net), so they are counted afterwards.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use tautline_base::{Device, Instant, Packet, Received};

use crate::attach::Attachment;
use crate::config::{Config, CopyReason, Mode};
use crate::device::XdpDevice;
use crate::error::{Failure, OpenError};
use crate::interface::queues_or_one;
use crate::umem::UmemFrame;

/// Most packets received from one queue before the next has its turn.
const BULK: usize = 64;

/// The AF_XDP sockets of all queues of an interface, served by one thread. It receives on every
/// queue and sends on the first, so that the packets of a connection keep their order.
#[derive(Debug)]
pub struct XdpQueues {
    /// At least one.
    queues: Vec<XdpDevice>,
    /// Readable if one of several sockets is.
    readiness: Option<OwnedFd>,
    turn: usize,
    /// Packets received in this turn.
    bulk: usize,
}

impl XdpQueues {
    /// Attaches the XDP program and opens all queues that exist afterwards, or `only` the one.
    /// `config.queue` is ignored. The first queue has `config.receive_frames`; each other one has as many
    /// as its receive ring holds, if that is fewer, so that a NIC with many queues pins less memory.
    ///
    /// Returns the frames for sending, as [`XdpDevice::open`] does.
    ///
    /// # Errors
    /// Those of [`XdpDevice::open`].
    pub fn open(config: Config, only: Option<u32>) -> Result<(Self, Vec<UmemFrame>), OpenError> {
        config.check()?;
        let attachment = Arc::new(Attachment::carrying(&config)?);
        let numbers = match only {
            Some(queue) => queue..queue.saturating_add(1),
            None => 0..queues_or_one(&config.interface),
        };
        let (mut queues, mut frames) = (Vec::new(), Vec::new());
        for queue in numbers {
            let mut config = Config {
                queue,
                ..config.clone()
            };
            if !queues.is_empty() {
                // The other queues only receive.
                config.transmit_frames = 1;
                config.receive_frames = config.receive_frames.min(config.receive_ring);
            }
            let (device, spare) = XdpDevice::open_on(Arc::clone(&attachment), config)?;
            if queues.is_empty() {
                frames = spare;
            }
            queues.push(device);
        }
        let readiness = watch(&queues)
            .map_err(|error| OpenError::os("wait for several AF_XDP sockets", error))?;
        let device = Self {
            queues,
            readiness,
            turn: 0,
            bulk: 0,
        };
        Ok((device, frames))
    }

    /// The queues, each with its statistics. The first one sends.
    pub fn queues(&self) -> &[XdpDevice] {
        &self.queues
    }

    /// The mode in which the kernel bound the sending socket.
    pub fn mode(&self) -> Mode {
        self.queues[0].mode()
    }

    /// The reason why packets are copied; `None` in zero copy.
    pub fn copy_reason(&self) -> Option<CopyReason> {
        self.queues[0].copy_reason()
    }

    /// Like [`XdpDevice::failure`].
    pub fn failure(&mut self) -> Option<Failure> {
        self.queues[0].failure()
    }

    fn next_queue(&mut self) {
        (self.turn, self.bulk) = ((self.turn + 1) % self.queues.len(), 0);
    }
}

/// An epoll instance over several sockets.
fn watch(queues: &[XdpDevice]) -> io::Result<Option<OwnedFd>> {
    if queues.len() < 2 {
        return Ok(None);
    }
    let readiness = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for queue in queues {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&readiness, queue.poll_fd(), data, epoll::EventFlags::IN)?;
    }
    Ok(Some(readiness))
}

impl Device for XdpQueues {
    type Frame = UmemFrame;

    fn mtu(&self) -> usize {
        self.queues[0].mtu()
    }

    fn room(&self) -> usize {
        self.queues[0].room()
    }

    fn put(&mut self, packet: Packet<UmemFrame>, now: Instant) {
        self.queues[0].put(packet, now);
    }

    fn doorbell(&mut self, now: Instant) {
        self.queues[0].doorbell(now);
    }

    fn reap(&mut self, now: Instant, done: &mut Vec<Packet<UmemFrame>>) {
        self.queues[0].reap(now, done);
    }

    fn in_flight(&self) -> usize {
        self.queues[0].in_flight()
    }

    fn receive(&mut self, now: Instant) -> Option<Received<UmemFrame>> {
        for _ in 0..self.queues.len() {
            if let Some(received) = self.queues[self.turn].receive(now) {
                self.bulk += 1;
                if self.bulk == BULK {
                    self.next_queue();
                }
                return Some(received);
            }
            self.next_queue();
        }
        None
    }

    fn recycle(&mut self, frame: UmemFrame) {
        let owner = self.queues.iter().position(|queue| queue.owns(&frame));
        self.queues[owner.unwrap_or(0)].recycle(frame);
    }

    fn is_gone(&mut self) -> bool {
        self.queues[0].is_gone()
    }

    fn reset(&mut self, lost: &mut Vec<Packet<UmemFrame>>) {
        self.queues[0].reset(lost);
    }
}

impl AsFd for XdpQueues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.readiness {
            Some(readiness) => readiness.as_fd(),
            None => self.queues[0].as_fd(),
        }
    }
}
