//! Devices on real veth pairs, in namespaces of their own. Without root or AF_XDP each test prints
//! why it is skipped.

#[path = "../net/mod.rs"]
mod net;

use net::{End, Pair, write_frame};
use std::sync::Arc;
use std::time::Duration;
use tautline_base::{Device, Frame, Instant, Packet, Pool};
use tautline_xdp_io::{
    Apart, Attachment, Bind, Config, CopyReason, Driver, Failure, OpenError, Take, UmemFrame,
    XdpDevice, XdpPair, XdpQueues, interface_mac, interface_queues,
};

const NOW: Instant = Instant::ZERO;

#[expect(clippy::disallowed_methods, reason = "waits for a kernel")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// The pair, or a printed reason and the end of the test.
macro_rules! pair_or_skip {
    () => {
        pair_or_skip!(1)
    };
    ($queues:expr) => {
        match net::blocked_by() {
            None => Pair::new($queues),
            Some(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
        }
    };
}

/// The pair, of veth only: the test makes, removes or counts what NICs have no or other ones of.
macro_rules! veth_or_skip {
    ($($queues:expr)?) => {{
        if net::nics().is_some() {
            eprintln!("skipped: needs a veth pair");
            return;
        }
        pair_or_skip!($($queues)?)
    }};
}

mod frames;
mod lifetime;
mod program;
mod queues;
mod refusal;
mod ring;
mod shared;

/// A device with its transmit reserve.
struct Port<D = XdpDevice> {
    device: D,
    pool: Pool<UmemFrame>,
}

impl Port {
    fn open(end: &End, config: Config) -> Result<Self, OpenError> {
        let (device, frames) = end.inside(|| XdpDevice::open(config))?;
        end.wait_for_link();
        Ok(Self {
            device,
            pool: Pool::new(frames),
        })
    }

    fn new(end: &End) -> Self {
        Self::open(end, end.config()).expect("nobody else has this interface")
    }
}

impl<D: Device<Frame = UmemFrame>> Port<D> {
    fn put(&mut self, to: &End, mark: u64) {
        let mut frame = self.pool.take().expect("the reserve is large enough");
        write_frame(frame.bytes_mut(), 60, to.address, mark);
        self.device.put(Packet::new(frame, 60), NOW);
    }

    fn reap(&mut self, now: Instant) {
        let mut done = Vec::new();
        self.device.reap(now, &mut done);
        for packet in done {
            let _ = self.pool.settle(packet);
        }
    }

    /// Reaps until nothing is in flight.
    fn settle(&mut self) {
        for turn in 0..1000 {
            self.reap(NOW + Duration::from_millis(turn));
            if self.device.in_flight() == 0 {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        assert_eq!(
            (self.device.in_flight(), self.pool.outstanding()),
            (0, 0),
            "every frame is back"
        );
    }

    /// The marks of the frames that arrive until `count` have or none has for a second.
    fn marks(&mut self, count: usize) -> Vec<u64> {
        self.marks_while(count, |_| {})
    }

    /// The same, with a call of `turn` each millisecond of silence, which it is told.
    fn marks_while(&mut self, count: usize, mut turn: impl FnMut(u64)) -> Vec<u64> {
        let (mut marks, mut silence) = (Vec::new(), 0);
        while silence < 1000 {
            silence += 1;
            while let Some(received) = self.device.receive(NOW) {
                let tail = received.bytes().last_chunk().expect("no frame is shorter");
                marks.push(u64::from_be_bytes(*tail));
                self.device.recycle(received.frame);
                silence = 0;
            }
            if marks.len() >= count {
                break;
            }
            turn(silence);
            sleep(Duration::from_millis(1));
        }
        marks
    }
}

/// Sends `count` marked frames in bursts; checks that all arrive, over veth in order. On NICs a reap wakes a
/// driver again that was busy, and a frame may pass one for which QEMU had no buffer.
fn transfer<D: Device<Frame = UmemFrame>>(
    from: &mut Port<D>,
    to: &mut Port<impl Device<Frame = UmemFrame>>,
    destination: &End,
    count: u64,
) {
    // The receive rings of NICs have 256 entries and more.
    let length = if net::nics().is_some() { 200 } else { 500 };
    for start in (0..count).step_by(length as usize) {
        let burst = start..count.min(start + length);
        burst.clone().for_each(|mark| from.put(destination, mark));
        from.device.doorbell(NOW);
        let count = burst.clone().count();
        let arrived = if net::nics().is_some() {
            let reap = |silence| from.reap(NOW + Duration::from_millis(silence));
            let mut arrived = to.marks_while(count, reap);
            arrived.sort_unstable();
            arrived
        } else {
            to.marks(count)
        };
        assert_eq!(arrived, burst.collect::<Vec<_>>());
        from.settle();
    }
}

/// All queues of `end` as one device.
fn queues(end: &End) -> Port<XdpQueues> {
    let opened = end.inside(|| XdpQueues::open(end.config(), None));
    let (device, frames) = opened.expect("nobody else has this interface");
    end.wait_for_link();
    Port {
        device,
        pool: Pool::new(frames),
    }
}

/// Lets six seconds pass without a completion, while the kernel knows that the link is up.
fn stall(end: &End, port: &mut Port<XdpQueues>) {
    let state = || end.ip(&["link", "show", &end.interface]);
    while !state().contains("state UP") {
        sleep(Duration::from_millis(10));
    }
    let later = NOW + Duration::from_secs(6);
    port.device.reap(later, &mut Vec::new());
}

/// Resets a device that needs it, from inside the namespace of `end`. Returns the packets it lost.
fn reset(end: &End, port: &mut Port<XdpQueues>) -> usize {
    let mut lost = Vec::new();
    end.inside(|| {
        assert!(!port.device.is_gone());
        assert!(port.device.needs_reset(NOW));
        port.device.reset(&mut lost);
        assert!(!port.device.needs_reset(NOW));
    });
    end.wait_for_link();
    let count = lost.len();
    for packet in lost {
        let _ = port.pool.settle(packet);
    }
    count
}

/// The XDP program as `ip -d link` shows it.
fn xdp_on(end: &End) -> bool {
    end.ip(&["-d", "link", "show", &end.interface])
        .contains("prog/xdp")
}

fn kernel_answers(end: &End, peer: &End) {
    end.exec(&[
        "ping",
        "-c",
        "1",
        "-W",
        "2",
        &peer.kernel_address.to_string(),
    ]);
}

/// Raises the MTU of both ends to 9000.
fn jumbo(pair: &Pair) {
    for end in [&pair.left, &pair.right] {
        end.ip(&["link", "set", &end.interface, "mtu", "9000"]);
    }
}
