//! The poll-style interface, which is the host's own: inputs, one `poll`, then wait until the wake
//! it returned. No thread, no runtime, no clock but the one this program counts; the two hosts'
//! devices are two queues.
//!
//! `cargo run -p tautline-examples --example polled`

use std::net::Ipv4Addr;

use tautline_base::{Device, HeapFrame, Instant, Packet, Pool, Received};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_stack::{Cidr, Event, Host, HostConfig, Recv, TcpConfig};

/// Takes every packet at once, and keeps its bytes for the other end.
#[derive(Default)]
struct Wire {
    out: Vec<Vec<u8>>,
    done: Vec<Packet<HeapFrame>>,
}

impl Device for Wire {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1500
    }

    fn room(&self) -> usize {
        64 - self.done.len()
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.out.push(packet.bytes().to_vec());
        self.done.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    /// Frames are given to the host by `deliver`.
    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        None
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.done);
    }
}

type Machine = Host<FqCodel<Packet<HeapFrame>>, Wire>;

fn host(number: u8) -> Result<Machine, Box<dyn std::error::Error>> {
    let config = HostConfig::new([2, 0, 0, 0, 0, number], number.into());
    let config = config.address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24));
    let port = Port::new(
        FqCodel::new(fq_codel::Config::default())?,
        Ring::new(Wire::default(), Dql::default()),
    );
    Ok(Host::new(
        config,
        port,
        Pool::new((0..256).map(|_| HeapFrame::new()).collect()),
        tautline_stack::NoTrace,
    ))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut hosts = [host(1)?, host(2)?];
    let mut now = Instant::from_secs(1);
    hosts[1].listen(7, TcpConfig::default())?;
    let client = hosts[0].connect((Ipv4Addr::new(10, 7, 0, 2), 7), TcpConfig::default(), now)?;
    loop {
        // Events first: what the application does belongs to the inputs.
        for (side, host) in hosts.iter_mut().enumerate() {
            while let Some(event) = host.next_event() {
                println!("{now:?} host {}: {event:?}", side + 1);
                let mut text = [0; 64];
                match event {
                    Event::Connected(socket) => {
                        host.send(socket, b"Keep the line taut.")?;
                        host.shutdown(socket)?;
                    }
                    Event::Readable(socket) => {
                        while let Recv::Data(count) = host.recv(socket, &mut text)? {
                            println!(
                                "{now:?} host {}: {}",
                                side + 1,
                                String::from_utf8_lossy(&text[..count])
                            );
                            if side == 1 {
                                host.send(socket, &text[..count])?;
                                host.shutdown(socket)?;
                            }
                        }
                    }
                    Event::Closed { .. } if side == 0 => return Ok(()),
                    _ => {}
                }
            }
        }
        // One poll each, then what they sent arrives at the other end.
        let wakes = hosts.each_mut().map(|host| host.poll(now));
        let mut carried = 0;
        for side in [0, 1] {
            for frame in std::mem::take(&mut hosts[side].device_mut().out) {
                hosts[1 - side].deliver(&frame, now);
                carried += 1;
            }
        }
        if hosts[0].info(client).is_none() {
            return Ok(());
        }
        // Nothing to do now: wait until a host wants to be polled again.
        if carried == 0 {
            let Some(wake) = wakes.into_iter().flatten().min() else {
                return Ok(());
            };
            now = now.max(wake.at);
        }
    }
}
