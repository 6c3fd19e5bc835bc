//! TIME-WAIT (RFC 9293 §3.6, RFC 1337, RFC 6191): state of a connection that closed first and
//! has no handle left. It keeps old segments from disturbing the next connection between the same
//! ports. A record takes a tenth of the memory of a connection, and their number is bounded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use tautline_base::{Ecn, Instant};

use crate::keyed::Key;
use crate::seq;
use crate::tcp::Tuple;
use crate::wire::{EcnFlags, Flags, SACK_BLOCKS, Segment, TcpHeader};

/// Least time between two answers to one connection's stray segments (Linux
/// `tcp_invalid_ratelimit`).
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);
/// Distance of the next connection's initial sequence number from the last number of the old one
/// (Linux: a full unscaled window and 2).
const STEP: u32 = 65_537;

/// The state of a connection in TIME-WAIT.
#[derive(Clone, Debug)]
pub(crate) struct TimeWaitState {
    /// The next number expected of the peer, and the next one of ours.
    pub(crate) expected: u32,
    pub(crate) next: u32,
    /// The window as advertised last.
    pub(crate) window: u16,
    /// The peer's latest timestamp and the offset of our clock, if the connection used them.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// Duration of TIME-WAIT since the last segment.
    pub(crate) lasts: Duration,
    pub(crate) until: Instant,
}

impl TimeWaitState {
    /// The SYN is provably newer than the old connection: by its number or its timestamp (RFC 9293
    /// §3.6.1, RFC 6191).
    pub(crate) fn accepts_syn(&self, syn: &Segment<'_>) -> bool {
        let beyond = seq::older(self.expected, syn.seq);
        match (self.timestamps, syn.timestamp) {
            (Some((recent, _)), Some((value, _))) => {
                seq::older(recent, value) || beyond && value == recent
            }
            _ => beyond,
        }
    }

    /// A number beyond all of the old connection.
    pub(crate) fn successor_isn(&self) -> u32 {
        match self.next.wrapping_add(STEP) {
            0 => 1,
            isn => isn,
        }
    }
}

/// The answer to an arriving segment.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Nothing,
    /// An acknowledgment.
    Acknowledge(Box<TcpHeader>),
    /// It opens a new connection whose initial sequence number is beyond the old one's numbers.
    Open {
        isn: u32,
    },
}

#[derive(Debug)]
struct Record {
    remains: TimeWaitState,
    answered: Option<Instant>,
    /// The deadline of its entry in the queue.
    armed: Instant,
}

/// All connections in TIME-WAIT without a handle.
#[derive(Debug)]
pub(crate) struct TimeWaits {
    records: HashMap<Tuple, Record, Key>,
    /// Sorted by expiry, as of the creation of the entry.
    ends: BinaryHeap<Reverse<(Instant, Tuple)>>,
}

impl TimeWaits {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            records: HashMap::with_hasher(key),
            ends: BinaryHeap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn contains(&self, tuple: &Tuple) -> bool {
        !self.records.is_empty() && self.records.contains_key(tuple)
    }

    /// Adds a connection. Returns false, and discards it, if there are `limit` already (as Linux
    /// does).
    pub(crate) fn insert(&mut self, tuple: Tuple, remains: TimeWaitState, limit: usize) -> bool {
        if self.records.len() >= limit {
            return false;
        }
        let armed = remains.until;
        self.ends.push(Reverse((armed, tuple)));
        self.records.insert(
            tuple,
            Record {
                remains,
                answered: None,
                armed,
            },
        );
        // Reused ports leave stale entries behind.
        if self.ends.len() > 2 * self.records.len() + 64 {
            let records = &self.records;
            self.ends.retain(|Reverse((at, tuple))| {
                records.get(tuple).is_some_and(|record| record.armed == *at)
            });
        }
        true
    }

    /// Answers a segment to a connection in TIME-WAIT; `None` if there is no such connection.
    pub(crate) fn on_segment(
        &mut self,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Option<Answer> {
        if self.records.is_empty() {
            return None;
        }
        let record = self.records.get_mut(tuple)?;
        // RFC 1337: a reset must not cut TIME-WAIT short.
        if segment.rst {
            return Some(Answer::Nothing);
        }
        let TimeWaitState {
            expected,
            timestamps,
            lasts,
            ..
        } = record.remains;
        let old = match (timestamps, segment.timestamp) {
            (Some((recent, _)), Some((value, _))) => seq::older(value, recent),
            _ => false,
        };
        if segment.syn && segment.ack.is_none() && record.remains.accepts_syn(segment) {
            let isn = record.remains.successor_isn();
            self.records.remove(tuple);
            return Some(Answer::Open { isn });
        }
        // A SYN is challenged (RFC 5961 §4.2). It may be a new one with a low number, for which the
        // time must not begin anew.
        if segment.ack.is_some() || old {
            record.remains.until = now + lasts;
        } else if !segment.syn {
            return Some(Answer::Nothing);
        }
        let empty = segment.payload.is_empty() && !segment.syn && !segment.fin;
        if !old && empty && segment.seq == expected {
            return Some(Answer::Nothing);
        }
        if record
            .answered
            .is_some_and(|last| now - last < ANSWER_INTERVAL)
        {
            return Some(Answer::Nothing);
        }
        record.answered = Some(now);
        Some(Answer::Acknowledge(Box::new(acknowledgment(
            tuple,
            &record.remains,
            now,
        ))))
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.ends.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes expired records.
    pub(crate) fn on_deadline(&mut self, now: Instant) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            let Some(Reverse((at, tuple))) = self.ends.pop() else {
                return;
            };
            let Some(record) = self
                .records
                .get_mut(&tuple)
                .filter(|record| record.armed == at)
            else {
                continue;
            };
            if record.remains.until > at {
                record.armed = record.remains.until;
                self.ends.push(Reverse((record.armed, tuple)));
            } else {
                self.records.remove(&tuple);
            }
        }
    }
}

/// The connection's numbers once more.
fn acknowledgment(tuple: &Tuple, remains: &TimeWaitState, now: Instant) -> TcpHeader {
    TcpHeader {
        source_port: tuple.local_port,
        destination_port: tuple.remote_port,
        seq: remains.next,
        ack: Some(remains.expected),
        flags: Flags::None,
        window: remains.window,
        window_scale: None,
        mss: None,
        sack_permitted: false,
        sack: [None; SACK_BLOCKS],
        timestamp: remains
            .timestamps
            .map(|(echo, offset)| ((now.as_millis() as u32).wrapping_add(offset), echo)),
        ecn_flags: EcnFlags::NONE,
        echoed_bytes: None,
        fast_open: None,
        codepoint: Ecn::NotEct,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_record_takes_its_ends_until_it_expires() {
        let [local, remote] = [1, 2].map(|host| Ipv4Addr::new(10, 7, 0, host).into());
        let tuple = Tuple {
            local,
            remote,
            local_port: 80,
            remote_port: 5001,
        };
        let until = Instant::from_secs(60);
        let state = TimeWaitState {
            expected: 1,
            next: 1,
            window: 0,
            timestamps: None,
            lasts: Duration::from_secs(60),
            until,
        };
        let mut records = TimeWaits::new(Key::from_seed(1));
        assert!(!records.contains(&tuple));
        assert!(records.insert(tuple, state, 1));
        assert!(records.contains(&tuple));
        records.on_deadline(until);
        assert!(!records.contains(&tuple) && records.len() == 0);
    }
}
