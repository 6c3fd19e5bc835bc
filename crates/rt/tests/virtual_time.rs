//! The handles need neither a runtime nor a clock: two hosts, two tasks and no time but the one the
//! test counts.

mod turns;

use std::cell::Cell;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use tautline_base::{HeapFrame, Instant, Pool};
use tautline_rt::handle::Config;
use tautline_rt::{Cable, StackHandle, TcpListener, TcpStream, cable};

use turns::{End, Flag, SERVER, START, identity, run};

const BYTES: usize = 200_000;

/// A client and a server on a cable.
fn hosts(woken: &Arc<Flag>) -> ([StackHandle; 2], [End<Cable>; 2]) {
    let end = |(device, number)| {
        let pool = Pool::new((0..512).map(|_| HeapFrame::new()).collect());
        End::new(identity(number), (device, pool), Config::default(), woken)
    };
    let [left, right] = cable().expect("descriptors");
    let [(client, near), (server, far)] = [(left, 1), (right, 2)].map(end);
    ([client, server], [near, far])
}

fn turn(ends: &mut [End<Cable>; 2], now: Instant) -> bool {
    ends.iter_mut()
        .fold(false, |busy, end| end.turn(now) | busy)
}

/// Lets two minutes pass, more than twice TIME-WAIT; returns the time then.
fn pass_time_wait(ends: &mut [End<Cable>; 2], mut now: Instant) -> Instant {
    let end = now + Duration::from_secs(120);
    while now < end {
        while turn(ends, now) {}
        let next = ends.iter().filter_map(|end| end.wake).min();
        now = next.map_or(end, |next| next.clamp(now, end));
    }
    end
}

async fn send(stream: &mut TcpStream, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        let sent = std::future::poll_fn(|context| stream.poll_send(context, data)).await?;
        data = &data[sent..];
    }
    Ok(())
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut all, mut block) = (Vec::new(), [0; 4000]);
    loop {
        match std::future::poll_fn(|context| stream.poll_recv(context, &mut block)).await? {
            0 => return Ok(all),
            count => all.extend(&block[..count]),
        }
    }
}

fn exchange() -> Duration {
    let woken = Arc::new(Flag::default());
    let ([client, server], mut ends) = hosts(&woken);
    let data: Vec<u8> = (0..BYTES).map(|n| (n / 3) as u8).collect();
    let serve = async {
        let (mut stream, _) = TcpListener::bind(&server, SERVER.port())
            .await?
            .accept()
            .await?;
        let question = receive(&mut stream).await?;
        send(&mut stream, &question).await
    };
    let ask = async {
        let mut stream = TcpStream::connect(&client, SERVER).await?;
        send(&mut stream, &data).await?;
        stream.finish();
        assert!(receive(&mut stream).await? == data);
        Ok(())
    };
    let tasks: [Pin<&mut dyn Future<Output = _>>; 2] = [pin!(serve), pin!(ask)];
    run(&mut ends, tasks, (&woken, START), turn) - START
}

/// The time that 60 one-byte writes take, each made once the one before has been read.
fn small_writes(nodelay: bool) -> Duration {
    const WRITES: usize = 60;
    let woken = Arc::new(Flag::default());
    let ([client, server], mut ends) = hosts(&woken);
    let read = Cell::new(0);
    let serve = async {
        let listener = TcpListener::bind(&server, SERVER.port()).await?;
        let (mut stream, _) = listener.accept().await?;
        let mut byte = [0];
        while read.get() < WRITES {
            std::future::poll_fn(|context| stream.poll_recv(context, &mut byte)).await?;
            read.set(read.get() + 1);
        }
        Ok(())
    };
    let ask = async {
        let mut stream = TcpStream::connect(&client, SERVER).await?;
        stream.set_nodelay(nodelay)?;
        assert_eq!(stream.nodelay()?, nodelay);
        for number in 0..WRITES {
            // Both tasks are polled in every turn.
            let is_read = |_: &mut Context<'_>| match read.get() {
                count if count == number => Poll::Ready(()),
                _ => Poll::Pending,
            };
            std::future::poll_fn(is_read).await;
            send(&mut stream, &[1]).await?;
        }
        Ok(())
    };
    let tasks: [Pin<&mut dyn Future<Output = _>>; 2] = [pin!(serve), pin!(ask)];
    run(&mut ends, tasks, (&woken, START), turn) - START
}

/// Without Nagle's algorithm no write waits for the peer's delayed acknowledgments (RFC 9293
/// §3.7.4), with it most do.
#[test]
fn nodelay_does_not_wait_for_acknowledgments() {
    let (nagle, nodelay) = (small_writes(false), small_writes(true));
    assert!(
        nagle >= Duration::from_secs(1) && nodelay < Duration::from_millis(1),
        "{nagle:?} and {nodelay:?}"
    );
}

#[test]
fn async_code_runs_in_virtual_time() {
    let passed = exchange();
    assert!(passed < Duration::from_secs(5), "{passed:?}");
    assert_eq!(
        exchange(),
        passed,
        "the same code takes the same virtual time"
    );
}

/// Half of a request, to which a server has no answer yet.
const HALF: &[u8] = b"GET /file HTTP/1.1\r\nHost: slo";
const SLOW_CLIENTS: usize = 100;

/// Opens `SLOW_CLIENTS` connections that send half a request each, and ends them all.
async fn slow_clients(client: &StackHandle) -> io::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..SLOW_CLIENTS {
        let mut stream = TcpStream::connect(client, SERVER).await?;
        send(&mut stream, HALF).await?;
        streams.push(stream);
    }
    Ok(())
}

/// Accepts them, and reads until each has ended.
async fn serve_slow_clients(listener: &mut TcpListener) -> io::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..SLOW_CLIENTS {
        streams.push(listener.accept().await?.0);
    }
    for stream in &mut streams {
        assert_eq!(receive(stream).await?, HALF);
    }
    Ok(())
}

/// Memory of slow clients is freed at both ends once they are gone: a crowd that finds the tables
/// grown leaves less than a byte each.
#[test]
fn slow_clients_leave_no_memory_behind() {
    let woken = Arc::new(Flag::default());
    let ([client, server], mut ends) = hosts(&woken);
    let mut listener = None;
    let (mut held, mut now) = (Vec::new(), START);
    for _ in 0..5 {
        let round = measure(|| {
            let serve = async {
                if listener.is_none() {
                    listener = Some(TcpListener::bind(&server, SERVER.port()).await?);
                }
                serve_slow_clients(listener.as_mut().expect("bound before")).await
            };
            let tasks: [Pin<&mut dyn Future<Output = _>>; 2] =
                [pin!(serve), pin!(slow_clients(&client))];
            let over = run(&mut ends, tasks, (&woken, now), turn);
            now = pass_time_wait(&mut ends, over);
        });
        held.push(round.bytes_current);
    }
    // Tables grow for three rounds, and then by a few entries at most.
    let late: i64 = held[3..].iter().sum();
    assert!(late < SLOW_CLIENTS as i64, "{held:?} bytes held");
}

#[test]
fn futures_may_move_between_threads() {
    fn moves(future: impl Send) {
        drop(future);
    }
    let (stack, _sockets) = StackHandle::new(Config::default(), Waker::noop().clone());
    moves(TcpStream::connect(&stack, SERVER));
    moves(async {
        let (stream, _) = TcpListener::bind(&stack, 1).await?.accept().await?;
        let (read, write) = stream.into_split();
        std::future::ready(()).await;
        drop((read, write));
        io::Result::Ok(())
    });
}
