//! [`Flow`]: one stream of a test, and the tasks that move its data.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tautline_base::Instant;
use tautline_rt::Clock;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use super::protocol::{DatagramHead, Params};
use crate::net::{TcpState, TcpStream, UdpSocket, payload};

/// One stream.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) id: u32,
    /// This end sends.
    pub(super) sends: bool,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) counters: Arc<Counters>,
    pub(super) carrier: Carrier,
}

/// The socket of a stream.
#[derive(Clone, Debug)]
pub(super) enum Carrier {
    Tcp(Arc<TcpStream>),
    /// At the server all streams have the same.
    Udp(Arc<UdpSocket>),
}

/// Counters of a stream, which only its task writes.
#[derive(Debug, Default)]
pub(super) struct Counters {
    bytes: AtomicU64,
    /// Datagrams sent, or the highest number received.
    packets: AtomicU64,
    lost: AtomicU64,
    out_of_order: AtomicU64,
    jitter_ns: AtomicU64,
}

/// The counters at one time, and the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) out_of_order: u64,
    pub(super) jitter: Duration,
    pub(super) tcp: Option<TcpState>,
}

/// Bytes that a test may move, in all streams together.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    moved: AtomicU64,
    /// Signaled once the limit is reached.
    pub(super) reached: Notify,
}

impl Budget {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self {
            limit: limit.unwrap_or(u64::MAX),
            moved: AtomicU64::new(0),
            reached: Notify::new(),
        }
    }

    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.moved.load(Relaxed))
    }

    fn take(&self, count: usize) {
        let moved = self.moved.fetch_add(count as u64, Relaxed) + count as u64;
        if moved >= self.limit {
            self.reached.notify_one();
        }
    }
}

impl Flow {
    /// The number that iperf3 gives to the stream opened as number `index`: 1, 3, 4, 5, …
    pub(super) fn id(index: usize) -> u32 {
        index as u32 + if index == 0 { 1 } else { 2 }
    }

    pub(super) async fn sample(&self) -> Sample {
        let Counters {
            bytes,
            packets,
            lost,
            out_of_order,
            jitter_ns,
        } = &*self.counters;
        let tcp = match &self.carrier {
            Carrier::Tcp(stream) if self.sends => stream.state().await,
            _ => None,
        };
        Sample {
            bytes: bytes.load(Relaxed),
            packets: packets.load(Relaxed),
            lost: lost.load(Relaxed),
            out_of_order: out_of_order.load(Relaxed),
            jitter: Duration::from_nanos(jitter_ns.load(Relaxed)),
            tcp,
        }
    }

    /// Sends until the budget is used up.
    pub(super) async fn send(self, params: Params, budget: Arc<Budget>) -> io::Result<()> {
        let mut block = payload(params.len as usize)?;
        let mut pace = Pace::new(params.bandwidth);
        let wide = params.udp_counters_64bit;
        let mut number = 0;
        while budget.left() > 0 {
            pace.wait().await;
            consume_budget().await;
            let sent = match &self.carrier {
                Carrier::Tcp(stream) => {
                    let len = (block.len() as u64).min(budget.left()) as usize;
                    stream.send(&block[..len]).await?
                }
                Carrier::Udp(socket) => {
                    number += 1;
                    let sent = pace.clock.now() - Instant::ZERO;
                    DatagramHead { sent, number }.write(&mut block, wide);
                    socket.send_to(&block, self.peer).await?
                }
            };
            pace.bytes += sent as u64;
            self.counters.bytes.fetch_add(sent as u64, Relaxed);
            self.counters.packets.store(number, Relaxed);
            budget.take(sent);
        }
        Ok(())
    }

    /// Receives until the peer closes the connection; a socket for datagrams serves every stream of
    /// `others` as well.
    pub(super) async fn receive(
        self,
        params: Params,
        budget: Arc<Budget>,
        others: BTreeMap<SocketAddr, Arc<Counters>>,
    ) -> io::Result<()> {
        let mut block = vec![0; params.len as usize];
        let stream = match &self.carrier {
            Carrier::Udp(socket) => return receive_udp(socket, &params, &budget, &others).await,
            Carrier::Tcp(stream) => stream,
        };
        loop {
            consume_budget().await;
            let count = stream.recv(&mut block).await?;
            if count == 0 {
                return Ok(());
            }
            self.counters.bytes.fetch_add(count as u64, Relaxed);
            budget.take(count);
        }
    }
}

async fn receive_udp(
    socket: &UdpSocket,
    params: &Params,
    budget: &Budget,
    flows: &BTreeMap<SocketAddr, Arc<Counters>>,
) -> io::Result<()> {
    let clock = Clock::start();
    let mut transits = BTreeMap::new();
    let mut datagram = vec![0; 65_535];
    loop {
        consume_budget().await;
        let (count, from) = socket.recv_from(&mut datagram).await?;
        let head = DatagramHead::parse(&datagram[..count], params.udp_counters_64bit);
        let Some((counters, head)) = flows.get(&from).zip(head) else {
            continue;
        };
        counters.count(count, head.number);
        budget.take(count);
        // The clocks differ by a constant, which cancels.
        let now = (clock.now() - Instant::ZERO).as_nanos() as i64;
        let transit = now.wrapping_sub(head.sent.as_nanos() as i64);
        if let Some(before) = transits.insert(from, transit) {
            counters.vary(transit.wrapping_sub(before).unsigned_abs());
        }
    }
}

impl Counters {
    /// A datagram of `count` bytes came.
    fn count(&self, count: usize, number: u64) {
        self.bytes.fetch_add(count as u64, Relaxed);
        let highest = self.packets.load(Relaxed);
        if number > highest {
            self.lost.fetch_add(number - highest - 1, Relaxed);
            self.packets.store(number, Relaxed);
        } else {
            // It was taken for lost.
            self.out_of_order.fetch_add(1, Relaxed);
            let lost = self.lost.load(Relaxed);
            self.lost.store(lost.saturating_sub(1), Relaxed);
        }
    }

    /// The transit time differs from that of the datagram before (RFC 3550 §6.4.1).
    fn vary(&self, difference_ns: u64) {
        let jitter = self.jitter_ns.load(Relaxed) as f64;
        let next = jitter + (difference_ns as f64 - jitter) / 16.0;
        self.jitter_ns.store(next as u64, Relaxed);
    }
}

/// Spaces writes so that their mean rate is the one asked for.
struct Pace {
    /// bit/s; 0: no limit.
    rate: u64,
    clock: Clock,
    begun: Instant,
    bytes: u64,
}

impl Pace {
    fn new(rate: u64) -> Self {
        let clock = Clock::start();
        Self {
            rate,
            begun: clock.now(),
            clock,
            bytes: 0,
        }
    }

    async fn wait(&self) {
        if self.rate == 0 {
            return;
        }
        let due = Duration::from_secs_f64(self.bytes as f64 * 8.0 / self.rate as f64);
        let early = due.saturating_sub(self.clock.now() - self.begun);
        if !early.is_zero() {
            sleep(early).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_counted_by_their_numbers() {
        let counters = Counters::default();
        for number in [1, 2, 5, 4, 6] {
            counters.count(100, number);
        }
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        assert_eq!(get(&counters.packets), 6);
        assert_eq!((get(&counters.lost), get(&counters.out_of_order)), (1, 1));
        counters.vary(16_000);
        assert_eq!(get(&counters.jitter_ns), 1000);
    }

    #[test]
    fn streams_have_iperf3s_numbers() {
        let ids: Vec<_> = (0..4).map(Flow::id).collect();
        assert_eq!(ids, [1, 3, 4, 5]);
    }
}
