//! The kernel's clients, and what they cost the stack.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::service::{ECHO, SINK, SOURCE};

const CHUNK: usize = 64 << 10;
const IDLE: usize = 1000;
/// How long a client waits for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints a line per row: name, value, unit, processor nanoseconds of the stack per byte or request.
pub(crate) fn run(to: IpAddr, pid: u32, span: Duration, only: &str) -> io::Result<()> {
    let row = |name: &str, client: Client, port: u16, connections: usize| {
        if name.starts_with(only) {
            row(name, pid, span, || {
                streams(connections, (to, port).into(), span, client)
            });
        }
    };
    for connections in [1, 8, 64] {
        row(&format!("upload {connections}"), upload, SINK, connections);
        let name = format!("download {connections}");
        row(&name, download, SOURCE, connections);
    }
    row("request/response 1", requests, ECHO, 1);
    row("connect/request/close 8", connects, ECHO, 8);
    if !"idle".starts_with(only) {
        return Ok(());
    }
    let before = resident(pid)?;
    let idle: Vec<_> = (0..IDLE)
        .map_while(|_| connect((to, ECHO).into()).ok())
        .collect();
    thread::sleep(Duration::from_secs(1));
    let held = resident(pid)?.saturating_sub(before);
    let each = held as f64 / idle.len().max(1) as f64;
    println!("idle connections\t{}\t{each:.2} KiB each", idle.len());
    Ok(())
}

/// Opens `count` connections and prints the time of a request on one after the other, first without
/// other traffic, then while one more connection downloads.
pub(crate) fn neighbors(to: IpAddr, count: usize, span: Duration) -> io::Result<()> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        open.push(connect((to, ECHO).into())?);
    }
    // The first request of a connection allocates its buffers.
    let _ = latencies(&mut open, Instant::now() + span)?;
    let idle = latencies(&mut open, Instant::now() + span)?;
    let (done, end) = (AtomicU64::new(0), Instant::now() + span);
    let busy = thread::scope(|scope| {
        let downloading = scope.spawn(|| download((to, SOURCE).into(), end, &done));
        let busy = latencies(&mut open, end);
        downloading.join().expect("no panic").and(busy)
    })?;
    for (name, sorted) in [("without a download", idle), ("beside a download", busy)] {
        let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100].as_micros();
        let requests = sorted.len();
        println!(
            "{count} neighbors {name}\tp50 {} us\tp99 {} us\t{requests} requests",
            at(50),
            at(99)
        );
    }
    let rate = done.into_inner() as f64 * 8.0 / 1e9 / span.as_secs_f64();
    println!("the download\t{rate:.3} Gbit/s");
    Ok(())
}

/// Times of requests until `end`, sorted; successive requests are on connections far apart.
fn latencies(open: &mut [TcpStream], end: Instant) -> io::Result<Vec<Duration>> {
    /// A prime, so that every connection has its turn.
    const STRIDE: usize = 7919;
    let (mut times, mut at, mut buffer) = (Vec::new(), 0, [0; 64]);
    while times.is_empty() || Instant::now() < end {
        let begin = Instant::now();
        open[at].write_all(&buffer)?;
        open[at].read_exact(&mut buffer)?;
        times.push(begin.elapsed());
        at = (at + STRIDE) % open.len();
    }
    times.sort_unstable();
    Ok(times)
}

/// Prints bytes or requests per second and the stack's processor time for each.
fn row(name: &str, pid: u32, span: Duration, work: impl FnOnce() -> (u64, u64)) {
    let before = processor(pid);
    let (done, failed) = work();
    let spent = processor(pid).saturating_sub(before);
    let (rate, unit) = if name.contains("load") {
        (done as f64 * 8.0 / 1e9, "Gbit/s")
    } else {
        (done as f64, "per s")
    };
    let rate = rate / span.as_secs_f64();
    let each = spent.as_nanos() as f64 / done.max(1) as f64;
    println!("{name}\t{rate:.4} {unit}\t{each:.2} ns each\t{failed} failed");
}

/// Works on one connection at a time until the given time, and counts.
type Client = fn(SocketAddr, Instant, &AtomicU64) -> io::Result<()>;

/// Runs `client` in a thread for each of `connections`. Returns what was done and how many failed.
fn streams(connections: usize, to: SocketAddr, span: Duration, client: Client) -> (u64, u64) {
    let (done, end) = (AtomicU64::new(0), Instant::now() + span);
    let failed = thread::scope(|scope| {
        let clients: Vec<_> = (0..connections)
            .map(|_| scope.spawn(|| client(to, end, &done).is_err()))
            .collect();
        clients
            .into_iter()
            .filter_map(|client| client.join().ok())
            .map(u64::from)
            .sum()
    });
    (done.into_inner(), failed)
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn upload(to: SocketAddr, end: Instant, done: &AtomicU64) -> io::Result<()> {
    let (mut stream, buffer) = (connect(to)?, vec![0; CHUNK]);
    while Instant::now() < end {
        done.fetch_add(stream.write(&buffer)? as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn download(to: SocketAddr, end: Instant, done: &AtomicU64) -> io::Result<()> {
    let (mut stream, mut buffer) = (connect(to)?, vec![0; CHUNK]);
    while Instant::now() < end {
        done.fetch_add(stream.read(&mut buffer)? as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn requests(to: SocketAddr, end: Instant, done: &AtomicU64) -> io::Result<()> {
    let (mut stream, mut buffer) = (connect(to)?, [0; 64]);
    while Instant::now() < end {
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn connects(to: SocketAddr, end: Instant, done: &AtomicU64) -> io::Result<()> {
    let mut buffer = [0; 64];
    while Instant::now() < end {
        let mut stream = connect(to)?;
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        stream.shutdown(Shutdown::Write)?;
        if stream.read(&mut buffer)? == 0 {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Resident memory of a process in KiB.
fn resident(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .ok_or(io::ErrorKind::NotFound.into())
}

/// Processor time of a process so far, in ticks of a hundredth of a second.
fn processor(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = |at| fields.split_whitespace().nth(at)?.parse::<u64>().ok();
    let spent = ticks(11)
        .zip(ticks(12))
        .map_or(0, |(user, system)| user + system);
    Duration::from_millis(10 * spent)
}
