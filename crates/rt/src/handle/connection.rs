//! What the two sides of a connection share, and the host's end of it: how bytes pass between the
//! rings and the host.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_base::{Device, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{CloseReason, Host, Recv, TcpConfig, Tracer};

use super::command::{Notified, NotifyFlag, SocketRef};
use super::options::Settings;
use super::waiters::Waiters;
use super::{Failure, StackHandle, TcpStream};

/// State of a connection that both threads see.
#[derive(Debug)]
pub(super) struct Shared {
    notify_flag: NotifyFlag,
    pub(super) peer: SocketAddr,
    /// Our end, once the host has named it.
    local: OnceLock<SocketAddr>,
    pub(super) settings: Settings,
    /// The handshake is complete.
    pub(super) open: AtomicBool,
    /// The application wants the connection reset.
    pub(super) abort: AtomicBool,
    /// The host found the receive ring full: the reader asks for attention when it has made room.
    pub(super) full: AtomicBool,
    pub(super) reader: Waiters,
    pub(super) writer: Waiters,
    /// The application has heard why the connection failed.
    heard: AtomicBool,
    /// Why nothing can be written any more.
    pub(super) send_end: OnceLock<Failure>,
    /// What follows the bytes in the receive ring: the end of the stream, or why there is none.
    pub(super) receive_end: OnceLock<Result<(), Failure>>,
}

impl Notified for Shared {
    fn notify_flag(&self) -> &NotifyFlag {
        &self.notify_flag
    }
}

impl Shared {
    /// Nothing can be written any more. The first reason stays.
    pub(super) fn end_sending(&self, why: Failure) {
        let _ = self.send_end.set(why);
        self.writer.wake();
    }

    /// Nothing follows what is in the receive ring. The first reason stays.
    fn end_receiving(&self, how: Result<(), Failure>) {
        let _ = self.receive_end.set(how);
        self.reader.wake();
    }

    /// Our end.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local
            .get()
            .copied()
            .ok_or_else(|| Failure::NotOpen.into())
    }

    /// What a call returns at the end of the connection; after a failure it has been heard.
    pub(super) fn report(&self, end: Result<(), Failure>) -> io::Result<()> {
        if end.is_err() {
            self.heard.store(true, Ordering::Relaxed);
        }
        Ok(end?)
    }

    /// What a write returns that comes too late: the reason for the first call that hears of it, a
    /// broken pipe for later ones.
    pub(super) fn fail_again<T>(&self, why: Failure) -> io::Result<T> {
        let heard = self.heard.swap(true, Ordering::Relaxed);
        Err(match why {
            Failure::Closed(why) if heard => Failure::Broken(why),
            why => why,
        }
        .into())
    }

    /// Why the connection failed, for the first who asks or hears of it.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        let failure = self
            .send_end
            .get()
            .filter(|why| **why != Failure::Closed(CloseReason::Finished))
            .copied()?;
        (!self.heard.swap(true, Ordering::Relaxed)).then_some(failure)
    }

    /// Tells both halves that the connection failed.
    pub(super) fn fail(&self, why: Failure) {
        self.end_receiving(Err(why));
        self.end_sending(why);
    }
}

/// Both ends of a new connection to `peer`, which begins as `tcp` says.
pub(super) fn pair(stack: &StackHandle, peer: SocketAddr, tcp: &TcpConfig) -> (TcpStream, HostEnd) {
    let shared = Arc::new(Shared {
        notify_flag: NotifyFlag::default(),
        peer,
        local: OnceLock::new(),
        settings: Settings::new(tcp),
        open: AtomicBool::new(false),
        abort: AtomicBool::new(false),
        full: AtomicBool::new(false),
        reader: Waiters::default(),
        writer: Waiters::default(),
        heard: AtomicBool::new(false),
        send_end: OnceLock::new(),
        receive_end: OnceLock::new(),
    });
    let (write, outgoing) = RingBuffer::new(stack.config().send_ring.get());
    let (incoming, read) = RingBuffer::new(stack.config().receive_ring.get());
    let line = || SocketRef::new(Arc::clone(&shared), stack.clone());
    (
        TcpStream::new(read, write, line),
        HostEnd {
            shared,
            outgoing,
            incoming,
        },
    )
}

/// The host's end of a connection. If it is dropped, the application hears that the host is gone,
/// unless it was told of an end before.
#[derive(Debug)]
pub(super) struct HostEnd {
    pub(super) shared: Arc<Shared>,
    /// Abandoned when the application has shut down its sending half.
    outgoing: Consumer<u8>,
    /// Abandoned when the application reads no more.
    incoming: Producer<u8>,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on.
    Open,
    /// It is over, or the host can bring it to its end alone.
    Close,
    /// It is to be reset.
    Reset,
}

impl HostEnd {
    /// Puts a name to the connection, see [`NotifyFlag::set_socket`], and our end's address.
    pub(super) fn name(&self, socket: SocketId, local: Option<SocketAddr>) {
        if let Some(local) = local {
            // Set only here.
            let _ = self.shared.local.set(local);
        }
        self.shared.notify_flag.set_socket(socket);
    }

    /// See [`NotifyFlag::clear`].
    pub(super) fn clear_notification(&self) {
        self.shared.notify_flag.clear();
    }

    /// The handshake is complete.
    pub(super) fn opened(&self) {
        self.shared.open.store(true, Ordering::Release);
        self.shared.writer.wake();
    }

    /// Moves what the application wrote to the host. A FIN follows the last byte.
    pub(super) fn forward<Q, D, T, L>(&mut self, socket: SocketId, host: &mut Host<Q, D, T, L>)
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        // Asked before the bytes are counted: the application wrote the last of them before it let
        // go.
        let last = self.outgoing.is_abandoned();
        let Ok(chunk) = self.outgoing.read_chunk(self.outgoing.slots()) else {
            return;
        };
        let (front, back) = chunk.as_slices();
        let mut taken = 0;
        for part in [front, back] {
            // Offering nothing would withdraw the wish to hear of room. What a closed connection
            // refuses stays where it is.
            let count = if part.is_empty() {
                0
            } else {
                host.send(socket, part).unwrap_or(0)
            };
            taken += count;
            if count < part.len() {
                break;
            }
        }
        chunk.commit(taken);
        if taken > 0 {
            self.shared.writer.wake();
        }
        if last && self.outgoing.is_empty() {
            // Refused only when the connection is over, which its event tells.
            let _ = host.shutdown(socket);
        }
    }

    /// Moves what the host received to the application, through `scratch`.
    pub(super) fn fetch<Q, D, T, L>(
        &mut self,
        socket: SocketId,
        host: &mut Host<Q, D, T, L>,
        scratch: &mut [u8],
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let mut moved = false;
        while self.shared.receive_end.get().is_none() {
            let space = self.room().min(scratch.len());
            if space == 0 {
                break;
            }
            match host.recv(socket, &mut scratch[..space]) {
                Ok(Recv::Data(count)) => {
                    self.incoming
                        .push_entire_slice(&scratch[..count])
                        .expect("only the reader changes the room, upward");
                    moved = true;
                }
                Ok(Recv::Empty) => break,
                Ok(Recv::EndOfStream) => self.shared.end_receiving(Ok(())),
                Err(_) => match self.shared.send_end.get() {
                    Some(why) => self.shared.end_receiving(Err(*why)),
                    // The event that tells why is on its way.
                    None => break,
                },
            }
        }
        if moved {
            self.shared.reader.wake();
        }
    }

    /// Room in the receive ring. If there is none, the reader will ask for attention.
    fn room(&self) -> usize {
        match self.incoming.slots() {
            0 => {
                // Looked at again after the flag is set: the reader looks at the flag after it has
                // made room.
                self.shared.full.swap(true, Ordering::AcqRel);
                self.incoming.slots()
            }
            room => room,
        }
    }

    /// What the application's handles, or their absence, mean for the connection.
    pub(super) fn fate(&self) -> Fate {
        let released = self.outgoing.is_abandoned() && self.incoming.is_abandoned();
        let unread = self.incoming.slots() < self.incoming.buffer().capacity();
        let over = self.shared.send_end.get().is_some();
        if self.shared.abort.load(Ordering::Acquire)
            || (released && (unread || self.shared.settings.resets()))
        {
            Fate::Reset
        } else if (released && (over || self.outgoing.is_empty()))
            || (over && self.shared.receive_end.get().is_some())
        {
            Fate::Close
        } else {
            Fate::Open
        }
    }
}

impl Drop for HostEnd {
    fn drop(&mut self) {
        self.shared.fail(Failure::HostGone);
    }
}
