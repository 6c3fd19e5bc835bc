//! Any sequence of segments, application calls and time: the host neither panics nor spins, answers
//! little, holds what it may hold, sends what its application wrote and hands over what its peer
//! sent, and in the end nothing is left.
//!
//! The segments are near what the connection expects, so that most of them get past the first
//! check. `crates/fuzz` has the same with coverage to guide it.

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;
#[path = "../hostile/peer.rs"]
#[expect(
    dead_code,
    reason = "shared with other tests, which use another part of it"
)]
mod peer;

use std::time::Duration;

use proptest::prelude::*;
use tautline_base::{Bytes, Rate};
use tautline_stack::{
    EcnMode, Event, Keepalive, Limits, Pacing, Recv, SocketOption, SynCookies, TcpConfig,
};

use peer::*;

const BUFFER: u64 = 20_000;
/// Packets without data that one segment may cause.
const ANSWERS: usize = 3;

/// A number relative to the right one.
fn near() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => Just(0),
        1 => Just(u32::MAX),
        3 => (-3_000i32..3_000).prop_map(|by| by as u32),
        1 => (-70_000i32..70_000).prop_map(|by| by as u32),
        1 => any::<u32>(),
    ]
}

#[derive(Clone, Debug)]
struct Arriving {
    flags: u16,
    ecn: u8,
    seq: u32,
    ack: u32,
    window: u16,
    stamp: Option<(u32, u32)>,
    blocks: Vec<(u32, u32)>,
    payload: usize,
    urgent: u16,
}

fn arriving() -> impl Strategy<Value = Arriving> {
    let flags = prop_oneof![8 => Just(ACK), 2 => Just(FIN | ACK), 2 => (0u16..256).prop_map(|f| f | ACK), 1 => Just(SYN | ACK), 1 => 0u16..512];
    let window = prop_oneof![4 => Just(WINDOW), 2 => Just(0), 2 => 0u16..3_000, 1 => any::<u16>()];
    let stamp = prop::option::of((near(), near()));
    let blocks = prop::collection::vec((near(), 0u32..5_000), 0..3);
    let payload =
        prop_oneof![3 => Just(0usize), 2 => 1usize..40, 3 => Just(1000), 1 => 0usize..1400];
    (
        (flags, 0u8..4),
        near(),
        near(),
        window,
        stamp,
        blocks,
        payload,
        any::<u16>(),
    )
        .prop_map(
            |((flags, ecn), seq, ack, window, stamp, blocks, payload, urgent)| Arriving {
                flags,
                ecn,
                seq,
                ack,
                window,
                stamp,
                blocks,
                payload,
                urgent,
            },
        )
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(Arriving),
    Write(usize),
    Read,
    Shutdown,
    Close,
    Abort,
    Keepalive(bool),
    UserTimeout(Option<u16>),
    Linger(Option<u16>),
    Nodelay(bool),
    Setting(u8, u16),
    Memory(u32),
    Stuck(bool),
    Milliseconds(u64),
    Seconds(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => arriving().prop_map(Step::Arrive),
        5 => (0usize..9_000).prop_map(Step::Write),
        4 => Just(Step::Read),
        1 => Just(Step::Shutdown),
        1 => Just(Step::Close),
        1 => Just(Step::Abort),
        1 => any::<bool>().prop_map(Step::Keepalive),
        1 => prop::option::of(1u16..20_000).prop_map(Step::UserTimeout),
        1 => prop::option::of(0u16..20_000).prop_map(Step::Linger),
        1 => any::<bool>().prop_map(Step::Nodelay),
        2 => any::<(u8, u16)>().prop_map(|(which, value)| Step::Setting(which, value)),
        1 => (0u32..60_000).prop_map(Step::Memory),
        1 => any::<bool>().prop_map(Step::Stuck),
        5 => (0u64..300).prop_map(Step::Milliseconds),
        1 => (0u64..10_000).prop_map(Step::Seconds),
    ]
}

#[derive(Clone, Debug)]
struct Opening {
    by_host: bool,
    cookie: bool,
    mss: u16,
    scale: Option<u8>,
    sack: bool,
    timestamps: bool,
    accurate: bool,
    pacing: Pacing,
}

fn opening() -> impl Strategy<Value = Opening> {
    let pacing = prop_oneof![Just(Pacing::Off), Just(Pacing::Internal)];
    (
        any::<bool>(),
        any::<bool>(),
        64u16..1460,
        prop::option::of(0u8..=14),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        pacing,
    )
        .prop_map(
            |(by_host, cookie, mss, scale, sack, timestamps, accurate, pacing)| Opening {
                by_host,
                cookie,
                mss,
                scale,
                sack,
                timestamps,
                accurate,
                pacing,
            },
        )
}

/// The byte at `offset` of either stream.
fn byte(offset: u32) -> u8 {
    (offset.wrapping_mul(31) ^ offset >> 8) as u8
}

/// An option of an open connection. Buffers stay within those of the beginning.
fn setting(which: u8, value: u16) -> SocketOption {
    let bytes = Bytes::new(u64::from(value));
    match which % 8 {
        0 => SocketOption::SendBuffer(bytes.min(Bytes::new(BUFFER))),
        1 => SocketOption::ReceiveBuffer(bytes.min(Bytes::new(BUFFER))),
        2 => SocketOption::NotsentLowat(Some(bytes)),
        3 => SocketOption::MaxSegment(value),
        4 => SocketOption::MaxPacingRate(Some(Rate::bytes_per_sec(u64::from(value) * 100))),
        5 => SocketOption::Cork(value.is_multiple_of(2)),
        6 => SocketOption::Pacing(
            [Pacing::Off, Pacing::Internal, Pacing::Qdisc][usize::from(value) % 3],
        ),
        _ => SocketOption::Tos(value as u8),
    }
}

struct Conversation {
    peer: Peer,
    timestamps: bool,
    sack: bool,
    /// Offsets: end of what the host has sent, what it acknowledged, what its application wrote and
    /// read.
    sent: u32,
    acknowledged: u32,
    written: u32,
    read: u32,
    stuck: bool,
    /// Has the application the socket?
    held: bool,
}

impl Conversation {
    fn new(opening: &Opening) -> Self {
        let config = TcpConfig {
            receive_buffer: Bytes::new(BUFFER),
            send_buffer: Bytes::new(BUFFER),
            syn_cookies: if opening.cookie {
                SynCookies::Always
            } else {
                SynCookies::WhenFull
            },
            pacing: opening.pacing,
            ecn: if opening.accurate && !opening.cookie {
                EcnMode::AccEcn
            } else {
                EcnMode::default()
            },
            retries: 4,
            time_wait: Duration::from_secs(20),
            ..TcpConfig::default()
        };
        let mut options = mss(opening.mss);
        options.extend(opening.scale.map(scale).unwrap_or_default());
        options.extend(if opening.sack {
            sack_permitted()
        } else {
            Vec::new()
        });
        options.extend(if opening.timestamps {
            timestamp(1, 0)
        } else {
            Vec::new()
        });
        let peer = if opening.by_host {
            Peer::connected_by_host(config, options)
        } else {
            Peer::connected(config, options)
        };
        let Opening {
            timestamps, sack, ..
        } = *opening;
        let numbers = (0, 0, 0, 0);
        let (sent, acknowledged, written, read) = numbers;
        Self {
            peer,
            timestamps,
            sack,
            sent,
            acknowledged,
            written,
            read,
            stuck: false,
            held: true,
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let (now, socket) = (self.peer.pair.now, self.peer.socket);
        let host = &mut self.peer.pair.hosts[HOST];
        // What a stuck device held back comes as well.
        let waiting = host.outstanding();
        match step {
            Step::Arrive(arriving) => {
                let frame = self.segment(arriving).to_frame();
                let host = &mut self.peer.pair.hosts[HOST];
                let before = host.stats().refused();
                host.deliver(&frame, now);
                assert!(
                    host.stats().refused() <= before + 1,
                    "refused for two reasons"
                );
            }
            Step::Write(len) if self.held => {
                let data: Vec<u8> = (0..*len as u32)
                    .map(|i| byte(self.written.wrapping_add(i)))
                    .collect();
                self.written += host.send(socket, &data).unwrap_or(0) as u32;
            }
            Step::Read if self.held => self.read()?,
            Step::Shutdown if self.held => {
                let _ = host.shutdown(socket);
            }
            Step::Close => {
                self.held = false;
                host.close(socket, now);
            }
            Step::Abort if self.held => {
                let _ = host.abort(socket);
            }
            Step::Keepalive(on) => {
                let _ =
                    host.set_option(socket, SocketOption::Keepalive(on.then(Keepalive::default)));
            }
            Step::UserTimeout(limit) => {
                let _ = host.set_option(
                    socket,
                    SocketOption::UserTimeout(limit.map(|ms| Duration::from_millis(ms.into()))),
                );
            }
            Step::Linger(time) => {
                let _ = host.set_option(
                    socket,
                    SocketOption::Linger(time.map(|ms| Duration::from_millis(ms.into()))),
                );
            }
            Step::Nodelay(on) => {
                let _ = host.set_option(socket, SocketOption::Nodelay(*on));
            }
            Step::Setting(which, value) => {
                let _ = host.set_option(socket, setting(*which, *value));
            }
            Step::Memory(limit) => {
                host.set_limits(Limits {
                    memory: Bytes::new(u64::from(*limit)),
                    ..Limits::default()
                });
            }
            Step::Stuck(stuck) => {
                self.stuck = *stuck;
                host.device_mut().stuck = *stuck;
            }
            _ => {}
        }
        let time = match step {
            Step::Milliseconds(ms) if self.stuck => Duration::from_millis(ms % 10),
            Step::Milliseconds(ms) => Duration::from_millis(*ms),
            // A host looks every 50 µs for completions that do not come.
            Step::Seconds(_) if self.stuck => Duration::from_millis(1),
            Step::Seconds(seconds) => Duration::from_secs(*seconds),
            _ => Duration::ZERO,
        };
        let answers = self.peer.run_for(time);
        self.check(&answers, waiting, time)
    }

    fn segment(&self, arriving: &Arriving) -> Segment {
        let Arriving {
            flags,
            ecn,
            seq,
            ack,
            window,
            stamp,
            blocks,
            payload,
            urgent,
        } = arriving;
        let offset = self.acknowledged.wrapping_add(*seq);
        let mut options = match stamp {
            Some((value, echo)) if self.timestamps => timestamp(1u32.wrapping_add(*value), *echo),
            None if self.timestamps => timestamp(1, 0),
            _ => Vec::new(),
        };
        if self.sack && !blocks.is_empty() {
            let at = |(left, len): &(u32, u32)| {
                let left = self.peer.host_at(self.sent.wrapping_add(*left));
                (left, left.wrapping_add(*len))
            };
            options.extend(sack(&blocks.iter().map(at).collect::<Vec<_>>()));
        }
        Segment {
            flags: *flags,
            ecn: *ecn,
            seq: self.peer.at(offset),
            ack: self.peer.host_at(self.sent.wrapping_add(*ack)),
            window: *window,
            urgent: *urgent,
            options,
            payload: (0..*payload as u32)
                .map(|i| byte(offset.wrapping_add(i)))
                .collect(),
            ..self.peer.ack()
        }
    }

    fn read(&mut self) -> Result<(), TestCaseError> {
        let mut buffer = [0; 4096];
        while let Ok(Recv::Data(count)) =
            self.peer.pair.hosts[HOST].recv(self.peer.socket, &mut buffer)
        {
            for got in &buffer[..count] {
                prop_assert_eq!(*got, byte(self.read), "byte {} was read", self.read);
                self.read += 1;
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        answers: &[Segment],
        waiting: usize,
        time: Duration,
    ) -> Result<(), TestCaseError> {
        let mut fresh = false;
        let mut control = 0;
        for answer in answers
            .iter()
            .filter(|answer| answer.source_port == self.peer.port)
        {
            control += usize::from(answer.payload.is_empty());
            if answer.flags & (RST | SYN) != 0 {
                continue;
            }
            let first = answer.seq.wrapping_sub(self.peer.host_at(0));
            for (i, got) in answer.payload.iter().enumerate() {
                let offset = first.wrapping_add(i as u32);
                prop_assert!(
                    offset < self.written,
                    "byte {} of {} was sent",
                    offset,
                    self.written
                );
                prop_assert_eq!(*got, byte(offset), "byte {} was sent", offset);
            }
            let end = first
                .wrapping_add(answer.payload.len() as u32 + u32::from(answer.flags & FIN != 0));
            if !answer.payload.is_empty() && end.wrapping_sub(self.sent) as i32 > 0 {
                fresh = true;
            }
            if end.wrapping_sub(self.sent) as i32 > 0 {
                self.sent = end;
            }
            let acknowledged = answer.ack.wrapping_sub(self.peer.at(0));
            if acknowledged.wrapping_sub(self.acknowledged) as i32 > 0 {
                self.acknowledged = acknowledged;
            }
        }
        if time == Duration::ZERO {
            prop_assert!(
                control <= ANSWERS + waiting,
                "{} packets without data in answer to one input",
                control
            );
        }
        let host = &self.peer.pair.hosts[HOST];
        let held = host.buffer_memory();
        prop_assert!(held <= 4 * BUFFER + 64 * 1024, "{} bytes are held", held);
        if let Some(info) = host.info(self.peer.socket) {
            let (mss, in_flight) = (info.mss.get(), info.in_flight.get());
            // SYN and FIN count, and what this host still queues.
            prop_assert!(
                in_flight <= u64::from(self.written) + 2,
                "{in_flight} in flight of {}",
                self.written
            );
            let acknowledged = info.bytes_acked;
            prop_assert!(
                acknowledged <= u64::from(self.written) + 2,
                "{acknowledged} acknowledged of {}",
                self.written
            );
            prop_assert!(info.cwnd.get() >= 1 && info.rto <= Duration::from_secs(120));
            // One probe of the tail may go beyond the window, and the last segment be longer by its
            // FIN.
            if fresh && time == Duration::ZERO {
                prop_assert!(
                    in_flight <= info.cwnd.get() + 2 * mss,
                    "{in_flight} in flight, a window of {:?}",
                    info.cwnd
                );
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), TestCaseError> {
        let host = &mut self.peer.pair.hosts[HOST];
        host.device_mut().stuck = false;
        host.set_limits(Limits::default());
        // Whatever was accepted meanwhile is closed too.
        let mut sockets = vec![self.peer.socket];
        sockets.extend(
            self.peer.pair.events[HOST]
                .iter()
                .filter_map(|event| match event {
                    Event::Accepted { socket, .. } => Some(*socket),
                    _ => None,
                }),
        );
        for socket in sockets {
            let now = self.peer.pair.now;
            self.peer.pair.hosts[HOST].close(socket, now);
        }
        self.peer.run_for(Duration::from_secs(3_000));
        let host = &self.peer.pair.hosts[HOST];
        prop_assert_eq!(host.outstanding(), 0, "frames leaked");
        prop_assert_eq!(host.socket_count(), 1, "only the listener is left");
        prop_assert_eq!(host.buffer_memory(), 0, "buffers leaked");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn nothing_breaks_whatever_arrives(opening in opening(), steps in prop::collection::vec(step(), 1..80)) {
        let mut conversation = Conversation::new(&opening);
        for step in &steps {
            conversation.take(step)?;
        }
        conversation.finish()?;
    }
}
