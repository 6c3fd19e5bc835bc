//! Raw frames over AF_XDP: how fast the path is without a protocol. The yardstick for the goodput
//! of a stack on the same pair.
//!
//! ```text
//! raw                                  on a veth pair of its own, in namespaces it makes and removes (root)
//! raw --tx NETNS/IFACE --rx NETNS/IFACE  on a pair that is there
//!     --seconds 5 --len 1514           how long, and frames of which size; the pair it makes has the MTU for it
//!     --bind auto|copy|zero-copy       whether the kernel copies frames
//!     --mac 02:00:00:00:00:02          to whom on the link: the frames are then whole IP packets, which a kernel between forwards
//! ```
//! One thread each side. The last line is JSON: frames and bits received per second, and what was
//! lost on the way.

#[path = "../tests/net/mod.rs"]
mod net;

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tautline_base::{Device, Frame, Instant, Packet, Pool};
use tautline_xdp_io::{Bind, Config, XdpDevice};

use net::{End, Pair, write_frame};

const NOW: Instant = Instant::ZERO;
const BURST: usize = 64;

struct Options {
    ends: Option<(End, End)>,
    seconds: u64,
    len: u32,
    mac: Option<[u8; 6]>,
    bind: Bind,
}

struct Sent {
    frames: u64,
    wakes: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options {
        ends,
        seconds,
        len,
        mac,
        bind,
    } = options()?;
    if let Some(reason) = net::blocked_by() {
        return Err(reason.into());
    }
    let pair = if ends.is_none() {
        Some(Pair::new(1))
    } else {
        None
    };
    let (from, to) = ends
        .or_else(|| pair.as_ref().map(|p| (p.left.clone(), p.right.clone())))
        .expect("one of both");
    if pair.is_some() && len > 1514 {
        for end in [&from, &to] {
            let mtu = (len - 14).to_string();
            end.ip(&["link", "set", &end.interface, "mtu", &mtu]);
        }
    }
    let config = |end: &End| Config {
        bind,
        ..end.config()
    };
    let stop = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| to.inside(|| receive(config(&to), &stop)));
        let sender = scope.spawn(|| {
            from.inside(|| {
                send(
                    config(&from),
                    to.address,
                    (len, mac),
                    Duration::from_secs(seconds),
                )
            })
        });
        let sent = sender.join().expect("the sender does not panic");
        stop.store(true, Ordering::Relaxed);
        (sent, receiver.join().expect("the receiver does not panic"))
    });
    let (sent, received) = (sent?, received?);
    let rate = received as f64 / seconds as f64;
    let (kpps, gbit) = (rate / 1e3, rate * f64::from(len) * 8.0 / 1e9);
    let Sent { frames, wakes } = sent;
    let lost = frames.saturating_sub(received);
    print!(r#"{{"kpps":{kpps:.1},"gbit_per_s":{gbit:.3},"seconds":{seconds},"len":{len},"#);
    println!(r#""sent":{frames},"received":{received},"lost":{lost},"wakes":{wakes}}}"#);
    Ok(())
}

/// Keeps the ring full for `time`.
fn send(
    config: Config,
    to: Ipv4Addr,
    (len, mac): (u32, Option<[u8; 6]>),
    time: Duration,
) -> Result<Sent, String> {
    let (mut device, mut frames) = XdpDevice::open(config).map_err(|error| error.to_string())?;
    eprintln!("sender: {}", device.mode());
    if len as usize > device.mtu() + 14 {
        return Err(format!(
            "frames of {len} bytes exceed the MTU of {}",
            device.mtu()
        ));
    }
    for frame in &mut frames {
        write_frame(frame.bytes_mut(), len as usize, to, 0);
        if let Some(mac) = mac {
            make_routable(&mut frame.bytes_mut()[..len as usize], mac);
        }
    }
    let mut pool = Pool::new(frames);
    let mut done = Vec::new();
    let end = clock() + time;
    while clock() < end {
        for _ in 0..BURST.min(device.room()) {
            let Some(frame) = pool.take() else { break };
            device.put(Packet::new(frame, len), NOW);
        }
        device.doorbell(NOW);
        device.reap(NOW, &mut done);
        for packet in done.drain(..) {
            let _ = pool.settle(packet);
        }
    }
    let counters = device.statistics().device;
    Ok(Sent {
        frames: counters.transmitted,
        wakes: counters.wakes,
    })
}

/// Makes `frame` one for `mac` whose IP header is right: the length of the whole, and a checksum.
fn make_routable(frame: &mut [u8], mac: [u8; 6]) {
    frame[..6].copy_from_slice(&mac);
    let len = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[24..26].fill(0);
    let sum: u32 = frame[14..34]
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}

/// Counts frames until told to stop.
fn receive(config: Config, stop: &AtomicBool) -> Result<u64, String> {
    let (mut device, _frames) = XdpDevice::open(config).map_err(|error| error.to_string())?;
    eprintln!("receiver: {}", device.mode());
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        while let Some(received) = device.receive(NOW) {
            device.recycle(received.frame);
            idle = false;
        }
        if idle {
            let millisecond = Timespec {
                tv_sec: 0,
                tv_nsec: 1_000_000,
            };
            let _ = poll(
                &mut [PollFd::from_borrowed_fd(device.poll_fd(), PollFlags::IN)],
                Some(&millisecond),
            );
        }
    }
    let statistics = device.statistics();
    eprintln!("receiver: {statistics:?}");
    Ok(statistics.device.received)
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        ends: None,
        seconds: 5,
        len: 1514,
        mac: None,
        bind: Bind::Auto,
    };
    let (mut from, mut to) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--tx" => from = Some(end(&value, 1)?),
            "--rx" => to = Some(end(&value, 2)?),
            "--seconds" => options.seconds = value.parse()?,
            "--len" => options.len = value.parse()?,
            "--bind" => {
                options.bind = match value.as_str() {
                    "auto" => Bind::Auto,
                    "copy" => Bind::Copy,
                    "zero-copy" => Bind::ZeroCopy,
                    _ => return Err("--bind is auto, copy or zero-copy".into()),
                }
            }
            "--mac" => {
                options.mac =
                    Some(mac(&value).ok_or_else(|| format!("`{value}` is no link address"))?)
            }
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    if !(42..=60_408).contains(&options.len) || options.seconds == 0 {
        return Err("--len must be 42 to 60408, --seconds above 0".into());
    }
    options.ends = match (from, to) {
        (None, None) => None,
        (Some(from), Some(to)) => Some((from, to)),
        _ => return Err("--tx and --rx go together".into()),
    };
    Ok(options)
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    bytes?.try_into().ok()
}

fn end(text: &str, host: u8) -> Result<End, String> {
    let (namespace, interface) = text
        .split_once('/')
        .ok_or_else(|| format!("`{text}` is not NETNS/IFACE"))?;
    let address = Ipv4Addr::new(10, 77, 0, host);
    Ok(End {
        namespace: namespace.into(),
        interface: interface.into(),
        address,
        kernel_address: address,
    })
}

#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn clock() -> Clock {
    Clock::now()
}
