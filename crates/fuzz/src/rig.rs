//! [`Rig`]: the host under test. Whatever it is given, it must neither panic nor spin nor leak,
//! answer with few packets, write right checksums, send what its application wrote, and hand over
//! what its peer sent.

use std::net::{IpAddr, Ipv6Addr, SocketAddrV4};
use std::time::Duration;

use arbitrary::Arbitrary;
use tautline_base::{Bytes, Device, HeapFrame, Instant, Packet, Pool, SocketId, Tso};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{FqCodel, Ledger, fq_codel};
use tautline_stack::{
    Autoconfiguration, Cidr, Event, Host, HostConfig, Keepalive, Limits, NoTrace, Pacing, Recv,
    SocketOption, SynCookies, TcpConfig, TsqLimit,
};
use tautline_testkit::MemoryDevice;

use crate::frame::{self, ACK, FIN, Framed, HOST, HOST_MAC, PEER, PEER_MAC, RST, SYN, Tcp};

/// The host's address in IPv6.
pub const HOST_V6: Ipv6Addr = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1);
/// The port the host listens on.
pub const LISTENING: u16 = 5001;
/// The port of the peer that the host connects to.
pub const REMOTE: u16 = 80;

/// Packets one poll may transmit (the host's documented budget).
const PER_POLL: usize = 64;
/// Polls at one instant: a full send buffer of the smallest segments, one per poll.
const POLLS_AT_ONE_INSTANT: usize = 4_000;
/// Most messages of automatic configuration at one instant: probes for 16 formed addresses and two
/// configured ones, a report, a solicitation.
const AUTOMATIC: usize = 20;
/// Wakes followed one by one when time passes; then time jumps, as under a driver that was not
/// scheduled.
const WAKES: usize = 64;
/// Wakes until everything is over once nobody holds a socket any more: more than the probes of the
/// shortest keepalive interval, 1 ms, within the longest user timeout, 65.5 s.
const LAST_WAKES: usize = 80_000;

type Stack = Host<Ledger<FqCodel<Packet<HeapFrame>>>, MemoryDevice>;

/// The byte at `offset` of the host's stream, and at this sequence number of the peer's.
pub fn pattern(offset: u32) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 8)) as u8
}

/// How the host's connections behave.
#[derive(Arbitrary, Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    pub receive_buffer: u16,
    pub send_buffer: u16,
    pub nagle: bool,
    pub pacing: u8,
    pub tsq: bool,
    pub fast_open: bool,
}

impl Settings {
    /// The same as a configuration.
    pub fn tcp(&self) -> TcpConfig {
        TcpConfig {
            receive_buffer: Bytes::new(u64::from(self.receive_buffer) + 1),
            send_buffer: Bytes::new(u64::from(self.send_buffer) + 1),
            nagle: self.nagle,
            pacing: [Pacing::Off, Pacing::Internal, Pacing::Qdisc][usize::from(self.pacing) % 3],
            tsq: if self.tsq {
                TsqLimit::default()
            } else {
                TsqLimit::Off
            },
            fast_open: self.fast_open,
            fast_open_queue: if self.fast_open { 4 } else { 0 },
            retries: 3,
            syn_retries: 2,
            ..TcpConfig::default()
        }
    }
}

/// A call of the application.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Call {
    Write(u16),
    Read(u16),
    Shutdown,
    Close,
    Abort,
    /// With so many bytes to send from the beginning.
    Connect(u16),
}

/// How little a listener and its host may hold.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Limited {
    backlog: u8,
    accept_queue: u8,
    per_peer: Option<u8>,
    cookies: u8,
    user_timeout: Option<u16>,
    linger: Option<u16>,
    keepalive: bool,
}

impl Limited {
    fn apply(&self, tcp: TcpConfig) -> TcpConfig {
        let milliseconds = |time: u16| Duration::from_millis(time.into());
        TcpConfig {
            backlog: usize::from(self.backlog % 8),
            accept_queue: usize::from(self.accept_queue % 8) + 1,
            per_peer: self.per_peer.map(|most| usize::from(most % 8) + 1),
            syn_cookies: [SynCookies::Never, SynCookies::WhenFull, SynCookies::Always]
                [usize::from(self.cookies) % 3],
            user_timeout: self.user_timeout.map(milliseconds),
            linger: self.linger.map(milliseconds),
            keepalive: self.keepalive.then(Keepalive::default),
            ..tcp
        }
    }
}

/// A setting of a living connection.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Setting {
    Keepalive { idle: u16, interval: u8, probes: u8 },
    NoKeepalive,
    UserTimeout(Option<u16>),
    Linger(Option<u16>),
    Nodelay(bool),
}

/// The connection whose segments the peer sees.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub host_port: u16,
    pub peer_port: u16,
    /// The host's initial sequence number.
    pub host_isn: u32,
    /// End of what the host has sent.
    pub host_next: u32,
    /// The host's latest acknowledgment number.
    pub host_ack: u32,
    /// Furthest right edge of the windows that the host offered.
    edge: Option<u32>,
    /// Shift of the host's windows; it says one in its SYN, and uses it if the peer scales too.
    pub scale: u8,
    /// Value and echo of a right timestamp option, if the connection uses it.
    pub timestamp: Option<(u32, u32)>,
}

/// A host and what the peer has seen of it.
pub struct Rig {
    host: Stack,
    config: TcpConfig,
    now: Instant,
    pub flow: Flow,
    listener: SocketId,
    sockets: Vec<SocketId>,
    /// Sockets of the host after the input before: what was over at this one may have said so.
    held: usize,
    /// Bytes written to and read from the newest socket.
    written: u32,
    read: u32,
    /// The Fast Open cookie that the host gave its peer; empty before.
    pub cookie: Vec<u8>,
    /// The peer keeps to [`pattern`], and there is one connection: contents can be checked.
    checks_contents: bool,
    /// The numbers of all SYNs that arrived. The peer may not know which opened the newest connection:
    /// it has not seen the answer to one that a full ring holds.
    syns: Vec<u32>,
    /// Those of them from which the bytes read so far are right.
    origins: Vec<u32>,
    /// Messages of automatic configuration at one instant.
    automatic: usize,
}

impl Rig {
    /// A host that knows the peer's hardware address and listens.
    pub fn new(settings: &Settings, checks_contents: bool) -> Self {
        Self::configured(settings.seed, settings.tcp(), checks_contents)
    }

    /// The same, with sockets of `tcp`.
    pub fn configured(seed: u64, tcp: TcpConfig, checks_contents: bool) -> Self {
        Self::on(Self::host_config(seed), tcp, checks_contents)
    }

    /// A host with automatic configuration on.
    pub fn automatic(settings: &Settings) -> Self {
        let config = HostConfig {
            autoconfiguration: Autoconfiguration::IPV6,
            ..Self::host_config(settings.seed)
        };
        Self::on(config, settings.tcp(), false)
    }

    /// Addresses that the host tests for duplicates.
    pub fn tentative(&self) -> Vec<IpAddr> {
        self.host.configuration().tentative
    }

    fn host_config(seed: u64) -> HostConfig {
        HostConfig::new(HOST_MAC, seed)
            .address(Cidr::new(HOST, 24))
            .address(Cidr::new(HOST_V6, 64))
    }

    fn on(config: HostConfig, tcp: TcpConfig, checks_contents: bool) -> Self {
        let automatic = config.autoconfiguration != Autoconfiguration::default();
        // A drawn key would not replay.
        let replayed = fq_codel::Config {
            perturbation: Some(0),
            ..fq_codel::Config::default()
        };
        let qdisc = FqCodel::new(replayed).expect("the default is valid");
        // Every other host takes packets of several segments.
        let tso = (config.seed % 2 == 1).then_some(Tso::MOST);
        let device = MemoryDevice {
            ring: 64,
            tso,
            ..MemoryDevice::default()
        };
        let port = Port::new(Ledger::new(qdisc), Ring::new(device, Dql::default()));
        let pool = Pool::heap(128, tso);
        let mut host = Host::new(config, port, pool, NoTrace);
        let listener = host
            .listen(LISTENING, tcp.clone())
            .expect("the port is free");
        let mut rig = Self {
            host,
            config: tcp,
            now: Instant::from_secs(1),
            flow: Flow {
                peer_port: REMOTE,
                host_port: LISTENING,
                ..Flow::default()
            },
            listener,
            sockets: Vec::new(),
            held: 0,
            written: 0,
            read: 0,
            cookie: Vec::new(),
            checks_contents,
            syns: Vec::new(),
            origins: Vec::new(),
            automatic: if automatic { AUTOMATIC } else { 0 },
        };
        rig.deliver(&frame::arp(1, PEER_MAC, PEER, HOST));
        rig
    }

    /// A host whose listener and connections may hold little.
    pub fn limited(settings: &Settings, limited: &Limited) -> Self {
        Self::configured(settings.seed, limited.apply(settings.tcp()), false)
    }

    /// Sets something of the newest socket.
    pub fn set(&mut self, setting: Setting) {
        let Some(&socket) = self.sockets.last() else {
            return;
        };
        let milliseconds = |time: u16| Duration::from_millis(time.into());
        let _ = match setting {
            Setting::Keepalive {
                idle,
                interval,
                probes,
            } => {
                let interval = Duration::from_millis(u64::from(interval) + 1);
                let keepalive = Keepalive {
                    idle: milliseconds(idle),
                    interval,
                    probes: probes.into(),
                };
                self.host
                    .set_option(socket, SocketOption::Keepalive(Some(keepalive)))
            }
            Setting::NoKeepalive => self.host.set_option(socket, SocketOption::Keepalive(None)),
            Setting::UserTimeout(limit) => self
                .host
                .set_option(socket, SocketOption::UserTimeout(limit.map(milliseconds))),
            Setting::Linger(time) => self
                .host
                .set_option(socket, SocketOption::Linger(time.map(milliseconds))),
            Setting::Nodelay(on) => self.host.set_option(socket, SocketOption::Nodelay(on)),
        };
        self.settle();
    }

    /// Limits what all connections hold together.
    pub fn limit(&mut self, limits: Limits) {
        self.host.set_limits(limits);
        self.settle();
    }

    /// The driver's clock steps back.
    pub fn step_back(&mut self, time: Duration) {
        let now = self.now;
        self.now = Instant::from_nanos(now.as_nanos().saturating_sub(time.as_nanos() as u64));
        let _ = self.host.poll(self.now);
        self.now = now;
        self.settle();
    }

    /// The application connects to the peer, and writes `len` bytes before the SYN leaves.
    pub fn connect(&mut self, len: u16) {
        let remote = SocketAddrV4::new(PEER, REMOTE);
        self.sockets.push(
            self.host
                .connect(remote, self.config.clone(), self.now)
                .expect("the address is good"),
        );
        (self.written, self.read) = (0, 0);
        self.call(Call::Write(len));
    }

    /// Number of sockets, the listener among them.
    pub fn socket_count(&self) -> usize {
        self.host.socket_count()
    }

    /// The state of the newest socket.
    pub fn state(&self) -> Option<&'static str> {
        self.host.info(*self.sockets.last()?).map(|info| info.state)
    }

    /// A frame arrives; the host does all it can do at this instant.
    pub fn deliver(&mut self, frame: &[u8]) {
        let before = self.host.stats();
        crate::count_delivery();
        crate::count_hostile();
        self.syns.extend(frame::syn_number(frame));
        self.host.deliver(frame, self.now);
        let after = self.host.stats();
        assert!(
            after.births <= before.births + 1,
            "more than one packet written before the poll"
        );
        assert!(
            after.refused() <= before.refused() + 1 && after.refused() <= after.frames_in,
            "a frame refused for two reasons: {before:?}, {after:?}"
        );
        self.settle();
    }

    /// The application does something with its newest socket.
    pub fn call(&mut self, call: Call) {
        let Some(&socket) = self.sockets.last() else {
            return;
        };
        match call {
            Call::Write(len) => {
                let data: Vec<u8> = (0..u32::from(len))
                    .map(|i| pattern(self.written.wrapping_add(i)))
                    .collect();
                self.written += self.host.send(socket, &data).unwrap_or(0) as u32;
            }
            Call::Read(len) => self.read(socket, len),
            Call::Shutdown => drop(self.host.shutdown(socket)),
            Call::Close => self.host.close(socket, self.now),
            Call::Abort => drop(self.host.abort(socket)),
            Call::Connect(_) if self.checks_contents => {}
            Call::Connect(len) => self.connect(len),
        }
        self.settle();
    }

    fn read(&mut self, socket: SocketId, len: u16) {
        let mut buffer = vec![0; usize::from(len)];
        let Ok(Recv::Data(count)) = self.host.recv(socket, &mut buffer) else {
            return;
        };
        if self.read == 0 {
            self.origins.clone_from(&self.syns);
        }
        let read = self.read;
        let right = |syn: u32| {
            let first = syn.wrapping_add(1).wrapping_add(read);
            (0..)
                .zip(&buffer[..count])
                .all(|(i, byte)| pattern(first.wrapping_add(i)) == *byte)
        };
        self.origins.retain(|syn| right(*syn));
        assert!(
            !self.checks_contents || !self.origins.is_empty(),
            "the host invented a byte of {count} from {read} on"
        );
        self.read = self.read.wrapping_add(count as u32);
    }

    /// Completions stop, or go on.
    pub fn hold(&mut self, hold: bool) {
        self.host.device_mut().stuck = hold;
        self.settle();
    }

    /// Time passes.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..WAKES {
            match self.host.poll(self.now) {
                Some(wake) if wake.at < end => self.now = self.now.max(wake.at),
                _ => break,
            }
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// Polls until the host has nothing more to do at this instant.
    fn settle(&mut self) {
        let waiting = self.host.outstanding();
        let mut control = 0;
        for polls in 0.. {
            assert!(polls < POLLS_AT_ONE_INSTANT, "the host spins");
            let wake = self.host.poll(self.now);
            let device = self.host.device_mut();
            let segments = device.tso.map_or(1, |tso| tso.max_segments.into());
            let sent = std::mem::take(&mut device.sent);
            assert!(
                sent.len() <= PER_POLL * segments,
                "a poll transmitted {} frames",
                sent.len()
            );
            for frame in sent {
                control += usize::from(!self.observe(&frame));
            }
            let ready = self.host.device_mut().completions() > 0;
            if !ready && wake.is_none_or(|wake| wake.at > self.now) {
                break;
            }
        }
        self.collect_events();
        let bound = waiting + self.automatic + 4 + 4 * self.held.max(self.host.socket_count());
        self.held = self.host.socket_count();
        assert!(
            control <= bound,
            "{control} packets without data in answer to one input"
        );
        if !self.host.device_mut().stuck && self.config.pacing != Pacing::Qdisc {
            assert_eq!(
                self.host.outstanding(),
                0,
                "a frame is neither queued nor in the device"
            );
        }
    }

    fn collect_events(&mut self) {
        while let Some(event) = self.host.next_event() {
            if let Event::Accepted { socket, .. } = event {
                self.sockets.push(socket);
                (self.written, self.read) = (0, 0);
            }
        }
    }

    /// The peer sees a frame. True if it carries data.
    fn observe(&mut self, frame: &[u8]) -> bool {
        assert!(frame.len() <= 1514, "a frame of {} bytes", frame.len());
        let Some(segment) = Tcp::from_frame(frame) else {
            return false;
        };
        let flow = &mut self.flow;
        if segment.flags & SYN != 0 {
            // Not by its number, which is 0 after a SYN numbered 0xffff_ffff.
            let acknowledges = segment.flags & ACK != 0;
            let incarnation = Flow {
                host_port: segment.source_port,
                peer_port: segment.destination_port,
                host_isn: segment.seq,
                host_next: segment.seq.wrapping_add(segment.len()),
                host_ack: segment.ack,
                edge: None,
                scale: segment.option(3).map_or(0, |value| value[0]),
                timestamp: None,
            };
            *flow = incarnation;
            if acknowledges && let Some(cookie) = segment.option(34) {
                self.cookie = cookie.to_vec();
            }
        } else if segment.flags & RST == 0 && segment.source_port == flow.host_port {
            flow.host_ack = segment.ack;
            let end = segment.seq.wrapping_add(segment.len());
            if (end.wrapping_sub(flow.host_next) as i32) > 0 {
                flow.host_next = end;
            }
            if self.checks_contents {
                check(flow, &segment, self.written);
            }
        }
        if let Some(value) = segment.option(8) {
            let echo = u32::from_be_bytes(value[..4].try_into().expect("eight bytes"));
            flow.timestamp = Some((self.now.as_millis() as u32, echo));
        }
        !segment.payload.is_empty()
    }

    /// Nobody holds a socket any more: in the end nothing is left.
    pub fn finish(mut self) {
        self.hold(false);
        for socket in std::mem::take(&mut self.sockets) {
            self.host.close(socket, self.now);
        }
        self.host.close(self.listener, self.now);
        self.settle();
        for _ in 0..LAST_WAKES {
            for socket in std::mem::take(&mut self.sockets) {
                self.host.close(socket, self.now);
            }
            let Some(wake) = self.host.poll(self.now) else {
                break;
            };
            self.now = self.now.max(wake.at);
            self.settle();
        }
        self.settle();
        assert_eq!(self.host.outstanding(), 0, "frames leaked");
        assert_eq!(
            self.host.port().ring().device().in_flight(),
            0,
            "the device keeps frames"
        );
        assert_eq!(self.host.socket_count(), 0, "sockets leaked");
    }
}

/// Invariants of every segment of a connection: it repeats the application's bytes, and the window's
/// right edge never moves left (RFC 9293 §3.8.6.2.1), except by rounding to units of 2^scale (RFC
/// 7323 §2.4).
fn check(flow: &mut Flow, segment: &Tcp, written: u32) {
    let first = segment.seq.wrapping_sub(flow.host_isn).wrapping_sub(1);
    for (i, byte) in segment.payload.iter().enumerate() {
        let offset = first.wrapping_add(i as u32);
        assert!(offset < written, "the host sent byte {offset} of {written}");
        assert_eq!(
            *byte,
            pattern(offset),
            "the host sent another byte {offset} than its application wrote"
        );
    }
    if segment.flags & FIN != 0 {
        assert_eq!(
            first.wrapping_add(segment.payload.len() as u32),
            written,
            "a FIN before the end of the data"
        );
    }
    let edge = segment
        .ack
        .wrapping_add(u32::from(segment.window) << flow.scale);
    let furthest = flow.edge.get_or_insert(edge);
    let retracted = furthest.wrapping_sub(edge) as i32;
    assert!(
        retracted < 1 << flow.scale,
        "the window's right edge moved left by {retracted}"
    );
    if retracted < 0 {
        *furthest = edge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: (u16, u16) = (REMOTE, LISTENING);

    fn segment(rig: &Rig, flags: u16, seq: u32, data: &[u8]) -> Vec<u8> {
        Tcp {
            source_port: FLOW.0,
            destination_port: FLOW.1,
            seq,
            ack: if flags & ACK == 0 {
                0
            } else {
                rig.flow.host_next
            },
            flags,
            window: 65535,
            payload: data.to_vec(),
            ..Tcp::default()
        }
        .to_frame()
    }

    fn numbered(first: u32) -> Vec<u8> {
        (first..first + 500).map(pattern).collect()
    }

    /// A connection whose SYN is numbered 100, established.
    fn established() -> Rig {
        let mut rig = Rig::configured(0, TcpConfig::default(), true);
        let syn = segment(&rig, SYN, 100, &[]);
        rig.deliver(&syn);
        let answer = segment(&rig, ACK, 101, &[]);
        rig.deliver(&answer);
        rig
    }

    #[test]
    fn a_connection_whose_syn_ack_was_not_seen_is_checked_from_its_own_syn() {
        let mut rig = established();
        rig.hold(true);
        rig.call(Call::Abort);
        // At the same instant the host takes the same initial number.
        let syn = segment(&rig, SYN, 101, &[]);
        rig.deliver(&syn);
        let data = segment(&rig, ACK, 101, &numbered(101));
        rig.deliver(&data);
        rig.call(Call::Read(1000));
        assert_eq!((rig.read, &rig.origins[..]), (499, &[101][..]));
    }

    #[test]
    #[should_panic(expected = "the host invented a byte of 500 from 0 on")]
    fn bytes_that_the_peer_did_not_send_there_are_noticed() {
        let mut rig = established();
        let data = segment(&rig, ACK, 101, &numbered(102));
        rig.deliver(&data);
        rig.call(Call::Read(1000));
    }
}
