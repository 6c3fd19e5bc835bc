//! Large packets on their way to a reader: whatever the sizes of ring and memory, the losses and the ways
//! to read, no byte is lost and no reader waits for ever.

mod turns;

use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use std::{future, io};

use proptest::prelude::*;
use tautline_base::{Bytes, HeapFrame, Instant, Pool, Tso};
use tautline_rt::handle::Config;
use tautline_rt::{StackHandle, TcpListener, TcpStream};
use tautline_stack::HostConfig;
use tautline_testkit::MemoryDevice;

use turns::{End, Flag, SERVER, START, identity, run};

const NONE_LOST: usize = usize::MAX;

/// A host that keeps large packets.
fn host(number: u8, config: Config, woken: &Arc<Flag>) -> (StackHandle, End<MemoryDevice>) {
    let identity = HostConfig {
        keeps_packets: true,
        ..identity(number)
    };
    let device = MemoryDevice {
        tso: Some(Tso::MOST),
        whole: true,
        ..MemoryDevice::default()
    };
    let large = |_| HeapFrame::with_len(Tso::MOST.frame_len());
    let pool = Pool::new((0..512).map(|_| HeapFrame::new()).collect());
    let pool = pool.with_large((0..8).map(large).collect());
    End::new(identity, (device, pool), config, woken)
}

/// Takes turns. Of the client's frames, one in `loses_one_in` is lost.
fn losing(loses_one_in: usize) -> impl FnMut(&mut [End<MemoryDevice>; 2], Instant) -> bool {
    let mut frames = 0;
    move |ends, now| {
        let mut busy = false;
        for side in 0..2 {
            busy |= ends[side].turn(now);
            for frame in std::mem::take(&mut ends[side].host.device_mut().sent) {
                frames += usize::from(side == 0);
                if side == 1 || frames % loses_one_in != 0 {
                    ends[1 - side].host.device_mut().arrived.push_back(frame);
                }
                busy = true;
            }
        }
        busy
    }
}

/// How the server reads next: the way, and most bytes.
type Read = (usize, usize);

/// Reads once, if there is something; false at the end.
async fn read(stream: &mut TcpStream, (way, most): Read, all: &mut Vec<u8>) -> io::Result<bool> {
    let mut block = vec![0; most];
    if way == 0 {
        let count = future::poll_fn(|context| stream.poll_recv(context, &mut block)).await?;
        all.extend(&block[..count]);
        return Ok(count > 0);
    }
    let peeked = match way {
        1 => stream.peek(&mut block).await?,
        _ => 0,
    };
    let count = future::poll_fn(|context| {
        let filled = stream.poll_fill(context)?;
        filled.map(|filled| {
            let filled = &filled[..filled.len().min(most)];
            let both = filled.len().min(peeked);
            assert_eq!(block[..both], filled[..both], "a peek shows what is read");
            all.extend(filled);
            Ok::<_, io::Error>(filled.len())
        })
    });
    let count = count.await?;
    stream.consume(count);
    Ok(count > 0)
}

/// A transfer of writes of these lengths, read in these ways in turn. It ends with a reset if no frame is
/// lost, else with a FIN.
fn transfer(config: &Config, writes: &[usize], reads: &[Read], loses_one_in: usize) {
    let resets = loses_one_in == NONE_LOST;
    let woken = Arc::new(Flag::default());
    let (client, near) = host(1, Config::default(), &woken);
    let (server, far) = host(2, config.clone(), &woken);
    let len: usize = writes.iter().sum();
    let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let serve = async {
        let listener = TcpListener::bind(&server, SERVER.port()).await;
        let accepted = listener.expect("the port is free").accept().await;
        let (mut stream, _) = accepted.expect("accepted");
        let mut all = Vec::new();
        for how in reads.iter().cycle() {
            let Ok(is_more) = read(&mut stream, *how, &mut all).await else {
                assert!(resets && data.starts_with(&all));
                return Ok(());
            };
            if !is_more {
                break;
            }
        }
        assert!(all == data && !resets, "{} of {len} bytes", all.len());
        Ok(())
    };
    let ask = async {
        let stream = TcpStream::connect(&client, SERVER).await;
        let mut stream = stream.expect("connected");
        let mut sent = 0;
        for len in writes {
            let end = sent + len;
            while sent < end {
                let part = &data[sent..end];
                let taken = future::poll_fn(|context| stream.poll_send(context, part)).await;
                sent += taken.expect("open");
            }
        }
        if resets {
            stream.abort();
            return Ok(());
        }
        stream.finish();
        // The FIN of the server.
        let mut rest = [0];
        let end = future::poll_fn(|context| stream.poll_recv(context, &mut rest)).await;
        assert_eq!(end.expect("no error"), 0);
        Ok(())
    };
    let tasks: [Pin<&mut dyn Future<Output = _>>; 2] = [pin!(serve), pin!(ask)];
    let mut ends = [near, far];
    let end = run(&mut ends, tasks, (&woken, START), losing(loses_one_in));
    // Longer than spare memory is kept.
    for end in [Duration::ZERO, Duration::from_secs(10)].map(|later| end + later) {
        ends[1].turn(end);
    }
    assert_eq!(ends[1].host.buffer_memory(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_byte_reaches_the_reader(
        ring in prop_oneof![
            8 => 1usize..2000,
            8 => 2000usize..20_000,
            8 => 20_000usize..140_000,
            1 => Just(usize::MAX),
        ],
        memory in prop_oneof![1u64..2000, 2000u64..100_000, Just(1u64 << 30)],
        writes in prop::collection::vec(prop_oneof![1usize..200, 200usize..90_000], 1..25),
        reads in prop::collection::vec(
            (0usize..3, prop_oneof![1usize..2000, 2000usize..100_000]), 1..20),
        loses_one_in in prop_oneof![3 => 4usize..60, 1 => Just(NONE_LOST)],
    ) {
        let config = Config {
            receive_ring: NonZeroUsize::new(ring).expect("not zero"),
            ring_memory: Bytes::new(memory),
            ..Config::default()
        };
        // Long transfers in tiny steps show nothing more.
        let longest = reads.iter().map(|(_, most)| *most).max().unwrap_or(1).min(ring);
        let writes: Vec<usize> = writes.iter().map(|len| (*len).min(longest * 200)).collect();
        transfer(&config, &writes, &reads, loses_one_in);
    }
}

/// Until the hosts have taken another turn.
async fn pause() {
    let mut has_waited = false;
    future::poll_fn(|_| {
        let waited = std::mem::replace(&mut has_waited, true);
        if waited {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// A program that recognizes a protocol peeks until the whole head of a message is there. A packet that
/// waits until half of the ring is free would wait for that program, which frees nothing.
#[test]
fn a_reader_that_peeks_sees_a_whole_ring() {
    let woken = Arc::new(Flag::default());
    let (client, near) = host(1, Config::default(), &woken);
    let (server, far) = host(2, Config::default(), &woken);
    let ring = Config::default().receive_ring.get();
    // Packets are large once the window has grown.
    let before = 40 * ring;
    let data: Vec<u8> = (0..before + 5 * ring).map(|at| (at % 251) as u8).collect();
    let serve = async {
        let listener = TcpListener::bind(&server, SERVER.port()).await;
        let accepted = listener.expect("the port is free").accept().await;
        let (mut stream, _) = accepted.expect("accepted");
        let mut all = Vec::new();
        while all.len() < before {
            read(&mut stream, (0, before - all.len()), &mut all).await?;
        }
        let mut head = vec![0; ring];
        while stream.peek(&mut head).await? < ring {
            pause().await;
        }
        assert!(data[before..].starts_with(&head));
        Ok(())
    };
    let ask = async {
        let stream = TcpStream::connect(&client, SERVER).await;
        let mut stream = stream.expect("connected");
        let mut sent = 0;
        while sent < data.len() {
            let part = &data[sent..];
            sent += future::poll_fn(|context| stream.poll_send(context, part)).await?;
        }
        Ok(())
    };
    let tasks: [Pin<&mut dyn Future<Output = _>>; 2] = [pin!(serve), pin!(ask)];
    run(&mut [near, far], tasks, (&woken, START), losing(NONE_LOST));
}
