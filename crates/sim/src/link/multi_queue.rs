//! [`MultiQueueNic`]: the port of a router whose NIC has a transmit queue for each of Wi-Fi's four
//! access categories (paper 002, §3.2.1 and §3.3).
//!
//! The precedence of a packet, the upper three bits of its TOS byte, is its user priority (RFC 8325
//! §2.3), and that selects the access category (IEEE 802.11-2020 table 10-1). So a packet is in the
//! same queue in `mq` and in the NIC. Queues are numbered as in Linux: 0 is voice, 3 background.
//!
//! The categories contend inside the NIC alone, so the highest that has a frame sends it: no other
//! station takes the channel in between, and nothing is sent twice.

use std::time::Duration;

use rand_pcg::Pcg32;
use tautline_base::{Backlog, Bytes, Drops, HeapFrame, Instant, Item, MultiQueue, Packet, Qdisc};
use tautline_bql::{Limit, MultiPort, Ring, TxStats, Waking};
use tautline_qdisc::{Ledger, Mq};
use tautline_stack::Tracer;
use tautline_tc::{Inspect, Report};

use super::channel::Channel;
use super::config::{Buffer, LinkConfig, LinkNicConfig};
use super::device::{Driver, nic_config};
use super::frames::Frames;
use super::{LinkEvent, NicRing, earliest};
use crate::config_error::ConfigError;
use crate::nic::{Departing, DriverQueue, SimNic, TxStatus};
use crate::schedule::LineRate;

/// Voice, video, best effort, background.
const QUEUES: usize = 4;
/// The transmit queue of each user priority.
const QUEUE_OF_PRIORITY: [usize; 8] = [2, 3, 3, 2, 1, 1, 0, 0];

type Choose = fn(&Packet<HeapFrame>, usize) -> usize;

/// The transmit queue of `packet`.
fn by_precedence(packet: &Packet<HeapFrame>, _queues: usize) -> usize {
    QUEUE_OF_PRIORITY[usize::from(packet.tos() >> 5)]
}

/// The root qdisc of a device with several transmit queues.
enum Root {
    /// A child for each queue.
    Children(Mq<Packet<HeapFrame>, DriverQueue, Choose>),
    /// One qdisc for all queues, which can be woken only as a whole.
    Single(DriverQueue),
}

impl Root {
    /// The root of `queue`, for queues that wake `waking`.
    fn new(queue: &Buffer, waking: Waking, single: DriverQueue) -> Result<Self, ConfigError> {
        let mq = match queue {
            Buffer::Qdisc(tree) => {
                let tree = tree.clone().with_hash_key(0);
                tree.build_mq(by_precedence as Choose)?
            }
            Buffer::TailDrop { .. } => None,
        };
        let queues = mq.as_ref().map(MultiQueue::queues);
        let (holds, allowed) = match waking {
            Waking::Child => (queues == Some(QUEUES), "`mq queues 4` to wake its children"),
            Waking::Root => (
                queues.is_none_or(|queues| queues == QUEUES),
                "a queue for each of 4 access categories",
            ),
        };
        let found = queues.map_or_else(
            || "a qdisc without a child for each queue".to_owned(),
            |queues| format!("mq queues {queues}"),
        );
        ConfigError::check(holds, "access_categories", found, allowed)?;
        Ok(mq.map_or(Self::Single(single), Self::Children))
    }
}

impl Inspect for Root {
    fn report(&self) -> Report {
        match self {
            Self::Children(mq) => mq.report(),
            Self::Single(qdisc) => qdisc.report(),
        }
    }
}

impl Qdisc<Packet<HeapFrame>> for Root {
    fn enqueue(
        &mut self,
        packet: Packet<HeapFrame>,
        now: Instant,
        drops: &mut Drops<Packet<HeapFrame>>,
    ) {
        match self {
            Self::Children(mq) => mq.enqueue(packet, now, drops),
            Self::Single(qdisc) => qdisc.enqueue(packet, now, drops),
        }
    }

    fn dequeue(
        &mut self,
        now: Instant,
        drops: &mut Drops<Packet<HeapFrame>>,
    ) -> Option<Packet<HeapFrame>> {
        match self {
            Self::Children(mq) => mq.dequeue(now, drops),
            Self::Single(qdisc) => qdisc.dequeue(now, drops),
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        match self {
            Self::Children(mq) => mq.ready_at(),
            Self::Single(qdisc) => qdisc.ready_at(),
        }
    }

    fn backlog(&self) -> Backlog {
        match self {
            Self::Children(mq) => mq.backlog(),
            Self::Single(qdisc) => qdisc.backlog(),
        }
    }
}

impl MultiQueue<Packet<HeapFrame>> for Root {
    fn queues(&self) -> usize {
        QUEUES
    }

    fn queue_of(&self, packet: &Packet<HeapFrame>) -> usize {
        by_precedence(packet, QUEUES)
    }

    fn dequeue_from(
        &mut self,
        queue: usize,
        now: Instant,
        drops: &mut Drops<Packet<HeapFrame>>,
    ) -> Option<Packet<HeapFrame>> {
        match self {
            Self::Children(mq) => mq.dequeue_from(queue, now, drops),
            Self::Single(_) => None,
        }
    }

    fn ready_at_of(&self, queue: usize) -> Option<Instant> {
        match self {
            Self::Children(mq) => mq.ready_at_of(queue),
            Self::Single(_) => None,
        }
    }

    /// Any packet of a single qdisc may be for any queue.
    fn backlog_of(&self, queue: usize) -> Backlog {
        match self {
            Self::Children(mq) => mq.backlog_of(queue),
            Self::Single(qdisc) => qdisc.backlog(),
        }
    }
}

pub(super) struct MultiQueueNic {
    port: MultiPort<Ledger<Root>, SimNic, Box<dyn Limit>>,
    line: LineRate,
    /// The queue whose frame is on the wire, and when its last bit leaves.
    sending: Option<(usize, Instant)>,
    /// Cost of moving a packet from the qdisc to a ring.
    copy: Duration,
    driver: Driver,
    done: Vec<Packet<HeapFrame>>,
}

impl MultiQueueNic {
    /// `single` is the qdisc of `link`, for a root without children.
    pub(super) fn new(
        config: &LinkNicConfig,
        waking: Waking,
        link: &LinkConfig,
        single: DriverQueue,
        rng: Pcg32,
    ) -> Result<Self, ConfigError> {
        let root = Root::new(&link.queue, waking, single)?;
        let ring = || {
            let mut nic = SimNic::new(nic_config(config, link))?;
            nic.attach_to_medium(None);
            Ok::<_, ConfigError>(Ring::new(nic, config.limit.build()?))
        };
        let rings = (0..QUEUES).map(|_| ring()).collect::<Result<_, _>>()?;
        Ok(Self {
            port: MultiPort::new(Ledger::new(root), rings, waking)
                .expect("both have a queue for each access category"),
            line: LineRate::new(link.rate, link.framing, link.schedule.clone()),
            sending: None,
            copy: config.copy,
            driver: Driver::new(config.late, rng),
            done: Vec::new(),
        })
    }

    pub(super) fn qdisc_mut(&mut self) -> &mut impl Qdisc<Packet<HeapFrame>> {
        self.port.root_mut()
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.port.backlog()
    }

    pub(super) fn report(&self) -> Report {
        self.port.root().inner().report()
    }

    /// Its rings, with their counters.
    pub(super) fn queues(&self) -> impl Iterator<Item = (&NicRing, &TxStats)> {
        (0..QUEUES).filter_map(|number| Some((self.port.ring(number)?, self.port.stats(number)?)))
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        let rings = self.queues().map(|(ring, _)| ring.device());
        let interrupt = rings.filter_map(SimNic::announces_at).min();
        let sent = self.sending.map(|(_, until)| until);
        let nic = earliest(earliest(sent, interrupt), self.driver.serviced_at());
        earliest(nic, self.port.ready_at())
    }

    /// Sends what has left the NIC, settles completions that the driver has found, refills the
    /// rings, and puts the next frame on the wire.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        channel: &mut Channel,
        frames: &mut Frames,
        tracer: &mut impl Tracer<LinkEvent>,
    ) {
        if let Some((number, at)) = self.sending.take_if(|(_, until)| *until <= now) {
            let nic = nic_mut(&mut self.port, number);
            nic.conclude(at, |_| TxStatus::Acknowledged);
            nic.send_off(now, |frame, at| {
                let packet = match frame {
                    Departing::Packet(packet) => frames.exchange(packet),
                    Departing::Segment(bytes) => frames.copy(bytes),
                };
                channel.depart(packet, at, frames, tracer);
            });
        }
        for number in 0..QUEUES {
            let nic = nic_mut(&mut self.port, number);
            nic.announce_due(now);
            if nic.take_interrupt() {
                self.driver.interrupt(now);
            }
        }
        if self.driver.services(now) {
            (0..QUEUES).for_each(|number| self.port.reap(number, now, &mut self.done));
            self.done.drain(..).for_each(|packet| frames.settle(packet));
        }
        let mut clock = now;
        let dequeue = |root: &mut Ledger<Root>, child: Option<usize>| {
            let packet = frames.dequeue(clock, tracer, |drops| match child {
                Some(number) => root.dequeue_from(number, clock, drops),
                None => root.dequeue(clock, drops),
            })?;
            clock += self.copy;
            Some(packet)
        };
        self.port.transmit_with(now, usize::MAX, dequeue, |_, _| {});
        self.send(now);
    }

    /// Puts the next frame of the highest category on the wire, if that is free.
    fn send(&mut self, now: Instant) {
        if self.sending.is_some() {
            return;
        }
        let mut waits = |number: &usize| nic_mut(&mut self.port, *number).has_waiting();
        let Some(number) = (0..QUEUES).find(&mut waits) else {
            return;
        };
        let mut frame = Bytes::ZERO;
        let taken = nic_mut(&mut self.port, number).grant(now, 1, |len| {
            frame = len;
            true
        });
        debug_assert_eq!(taken, 1, "a frame waits, and none is in flight");
        self.sending = Some((number, self.line.departure(now, frame)));
    }
}

fn nic_mut(
    port: &mut MultiPort<Ledger<Root>, SimNic, Box<dyn Limit>>,
    number: usize,
) -> &mut SimNic {
    port.ring_mut(number)
        .expect("a ring for each access category")
        .device_mut()
}

#[cfg(test)]
mod tests;
