//! Applications on a host of straw: it opens whatever it is asked to, takes a little, and has
//! nothing to read.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use proptest::prelude::*;
use tautline_base::{Bytes, Rate};
use tautline_stack::{
    BindError, CloseReason, ConnectError, ListenError, PathError, PingError, Recv, SendError,
    SocketError, SocketOption, TcpConfig, UdpConfig, UdpRecv,
};

use super::*;
use crate::app::{
    DatagramSinkConfig, DatagramsConfig, MessagesConfig, Period, PingConfig, RequestsConfig,
    ResponderConfig, SinkConfig, Traffic, UploadConfig, WebConfig, WebServerConfig,
};

#[derive(Default)]
struct Straw {
    opened: u32,
    taken: u64,
    pings: Vec<(u16, u16)>,
}

impl Straw {
    fn open(&mut self) -> SocketId {
        self.opened += 1;
        socket(self.opened - 1)
    }
}

fn socket(index: u32) -> SocketId {
    SocketId {
        index,
        generation: NonZeroU32::MIN,
    }
}

impl SocketApi for Straw {
    fn listen(&mut self, _port: u16, _config: Arc<TcpConfig>) -> Result<SocketId, ListenError> {
        Ok(self.open())
    }

    fn connect(
        &mut self,
        _: SocketAddr,
        _: Arc<TcpConfig>,
        _: Instant,
    ) -> Result<SocketId, ConnectError> {
        Ok(self.open())
    }

    fn send(&mut self, _socket: SocketId, data: &[u8]) -> Result<usize, SocketError> {
        self.taken += 1;
        Ok(if self.taken.is_multiple_of(3) {
            0
        } else {
            data.len().min(700)
        })
    }

    fn send_zeros(&mut self, _socket: SocketId, count: usize) -> Result<usize, SocketError> {
        self.taken += 1;
        Ok(if self.taken.is_multiple_of(3) {
            0
        } else {
            count.min(700)
        })
    }

    fn set_option(&mut self, _: SocketId, _: SocketOption) -> Result<(), SocketError> {
        Ok(())
    }

    fn recv(&mut self, _socket: SocketId, _out: &mut [u8]) -> Result<Recv, SocketError> {
        Ok(Recv::Empty)
    }

    fn shutdown(&mut self, _socket: SocketId) -> Result<(), SocketError> {
        Ok(())
    }

    fn abort(&mut self, _socket: SocketId) -> Result<(), SocketError> {
        Err(SocketError::NoSuchSocket)
    }

    fn close(&mut self, _socket: SocketId, _now: Instant) {}

    fn info(&self, _socket: SocketId) -> Option<TcpInfo> {
        None
    }

    fn ping_with_tos(
        &mut self,
        _: IpAddr,
        _: u8,
        label: (u16, u16),
        _: &[u8],
        _: Instant,
    ) -> Result<(), PingError> {
        self.pings.push(label);
        Ok(())
    }

    fn udp_bind(&mut self, _local: SocketAddr, _config: UdpConfig) -> Result<SocketId, BindError> {
        Ok(self.open())
    }

    fn send_to(&mut self, _: SocketId, _: &[u8], _: Option<SocketAddr>) -> Result<(), SendError> {
        self.taken += 1;
        if self.taken.is_multiple_of(3) {
            Err(SendError::Full)
        } else {
            Ok(())
        }
    }

    fn recv_from(&mut self, _socket: SocketId, _out: &mut [u8]) -> Result<UdpRecv, SocketError> {
        Ok(UdpRecv::Empty)
    }
}

fn remote() -> SocketAddr {
    SocketAddr::new(peer(), 9)
}

fn peer() -> IpAddr {
    IpAddr::V4([10, 7, 0, 2].into())
}

/// One of each kind, all but the first with a beginning and an end.
fn all() -> Applications<'static> {
    let when = When {
        start: Duration::from_millis(5),
        stop: Some(Duration::from_secs(2)),
    };
    let traffic = Traffic::on_off(
        Rate::mbit(1),
        Period::Exponential(Duration::from_millis(5)),
        Period::Fixed(Duration::ZERO),
    );
    let mut apps = Applications::new(Duration::from_millis(100));
    apps.upload(UploadConfig {
        bytes: Some(Bytes::new(5000)),
        ..UploadConfig::new("upload", remote())
    })
    .and_then(|apps| {
        apps.ping(PingConfig {
            when,
            ..PingConfig::new("ping", peer())
        })
    })
    .and_then(|apps| {
        apps.datagrams(DatagramsConfig {
            when,
            ..DatagramsConfig::new("udp", remote(), traffic.clone())
        })
    })
    .and_then(|apps| {
        apps.messages(MessagesConfig {
            when,
            ..MessagesConfig::new("small", remote(), traffic)
        })
    })
    .and_then(|apps| {
        apps.requests(RequestsConfig {
            when,
            ..RequestsConfig::new("dns", remote())
        })
    })
    .and_then(|apps| {
        apps.web(WebConfig {
            when,
            look_up: Some(remote()),
            ..WebConfig::new("web", remote())
        })
    })
    .and_then(|apps| apps.sink(SinkConfig::new("sink", 1)))
    .and_then(|apps| apps.datagram_sink(DatagramSinkConfig::new("udp sink", 2)))
    .and_then(|apps| apps.message_sink(SinkConfig::new("message sink", 3)))
    .and_then(|apps| apps.responder(ResponderConfig::new("responder", 4)))
    .and_then(|apps| apps.web_server(WebServerConfig::new("server", 5)))
    .expect("valid");
    apps
}

fn any_event() -> impl Strategy<Value = Event> {
    let id = (0u32..24).prop_map(socket);
    prop_oneof![
        (id.clone(), id.clone())
            .prop_map(|(listener, socket)| Event::Accepted { listener, socket }),
        id.clone().prop_map(Event::Connected),
        id.clone().prop_map(Event::Readable),
        id.clone().prop_map(Event::Writable),
        (
            id,
            prop_oneof![Just(CloseReason::Finished), Just(CloseReason::Reset)]
        )
            .prop_map(|(socket, why)| Event::Closed { socket, why }),
        (0u16..12, 0u16..4).prop_map(|(identifier, sequence)| Event::Pong {
            from: peer(),
            identifier,
            sequence,
            rtt: Duration::from_millis(1)
        }),
        (any::<u16>(), any::<u16>()).prop_map(|(identifier, sequence)| Event::PingFailed {
            to: peer(),
            identifier,
            sequence,
            why: PathError::HostUnreachable
        }),
    ]
}

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..3_000_000_000, 1 => any::<u64>(), 1 => (u64::MAX - 5)..=u64::MAX]
}

proptest! {
    /// Any sequence of events and times: nothing panics, hangs, or has a saturated deadline.
    #[test]
    fn nothing_upsets_them(steps in prop::collection::vec((any_time(), prop::option::of(any_event())), 1..60)) {
        let (mut apps, mut host) = (all(), Straw::default());
        apps.start(&mut host, Instant::from_nanos(steps[0].0));
        for (nanos, event) in steps {
            let now = Instant::from_nanos(nanos);
            match event {
                Some(event) => apps.on_event(&mut host, event, now),
                None => apps.on_deadline(&mut host, now),
            }
            prop_assert!(apps.deadline().is_none_or(|at| at < END_OF_TIME));
            let busy = apps.slots.iter().filter(|slot| slot.busy).count();
            prop_assert_eq!(apps.is_done(), busy == 0);
        }
    }
}

#[test]
fn each_hears_of_its_own_pings_only() {
    let (mut apps, mut host) = (Applications::new(Duration::from_secs(1)), Straw::default());
    for flow in ["a", "b"] {
        apps.ping(PingConfig::new(flow, peer())).expect("valid");
    }
    apps.start(&mut host, Instant::from_secs(1));
    assert_eq!(host.pings, [(0, 0), (1, 0)]);
    let pong = |identifier| Event::Pong {
        from: peer(),
        identifier,
        sequence: 0,
        rtt: Duration::from_millis(3),
    };
    apps.on_event(&mut host, pong(1), Instant::from_secs(1));
    apps.on_event(&mut host, pong(2), Instant::from_secs(1));
    let heard: Vec<_> = apps
        .meter()
        .flows()
        .iter()
        .map(|flow| flow.round_trips.len())
        .collect();
    assert_eq!(heard, [0, 1]);
}

#[test]
fn one_added_later_begins_at_its_time() {
    let (mut apps, mut host) = (Applications::new(Duration::from_secs(1)), Straw::default());
    apps.start(&mut host, Instant::from_secs(1));
    assert_eq!((apps.deadline(), apps.is_done()), (None, true));
    let when = When {
        start: Duration::from_secs(2),
        stop: None,
    };
    apps.ping(PingConfig {
        when,
        count: Some(1),
        ..PingConfig::new("late", peer())
    })
    .expect("valid");
    assert_eq!(
        (apps.deadline(), apps.is_done()),
        (Some(Instant::from_secs(3)), false)
    );
    apps.on_deadline(&mut host, Instant::from_secs(2));
    assert_eq!(host.pings.len(), 0, "it is not its time");
    apps.on_deadline(&mut host, Instant::from_secs(3));
    assert_eq!(
        (host.pings.len(), apps.deadline()),
        (1, Some(Instant::from_secs(13)))
    );
    apps.on_deadline(&mut host, Instant::from_secs(13));
    assert_eq!(
        (
            apps.meter().flows()[0].lost,
            apps.is_done(),
            apps.deadline()
        ),
        (1, true, None)
    );
}

#[test]
fn the_time_of_many_is_the_earliest() {
    let (mut apps, mut host) = (Applications::new(Duration::from_secs(1)), Straw::default());
    for number in 0..100 {
        let interval = Duration::from_millis(100 + number);
        apps.ping(PingConfig {
            interval,
            ..PingConfig::new(Flow::numbered("ping", number as u32), peer())
        })
        .expect("valid");
    }
    apps.start(&mut host, Instant::ZERO);
    let mut calls = 0;
    while let Some(at) = apps
        .deadline()
        .filter(|at| *at < Instant::from_millis(1000))
    {
        apps.on_deadline(&mut host, at);
        calls += 1;
    }
    let expected: u64 = (0..100).map(|number| 1 + 999 / (100 + number)).sum();
    assert_eq!(host.pings.len() as u64, expected);
    assert!(calls <= expected, "{calls} calls for {expected} pings");
}
