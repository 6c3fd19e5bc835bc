//! Header prediction (Van Jacobson, RFC 1144 §3.2.2 and "4BSD Header Prediction", 1990; Linux
//! `tcp_rcv_established`): at an end that only receives, the next segment is nearly always the next
//! data in order and says nothing else. [`NextData::accept`] has the effects that
//! [`on_segment`](Connection::on_segment) has on such a segment, in the same order.

use tautline_base::Instant;

use super::connection::{Connection, Handshake};
use super::input::Reply;
use super::negotiated::Age;
use super::receiver::{Acknowledgment, Bounds, Incoming};
use super::state::State;
use crate::seq;
use crate::wire::Segment;

/// A segment that is the next data in order and acknowledges nothing new, while nothing is
/// outstanding, out of order, or about to end.
pub(super) struct NextData<'a, 'b> {
    segment: &'a Segment<'b>,
    /// Its offset in the stream.
    offset: u64,
    /// The window that it offers, in bytes.
    window: u64,
}

impl<'a, 'b> NextData<'a, 'b> {
    /// `segment`, if it is such a one.
    #[inline]
    pub(super) fn predicted(
        connection: &Connection,
        segment: &'a Segment<'b>,
        now: Instant,
    ) -> Option<Self> {
        let (flight, receiver) = (&connection.send.flight, &connection.receiver);
        let agreed = connection.negotiated.as_ref()?;
        let is_next = segment.seq == seq::to_wire(agreed.irs, receiver.next())
            && segment.ack == Some(seq::to_wire(flight.numbers().isn, flight.una()));
        let is_plain = !(segment.syn || segment.fin || segment.rst || segment.payload.is_empty())
            && segment.sack[0].is_none();
        let is_predicted = is_next
            && is_plain
            && connection.state == State::Established
            && !connection.orphan
            && !connection.host_memory.pressure
            && !connection.ecn.negotiated()
            && connection.send.expects_nothing()
            && receiver.takes_next(segment.payload.len())
            && agreed.timestamps.age(segment, now) == Age::Fresh;
        is_predicted.then(|| Self {
            segment,
            offset: receiver.next(),
            window: agreed.window_of(segment),
        })
    }

    /// Accepts it.
    #[inline]
    pub(super) fn accept(self, connection: &mut Connection, now: Instant) -> Reply {
        let Self {
            segment,
            offset,
            window,
        } = self;
        if offset <= connection.receiver.acknowledged_up_to()
            && let Some(agreed) = &mut connection.negotiated
        {
            agreed.timestamps.note(segment, now);
        }
        connection.liveness.hear(now);
        let una = connection.send.flight.una();
        connection.send.on_nothing_new(offset, una, window);
        let bounds = Bounds::new(&connection.config, &connection.send.flight.rtt);
        connection
            .receiver
            .note_payload((segment.count(), segment.size), bounds, now);
        let delay = (connection.receiver.acks).delay_of_arrival(true, bounds, now);
        connection.prepare_to_receive(segment, true, now);
        let receiver = &mut connection.receiver;
        let before = (receiver.memory(), receiver.acks.owed());
        let wait = bounds.wait(now, delay);
        connection.pending.readable |= receiver.accept_next(Incoming::of(segment), wait);
        reply(connection, before)
    }
}

/// Whether the host has anything to do beyond letting the connection run. `held` and `owed`: memory
/// of the receiver and acknowledgment due, before the segment.
#[inline]
fn reply(connection: &Connection, (held, owed): (usize, Acknowledgment)) -> Reply {
    let receiver = &connection.receiver;
    let has_new_deadline =
        matches!(receiver.acks.owed(), Acknowledgment::By(_)) && receiver.acks.owed() != owed;
    let is_unchanged = !has_new_deadline
        && receiver.memory() == held
        && !connection.pending.anything()
        && connection.links.handshake == Handshake::Uncounted
        && connection.links.idling
        && connection.host_memory.share.is_none();
    if is_unchanged {
        Reply::Unchanged
    } else {
        Reply::None
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::num::NonZeroU32;
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;
    use tautline_base::{Bytes, Ecn, SocketId};

    use super::*;
    use crate::config::TcpConfig;
    use crate::tcp::connection::{Opening, Reading};
    use crate::tcp::{AppData, Boundary, Tuple};
    use crate::wire::SynOffers;
    use crate::wire::{EcnFlags, SACK_BLOCKS};

    const PEER_ISN: u32 = u32::MAX - 20_000;
    const OWN_ISN: u32 = u32::MAX - 2_000;

    #[derive(Clone, Debug)]
    enum Step {
        /// Payload, distance from the next byte and acknowledgment, window, FIN, timestamp missing
        /// or old.
        Arrive(usize, i32, i32, u16, bool, bool),
        Read(usize),
        Write(usize),
        Send,
        Milliseconds(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let len = prop_oneof![8 => Just(1000usize), 2 => 0usize..1400];
        let near = || prop_oneof![30 => Just(0), 1 => -2000..2000];
        let rare = || prop::bool::weighted(0.02);
        prop_oneof![
            20 => (len, near(), near(), 60_000u16.., rare(), rare())
                .prop_map(|(len, seq, ack, window, fin, old)| Step::Arrive(len, seq, ack, window, fin, old)),
            3 => (0usize..9000).prop_map(Step::Read),
            1 => (0usize..3000).prop_map(Step::Write),
            6 => Just(Step::Send),
            2 => (0u64..300).prop_map(Step::Milliseconds),
        ]
    }

    fn segment(seq: u32, ack: u32, now: Instant, payload: &[u8]) -> Segment<'_> {
        Segment {
            source_port: 2,
            destination_port: 1,
            seq,
            ack: Some(ack),
            syn: false,
            fin: false,
            psh: false,
            rst: false,
            window: u16::MAX,
            offers: SynOffers::default(),
            sack: [None; SACK_BLOCKS],
            timestamp: Some((now.as_millis() as u32, 0)),
            ecn_flags: EcnFlags::NONE,
            echoed_bytes: None,
            fast_open: None,
            codepoint: Ecn::NotEct,
            payload,
            kept: None,
            size: payload.len(),
        }
    }

    fn send_all(connection: &mut Connection, now: Instant) -> String {
        let mut sent = String::new();
        while let Ok(plan) = connection.plan(None, now) {
            let header = connection.header(&plan, now);
            let id = connection.commit(&plan, now);
            let _left = connection.left_host(id, 1, true);
            sent += &format!("{header:?}\n");
        }
        sent
    }

    /// A passive open, complete.
    pub(in crate::tcp) fn opened(now: Instant, config: TcpConfig) -> Connection {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let opening = Opening {
            id: SocketId {
                index: 0,
                generation: NonZeroU32::MIN,
            },
            tuple: Tuple {
                local: address,
                remote: address,
                local_port: 1,
                remote_port: 2,
            },
            next_hop: address,
            flow_label: 0,
            isn: OWN_ISN,
            timestamp_offset: 7,
            hashes: (1, 2, 3),
            mtu: 1500,
            now,
        };
        let mut connection = Connection::accept(opening, Arc::new(config), None);
        let syn = Segment {
            syn: true,
            ack: None,
            offers: SynOffers {
                mss: Some(1460),
                window_scale: Some(0),
                sack_permitted: true,
            },
            ..segment(PEER_ISN, 0, now, &[])
        };
        connection.on_segment(&syn, now);
        send_all(&mut connection, now);
        let ack = segment(PEER_ISN.wrapping_add(1), OWN_ISN.wrapping_add(1), now, &[]);
        connection.on_segment(&ack, now);
        assert_eq!(connection.state(), State::Established);
        connection.links.idling = true;
        connection
    }

    fn state(connection: &Connection, now: Instant) -> String {
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            connection.info(now),
            connection.receiver,
            connection.liveness,
            connection.negotiated,
            connection.pending,
            connection.send.stream,
            connection.next_deadline(),
        )
    }

    /// Linux's pingpong mode, on either path of arrival: the second byte waits for an answer if the first had one.
    #[test]
    fn a_connection_that_answers_delays_its_next_acknowledgment() {
        for (follows, answers, is_delayed) in [
            (true, true, true),
            (true, false, false),
            (false, true, false),
        ] {
            let now = Instant::from_secs(1);
            let config = TcpConfig {
                acks_follow_reads: follows,
                delayed_ack_max: TcpConfig::LINUX_DELAYED_ACK_MAX,
                ..TcpConfig::default()
            };
            let mut connection = opened(now, config);
            for byte in 1..=2 {
                let next = PEER_ISN.wrapping_add(byte);
                let arriving = segment(next, OWN_ISN.wrapping_add(1), now, &[0x5a]);
                connection.on_segment(&arriving, now);
                if byte == 1 {
                    let acknowledged = send_all(&mut connection, now);
                    assert!(
                        !acknowledged.is_empty(),
                        "the first is acknowledged at once"
                    );
                    if answers {
                        connection
                            .write(AppData::Zeros(1), Boundary::None, now)
                            .ok();
                        send_all(&mut connection, now);
                    }
                }
            }
            let sent = send_all(&mut connection, now);
            assert_eq!(sent.is_empty(), is_delayed, "{follows} {answers}: {sent}");
        }
    }

    /// The ordinary path would do the same, only slower: this one must be taken.
    #[test]
    fn data_in_order_is_predicted_and_nothing_else() {
        let now = Instant::from_secs(1);
        let mut connection = opened(now, TcpConfig::default());
        let data = [0x5a; 1000];
        for number in 0..4 {
            let next = seq::to_wire(PEER_ISN, connection.receiver.next());
            let at = |seq| segment(seq, OWN_ISN.wrapping_add(1), now, &data);
            let fin = Segment {
                fin: true,
                ..at(next)
            };
            for (arriving, expected) in [
                (at(next), true),
                (at(next.wrapping_add(1)), false),
                (fin, false),
            ] {
                let predicted = NextData::predicted(&connection, &arriving, now);
                assert_eq!(predicted.is_some(), expected, "{number}: {arriving:?}");
            }
            connection.on_segment(&at(next), now);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn predicted_segments_are_processed_as_any_other(
            steps in prop::collection::vec(step(), 1..80),
            (receive_start, receive_buffer) in (2_000u64..70_000, 2_000u64..70_000),
        ) {
            let mut now = Instant::from_secs(1);
            let config = TcpConfig {
                receive_start: Bytes::new(receive_start),
                receive_buffer: Bytes::new(receive_buffer),
                ..TcpConfig::default()
            };
            let [mut quick, mut thorough] = [(); 2].map(|()| opened(now, config.clone()));
            let data = [0x5a; 1400];
            for step in steps {
                match step {
                    Step::Arrive(len, seq, ack, window, fin, is_old) => {
                        let next = seq::to_wire(PEER_ISN, quick.receiver.next());
                        let nxt = seq::to_wire(OWN_ISN, quick.send.flight.nxt());
                        let arriving = segment(
                            next.wrapping_add_signed(seq), nxt.wrapping_add_signed(ack), now, &data[..len]
                        );
                        let timestamp = arriving.timestamp.filter(|_| !is_old);
                        let arriving = Segment { window, fin, timestamp, ..arriving };
                        let before = (quick.memory(), quick.next_deadline(), format!("{:?}", quick.pending));
                        let reply = quick.on_segment(&arriving, now);
                        if thorough.state() == State::Closed {
                            break;
                        }
                        thorough.receiver.totals.segments_in += arriving.count();
                        thorough.receiver.acks.allow_answers();
                        let expected = thorough.synchronized(&arriving, now);
                        if reply == Reply::Unchanged {
                            prop_assert_eq!(expected, Reply::None);
                            prop_assert_eq!(quick.memory(), before.0);
                            prop_assert_eq!(format!("{:?}", quick.pending), before.2);
                            // Later is no harm: the host notices when the earlier one comes.
                            let at = |at: Option<Instant>| at.unwrap_or(Instant::from_nanos(u64::MAX));
                            prop_assert!(at(quick.next_deadline()) >= at(before.1));
                        } else {
                            prop_assert_eq!(reply, expected);
                        }
                    }
                    Step::Read(len) => {
                        for connection in [&mut quick, &mut thorough] {
                            let out = &mut [0; 9000][..len];
                            connection.read(Reading::Copied { out, stays: false }, now).ok();
                        }
                    }
                    Step::Write(len) => {
                        for connection in [&mut quick, &mut thorough] {
                            connection.write(AppData::Zeros(len), Boundary::None, now).ok();
                        }
                    }
                    Step::Send => {
                        prop_assert_eq!(send_all(&mut quick, now), send_all(&mut thorough, now));
                        // The host has delivered the events.
                        (quick.pending, thorough.pending) = Default::default();
                    }
                    Step::Milliseconds(millis) => {
                        now += Duration::from_millis(millis);
                        for connection in [&mut quick, &mut thorough] {
                            if connection.next_deadline().is_some_and(|at| at <= now) {
                                connection.on_deadline(now);
                            }
                        }
                    }
                }
                prop_assert_eq!(state(&quick, now), state(&thorough, now));
            }
        }
    }
}
