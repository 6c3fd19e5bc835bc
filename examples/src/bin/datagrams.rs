//! Datagrams of every size to an echo and back, each checked byte for byte, over our stack or over
//! the kernel's; then one to a port where nobody listens, which must be told, and one that is too
//! long for a packet.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde::Serialize;
use tautline_cli::args::{Over, parse};
use tautline_cli::failure::{Failure, exit_code};
use tautline_cli::report::{print_json, rounded};
use tautline_cli::sockets::with_sockets;
use tautline_examples::conversation::Pattern;
use tautline_rt::{Clock, StackHandle};
use tokio::runtime::Builder;
use tokio::time::timeout;

const EXAMPLES: &str = "\
Examples:
  datagrams kernel answer --listen 5001
  datagrams ours --iface va --ip 10.7.0.1/24 call --to 10.7.0.12:5001 --count 3000";

/// Datagrams of every size to an echo and back, each checked byte for byte. The caller's last line
/// is JSON.
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    over: Over<Role>,
}

#[derive(Subcommand, Clone, Debug)]
enum Role {
    /// Sends every datagram back, until it is interrupted
    Answer {
        /// Port to listen on, on every address
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        listen: u16,
    },
    /// Calls
    Call {
        /// The answering end; nobody listens on the port after its own
        #[arg(long)]
        to: SocketAddr,
        /// Number of datagrams, with sizes cycling from 0 to what fits into 1500 bytes
        #[arg(long, default_value_t = 3000)]
        count: u64,
    },
}

#[derive(Default, Serialize)]
struct Summary {
    datagrams: u64,
    bytes: u64,
    again: u64,
    seconds: f64,
}

/// Source of the sockets.
enum Net {
    Kernel,
    Ours(StackHandle),
}

enum Socket {
    Kernel(tokio::net::UdpSocket),
    Ours(tautline_rt::UdpSocket),
}

/// On their way at a time.
const AT_ONCE: usize = 64;
/// Until an echo is taken for lost.
const REPLY_TIMEOUT: Duration = Duration::from_millis(300);
/// Retransmissions of a lost datagram.
const TRIES: u32 = 30;
/// No IP packet is longer.
const ROOM: usize = 65_535;

impl Net {
    async fn bind(&self, local: SocketAddr) -> io::Result<Socket> {
        Ok(match self {
            Self::Kernel => Socket::Kernel(tokio::net::UdpSocket::bind(local).await?),
            Self::Ours(stack) => Socket::Ours(tautline_rt::UdpSocket::bind(stack, local).await?),
        })
    }

    /// A socket that speaks to `to`.
    async fn call(&self, to: SocketAddr) -> io::Result<Socket> {
        let any = if to.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = self.bind(SocketAddr::new(any, 0)).await?;
        match &socket {
            Socket::Kernel(socket) => socket.connect(to).await?,
            Socket::Ours(socket) => socket.connect(to).await?,
        }
        Ok(socket)
    }
}

impl Socket {
    async fn send(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(socket) => socket.send(data).await,
            Self::Ours(socket) => socket.send(data).await,
        }
    }

    async fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(socket) => socket.recv(out).await,
            Self::Ours(socket) => socket.recv(out).await,
        }
    }

    async fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        match self {
            Self::Kernel(socket) => socket.recv_from(out).await,
            Self::Ours(socket) => socket.recv_from(out).await,
        }
    }

    async fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        match self {
            Self::Kernel(socket) => socket.send_to(data, to).await,
            Self::Ours(socket) => socket.send_to(data, to).await,
        }
    }
}

impl Role {
    fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Answer { .. } => None,
            Self::Call { to, .. } => Some(*to),
        }
    }

    async fn serve(self, net: Net) -> io::Result<()> {
        match self {
            Self::Answer { listen } => answer(&net, listen).await,
            Self::Call { to, count } => {
                let summary = call(&net, to, count).await?;
                told_that_nobody_listens(&net, SocketAddr::new(to.ip(), to.port() + 1)).await?;
                too_long(&net, to).await?;
                print_json(&summary);
                Ok(())
            }
        }
    }
}

async fn answer(net: &Net, port: u16) -> io::Result<()> {
    let socket = net.bind((Ipv6Addr::UNSPECIFIED, port).into()).await?;
    eprintln!("listening on port {port}");
    let mut room = vec![0; ROOM];
    loop {
        let (len, from) = socket.recv_from(&mut room).await?;
        socket.send_to(&room[..len], from).await?;
    }
}

/// The longest datagram that fits into 1500 bytes.
fn longest(to: SocketAddr) -> usize {
    if to.is_ipv4() { 1472 } else { 1452 }
}

/// Datagram `number`, of `len` bytes.
fn datagram(number: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len.next_multiple_of(8)];
    Pattern::new(number << 32).fill(&mut data);
    data.truncate(len);
    data
}

/// Sends them, those that do not come back again, until all have come back as they were.
async fn call(net: &Net, to: SocketAddr, count: u64) -> io::Result<Summary> {
    let clock = Clock::start();
    let begun = clock.now();
    let socket = net.call(to).await?;
    let (mut room, mut missing, mut summary, mut tries) =
        (vec![0; ROOM], BTreeMap::new(), Summary::default(), 0);
    let mut numbers = (0..count).zip((0..=longest(to)).cycle());
    loop {
        while missing.len() < AT_ONCE
            && let Some((number, len)) = numbers.next()
        {
            let data = datagram(number, len);
            socket.send(&data).await?;
            missing.insert(number, data);
        }
        if missing.is_empty() {
            summary.seconds = rounded((clock.now() - begun).as_secs_f64());
            return Ok(summary);
        }
        match timeout(REPLY_TIMEOUT, socket.recv(&mut room)).await {
            Ok(len) => {
                let data = &room[..len?];
                let number = missing
                    .iter()
                    .find(|(_, sent)| &sent[..] == data)
                    .map(|(number, _)| *number);
                match number.and_then(|number| missing.remove(&number)) {
                    Some(_) => {
                        summary.datagrams += 1;
                        summary.bytes += data.len() as u64;
                        tries = 0;
                    }
                    // What was sent again may come twice; anything else nobody sent.
                    None if summary.again > 0 => {}
                    None => {
                        return Err(io::Error::other(format!(
                            "{} bytes came back that nobody sent",
                            data.len()
                        )));
                    }
                }
            }
            Err(_) => {
                tries += 1;
                if tries > TRIES {
                    return Err(io::Error::new(
                        ErrorKind::TimedOut,
                        format!("{} datagrams never came back", missing.len()),
                    ));
                }
                for data in missing.values() {
                    socket.send(data).await?;
                }
                summary.again += missing.len() as u64;
            }
        }
    }
}

/// A datagram to a closed port comes back as an error of the socket.
async fn told_that_nobody_listens(net: &Net, to: SocketAddr) -> io::Result<()> {
    let socket = net.call(to).await?;
    for _ in 0..TRIES {
        // An earlier one may have been refused already.
        if let Err(error) = socket.send(b"anybody there?").await {
            return refused(error);
        }
        if let Ok(answer) = timeout(REPLY_TIMEOUT, socket.recv(&mut [0; 64])).await {
            return answer.map_or_else(refused, |_| {
                Err(io::Error::other("an answer from a closed port"))
            });
        }
    }
    Err(io::Error::new(
        ErrorKind::TimedOut,
        "nobody told that nobody listens",
    ))
}

fn refused(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::ConnectionRefused {
        Ok(())
    } else {
        Err(error)
    }
}

/// Our stack does not send a datagram that exceeds a packet, and rejects one that a kernel sends in
/// fragments.
async fn too_long(net: &Net, to: SocketAddr) -> io::Result<()> {
    let socket = net.call(to).await?;
    let sent = socket.send(&datagram(0, longest(to) + 1)).await;
    match (net, sent) {
        (Net::Ours(_), Err(error)) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        (Net::Ours(_), Ok(_)) => Err(io::Error::other("a datagram was sent that does not fit")),
        (Net::Kernel, Ok(_)) => match timeout(REPLY_TIMEOUT, socket.recv(&mut [0; ROOM])).await {
            Err(_) => Ok(()),
            Ok(answer) => Err(answer.map_or_else(
                |error| error,
                |_| io::Error::other("an answer to fragments"),
            )),
        },
        (_, Err(error)) => Err(error),
    }
}

/// Works on a runtime of this thread.
fn serve(role: Role, net: Net) -> io::Result<()> {
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(role.serve(net))
}

fn main() -> ExitCode {
    let result = match parse::<Args>().over {
        Over::Kernel { role } => serve(role, Net::Kernel).map_err(Failure::from),
        Over::Ours { stack, role } => with_sockets(&stack, role.peer(), move |sockets| {
            serve(role, Net::Ours(sockets.stack))
        }),
    };
    exit_code("datagrams", result)
}
