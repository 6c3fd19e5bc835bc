//! Userspace TCP with an observable send path: socket, TCP Small Queues, pacer, qdisc, dynamic
//! queue limit, device ring.
//!
//! Each module re-exports one crate under a feature of the same name; [`base`] is always present,
//! and [`prelude`] has the types that most programs need.
//!
//! | feature | module | contents |
//! |---|---|---|
//! | | `base` | time, units, packets, devices, the `Qdisc` trait |
//! | `qdisc` (default) | `qdisc` | queueing disciplines: FQ-CoDel, CAKE, HTB, TBF, netem ... |
//! | `tc` | `tc` | qdiscs and trees from `tc`'s words, reports in text and JSON |
//! | `bql` (default) | `bql` | dynamic queue limits; a port: qdisc, limit, ring |
//! | `cc` (default) | `cc` | congestion control: CUBIC, BBR, Prague ... |
//! | `stack` (default) | `stack` | TCP, UDP, IPv4, IPv6 without I/O |
//! | `sim` (default) | `sim` | virtual time: links, NICs, networks |
//! | `rt` | `rt` | real time: event loop, TAP, tokio sockets (Unix) |
//! | `smoltcp` | `smoltcp` | a port beneath an unmodified smoltcp interface |
//!
//! The rest of this page walks up the stack in ten minutes. Every example is a test.
//!
//! # A qdisc alone
//!
//! A qdisc is generic over the packet, takes the time as an argument and returns dropped packets in
//! [`Drops`](base::Drops). Here a flow of ten packets and a flow of one share FQ-CoDel; the short
//! flow does not wait behind the long one.
//!
#![cfg_attr(feature = "qdisc", doc = "```")]
#![cfg_attr(not(feature = "qdisc"), doc = "```ignore")]
//! use tautline::prelude::*;
//! use tautline::qdisc::{FqCodel, fq_codel};
//!
//! // A fixed hash key makes runs repeatable; by default each queue draws a random one.
//! let config = fq_codel::Config { perturbation: Some(0), ..Default::default() };
//! let mut qdisc = FqCodel::new(config)?;
//! let (mut drops, now) = (Drops::new(), Instant::ZERO);
//! for flow in [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2] {
//!     qdisc.enqueue(Packet::new((), 1514).with_hashes(flow, 0, 0), now, &mut drops);
//! }
//! let order: Vec<u64> = std::iter::from_fn(|| qdisc.dequeue(now, &mut drops))
//!     .map(|packet| packet.flow_hash())
//!     .collect();
//! assert_eq!(order[..3], [1, 2, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The same qdisc, shaped
//!
//! A token bucket around it limits the link to 10 Mbit/s. [`ready_at`](base::Qdisc::ready_at) says
//! when the next packet may leave; nothing in the library reads a clock.
//!
#![cfg_attr(feature = "qdisc", doc = "```")]
#![cfg_attr(not(feature = "qdisc"), doc = "```ignore")]
//! use std::time::Duration;
//! use tautline::prelude::*;
//! use tautline::qdisc::{FqCodel, Tbf, fq_codel, tbf};
//!
//! let config = tbf::Config { rate: Rate::mbit(10), burst: Bytes::new(1514), ..Default::default() };
//! let mut qdisc = Tbf::new(config, FqCodel::new(fq_codel::Config::default())?)?;
//! let (mut drops, mut now) = (Drops::new(), Instant::ZERO);
//! for flow in 0..3 {
//!     qdisc.enqueue(Packet::new((), 1514).with_hashes(flow, 0, 0), now, &mut drops);
//! }
//! let mut sent = 0;
//! while let Some(ready) = qdisc.ready_at() {
//!     now = now.max(ready);
//!     sent += usize::from(qdisc.dequeue(now, &mut drops).is_some());
//! }
//! assert_eq!((sent, drops.drain().count()), (3, 0));
//! // The bucket held one packet; two more take 1514 * 8 / 10 µs each.
//! assert!(now - Instant::ZERO >= Duration::from_micros(2 * 1211));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A port: qdisc, limit, ring
//!
//! A device ring that is always full adds its length to every packet's delay. A
//! [`Port`](bql::Port) holds a slot of the ring first, asks the qdisc for a packet second, and
//! limits the bytes in the ring to what keeps the device busy. The device here is in memory.
//!
#![cfg_attr(all(feature = "bql", feature = "qdisc"), doc = "```")]
#![cfg_attr(not(all(feature = "bql", feature = "qdisc")), doc = "```ignore")]
//! use tautline::prelude::*;
//! use tautline::qdisc::{FqCodel, fq_codel};
//! use tautline_testkit::MemoryDevice;
//!
//! let ring = Ring::new(MemoryDevice::default(), Dql::default());
//! let mut port = Port::new(FqCodel::new(fq_codel::Config::default())?, ring);
//! let (mut drops, now) = (Drops::new(), Instant::ZERO);
//! for flow in 0..5 {
//!     port.enqueue(Packet::new(HeapFrame::new(), 1514).with_hashes(flow, 0, 0), now, &mut drops);
//! }
//! let moved = port.transmit(now, 64, &mut drops, |_| {});
//! assert!(moved < 5); // the limit begins small: the rest stays in the qdisc, where it can be scheduled
//! let mut done = Vec::new();
//! port.reap(now, &mut done); // completions open the ring again
//! assert_eq!(done.len(), moved);
//! assert!(port.transmit(now, 64, &mut drops, |_| {}) > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A TCP transfer in virtual time
//!
//! [`Transfer`](sim::Transfer) joins two hosts by links and sends a stream. An hour of network time
//! takes seconds; the same seed gives the same packets on every machine.
//!
#![cfg_attr(all(feature = "cc", feature = "sim", feature = "stack"), doc = "```")]
#![cfg_attr(
    not(all(feature = "cc", feature = "sim", feature = "stack")),
    doc = "```ignore"
)]
//! use std::time::Duration;
//! use tautline::prelude::*;
//! use tautline::sim::LinkConfig;
//!
//! let link = LinkConfig { rate: Rate::mbit(50), delay: Duration::from_millis(10), ..Default::default() };
//! let outcome = Transfer {
//!     bytes: 2_000_000,
//!     links: [link.clone(), link],
//!     sender: TcpConfig { congestion: Algorithm::Bbr.factory(), ..Default::default() },
//!     ..Default::default()
//! }
//! .run()?;
//! assert!(outcome.content_equal);
//! assert!(outcome.goodput > Rate::mbit(10) && outcome.goodput < Rate::mbit(50));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A congestion controller of one's own
//!
//! A [`Controller`](cc::Controller) receives events and answers with a window and a rate. This one
//! ignores the events.
//!
#![cfg_attr(all(feature = "cc", feature = "sim", feature = "stack"), doc = "```")]
#![cfg_attr(
    not(all(feature = "cc", feature = "sim", feature = "stack")),
    doc = "```ignore"
)]
//! use tautline::prelude::*;
//!
//! struct Fixed(Verdict);
//!
//! impl Controller for Fixed {
//!     fn name(&self) -> &'static str { "fixed" }
//!     fn on_ack(&mut self, _ack: &Ack) {}
//!     fn on_congestion(&mut self, _congestion: &Congestion) {}
//!     fn on_undo(&mut self, _now: Instant) {}
//!     fn on_idle(&mut self, _idle: &Idle) {}
//!     fn verdict(&self) -> Verdict { self.0 }
//! }
//!
//! let congestion = Factory::new(|config| {
//!     Box::new(Fixed(Verdict {
//!         cwnd: config.mss * 20,
//!         ssthresh: Bytes::MAX,
//!         pacing_rate: Rate::mbit(8),
//!         burst: config.mss * 2,
//!     }))
//! });
//! let sender = TcpConfig { congestion, ..Default::default() };
//! let outcome = Transfer { bytes: 1_000_000, sender, ..Default::default() }.run()?;
//! assert!(outcome.content_equal && outcome.goodput < Rate::mbit(9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sockets for tokio
//!
//! A `rt::HostThread` drives a host in real time; its sockets have tokio's traits. The
//! two hosts here are joined by a cable in memory; on a machine the device is a TAP interface
//! (`rt::Tap`) or AF_XDP (`tautline-xdp-io`).
//!
#![cfg_attr(
    all(feature = "bql", feature = "qdisc", feature = "rt", feature = "stack"),
    doc = "```"
)]
#![cfg_attr(
    not(all(feature = "bql", feature = "qdisc", feature = "rt", feature = "stack")),
    doc = "```ignore"
)]
//! use std::{io, net::Ipv4Addr};
//! use tautline::prelude::*;
//! use tautline::qdisc::{FqCodel, fq_codel};
//! use tautline::rt::{Cable, HostThread, Idle, TcpListener, TcpStream, cable, handle::Config};
//! use tautline::stack::{Cidr, NoTrace};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! type Machine = Host<FqCodel<Packet<HeapFrame>>, Cable>;
//!
//! fn host(device: Cable, number: u8) -> io::Result<Machine> {
//!     let config = HostConfig::new([2, 0, 0, 0, 0, number], number.into())
//!         .address(Cidr::new(Ipv4Addr::new(10, 0, 0, number), 24));
//!     let qdisc = FqCodel::new(fq_codel::Config::default()).map_err(io::Error::other)?;
//!     let port = Port::new(qdisc, Ring::new(device, Dql::default()));
//!     let frames = Pool::new((0..256).map(|_| HeapFrame::new()).collect());
//!     Ok(Host::new(config, port, frames, NoTrace))
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let [left, right] = cable()?;
//!     let (_client, client) = HostThread::spawn(Config::default(), Idle::Sleep, || host(left, 1))?;
//!     let (_server, server) = HostThread::spawn(Config::default(), Idle::Sleep, || host(right, 2))?;
//!
//!     let listener = TcpListener::bind(&server, 7).await?;
//!     let echo = async {
//!         let (mut stream, _peer) = listener.accept().await?;
//!         let mut word = [0; 5];
//!         stream.read_exact(&mut word).await?;
//!         stream.write_all(&word).await
//!     };
//!     let call = async {
//!         let mut stream = TcpStream::connect(&client, (Ipv4Addr::new(10, 0, 0, 2), 7)).await?;
//!         stream.write_all(b"hello").await?;
//!         let mut word = [0; 5];
//!         stream.read_exact(&mut word).await?;
//!         io::Result::Ok(word)
//!     };
//!     let (_, word) = tokio::try_join!(echo, call)?;
//!     assert_eq!(&word, b"hello");
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

pub use tautline_base as base;
#[cfg(feature = "bql")]
pub use tautline_bql as bql;
#[cfg(feature = "cc")]
pub use tautline_cc as cc;
#[cfg(feature = "qdisc")]
pub use tautline_qdisc as qdisc;
#[cfg(feature = "rt")]
pub use tautline_rt as rt;
#[cfg(feature = "sim")]
pub use tautline_sim as sim;
#[cfg(feature = "smoltcp")]
pub use tautline_smoltcp as smoltcp;
#[cfg(feature = "stack")]
pub use tautline_stack as stack;
#[cfg(feature = "tc")]
pub use tautline_tc as tc;

/// The types that most programs need: `use tautline::prelude::*`.
pub mod prelude {
    pub use tautline_base::{
        Bytes, Device, Drops, HeapFrame, Instant, Item, Packet, Pool, Qdisc, Rate, Wake,
    };
    #[cfg(feature = "bql")]
    pub use tautline_bql::{Dql, Port, Ring};
    #[cfg(feature = "cc")]
    pub use tautline_cc::{
        Ack, Algorithm, Congestion, Controller, Factory, Idle, Loss, Signal, Verdict,
    };
    #[cfg(feature = "sim")]
    pub use tautline_sim::{Network, Transfer};
    #[cfg(feature = "stack")]
    pub use tautline_stack::{Host, HostConfig, TcpConfig};
}

#[cfg(all(doctest, feature = "cc", feature = "sim", feature = "stack"))]
#[doc = include_str!("../README.md")]
struct Readme;
