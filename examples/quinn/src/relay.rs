//! [`Relay`]: a bottleneck between two UDP ends of this host: a rate and a FIFO on the way there, a
//! delay both ways.
//!
//! ECN bits do not survive it, so quinn stops sending them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tautline_base::{Bytes, Rate};

/// Impairments of a client's datagrams on their way to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Of the bottleneck, in bytes of UDP payload.
    pub(crate) rate: Rate,
    /// One way; the way back has it, too.
    pub(crate) delay: Duration,
    /// Most that waits for the bottleneck. A datagram that finds no room is dropped.
    pub(crate) buffer: Bytes,
}

/// A running relay; ends when dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    dropped: AtomicU64,
    client: OnceLock<SocketAddr>,
}

/// A datagram and when it is to leave.
type Late = (Instant, Vec<u8>);

const READ_TIMEOUT: Duration = Duration::from_millis(50);

impl Relay {
    /// A relay to `server`, for one client.
    ///
    /// # Errors
    /// Those of the sockets.
    pub(crate) fn start(server: SocketAddr, link: Link) -> io::Result<Self> {
        let (front, back) = (socket()?, socket()?);
        back.connect(server)?;
        let address = front.local_addr()?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            client: OnceLock::new(),
        });
        let (there, arriving) = mpsc::channel();
        let (back_again, returning) = mpsc::channel();
        let threads = vec![
            spawn(&shared, front.try_clone()?, move |front, shared| {
                receive_from_server(&front, shared, link, &there)
            }),
            spawn(&shared, back.try_clone()?, move |back, _| {
                deliver(&arriving, |data| back.send(data))
            }),
            spawn(&shared, back, move |back, shared| {
                take_back(&back, shared, link.delay, &back_again)
            }),
            spawn(&shared, front, move |front, shared| {
                // Nothing returns before the client was heard.
                deliver(&returning, |data| {
                    shared
                        .client
                        .get()
                        .map_or(Ok(0), |client| front.send_to(data, client))
                });
            }),
        ];
        Ok(Self {
            address,
            shared,
            threads,
        })
    }

    /// Where the client finds the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Datagrams that found no room.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked said so already.
            let _ = thread.join();
        }
    }
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(READ_TIMEOUT))?;
    Ok(socket)
}

fn spawn(
    shared: &Arc<Shared>,
    socket: UdpSocket,
    run: impl FnOnce(UdpSocket, &Shared) + Send + 'static,
) -> JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || run(socket, &shared))
}

/// From the client into the bottleneck's FIFO.
fn receive_from_server(front: &UdpSocket, shared: &Shared, link: Link, there: &mpsc::Sender<Late>) {
    let mut buffer = [0; 65_536];
    let mut free_at = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = front.recv_from(&mut buffer) else {
            continue;
        };
        shared.client.get_or_init(|| from);
        let now = Instant::now();
        let size = Bytes::new(len as u64);
        let waiting = link.rate * free_at.saturating_duration_since(now);
        if waiting + size > link.buffer {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        free_at = free_at.max(now) + size / link.rate;
        if there
            .send((free_at + link.delay, buffer[..len].to_vec()))
            .is_err()
        {
            return;
        }
    }
}

/// From the server, at once but late.
fn take_back(back: &UdpSocket, shared: &Shared, delay: Duration, back_again: &mpsc::Sender<Late>) {
    let mut buffer = [0; 65_536];
    while !shared.stop.load(Ordering::Relaxed) {
        let Ok(len) = back.recv(&mut buffer) else {
            continue;
        };
        if back_again
            .send((Instant::now() + delay, buffer[..len].to_vec()))
            .is_err()
        {
            return;
        }
    }
}

/// Sends each datagram when its time has come, until no more can come. Datagrams for a closed end
/// are lost, as in a network.
fn deliver(late: &mpsc::Receiver<Late>, mut send: impl FnMut(&[u8]) -> io::Result<usize>) {
    for (at, data) in late {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let _ = send(&data);
    }
}
