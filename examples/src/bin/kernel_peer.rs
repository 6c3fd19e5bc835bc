//! The other end of a transfer on the kernel's own TCP, for comparison: sends a file or receives a
//! stream, prints its SHA-256.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde::Serialize;
use tautline_cli::args::parse;
use tautline_cli::failure::{Failure, exit_code};
use tautline_cli::report::{gbit_per_s, print_json, rounded};
use tautline_cli::sink::{BLOCK, Sink};
use tautline_rt::Clock;

/// One end of a transfer on the kernel's TCP. Prints one JSON object: role, bytes, seconds,
/// gbit_per_s, sha256.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand, Debug)]
enum Role {
    /// Connects and sends a file
    Send {
        /// The receiver
        #[arg(long)]
        to: SocketAddr,
        /// File to send
        #[arg(long)]
        file: PathBuf,
    },
    /// Accepts one connection and reads it to its end
    Receive {
        /// Address and port to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
}

/// Outcome.
#[derive(Serialize)]
struct Summary {
    role: &'static str,
    bytes: u64,
    seconds: f64,
    gbit_per_s: f64,
    sha256: Option<String>,
}

/// As much as [`Sink`] may keep: blocks are hashed after the transfer.
const KEEP: u64 = 512 << 20;
/// How long to try to connect, and how long the peer may be silent.
const TIMEOUT: Duration = Duration::from_secs(30);

fn send(to: SocketAddr, path: &Path) -> Result<Summary, Failure> {
    let mut file = File::open(path).map_err(Failure::file(path))?;
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let clock = Clock::start();
    let begun = clock.now();
    let (mut sink, mut bytes) = (Sink::new(true, None, KEEP), 0);
    loop {
        let block = filled(&mut file, sink.empty_block()).map_err(Failure::file(path))?;
        if block.is_empty() {
            break;
        }
        stream.write_all(&block)?;
        bytes += block.len() as u64;
        sink.take(block)?;
    }
    // The peer closes once it has everything.
    stream.shutdown(Shutdown::Write)?;
    while stream.read(&mut [0; 64])? > 0 {}
    summary("sender", bytes, clock.now() - begun, sink)
}

fn receive(listen: SocketAddr) -> Result<Summary, Failure> {
    let listener = TcpListener::bind(listen)?;
    eprintln!("listening on {listen} of the kernel");
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let clock = Clock::start();
    let begun = clock.now();
    let (mut sink, mut bytes) = (Sink::new(true, None, KEEP), 0);
    loop {
        let block = filled(&mut stream, sink.empty_block())?;
        if block.is_empty() {
            break;
        }
        bytes += block.len() as u64;
        sink.take(block)?;
    }
    summary("receiver", bytes, clock.now() - begun, sink)
}

/// `block` with as much of `from` as it holds.
fn filled(from: &mut impl Read, mut block: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut len = 0;
    while len < BLOCK {
        match from.read(&mut block[len..])? {
            0 => break,
            count => len += count,
        }
    }
    block.truncate(len);
    Ok(block)
}

fn summary(role: &'static str, bytes: u64, time: Duration, sink: Sink) -> Result<Summary, Failure> {
    let seconds = rounded(time.as_secs_f64());
    Ok(Summary {
        role,
        bytes,
        seconds,
        gbit_per_s: gbit_per_s(bytes, time),
        sha256: sink.finish()?,
    })
}

fn main() -> ExitCode {
    let outcome = match parse::<Args>().role {
        Role::Send { to, file } => send(to, &file),
        Role::Receive { listen } => receive(listen),
    };
    exit_code("kernel_peer", outcome.map(|summary| print_json(&summary)))
}
