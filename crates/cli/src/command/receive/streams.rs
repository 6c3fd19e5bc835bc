//! `--queues`: a host for each hardware queue, and one listener for all of them.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};
use tautline_rt::{Clock, ListenerGroup, StackHandle, Stopper, TcpStream};
use tautline_xdp_io::UmemFrame;
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use crate::args::{StackArgs, TransferArgs};
use crate::command::receive::ReceiveArgs;
use crate::device::RingCounts;
use crate::failure::Failure;
use crate::open::Opened;
use crate::report::say;
use crate::report::{gbit_per_s, json_line, limited, print_json, rounded};
use crate::session::Session;
use crate::sink::hex;
use crate::sockets::serve;

/// Time for the last acknowledgments and FINs.
const LINGER: Duration = Duration::from_millis(300);
const BLOCK: usize = 64 << 10;

/// A host's sockets, and what ends it.
pub(super) type Ready = (StackHandle, Stopper);

/// A part of the report.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Part {
    /// A queue and its host.
    Queue {
        queue: u32,
        mode: String,
        frames_in: u64,
        frames_out: u64,
        /// Of those that arrived at the queue, those passed on to the host of their connection.
        frames_passed_on: u64,
        dql_limit_bytes: Option<u64>,
        drops: u64,
        rebinds: u64,
        ring: Option<RingCounts>,
    },
    /// A stream: its digest, or why it was cut short.
    Stream {
        from: SocketAddr,
        bytes: u64,
        seconds: f64,
        gbit_per_s: f64,
        sha256: Option<String>,
        error: Option<String>,
    },
}

impl Part {
    fn print(&self) {
        match self {
            Self::Queue {
                queue,
                mode: _,
                frames_in,
                frames_out,
                frames_passed_on,
                dql_limit_bytes,
                drops,
                rebinds,
                ring,
            } => {
                let limit =
                    dql_limit_bytes.map_or("its ring".to_owned(), |limit| format!("{limit} bytes"));
                say!(
                    "receiver: queue {queue}: {frames_in} frames in, {frames_out} out, {frames_passed_on} passed on to other hosts, \
                     {drops} drops in the qdisc, device limited to {limit}, {rebinds} resets of the device"
                );
                if let Some(ring) = ring {
                    say!("receiver: queue {queue}: {ring}");
                }
            }
            Self::Stream {
                from,
                bytes,
                error: Some(error),
                ..
            } => say!("receiver: {bytes} bytes from {from}, then: {error}"),
            Self::Stream {
                from,
                bytes,
                seconds,
                gbit_per_s,
                sha256,
                error: None,
            } => say!(
                "receiver: {bytes} bytes from {from} in {seconds:.3} s = {gbit_per_s:.3} Gbit/s, sha256 {}",
                sha256.as_deref().unwrap_or("not computed")
            ),
        }
    }

    /// True for a stream that was cut short.
    pub(super) fn is_cut_short(&self) -> bool {
        matches!(self, Self::Stream { error: Some(_), .. })
    }

    /// Prints all, and writes them to the file that the options name.
    pub(super) fn publish(all: &[Self], output: &TransferArgs) -> Result<(), Failure> {
        for line in all {
            if output.json {
                print_json(line);
            } else {
                line.print();
            }
        }
        let Some(path) = &output.summary else {
            return Ok(());
        };
        let lines: String = all.iter().map(|line| json_line(line) + "\n").collect();
        std::fs::write(path, lines).map_err(Failure::file(path))
    }
}

/// Drives the host of a queue until it is stopped.
pub(super) fn serve_queue(
    args: &StackArgs,
    queue: u32,
    opened: Opened<UmemFrame>,
    ready: Option<Sender<Ready>>,
) -> Result<Part, Failure> {
    let mode = opened.mode.clone();
    let mut session = Session::new(opened, args)?;
    let stopper = session.event_loop.stopper();
    serve(&mut session, args, move |stack| {
        // Nobody listens if another queue has failed.
        let _ = ready.map(|ready| ready.send((stack, stopper)));
    })?;
    let (host, port) = (session.host.stats(), session.host.port());
    let condition = port.ring().device().condition();
    Ok(Part::Queue {
        queue,
        mode,
        frames_in: host.frames_in,
        frames_out: host.completed,
        frames_passed_on: condition.passed_on,
        dql_limit_bytes: limited(port.ring().limit().limit()),
        drops: port.qdisc().stats().drops(),
        rebinds: condition.rebinds,
        ring: condition.ring,
    })
}

/// Receives `expected` streams at the hosts of all queues, then stops them. A stream that is cut short,
/// as by the end of its host, leaves the others alone.
pub(super) fn receive_streams(
    args: &ReceiveArgs,
    hosts: Vec<Receiver<Ready>>,
    expected: u32,
) -> Result<Vec<Part>, Failure> {
    let count = hosts.len();
    let ready = hosts.into_iter().flat_map(|host| host.recv());
    let (stacks, stoppers): (Vec<_>, Vec<_>) = ready.unzip();
    if stacks.len() < count {
        // The failure of the other queue is reported.
        stoppers.iter().for_each(Stopper::stop);
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let streams = runtime.block_on(async {
        let group = ListenerGroup::bind(&stacks, args.listen).await?;
        eprintln!(
            "listening on port {} at {count} queues of {}; Ctrl-C ends",
            args.listen, args.stack.iface
        );
        let mut tasks = Vec::new();
        for _ in 0..expected {
            let (stream, from) = group.accept().await.map_err(|_| Failure::Interrupted)?;
            let (silence, digest) = (args.transfer.silence, !args.transfer.no_digest);
            tasks.push(tokio::spawn(receive(stream, from, silence, digest)));
        }
        let mut lines = Vec::new();
        for task in tasks {
            lines.push(task.await.map_err(std::io::Error::from)?);
        }
        sleep(LINGER).await;
        Ok(lines)
    });
    stoppers.iter().for_each(Stopper::stop);
    streams
}

/// Reads a stream to its end, and confirms it by closing our half.
async fn receive(mut stream: TcpStream, from: SocketAddr, silence: Duration, digest: bool) -> Part {
    let clock = Clock::start();
    let begun = clock.now();
    let (mut hasher, mut bytes) = (digest.then(Sha256::new), 0);
    let ended = read(&mut stream, silence, |block| {
        bytes += block.len() as u64;
        if let Some(hasher) = &mut hasher {
            hasher.update(block);
        }
    });
    let ended = ended.await.map(|()| clock.now() - begun);
    if ended.is_ok() {
        stream.finish();
        sleep(LINGER).await;
    } else {
        stream.abort();
    }
    let time = *ended.as_ref().unwrap_or(&Duration::ZERO);
    Part::Stream {
        from,
        bytes,
        seconds: rounded(time.as_secs_f64()),
        gbit_per_s: gbit_per_s(bytes, time),
        sha256: hasher.filter(|_| ended.is_ok()).map(hex),
        error: ended.err().map(|failure| failure.to_string()),
    }
}

/// Reads blocks to the end of `stream`.
async fn read(
    stream: &mut TcpStream,
    silence: Duration,
    mut store: impl FnMut(&[u8]),
) -> Result<(), Failure> {
    let mut block = vec![0; BLOCK];
    loop {
        let read = timeout(silence, stream.read(&mut block)).await;
        match read.map_err(|_| Failure::Silent(silence))?? {
            0 => return Ok(()),
            len => store(&block[..len]),
        }
    }
}
