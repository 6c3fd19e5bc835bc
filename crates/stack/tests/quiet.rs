//! Random sessions over links that delay, duplicate, lose and are cut for a while, with devices that
//! stick: no host asks to be woken repeatedly without work, and both fall silent once
//! everything was closed (16.18).

#[expect(dead_code, reason = "a module shared by test files")]
mod pair;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pair::{PORT, Pair, Stack, address, address_v6};
use tautline_base::{Bytes, Instant, SocketId, SplitMix64};
use tautline_cc::Algorithm;
use tautline_stack::{EcnMode, Event, Keepalive, MtuProbing, Recv, SynCookies, TcpConfig};

const SESSIONS: u64 = 200;
/// Most wakes in a row, each within a millisecond of the one before, without a frame or an event.
const IDLE_WAKES: u32 = 20;

/// Two hosts, the wire between them, and the random calls on them.
struct Session {
    hosts: [Stack; 2],
    sockets: [Vec<SocketId>; 2],
    rng: SplitMix64,
    now: Instant,
    delay: Duration,
    /// Chances out of 256.
    duplicate: u64,
    lose: u64,
    /// Frames of this side are lost.
    cut: [bool; 2],
    /// Every connection is closed at once.
    is_over: bool,
    /// Frames in flight by arrival and number: the side they go to.
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    carried: u64,
    wakes: [Option<Instant>; 2],
    idle_wakes: [u32; 2],
}

impl Session {
    fn new(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let pair = Pair::new(seed);
        let delay = [1, 5, 200, 1000][rng.next_u64() as usize % 4];
        Self {
            hosts: pair.hosts,
            sockets: [Vec::new(), Vec::new()],
            now: pair.now,
            delay: Duration::from_millis(delay),
            duplicate: rng.next_u64() % 160,
            lose: (rng.next_u64() % 160).saturating_sub(80),
            rng,
            cut: [false; 2],
            is_over: false,
            wire: BTreeMap::new(),
            carried: 0,
            wakes: [None; 2],
            idle_wakes: [0; 2],
        }
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.rng.next_u64() as usize % values.len()].clone()
    }

    fn has_chance(&mut self, of_256: u64) -> bool {
        self.rng.next_u64() % 256 < of_256
    }

    fn config(&mut self) -> TcpConfig {
        let second = Duration::from_secs(1);
        let keepalive = Keepalive {
            idle: second,
            interval: second,
            probes: 5,
        };
        let congestion = [Algorithm::Cubic, Algorithm::Bbr, Algorithm::Prague];
        TcpConfig {
            congestion: self.one_of(&congestion).into(),
            ecn: self.one_of(&[EcnMode::Off, EcnMode::Request, EcnMode::AccEcn]),
            mtu_probing: self.one_of(&[MtuProbing::Off, MtuProbing::Always]),
            keepalive: self.one_of(&[None, Some(keepalive)]),
            user_timeout: self.one_of(&[None, Some(3 * second)]),
            linger: self.one_of(&[None, Some(3 * second)]),
            syn_cookies: self.one_of(&[SynCookies::WhenFull, SynCookies::Always]),
            notsent_lowat: self.one_of(&[None, Some(Bytes::new(1))]),
            receive_buffer: self.one_of(&[Bytes::mib(1), Bytes::new(3000)]),
            ..TcpConfig::default()
        }
    }

    /// Polls `side` and takes its frames and events: the time of its next wake.
    fn poll(&mut self, side: usize) -> Option<Instant> {
        let wake = self.hosts[side].poll(self.now);
        let mut has_worked = false;
        while let Some(frame) = self.hosts[side].device_mut().sent.pop_front() {
            has_worked = true;
            self.carried += 1;
            if self.cut[side] || self.has_chance(self.lose) {
                continue;
            }
            let copies = 1 + u32::from(self.has_chance(self.duplicate));
            for copy in 0..copies {
                let jitter = Duration::from_micros(self.rng.next_u64() % 400);
                let at = self.now + self.delay + jitter * copy;
                let number = self.carried * 2 + u64::from(copy);
                self.wire.insert((at, number), (1 - side, frame.clone()));
            }
        }
        while let Some(event) = self.hosts[side].next_event() {
            has_worked = true;
            match event {
                Event::Accepted { socket, .. } if !self.is_over => self.sockets[side].push(socket),
                Event::Accepted { socket, .. } | Event::Closed { socket, .. } => {
                    self.close(side, socket);
                }
                _ => {}
            }
        }
        let at = wake.map(|wake| wake.at);
        let was_due = std::mem::replace(&mut self.wakes[side], at).is_some_and(|at| at <= self.now);
        let is_soon = at.is_some_and(|at| at <= self.now + Duration::from_millis(1));
        let idle = &mut self.idle_wakes[side];
        if has_worked || !is_soon {
            *idle = 0;
        } else {
            *idle += u32::from(was_due);
        }
        assert!(
            *idle < IDLE_WAKES,
            "side {side}, {wake:?} at {:?}",
            self.now
        );
        // Completions are announced.
        let has_completions = self.hosts[side].device_mut().completions() > 0;
        if has_completions { Some(self.now) } else { at }
    }

    fn close(&mut self, side: usize, socket: SocketId) {
        self.hosts[side].close(socket, self.now);
        self.sockets[side].retain(|one| *one != socket);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let wakes = [0, 1].map(|side| self.poll(side));
            let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
            let next = wakes.into_iter().flatten().chain(arrival).min();
            self.now = next.unwrap_or(end).clamp(self.now, end);
            while let Some(entry) = self.wire.first_entry()
                && entry.key().0 <= self.now
            {
                let (side, bytes) = entry.remove();
                self.hosts[side].deliver(&bytes, self.now);
                self.idle_wakes[side] = 0;
            }
        }
    }

    /// One random call on one random socket, or a change of the link or a device.
    fn act(&mut self, remote: SocketAddr, config: &TcpConfig) {
        let (side, now) = (self.one_of(&[0, 1]), self.now);
        let choice = self.rng.next_u64() % 24;
        match choice {
            0..4 if self.sockets[0].len() < 4 => {
                let socket = self.hosts[0].connect(remote, config.clone(), now);
                self.sockets[0].push(socket.expect("a good address"));
            }
            4 => self.cut[side] ^= true,
            5 => {
                let device = self.hosts[side].device_mut();
                device.stuck = !device.stuck;
            }
            6 => self.hosts[side].reset_device(now),
            _ => {}
        }
        let Some(last) = self.sockets[side].len().checked_sub(1) else {
            return;
        };
        let socket = self.sockets[side][self.rng.next_u64() as usize % (last + 1)];
        let host = &mut self.hosts[side];
        match choice {
            7..13 => drop(host.send(socket, &vec![7; self.rng.next_u64() as usize % 5000])),
            13..19 => while let Ok(Recv::Data(_)) = host.recv(socket, &mut [0; 2000]) {},
            19..21 => drop(host.shutdown(socket)),
            21 => drop(host.abort(socket)),
            22 => self.close(side, socket),
            _ => {}
        }
    }

    /// Closes everything. Links and devices are whole again.
    fn end(&mut self) {
        self.is_over = true;
        self.cut = [false; 2];
        for side in 0..2 {
            self.hosts[side].device_mut().stuck = false;
            for socket in std::mem::take(&mut self.sockets[side]) {
                self.close(side, socket);
            }
        }
    }
}

#[test]
fn hosts_sleep_without_work_and_fall_silent_after_everything_was_closed_16_18() {
    for seed in 0..SESSIONS {
        let mut session = Session::new(seed);
        let (near, far) = (session.config(), session.config());
        session.hosts[1].listen(PORT, far).expect("free");
        let to: IpAddr = session.one_of(&[address(1).into(), address_v6(1).into()]);
        for host in &mut session.hosts {
            host.device_mut().announces = true;
        }
        for _ in 0..60 {
            session.act(SocketAddr::new(to, PORT), &near);
            let pause = session.one_of(&[1, 50, 700, 2000]);
            session.run_for(Duration::from_millis(pause));
        }
        session.end();
        session.run_for(Duration::from_secs(3000));
        let carried = session.carried;
        session.run_for(Duration::from_secs(1000));
        assert_eq!(session.carried, carried, "seed {seed}: frames for ever");
        let left = session.hosts.each_ref().map(Stack::socket_count);
        assert_eq!(left, [0, 1], "seed {seed}: sockets left, but the listener");
    }
}
