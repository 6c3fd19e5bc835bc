//! [`Train`]: full segments of new data that leave one after the other in the same instant. Their
//! headers differ in sequence number and checksum only, so the decisions of
//! [`next_segment`](Connection::next_segment) that cannot change within the train are made once.
//!
//! The first segment of a train is an ordinary one. Whatever the short tests here do not cover ends
//! the train, and the next segment is planned as any other.

use tautline_base::{Bytes, Instant, Rate, SegmentId};

use super::connection::Connection;
use super::send::{Kind, Plan};
use super::state::State;
use crate::config::{MtuProbing, Pacing};
use crate::seq;
use crate::wire::Payload;

/// The part that the segments of a train share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    /// Payload bytes of each segment.
    len: u64,
    /// Most bytes that TCP Small Queues holds when another segment leaves; `None`: any number.
    queue_limit: Option<Bytes>,
    /// Rate of the pacer, unless pacing is off.
    pace: Option<Rate>,
}

impl Train {
    /// The train behind `plan`, which was committed just now.
    #[inline]
    pub(crate) fn behind(connection: &Connection, plan: &Plan) -> Option<Self> {
        let Connection {
            config,
            send,
            receiver,
            ..
        } = connection;
        let flight = &send.flight;
        let len = flight.mss();
        let is_full = plan.kind == Kind::New
            && (plan.segments, plan.fin, plan.tail_probe) == (1, false, false)
            && plan.range.start > 0
            && plan.range.end - plan.range.start == len;
        // A segment at the end of the data, or of a record, is pushed.
        let has_more = send.stream.is_unmarked() && plan.range.end < send.stream.buffer.end();
        // ECN, SACK blocks and compressed acknowledgments change headers from one segment to the
        // next; a limit on unsent data wakes the application.
        let is_plain = matches!(connection.state, State::Established | State::CloseWait)
            && !connection.ecn.negotiated()
            && !receiver.has_reports()
            && !receiver.acks.has_compressed()
            && connection.attribution.is_none()
            && config.mtu_probing == MtuProbing::Off
            && config.notsent_lowat.is_none()
            && config.pacing != Pacing::Qdisc;
        if !(is_full && has_more && is_plain) {
            return None;
        }
        let rate = flight.pacing_rate();
        let is_paced = config.pacing != Pacing::Off;
        Some(Self {
            len,
            queue_limit: config.tsq.at(rate, send.full_frame(), is_paced),
            pace: is_paced.then_some(rate),
        })
    }

    /// The next segment may leave now, as one more of the train.
    #[inline]
    pub(crate) fn continues(&self, connection: &Connection, now: Instant) -> bool {
        let (stream, flight) = (&connection.send.stream, &connection.send.flight);
        let range = flight.nxt()..flight.nxt() + self.len;
        let continues = range.end < stream.buffer.end()
            && range.end <= stream.window.edge()
            && !flight.refused
            && !flight.may_have_something_urgent()
            && (self.pace.is_none() || flight.congestion.next_departure() <= now)
            && (self.queue_limit).is_none_or(|most| connection.tsq.charged() <= most)
            && flight.fits_cwnd(&range);
        debug_assert!(
            !continues
                || connection.next_segment(None, now)
                    == Ok(Plan {
                        departure: now,
                        ..Plan::new(Kind::New, range)
                    }),
            "another segment is planned otherwise"
        );
        continues
    }

    /// Sequence number and payload of the next segment of the train.
    #[inline]
    pub(crate) fn next<'a>(&self, connection: &'a Connection) -> (u32, Payload<'a>) {
        let (stream, flight) = (&connection.send.stream, &connection.send.flight);
        let nxt = flight.nxt();
        let payload = stream.payload(nxt..nxt + self.len);
        (seq::to_wire(flight.numbers().isn, nxt), payload)
    }

    /// Accounts for the next segment of the train, which is a packet now.
    #[inline]
    pub(crate) fn commit_next(&self, connection: &mut Connection, now: Instant) -> SegmentId {
        connection.receiver.acknowledged();
        connection.send.commit_in_train(self.len, self.pace, now)
    }

    /// Accounts once for what its segments share: `count` have left behind the first.
    #[inline]
    pub(crate) fn end(&self, connection: &mut Connection, count: usize, now: Instant) {
        if count > 0 {
            connection.send.end_train(count as u64, self.len, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TcpConfig;
    use crate::tcp::prediction::tests::opened;
    use crate::tcp::{AppData, Boundary};

    /// Segments planned one by one would be the same, only slower: the train must leave.
    #[test]
    fn full_segments_of_one_instant_are_a_train_up_to_the_last() {
        let now = Instant::from_secs(1);
        let config = TcpConfig {
            pacing: Pacing::Off,
            ..TcpConfig::default()
        };
        let mut connection = opened(now, config);
        let data = AppData::Zeros(5 * connection.send.flight.mss() as usize);
        let written = connection.write(data, Boundary::None, now);
        written.expect("there is room");
        let plan = connection.plan(None, now).expect("the window is open");
        connection.commit(&plan, now);
        let full_frame = connection.send.flight.mss() + 14 + 20 + 32;
        assert_eq!(connection.send.full_frame(), Bytes::new(full_frame));
        let train = Train::behind(&connection, &plan).expect("full segments follow");
        let unlike: [fn(&mut Plan); 3] = [
            |plan| plan.fin = true,
            |plan| plan.tail_probe = true,
            |plan| plan.range.end -= 1,
        ];
        for change in unlike {
            let mut plan = plan.clone();
            change(&mut plan);
            assert!(Train::behind(&connection, &plan).is_none(), "{plan:?}");
        }
        let mut count = 0;
        while train.continues(&connection, now) {
            train.commit_next(&mut connection, now);
            count += 1;
        }
        train.end(&mut connection, count, now);
        // The last segment is pushed.
        assert_eq!(count, 3);
        let plan = connection.plan(None, now).expect("the last");
        connection.commit(&plan, now);
        assert!(Train::behind(&connection, &plan).is_none());
    }
}
