//! Memory of an idle connection, counted at the allocator: the host's part and the stream's.
#![expect(
    unsafe_code,
    reason = "a counting allocator must implement GlobalAlloc, an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use tautline_netstack::device::FrameSocket;
use tautline_netstack::{Cidr, Netstack, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixDatagram;
use tokio::time::sleep;

/// Connections, after those that fill tables to a power of two.
const MANY: usize = 1024;
/// Bytes of one end before it carries data. Of it 2 KiB are the budget of the host's part.
const FRESH: usize = 3300;
/// Bytes of one end that has carried a request and an answer: two small rings more.
const USED: usize = 5300;

/// Longer than an acknowledgment is delayed and a drained buffer is kept.
const SETTLED: Duration = Duration::from_secs(3);

/// The system's allocator.
struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    HELD.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
// Counting touches an atomic only: it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`; `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`; `ptr` came from `System`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn stack(socket: UnixDatagram, number: u8) -> Netstack {
    Netstack::builder(FrameSocket::new(socket, 1500))
        .mac([2, 0, 0, 0, 0, number])
        .address(Cidr::new([10, 0, 0, number], 24))
        .build()
        .expect("a runtime")
}

/// Opens `count` connections; both ends of each.
async fn open(
    count: usize,
    [client, server]: &[Netstack; 2],
    ends: &mut Vec<[TcpStream; 2]>,
) -> std::io::Result<()> {
    let incoming = server.tcp_incoming().await?;
    for _ in 0..count {
        let accepting = async { incoming.next().await?.accept().await };
        let (near, far) = tokio::try_join!(client.connect(([10, 0, 0, 2], 80)), accepting)?;
        ends.push([near, far]);
    }
    Ok(())
}

/// A request and an answer on each.
async fn talk(ends: &mut [[TcpStream; 2]]) -> std::io::Result<()> {
    let mut buffer = [0; 512];
    for [near, far] in ends {
        near.write_all(&[7; 512]).await?;
        far.read_exact(&mut buffer).await?;
        far.write_all(&buffer).await?;
        near.read_exact(&mut buffer).await?;
    }
    Ok(())
}

/// Bytes held since `before` by one of `2 * MANY` ends, once nothing is pending.
async fn each_since(before: isize) -> usize {
    sleep(SETTLED).await;
    let held = HELD.load(Ordering::Relaxed) - before;
    usize::try_from(held).expect("it grew") / (2 * MANY)
}

#[tokio::test]
async fn an_idle_connection_has_no_buffers() -> std::io::Result<()> {
    let (near, far) = UnixDatagram::pair()?;
    let stacks = [stack(near, 1), stack(far, 2)];
    let mut ends = Vec::with_capacity(2 * MANY);
    open(MANY, &stacks, &mut ends).await?;
    talk(&mut ends).await?;
    sleep(SETTLED).await;
    let before = HELD.load(Ordering::Relaxed);
    open(MANY, &stacks, &mut ends).await?;
    let fresh = each_since(before).await;
    talk(&mut ends[MANY..]).await?;
    let used = each_since(before).await;
    println!("each end of an idle connection: {fresh} bytes, {used} after a request and an answer");
    assert!(fresh <= FRESH, "{fresh} bytes");
    assert!(used <= USED, "{used} bytes");
    Ok(())
}
