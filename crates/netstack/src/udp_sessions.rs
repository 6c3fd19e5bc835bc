//! [`UdpSessions`]: the datagrams of [`UdpIncoming`] as one stream per sender and destination.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep};

use crate::UdpIncoming;
use crate::udp_memory::{Memory, Queued};

/// Datagrams of one session that wait for its application; the rest is dropped.
const WAITING: usize = 64;
/// Bytes in the datagrams of all sessions, each way; the rest is dropped.
const MEMORY: usize = 4 << 20;
/// Datagrams of all sessions on their way to the stack, and new sessions that wait.
const QUEUE: usize = 256;
/// Longest IP packet.
const LONGEST: usize = 65_535;

/// A datagram from one address to another.
type Outgoing = (Queued, SocketAddr, SocketAddr);

/// The sessions to every destination. Dropping it ends them all.
#[derive(Debug)]
pub struct UdpSessions {
    new: Receiver<UdpSession>,
    tasks: [JoinHandle<()>; 2],
}

/// The datagrams between one sender and one destination: each read is one, and so is each write. Reads
/// end after the idle time. Dropping it ends the session; the sender's next datagram begins another.
#[derive(Debug)]
pub struct UdpSession {
    received: Receiver<Queued>,
    outgoing: Sender<Outgoing>,
    memory: Memory,
    sender: SocketAddr,
    destination: SocketAddr,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
}

impl UdpSessions {
    /// Sorts `incoming` into at most `most` sessions, each of which ends after `idle` without a
    /// datagram. Datagrams of further senders are dropped.
    pub fn new(incoming: UdpIncoming, idle: Duration, most: usize) -> Self {
        let (to_accept, new) = channel(QUEUE);
        let (outgoing, to_send) = channel(QUEUE);
        let incoming = Arc::new(incoming);
        let sorting = sort(Arc::clone(&incoming), to_accept, outgoing, (idle, most));
        let tasks = [tokio::spawn(sorting), tokio::spawn(send(incoming, to_send))];
        Self { new, tasks }
    }

    /// The next session; `None` once the stack has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<UdpSession> {
        self.new.recv().await
    }
}

impl Drop for UdpSessions {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn send(incoming: Arc<UdpIncoming>, mut to_send: Receiver<Outgoing>) {
    while let Some((data, from, to)) = to_send.recv().await {
        // A datagram that does not fit into a packet is dropped, as on any link.
        let _ = incoming.send(data.bytes(), from, to).await;
    }
}

async fn sort(
    incoming: Arc<UdpIncoming>,
    to_accept: Sender<UdpSession>,
    outgoing: Sender<Outgoing>,
    (idle, most): (Duration, usize),
) {
    let mut sessions: HashMap<_, Sender<Queued>> = HashMap::new();
    let (memory, outgoing_memory) = (Memory::new(MEMORY), Memory::new(MEMORY));
    let mut buffer = vec![0; LONGEST];
    while let Ok((len, sender, destination)) = incoming.recv(&mut buffer).await {
        let Some(mut data) = memory.copy(&buffer[..len]) else {
            continue;
        };
        let ends = (sender, destination);
        if let Some(session) = sessions.get(&ends) {
            match session.try_send(data) {
                Ok(()) | Err(TrySendError::Full(_)) => continue,
                Err(TrySendError::Closed(unsent)) => data = unsent,
            }
        }
        if sessions.len() >= most {
            sessions.retain(|_, session| !session.is_closed());
        }
        if sessions.len() >= most && !sessions.contains_key(&ends) {
            continue;
        }
        let (session, received) = channel(WAITING);
        // An empty queue accepts a datagram.
        let _ = session.try_send(data);
        let new = UdpSession {
            received,
            outgoing: outgoing.clone(),
            memory: outgoing_memory.clone(),
            sender,
            destination,
            idle,
            timer: Box::pin(sleep(idle)),
        };
        if to_accept.try_send(new).is_ok() {
            sessions.insert(ends, session);
        }
    }
}

impl UdpSession {
    /// The sender behind the device.
    pub fn sender_addr(&self) -> SocketAddr {
        self.sender
    }

    /// The destination that it wanted.
    pub fn destination_addr(&self) -> SocketAddr {
        self.destination
    }

    fn restart_timer(&mut self) {
        // A time beyond the clock's range never ends: the timer stays as `sleep` has set it.
        if let Some(at) = Instant::now().checked_add(self.idle) {
            self.timer.as_mut().reset(at);
        }
    }
}

impl AsyncRead for UdpSession {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while let Poll::Ready(received) = self.received.poll_recv(context) {
            self.restart_timer();
            let data = received.as_ref().map_or(&[][..], Queued::bytes);
            buffer.put_slice(&data[..data.len().min(buffer.remaining())]);
            // In a stream of bytes an empty datagram would be the end.
            if received.is_none() || !data.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UdpSession {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        // A full queue drops the datagram, as a full device does.
        if let Some(copy) = self.memory.copy(data) {
            let outgoing = (copy, self.destination, self.sender);
            if let Err(TrySendError::Closed(_)) = self.outgoing.try_send(outgoing) {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
        }
        self.restart_timer();
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
