//! CAKE in front of a UDP socket, as a VPN or a QUIC program would have it: `cargo run -p
//! tautline-examples --no-default-features --example cake_udp`.
//!
//! A bulk flow offers far more than 8 Mbit/s, a sparse one sends a small datagram every 20 ms. CAKE
//! holds the rate, so the queue builds up here, where the sparse flow can pass it, and not in a
//! modem, where nothing can.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use tautline_base::{Bytes, Instant, Item, Rate};
use tautline_qdisc::cake::{self, Bandwidth, Cake};
use tautline_qdisc::{Drops, Qdisc};
use tautline_rt::wait::Waiter;
use tautline_rt::{Clock, EventFd};

/// A datagram on its way out.
struct Datagram {
    payload: Vec<u8>,
    to: SocketAddr,
    flow: u64,
    enqueued: Instant,
}

impl Item for Datagram {
    fn len(&self) -> Bytes {
        Bytes::new(self.payload.len() as u64)
    }

    fn enqueued(&self) -> Instant {
        self.enqueued
    }

    fn set_enqueued(&mut self, now: Instant) {
        self.enqueued = now;
    }

    fn flow_hash(&self) -> u64 {
        self.flow
    }

    /// The payload is not a frame and has no link header to parse.
    fn network_offset(&self) -> usize {
        0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (from, to) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    to.set_nonblocking(true)?;
    let bandwidth = Bandwidth::Shaped(Rate::mbit(8));
    let mut queue = Cake::new(cake::Config {
        bandwidth,
        ..cake::Config::default()
    })?;
    let (clock, waiter, event_fd) = (Clock::start(), Waiter::new(), EventFd::new()?);
    let (start, mut drops, mut received) = (clock.now(), Drops::new(), 0);
    let (mut next, mut longest) = ([start; 2], [Duration::ZERO; 2]);
    while clock.now() - start < Duration::from_secs(2) {
        let now = clock.now();
        // Flow 0: 1200 bytes every half millisecond, 19 Mbit/s. Flow 1: 100 bytes every 20 ms.
        for (flow, len, every) in [
            (0, 1200, Duration::from_micros(500)),
            (1, 100, Duration::from_millis(20)),
        ] {
            while next[flow] <= now {
                let payload = vec![0; len];
                let packet = Datagram {
                    payload,
                    to: to.local_addr()?,
                    flow: flow as u64,
                    enqueued: now,
                };
                queue.enqueue(packet, now, &mut drops);
                next[flow] += every;
            }
        }
        while let Some(datagram) = queue.dequeue(now, &mut drops) {
            let waited = &mut longest[datagram.flow as usize];
            *waited = (now - datagram.enqueued).max(*waited);
            from.send_to(&datagram.payload, datagram.to)?;
        }
        let mut buffer = [0; 2048];
        while let Ok(len) = to.recv(&mut buffer) {
            received += len;
        }
        // Nothing to do until a datagram is offered, or CAKE lets the next one go.
        let wake = queue
            .ready_at()
            .into_iter()
            .chain(next)
            .min()
            .unwrap_or(now);
        waiter.wait(&[], event_fd.as_fd(), Some(wake - now))?;
    }
    println!(
        "received {:.2} Mbit/s of 8",
        received as f64 * 8.0 / 2.0 / 1e6
    );
    println!(
        "longest wait: bulk {:?}, sparse {:?}",
        longest[0], longest[1]
    );
    println!("dropped: {}", drops.drain().count());
    Ok(())
}
