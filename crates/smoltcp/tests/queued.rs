//! [`QueuedDevice`] over a device that remembers what it was given.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use tautline_base::{Bytes, HashKey, HeapFrame, Packet};
use tautline_bql::Dql;
use tautline_qdisc::{FqCodel, Ledger, Pfifo, Qdisc, codel, fq_codel, pfifo};
use tautline_smoltcp::{Config, QueuedDevice};
use tautline_testkit::{Ip, checksum};

/// Has room for so many frames, and one frame to receive.
struct Ring {
    medium: Medium,
    room: usize,
    sent: Vec<Vec<u8>>,
    arrived: Option<Vec<u8>>,
}

impl Ring {
    fn new(medium: Medium, room: usize) -> Self {
        Self {
            medium,
            room,
            sent: Vec::new(),
            arrived: None,
        }
    }
}

struct Token<'a>(&'a mut Ring);
struct Arrived(Vec<u8>);

impl TxToken for Token<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.room -= 1;
        self.0.sent.push(frame);
        result
    }
}

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl Device for Ring {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Token<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Token<'_>)> {
        let frame = self.arrived.take()?;
        Some((Arrived(frame), Token(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Token<'_>> {
        (self.room > 0).then_some(Token(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = 9000;
        capabilities.max_burst_size = Some(7);
        capabilities
    }
}

/// A fixed hash key, so that runs repeat.
fn config() -> Config {
    Config::new(HashKey::from_seed(1))
}

fn at(millis: i64) -> Instant {
    Instant::from_millis(millis)
}

/// An IPv4 packet of `len` bytes from `port`, with an ECT(0) header and a right checksum.
fn ipv4(port: u16, len: usize) -> Vec<u8> {
    let ip = Ip {
        tos: 2,
        fragment: u32::from(port) << 16,
        ..Ip::new([192, 0, 2, 1], [192, 0, 2, 2], 17)
    };
    let mut payload = vec![0; len - 20];
    payload[..2].copy_from_slice(&port.to_be_bytes());
    ip.packet_of(&payload)
}

fn send<Q, L>(device: &mut QueuedDevice<Ring, Q, L>, frame: &[u8], now: Instant) -> bool
where
    Q: Qdisc<Packet<HeapFrame>>,
    L: tautline_bql::Limit,
{
    let Some(token) = device.transmit(now) else {
        return false;
    };
    token.consume(frame.len(), |buffer| buffer.copy_from_slice(frame));
    true
}

type Fair = Ledger<FqCodel<Packet<HeapFrame>>>;

/// Under one key in every run.
fn fair(mut config: fq_codel::Config) -> Fair {
    config.perturbation = Some(0);
    Ledger::new(FqCodel::new(config).expect("valid"))
}

#[test]
fn a_sparse_flow_passes_a_bulk_flow_once_the_ring_is_full() {
    let mut device = QueuedDevice::new(
        Ring::new(Medium::Ip, 1),
        fair(fq_codel::Config::default()),
        config(),
    );
    for _ in 0..20 {
        assert!(send(&mut device, &ipv4(1, 1000), at(0)));
    }
    assert!(device.poll(at(0)).is_some(), "nineteen wait");
    assert!(send(&mut device, &ipv4(2, 100), at(1)));
    device.device_mut().room = 2;
    let _now = device.poll(at(1));
    let ports: Vec<u8> = device.device().sent.iter().map(|frame| frame[21]).collect();
    assert_eq!(
        ports,
        [1, 1, 2],
        "the bulk flow has had its quantum, the sparse one is new"
    );
    device.device_mut().room = 100;
    assert_eq!(device.poll(at(2)), None);
    assert_eq!(
        (
            device.sent(),
            device.dropped(),
            device.queue().backlog().packets
        ),
        (21, 0, 0)
    );
}

#[test]
fn when_all_frames_wait_the_interface_hears_that_the_device_is_busy_and_nothing_is_lost() {
    let config = Config {
        frames: 4,
        ..config()
    };
    let mut device = QueuedDevice::new(
        Ring::new(Medium::Ethernet, 0),
        Pfifo::new(pfifo::Config::default()),
        config,
    );
    let sent = (0..10)
        .filter(|_| send(&mut device, &[7; 60], at(0)))
        .count();
    assert_eq!(sent, 4);
    assert!(device.receive(at(0)).is_none(), "no frame to answer with");
    device.device_mut().room = 10;
    assert!(send(&mut device, &[8; 60], at(1)), "asking makes room");
    let token = device.transmit(at(1)).expect("room");
    assert!(format!("{token:?}").starts_with("TxToken"));
    drop(token);
    let _now = device.poll(at(1));
    assert_eq!(device.device().sent.len(), 5);
}

#[test]
fn an_answer_goes_through_the_queue_and_the_received_frame_does_not() {
    let queue = Pfifo::new(pfifo::Config::default());
    let mut device = QueuedDevice::new(Ring::new(Medium::Ethernet, 9), queue, config());
    device.device_mut().arrived = Some(vec![1, 2, 3]);
    let (received, answer) = device.receive(at(0)).expect("arrived");
    assert_eq!(received.consume(<[u8]>::to_vec), [1, 2, 3]);
    answer.consume(60, |buffer| buffer.fill(9));
    assert!(device.device().sent.is_empty() && device.queue().backlog().packets == 1);
    assert_eq!(device.poll(at(0)), None);
    assert_eq!(device.device().sent, [vec![9; 60]]);
}

/// CoDel marks what stood too long; the mark is in the header that leaves, and its checksum is
/// right.
#[test]
fn marks_reach_the_wire() {
    let codel = codel::Params {
        ecn: true,
        mtu: Bytes::ZERO,
        ..codel::Params::default()
    };
    let queue = fair(fq_codel::Config {
        codel,
        ..fq_codel::Config::default()
    });
    let mut device = QueuedDevice::new(Ring::new(Medium::Ip, 0), queue, config());
    for _ in 0..30 {
        send(&mut device, &ipv4(1, 100), at(0));
    }
    for step in 1..=30 {
        device.device_mut().room = 1;
        let _later = device.poll(at(50 * step));
    }
    let marked: Vec<_> = device
        .device()
        .sent
        .iter()
        .filter(|packet| packet[1] == 3)
        .collect();
    assert!(!marked.is_empty() && marked.len() < device.device().sent.len());
    assert!(
        device
            .device()
            .sent
            .iter()
            .all(|packet| checksum(&[&packet[..20]]) == 0 && packet.len() == 100)
    );
}

/// With completions told, the dynamic queue limit keeps the ring short; without, the ring takes all
/// it has room for.
#[test]
fn a_limit_holds_frames_back_until_completions_are_told() {
    let queue = || Pfifo::new(pfifo::Config::default());
    let mut open = QueuedDevice::new(Ring::new(Medium::Ethernet, 100), queue(), config());
    let mut limited = QueuedDevice::with_limit(
        Ring::new(Medium::Ethernet, 100),
        queue(),
        Dql::default(),
        config(),
    );
    for _ in 0..20 {
        send(&mut open, &[1; 1000], at(0));
        send(&mut limited, &[1; 1000], at(0));
    }
    let (free, wake) = (open.poll(at(0)), limited.poll(at(0)));
    assert_eq!((open.device().sent.len(), free), (20, None));
    assert_eq!((limited.device().sent.len(), wake.is_some()), (1, true));
    limited.completed(Bytes::new(1000), at(1));
    let _now = limited.poll(at(1));
    assert_eq!(
        limited.device().sent.len(),
        3,
        "it ran dry, so two may be in flight"
    );
}

/// Frames dropped by the qdisc return to the pool: a thousand times as many as it holds pass.
#[test]
fn dropped_frames_are_used_again() {
    let config = Config {
        frames: 8,
        ..config()
    };
    let queue = Ledger::new(Pfifo::new(pfifo::Config { limit: 4 }));
    let mut device = QueuedDevice::new(Ring::new(Medium::Ethernet, 0), queue, config);
    for _ in 0..8000 {
        assert!(send(&mut device, &[1; 60], at(0)));
    }
    assert_eq!(
        (device.dropped(), device.queue().backlog().packets),
        (7996, 4)
    );
}

#[test]
fn a_shaper_says_when_to_come_again() {
    let words = "tbf rate 8mbit burst 1514 limit 100kb";
    let queue = tautline_tc::build::<Packet<HeapFrame>>(words).expect(words);
    let mut device = QueuedDevice::new(Ring::new(Medium::Ethernet, 100), queue, config());
    for _ in 0..3 {
        send(&mut device, &[1; 1000], at(1));
    }
    let mut now = at(1);
    while let Some(wake) = device.poll(now) {
        let next = Instant::from_micros((wake.at.as_nanos() / 1000 + 1) as i64);
        assert!(next > now, "never at once");
        now = next;
    }
    assert_eq!(device.device().sent.len(), 3);
    assert!(
        (2450..2600).contains(&now.total_micros()),
        "{now}: two milliseconds of rate, less what the bucket held"
    );
}

#[test]
fn the_device_offers_only_what_a_frame_holds() {
    let queue = || Pfifo::<Packet<HeapFrame>>::new(pfifo::Config::default());
    let of = |medium| QueuedDevice::new(Ring::new(medium, 0), queue(), config()).capabilities();
    assert_eq!(of(Medium::Ethernet).max_transmission_unit, 2048);
    assert_eq!(of(Medium::Ip).max_transmission_unit, 2034);
    assert_eq!(of(Medium::Ip).max_burst_size, None);
}

#[test]
fn each_default_configuration_has_a_key_of_its_own() {
    assert_ne!(Config::default().key, Config::default().key);
}
