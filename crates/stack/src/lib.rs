//! Userspace TCP over IPv4 and IPv6 with an observable send path: TCP Small Queues, pacer, qdisc,
//! dynamic queue limit, ring.
//!
//! A [`Host`] is one network stack on one device queue. It reads no clock and never blocks. The
//! contract of its driver: *any number of inputs ([`Host::receive`], [`Host::deliver`], socket
//! calls), one [`Host::poll`], then wait for the returned deadline or the next input.* A late poll
//! delays packets; it never corrupts state.
//!
//! [`Host::poll`], read from top to bottom, is the path of one packet; `ARCHITECTURE.md` has the
//! picture.
//!
//! # A device of your own, polled
//! A [`Device`] sends and receives frames, of Ethernet or IP ([`Medium`]). Under a host it is the end of a
//! [`Port`]: qdisc, [limit](Limit), [`Ring`]. Here the devices of two hosts are the ends of a cable, and
//! time is a number; a program takes it from a clock ([`Instant`]) and sleeps until the wake or the
//! next frame.
//!
//! ```
//! use std::cell::RefCell;
//! use std::collections::VecDeque;
//! use std::rc::Rc;
//! use tautline_qdisc::{FqCodel, fq_codel};
//! use tautline_stack::{
//!     Cidr, Device, Dql, Event, Frame, HeapFrame, Host, HostConfig, Instant, Medium, NoTrace, Packet,
//!     Pool, Port, Received, Recv, Ring, TcpConfig,
//! };
//!
//! type Wire = Rc<RefCell<VecDeque<Vec<u8>>>>;
//!
//! /// Sends IP packets into `out`, receives from `incoming`.
//! struct End {
//!     out: Wire,
//!     incoming: Wire,
//!     sent: Vec<Packet<HeapFrame>>,
//! }
//!
//! impl Device for End {
//!     type Frame = HeapFrame;
//!
//!     fn mtu(&self) -> usize { 1500 }
//!     fn medium(&self) -> Medium { Medium::Ip }
//!     fn room(&self) -> usize { 64 - self.sent.len() }
//!     fn in_flight(&self) -> usize { self.sent.len() }
//!
//!     fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
//!         self.out.borrow_mut().push_back(packet.bytes().to_vec());
//!         self.sent.push(packet); // the device owns it until `reap`
//!     }
//!
//!     fn doorbell(&mut self, _now: Instant) {}
//!
//!     fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
//!         done.append(&mut self.sent);
//!     }
//!
//!     fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
//!         let packet = self.incoming.borrow_mut().pop_front()?;
//!         let mut frame = HeapFrame::with_len(packet.len());
//!         frame.bytes_mut()[..packet.len()].copy_from_slice(&packet);
//!         Some(Received::new(frame, 0, packet.len() as u32))
//!     }
//!
//!     fn recycle(&mut self, _frame: HeapFrame) {}
//!
//!     fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
//!         lost.append(&mut self.sent);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let wires = [Wire::default(), Wire::default()];
//! let host = |side: usize| -> Result<_, tautline_qdisc::ConfigError> {
//!     let (out, incoming) = (wires[side].clone(), wires[1 - side].clone());
//!     let ring = Ring::new(End { out, incoming, sent: Vec::new() }, Dql::default());
//!     let port = Port::new(FqCodel::new(fq_codel::Config::default())?, ring);
//!     let seed = side as u64; // in a program: of the system's generator
//!     let config = HostConfig::over_ip(seed).address(Cidr::new([10, 0, 0, side as u8 + 1], 24));
//!     Ok(Host::new(config, port, Pool::heap(256, None), NoTrace))
//! };
//! let (mut client, mut server) = (host(0)?, host(1)?);
//! let mut now = Instant::from_secs(1);
//! server.listen(7, TcpConfig::default())?;
//! let socket = client.connect(([10, 0, 0, 2], 7), TcpConfig::default(), now)?;
//! client.send(socket, b"hello")?; // leaves after the handshake
//! client.shutdown(socket)?;
//!
//! let (mut received, mut buffer) = (Vec::new(), [0; 2048]);
//! let mut is_finished = false;
//! while !is_finished {
//!     // Any number of inputs: frames, then what the application does about the events.
//!     while client.receive(now) > 0 {} // 64 frames at a time
//!     while server.receive(now) > 0 {}
//!     while let Some(event) = server.next_event() {
//!         let Event::Readable(socket) = event else { continue };
//!         loop {
//!             match server.recv(socket, &mut buffer)? {
//!                 Recv::Data(count) => received.extend_from_slice(&buffer[..count]),
//!                 Recv::Empty => break, // another event follows
//!                 Recv::EndOfStream => {
//!                     server.close(socket, now);
//!                     is_finished = true;
//!                     break;
//!                 }
//!             }
//!         }
//!     }
//!     // One poll each, then wait.
//!     let wakes = [client.poll(now), server.poll(now)];
//!     if wires.iter().all(|wire| wire.borrow().is_empty()) {
//!         let wake = wakes.into_iter().flatten().min().expect("a connection is open");
//!         now = now.max(wake.at);
//!     }
//! }
//! assert_eq!(received, b"hello");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod address;
mod addressing;
pub mod attribution;
mod autoconf;
mod chunks;
pub mod config;
mod cookies;
pub mod dhcp;
mod error_kind;
mod fast_open;
pub mod host;
mod kept_bytes;
mod keyed;
pub mod limits;
mod link_mtu;
mod neighbor;
mod pings;
mod proven;
mod queues;
mod ranges;
mod reply_limit;
mod seq;
pub mod socket;
mod sockets;
pub mod stats;
mod tcp;
mod time_wait;
pub mod trace;
pub mod tsq;
pub mod udp;
mod wire;

pub use address::{BadCidr, Cidr, Route};
pub use autoconf::Configuration;
pub use config::{
    AckCompression, Autoconfiguration, EcnMode, HostConfig, Identifiers, Keepalive, LinkLocal,
    LocalDropReporting, LossRecovery, MtuProbing, Negotiation, Pacing, Prr, RackRtt, Reordering,
    Successive, SynCookies, TcpConfig,
};
pub use host::{Host, Replaced, Stuck, TcpSocket, Udp, announce, reset_connections};
pub use kept_bytes::KeptBytes;
pub use limits::Limits;
pub use socket::{
    CloseReason, ConnectError, Event, ListenAt, ListenError, PathError, PingError, Recv, Rejection,
    SocketError, SocketOption,
};
pub use stats::HostStats;
pub use tautline_base::{
    Bytes, Device, Frame, HeapFrame, Instant, Medium, Packet, Pool, Qdisc, Rate, Reason, Received,
    SocketId, Wake,
};
pub use tautline_bql::{Dql, Limit, Port, Ring};
pub use tautline_cc::{Algorithm, CatchUp, Factory, PacerConfig};
pub use tcp::ecn::EcnState;
pub use tcp::info::{Limited, Ss, TcpInfo};
pub use tcp::send::Reduction;
pub use trace::{NoTrace, PacketEvent, Tracer, What};
pub use tsq::{Clamp, TimeLimit, TsqLimit};
pub use udp::{BindError, SendError, SendOptions, UdpConfig, UdpInfo, UdpRecv};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
