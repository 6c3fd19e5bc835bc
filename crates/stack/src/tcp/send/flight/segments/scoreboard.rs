//! Deliveries: cumulative acknowledgments and SACK blocks (RFC 2018, RFC 6675 §4).

use std::cmp::Reverse;
use std::ops::Range;
use std::time::Duration;

use tautline_base::{Bytes, Instant};
use tautline_cc::{NewestDelivered, Sampler};

use super::rack::Rack;
use super::{Holes, NUMBER_MASK, Record, Segments, State, sacked_count};
use crate::config::RackRtt;
use crate::seq;
use crate::wire::SACK_BLOCKS;

/// The arrival of an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Arrival {
    pub(in crate::tcp) now: Instant,
    /// The timestamp of ours that it echoes, if the connection uses them.
    pub(in crate::tcp) echo: Option<u32>,
    /// Bytes in a full segment.
    pub(in crate::tcp) mss: u64,
    /// Lowest RTT of the path: a retransmission cannot have been answered sooner.
    pub(in crate::tcp) min_rtt: Duration,
    pub(in crate::tcp) rack_rtt: RackRtt,
}

/// Segments and bytes that one acknowledgment delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Delivery {
    /// Newly delivered bytes, cumulative or selective.
    pub(in crate::tcp) bytes: Bytes,
    /// Send times of the earliest and the latest segment sent only once. The retransmission timer
    /// learns from the RTT of the earliest.
    pub(in crate::tcp) sent_once: Option<(Instant, Instant)>,
    /// The earliest timestamp of ours among cumulatively acknowledged retransmissions.
    pub(in crate::tcp) retransmission: Option<u32>,
    /// End of the lowest segment sent only once.
    pub(in crate::tcp) original: Option<u64>,
    /// Segments newly delivered.
    pub(in crate::tcp) packets: u64,
    /// SND.UNA advanced.
    pub(in crate::tcp) cumulative: bool,
    /// Something was newly delivered out of order.
    pub(in crate::tcp) sacked: bool,
    /// A segment was delivered that was marked lost and not retransmitted.
    pub(in crate::tcp) believed_lost: bool,
    /// The segment that a sample of the delivery rate is made of.
    pub(in crate::tcp) rate: NewestDelivered,
    /// Latest send time among segments whose newest copy was delivered.
    newest: Option<Instant>,
    /// Most that had been delivered in all when one of them was sent.
    pub(in crate::tcp) sent_when: Bytes,
    /// Our SYN was among them: the acknowledgment belongs to the handshake.
    pub(in crate::tcp) opening: bool,
    /// One segment alone, sent once, and cumulatively: perhaps the receiver held its
    /// acknowledgment back.
    pub(in crate::tcp) alone: bool,
}

impl Segments {
    /// Takes a cumulative acknowledgment of everything below `una`.
    pub(in crate::tcp) fn acknowledge(
        &mut self,
        una: u64,
        arrival: Arrival,
        sampler: &mut Sampler,
    ) -> Delivery {
        let mut delivery = Delivery {
            cumulative: true,
            ..Delivery::default()
        };
        self.una = una;
        let before = (self.records.len(), sacked_count(self.holes.as_deref()));
        let is_covered = |record: &Record| record.range.end <= una;
        while self.records.front().is_some_and(is_covered)
            && let Some(record) = self.records.pop_front()
        {
            if record.retransmitted()
                && delivery
                    .retransmission
                    .is_none_or(|earliest| seq::older(record.stamp, earliest))
            {
                delivery.retransmission = Some(record.stamp);
            }
            deliver(&record, &mut self.rack, arrival, sampler, &mut delivery);
            self.uncount_share(record.share());
            self.first = self.first.wrapping_add(1) & NUMBER_MASK;
            self.acknowledge_same_departure(una, arrival.now, sampler, &mut delivery);
        }
        delivery.alone = before == (self.records.len() + 1, 0) && delivery.retransmission.is_none();
        // A partial acknowledgment of a segment (a middlebox resegmented) shortens it.
        if self
            .records
            .front()
            .is_some_and(|record| record.range.start < una)
        {
            self.uncount(0);
            let record = &mut self.records[0];
            // All of it counts already if the peer held it before.
            if record.state != State::Sacked {
                let len = Bytes::new(una - record.range.start);
                delivery.bytes += len;
                sampler.on_delivered(&mut delivery.rate, &record.sent, len, arrival.now);
            }
            record.range.start = una;
            if record.state == State::Lost {
                self.holes.get_or_insert_default().lost.push(Reverse(una));
            }
            self.count(0);
        }
        if let Some(holes) = &mut self.holes {
            holes.sacked.remove_below(una);
        }
        self.drop_stale_lost();
        self.prune_transmissions();
        delivery
    }

    /// Acknowledges the segments below `una` that departed together with the latest one delivered, as
    /// those of a large packet do. In flight, sent once and beyond it, they add no more than bytes to
    /// what their departure says.
    #[inline]
    fn acknowledge_same_departure(
        &mut self,
        una: u64,
        now: Instant,
        sampler: &mut Sampler,
        delivery: &mut Delivery,
    ) {
        let latest = delivery.sent_once.map(|(_, latest)| latest);
        let Some(departure) = latest.filter(|_| latest == delivery.newest) else {
            return;
        };
        let (mut bytes, mut packets, mut last) = (0, 0, None);
        while let Some(next) = self.records.front()
            && next.sent.sent_at == departure
            && next.range.end <= una
            && next.range.end >= self.rack.highest
            && next.share() == (State::Outstanding, next.len(), false)
        {
            bytes += next.len();
            packets += 1;
            delivery.sent_when = delivery.sent_when.max(next.sent.delivered);
            self.rack.highest = next.range.end;
            last = Some(next.sent);
            self.records.pop_front();
        }
        let Some(last) = last else { return };
        delivery.bytes += Bytes::new(bytes);
        delivery.packets += u64::from(packets);
        self.in_flight -= bytes;
        self.first = self.first.wrapping_add(packets) & NUMBER_MASK;
        self.rack.newest = self.rack.newest.max(Some((departure, self.rack.highest)));
        sampler.on_delivered(&mut delivery.rate, &last, Bytes::new(bytes), now);
    }

    /// Marks what the peer holds above SND.UNA. Blocks that are reversed, below SND.UNA or beyond
    /// SND.NXT are ignored.
    pub(in crate::tcp) fn apply_sack(
        &mut self,
        blocks: &[Option<Range<u64>>; SACK_BLOCKS],
        arrival: Arrival,
        sampler: &mut Sampler,
        delivery: &mut Delivery,
    ) {
        if blocks[0].is_none() {
            return;
        }
        let (una, nxt) = (self.una, self.nxt);
        let mut blocks = blocks.clone().map(|block| {
            block.filter(|block| una < block.start && block.start < block.end && block.end <= nxt)
        });
        // The newest comes first. Taken in that order, two blocks of one acknowledgment would look
        // like reordering.
        blocks.sort_unstable_by_key(|block| block.as_ref().map(|block| block.start));
        for block in blocks.into_iter().flatten() {
            self.sack(block, arrival, sampler, delivery);
        }
    }

    /// Takes a SACK block, already checked to lie within what is outstanding.
    pub(in crate::tcp) fn sack(
        &mut self,
        block: Range<u64>,
        arrival: Arrival,
        sampler: &mut Sampler,
        delivery: &mut Delivery,
    ) {
        // Honest blocks cover whole segments. More ranges than segments are an attack on our
        // memory.
        let most = self.records.len();
        let holes = self.holes.get_or_insert_default();
        if holes.sacked.len() > most {
            return;
        }
        let mut touched: Option<Range<u64>> = None;
        holes.sacked.insert(block, |new| {
            let start = touched.as_ref().map_or(new.start, |t| t.start);
            touched = Some(start..new.end);
        });
        let Some(touched) = touched else { return };
        // Linux takes selective acknowledgments in before the cumulative one.
        let taken_after = (arrival.rack_rtt == RackRtt::LastTaken && delivery.cumulative)
            .then_some(self.rack.rtt)
            .filter(|_| delivery.newest.is_some());
        let mut at = self
            .records
            .partition_point(|record| record.range.end <= touched.start);
        while self
            .records
            .get(at)
            .is_some_and(|record| record.range.start < touched.end)
        {
            let record = &self.records[at];
            let is_covered = |holes: &Holes| holes.sacked.contains(&record.range);
            if record.state != State::Sacked && self.holes.as_deref().is_some_and(is_covered) {
                deliver(
                    &self.records[at],
                    &mut self.rack,
                    arrival,
                    sampler,
                    delivery,
                );
                self.turn(at, State::Sacked);
                delivery.sacked = true;
            }
            at += 1;
        }
        self.rack.rtt = taken_after.unwrap_or(self.rack.rtt);
        self.drop_stale_lost();
    }

    /// Without SACK the list of transmissions is never walked; it must not grow forever.
    fn prune_transmissions(&mut self) {
        while let Some((number, sent_at)) = self.order.next()
            && self.in_flight_since(number, sent_at).is_none()
        {
            self.order.pop();
        }
    }
}

/// Accounts a segment that turns out to be delivered.
#[inline]
fn deliver(
    record: &Record,
    rack: &mut Rack,
    arrival: Arrival,
    sampler: &mut Sampler,
    delivery: &mut Delivery,
) {
    let Arrival {
        now,
        echo,
        mss,
        min_rtt,
        rack_rtt,
    } = arrival;
    if record.state == State::Sacked {
        return;
    }
    delivery.bytes += Bytes::new(record.len());
    delivery.packets += 1;
    delivery.opening |= record.range.start == 0;
    delivery.believed_lost |= record.state == State::Lost;
    delivery.sent_when = delivery.sent_when.max(record.sent.delivered);
    let len = Bytes::new(record.len());
    sampler.on_delivered(&mut delivery.rate, &record.sent, len, now);
    let sent_at = record.sent.sent_at;
    if !record.retransmitted() {
        let (earliest, latest) = delivery.sent_once.unwrap_or((sent_at, sent_at));
        delivery.sent_once = Some((earliest.min(sent_at), latest.max(sent_at)));
        delivery.original = Some(
            delivery
                .original
                .map_or(record.range.end, |end| end.min(record.range.end)),
        );
        if record.range.end < rack.highest {
            rack.reordered(record.range.start, mss);
        }
    }
    rack.highest = rack.highest.max(record.range.end);
    // An acknowledgment that echoes a timestamp from before the retransmission, or that arrives
    // sooner than the path allows, is for the original (RFC 8985 §6.2 step 2).
    let echoes_older = || echo.is_some_and(|echo| seq::older(echo, record.stamp));
    let of_original = record.retransmitted() && (echoes_older() || now - sent_at < min_rtt);
    if !of_original {
        let newest = delivery.newest.map_or(sent_at, |sent| sent.max(sent_at));
        delivery.newest = Some(newest);
        let of = match rack_rtt {
            RackRtt::Newest => newest,
            RackRtt::LastTaken => sent_at,
        };
        rack.advance((sent_at, record.range.end), now - of);
    }
}
