//! Owned buffers are sent without a copy, and received data are lent, or taken with the packet they came in.

#[expect(dead_code, reason = "of what tests share, these need little")]
mod pair;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use pair::Pair;
use proptest::prelude::*;
use tautline_base::SocketId;
use tautline_stack::{Recv, TcpConfig};

/// An application's buffer that counts its drops.
struct Buffer {
    data: Vec<u8>,
    drops: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn owned(data: Vec<u8>) -> (Bytes, Arc<AtomicUsize>) {
    let drops = Arc::<AtomicUsize>::default();
    let buffer = Buffer {
        data,
        drops: drops.clone(),
    };
    (Bytes::from_owner(buffer), drops)
}

/// Reads all there is, at most `step` bytes at a time.
fn read_lent(pair: &mut Pair, server: SocketId, step: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut socket = pair.hosts[1].tcp(server).expect("the socket exists");
        let read = socket.recv_with(|lent| {
            let part = &lent[..lent.len().min(step)];
            all.extend(part);
            part.len()
        });
        if !matches!(read, Ok(Recv::Data(_))) {
            return all;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Also with losses: retransmissions are read from the same buffers.
    #[test]
    fn copied_and_owned_writes_arrive_in_order(
        writes in prop::collection::vec((1usize..9000, any::<bool>()), 1..20),
        (loses_one_in, step) in (5usize..40, 1usize..6000),
        device in prop::sample::select(vec![Pair::new as fn(u64) -> Pair, Pair::large, Pair::keeping]),
    ) {
        let mut pair = device(1);
        let (client, server) = pair.open(TcpConfig::default());
        let mut frames = 0;
        pair.filter = Box::new(move |side, _| {
            frames += 1;
            side == 1 || frames % loses_one_in != 0
        });
        let (mut sent, mut received, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
        for (len, is_owned) in writes {
            let data: Vec<u8> = (sent.len()..sent.len() + len).map(|at| (at % 251) as u8).collect();
            let taken = if is_owned {
                let (mut bytes, drops) = owned(data.clone());
                buffers.push(drops);
                pair.hosts[0].tcp(client).expect("open").send_owned(&mut bytes)
            } else {
                pair.hosts[0].send(client, &data)
            };
            sent.extend(&data[..taken.expect("open")]);
            pair.run_for(Duration::from_millis(3));
            received.extend(read_lent(&mut pair, server, step));
        }
        for _ in 0..100 {
            pair.run_for(Duration::from_secs(1));
            received.extend(read_lent(&mut pair, server, step));
            if received.len() == sent.len() {
                break;
            }
        }
        prop_assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        pair.run_for(Duration::from_secs(1));
        prop_assert!(buffers.iter().all(|drops| drops.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn an_owned_buffer_is_dropped_once_and_only_when_all_of_it_is_acknowledged() {
    let (mut pair, client, server) = Pair::connected(1, TcpConfig::default());
    let passes = Rc::new(Cell::new(false));
    let is_open = passes.clone();
    // The data arrive, but no acknowledgment returns.
    pair.filter = Box::new(move |side, _| side == 0 || is_open.get());
    let (mut bytes, drops) = owned(vec![7; 5000]);
    let taken = pair.hosts[0]
        .tcp(client)
        .and_then(|mut socket| socket.send_owned(&mut bytes));
    assert_eq!((taken, bytes.len()), (Ok(5000), 0));
    drop(bytes);
    pair.run_for(Duration::from_millis(500));
    assert_eq!(read_lent(&mut pair, server, usize::MAX), [7; 5000]);
    assert_eq!(drops.load(Ordering::Relaxed), 0, "it may be needed again");
    passes.set(true);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn an_owned_buffer_is_dropped_with_its_connection() {
    let (mut pair, client, _) = Pair::connected(1, TcpConfig::default());
    pair.filter = Box::new(|_, _| false);
    let (mut bytes, drops) = owned(vec![7; 5000]);
    let taken = pair.hosts[0]
        .tcp(client)
        .and_then(|mut socket| socket.send_owned(&mut bytes));
    assert_eq!(taken, Ok(5000));
    drop(bytes);
    pair.hosts[0].abort(client).expect("open");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

/// The buffers of the application, and not a copy of them, are what such a device sends.
#[test]
fn a_device_that_gathers_sends_from_owned_buffers() {
    for (is_owned, len) in [(true, 4096), (true, 300_000), (false, 300_000)] {
        let mut pair = Pair::large(1);
        let (client, server) = pair.open(TcpConfig::default());
        let data: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
        let mut rest = Bytes::from(data.clone());
        let mut all = Vec::new();
        while all.len() < data.len() {
            let host = &mut pair.hosts[0];
            let mut part = rest.slice(..len.min(rest.len()));
            let taken = if is_owned {
                host.tcp(client).expect("open").send_owned(&mut part)
            } else {
                host.send(client, &part)
            };
            rest.advance(taken.expect("open"));
            pair.run_for(Duration::from_millis(1));
            all.extend(read_lent(&mut pair, server, usize::MAX));
        }
        assert!(all == data);
        let host = &mut pair.hosts[0];
        assert_eq!(host.outstanding(), 0);
        assert_eq!(host.device_mut().gathered > 0, is_owned, "{len}");
        let mut next = Bytes::from(data);
        let kept = next.clone();
        host.tcp(client)
            .expect("open")
            .send_owned(&mut next)
            .expect("open");
        drop(next);
        pair.run_for(Duration::from_secs(1));
        assert!(
            kept.is_unique(),
            "a frame that has returned refers to nothing"
        );
    }
}

/// The ways to read: [`Recv::Data`] of each, appended to `all`.
fn read_some(
    pair: &mut Pair,
    server: SocketId,
    way: usize,
    most: usize,
    all: &mut Vec<u8>,
) -> usize {
    let host = &mut pair.hosts[1];
    let mut out = vec![0; most];
    match way {
        0 => match host.recv(server, &mut out) {
            Ok(Recv::Data(count)) => {
                all.extend(&out[..count]);
                0
            }
            _ => 0,
        },
        1 => {
            let mut socket = host.tcp(server).expect("the socket exists");
            let peeked = socket.peek(&mut out);
            let lent = socket.recv_with(|lent| {
                let part = &lent[..lent.len().min(most)];
                if let Ok(Recv::Data(count)) = peeked {
                    let both = part.len().min(count);
                    assert_eq!(out[..both], part[..both], "a peek shows what is read");
                }
                all.extend(part);
                part.len()
            });
            assert!(lent.is_ok());
            0
        }
        _ => {
            let mut socket = host.tcp(server).expect("the socket exists");
            let owned = socket.recv_owned(|len| len <= most * 16).expect("open");
            let owned = owned.map(|kept| kept.bytes).unwrap_or_default();
            all.extend(&owned);
            owned.len()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Large packets that are kept, among others that are copied, with losses; every way to read shows
    /// the stream.
    #[test]
    fn kept_packets_are_read_in_order(
        steps in prop::collection::vec((1usize..40_000, 0usize..3, 1usize..6000), 1..40),
        loses_one_in in 8usize..60,
    ) {
        let mut pair = Pair::keeping(1);
        let (client, server) = pair.open(TcpConfig::default());
        let mut frames = 0;
        pair.filter = Box::new(move |side, _| {
            frames += 1;
            side == 1 || frames % loses_one_in != 0
        });
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for (len, way, most) in &steps {
            let data: Vec<u8> = (sent.len()..sent.len() + len).map(|at| (at % 251) as u8).collect();
            let taken = pair.hosts[0].send(client, &data).expect("open");
            sent.extend(&data[..taken]);
            pair.run_for(Duration::from_millis(3));
            read_some(&mut pair, server, *way, *most, &mut received);
        }
        for _ in 0..200 {
            pair.run_for(Duration::from_secs(1));
            for (_, way, most) in &steps {
                read_some(&mut pair, server, *way, *most, &mut received);
            }
            received.extend(read_lent(&mut pair, server, usize::MAX));
            if received.len() == sent.len() {
                break;
            }
        }
        prop_assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
    }
}

/// Large packets need no copy, also behind one that was read in part.
#[test]
fn a_large_packet_is_taken_with_its_memory() {
    let mut pair = Pair::keeping(1);
    let (client, server) = pair.open(TcpConfig::default());
    let data: Vec<u8> = (0..400_000).map(|at| (at % 251) as u8).collect();
    let (mut sent, mut all, mut owned) = (0, Vec::new(), 0);
    while all.len() < data.len() {
        sent += pair.hosts[0].send(client, &data[sent..]).expect("open");
        pair.run_for(Duration::from_millis(3));
        for way in [2, 0] {
            owned += read_some(&mut pair, server, way, 4000, &mut all);
        }
    }
    assert!(all == data);
    assert!(owned > data.len() / 4, "{owned} of {} bytes", data.len());
}

/// A short payload does not keep a long packet's memory, of which it would be charged its own bytes only.
#[test]
fn a_packet_of_padding_is_not_kept() {
    for len in [1, 1400] {
        let mut pair = Pair::keeping(1);
        let (client, server) = pair.open(TcpConfig::default());
        let caught = Rc::<RefCell<Vec<Vec<u8>>>>::default();
        let frames = caught.clone();
        pair.filter = Box::new(move |_, frame| {
            frames.borrow_mut().push(frame.to_vec());
            false
        });
        assert_eq!(pair.hosts[0].send(client, &vec![7; len]), Ok(len));
        pair.run_for(Duration::from_millis(3));
        let mut frame = caught.borrow()[0].clone();
        frame.resize(16_000, 0);
        pair.hosts[1].device_mut().arrived.push_back(frame);
        assert_eq!(pair.hosts[1].receive(pair.now), 1);
        let mut socket = pair.hosts[1].tcp(server).expect("the socket exists");
        assert_eq!(socket.recv_owned(|_| true), Ok(None), "{len} bytes");
        assert_eq!(read_lent(&mut pair, server, usize::MAX), vec![7; len]);
    }
}
