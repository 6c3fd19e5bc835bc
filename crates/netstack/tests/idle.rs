//! Memory of an idle connection, counted at the allocator: the host's part and the stream's.

use std::time::Duration;

use allocation_counter::measure;
use tautline_netstack::device::FrameSocket;
use tautline_netstack::{Cidr, Netstack, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixDatagram;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

/// Connections, after those that fill tables to a power of two.
const MANY: usize = 1024;
/// Bytes of one end. Of it 2 KiB are the budget of the host's part.
const IDLE: usize = 2048;

/// Longer than an acknowledgment is delayed and a drained buffer is kept.
const SETTLED: Duration = Duration::from_secs(3);

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

/// Bytes that `work` leaves allocated for each of `2 * MANY` ends, once nothing is pending.
fn bytes_per_end(
    runtime: &Runtime,
    work: impl Future<Output = std::io::Result<()>>,
) -> std::io::Result<usize> {
    let mut outcome = std::io::Result::Ok(());
    let held = measure(|| {
        outcome = runtime.block_on(async {
            work.await?;
            sleep(SETTLED).await;
            Ok(())
        });
    });
    outcome?;
    Ok(usize::try_from(held.bytes_current).expect("it grew") / (2 * MANY))
}

/// Bytes of each end of an idle connection: fresh, and after a request and an answer.
fn idle_connections() -> std::io::Result<(usize, usize)> {
    // The stacks run on this thread, whose allocations are counted.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let (near, far) = UnixDatagram::pair()?;
    let stacks = [stack(near, 1), stack(far, 2)];
    drop(entered);
    let mut ends = Vec::with_capacity(2 * MANY);
    runtime.block_on(async {
        open(MANY, &stacks, &mut ends).await?;
        talk(&mut ends).await?;
        sleep(SETTLED).await;
        std::io::Result::Ok(())
    })?;
    let fresh = bytes_per_end(&runtime, open(MANY, &stacks, &mut ends))?;
    let used = fresh + bytes_per_end(&runtime, talk(&mut ends[MANY..]))?;
    Ok((fresh, used))
}

/// The least of three measurements: on a busy machine buffers of the stack, which are counted, may
/// grow during one.
#[test]
fn an_idle_connection_has_no_buffers() -> std::io::Result<()> {
    let mut least = usize::MAX;
    for _ in 0..3 {
        let (fresh, used) = idle_connections()?;
        println!(
            "each end of an idle connection: {fresh} bytes, {used} after a request and an answer"
        );
        least = least.min(fresh.max(used));
        if least <= IDLE {
            break;
        }
    }
    assert!(least <= IDLE, "{least} bytes");
    Ok(())
}
