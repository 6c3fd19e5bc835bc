//! Shared state of a connection, and the host's end of it, which moves bytes between the rings and
//! the host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tautline_base::{Bytes, Device, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{CloseReason, Host, Keepalive, Recv, SocketOption, TcpConfig, Tracer};

use super::byte_queue::{self, ByteQueue, ByteReceiver, ByteSender};
use super::notify::{Notified, NotifyFlag};
use super::waiters::Waiters;
use super::{Failure, StackHandle};

/// State of a connection that both threads access.
#[derive(Debug)]
pub(super) struct Shared {
    notify_flag: NotifyFlag,
    pub(super) peer: SocketAddr,
    /// The local address, once the host has assigned it.
    local: OnceLock<(IpAddr, u16)>,
    pub(super) settings: Settings,
    /// The handshake is complete.
    pub(super) open: AtomicBool,
    /// The application requested a reset.
    pub(super) abort: AtomicBool,
    /// The host found the receive ring full: the reader notifies it once there is space.
    pub(super) full: AtomicBool,
    /// A peek found fewer bytes than it asked for and room for more: the host fills the receive ring.
    pub(super) is_peeked: AtomicBool,
    pub(super) reader: Waiters,
    pub(super) writer: Waiters,
    /// A call has returned the reason of the failure.
    reported: AtomicBool,
    send_end: OnceLock<Box<Failure>>,
    receive_end: OnceLock<Result<(), Box<Failure>>>,
    /// Bytes that the application has written.
    written: ByteQueue,
    /// Bytes that the host has received.
    received: ByteQueue,
}

/// Points to [`Shared::written`].
#[derive(Debug)]
pub(super) struct Written(Arc<Shared>);

impl Deref for Written {
    type Target = ByteQueue;

    fn deref(&self) -> &ByteQueue {
        &self.0.written
    }
}

/// Points to [`Shared::received`].
#[derive(Debug)]
pub(super) struct Received(Arc<Shared>);

impl Deref for Received {
    type Target = ByteQueue;

    fn deref(&self) -> &ByteQueue {
        &self.0.received
    }
}

impl Notified for Shared {
    fn notify_flag(&self) -> &NotifyFlag {
        &self.notify_flag
    }
}

impl Shared {
    /// Ends writing. The first reason stays.
    pub(super) fn end_sending(&self, why: Failure) {
        let _ = self.send_end.set(Box::new(why));
        self.writer.wake();
    }

    /// The host has closed the connection. Behind the peer's FIN a reset says that the peer does not take our
    /// data any more: as in Linux (`tcp_reset` in CLOSE-WAIT), the pipe is broken.
    pub(super) fn closed(&self, why: CloseReason) {
        let has_fin = matches!(self.receive_end(), Some(Ok(())));
        self.end_sending(match why {
            CloseReason::Reset if has_fin => Failure::Broken(why),
            why => Failure::Closed(why),
        });
    }

    /// Ends receiving after the bytes in the receive ring. The first reason stays.
    fn end_receiving(&self, how: Result<(), Failure>) {
        let _ = self.receive_end.set(how.map_err(Box::new));
        self.reader.wake();
    }

    /// Why writing has ended.
    pub(super) fn send_end(&self) -> Option<Failure> {
        self.send_end.get().map(|why| **why)
    }

    /// How receiving ends after the bytes in the receive ring.
    pub(super) fn receive_end(&self) -> Option<Result<(), Failure>> {
        let end = self.receive_end.get()?;
        Some(end.as_ref().copied().map_err(|why| **why))
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local
            .get()
            .map(|local| SocketAddr::from(*local))
            .ok_or_else(|| Failure::NotOpen.into())
    }

    /// Result of a call at the end of the connection; marks a failure as reported.
    pub(super) fn report(&self, end: Result<(), Failure>) -> io::Result<()> {
        if end.is_err() {
            self.reported.store(true, Ordering::Relaxed);
        }
        Ok(end?)
    }

    /// Result of a write after the end: the reason at first, a broken pipe later.
    pub(super) fn fail_again<T>(&self, why: Failure) -> io::Result<T> {
        let reported = self.reported.swap(true, Ordering::Relaxed);
        Err(match why {
            Failure::Closed(why) if reported => Failure::Broken(why),
            why => why,
        }
        .into())
    }

    /// Why the connection failed, unless a call has returned it before.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        let failure = self
            .send_end()
            .filter(|why| *why != Failure::Closed(CloseReason::Finished))?;
        (!self.reported.swap(true, Ordering::Relaxed)).then_some(failure)
    }

    /// Fails both halves.
    pub(super) fn fail(&self, why: Failure) {
        self.end_receiving(Err(why));
        self.end_sending(why);
    }
}

/// The option values last set through the handles; most connections keep those of their parameters.
#[derive(Debug)]
pub(super) struct Settings {
    tcp: Arc<TcpConfig>,
    changed: Mutex<Option<Box<Values>>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub(super) nodelay: bool,
    pub(super) linger: Option<Duration>,
    pub(super) keepalive: Option<Keepalive>,
}

impl Settings {
    pub(super) fn values(&self) -> Values {
        match &*self.changed() {
            Some(values) => **values,
            None => self.initial(),
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Values)) {
        let initial = || Box::new(self.initial());
        change(self.changed().get_or_insert_with(initial));
    }

    fn initial(&self) -> Values {
        let tcp = &self.tcp;
        Values {
            nodelay: !tcp.nagle,
            linger: tcp.linger,
            keepalive: tcp.keepalive,
        }
    }

    fn changed(&self) -> MutexGuard<'_, Option<Box<Values>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether dropping the connection resets it.
    fn resets(&self) -> bool {
        self.values().linger == Some(Duration::ZERO)
    }
}

/// The application's end of a connection: [`TcpStream`](super::TcpStream) without its
/// [`StackHandle`](super::StackHandle).
#[derive(Debug)]
pub(super) struct AppEnd {
    pub(super) shared: Arc<Shared>,
    pub(super) read: ByteReceiver<Received>,
    pub(super) write: ByteSender<Written>,
}

/// Both ends of a new connection to `peer`.
pub(super) fn pair(
    stack: &StackHandle,
    peer: SocketAddr,
    tcp: &Arc<TcpConfig>,
) -> (AppEnd, HostEnd) {
    let (config, budget) = (stack.config(), &stack.0.budget);
    let shared = Arc::new(Shared {
        notify_flag: NotifyFlag::default(),
        peer,
        local: OnceLock::new(),
        settings: Settings {
            tcp: Arc::clone(tcp),
            changed: Mutex::default(),
        },
        open: AtomicBool::new(false),
        abort: AtomicBool::new(false),
        full: AtomicBool::new(false),
        is_peeked: AtomicBool::new(false),
        reader: Waiters::default(),
        writer: Waiters::default(),
        reported: AtomicBool::new(false),
        send_end: OnceLock::new(),
        receive_end: OnceLock::new(),
        written: ByteQueue::new(config.send_ring.get(), budget),
        received: ByteQueue::new(config.receive_ring.get(), budget),
    });
    let again = || Arc::clone(&shared);
    let (write, outgoing) = byte_queue::ends(Written(again()), Written(again()));
    let (incoming, read) = byte_queue::ends(Received(again()), Received(again()));
    (
        AppEnd {
            shared: Arc::clone(&shared),
            read,
            write,
        },
        HostEnd {
            shared,
            outgoing,
            incoming,
        },
    )
}

/// The host's end of a connection. Dropping it ends the connection with [`Failure::HostGone`],
/// unless it has ended before.
#[derive(Debug)]
pub(super) struct HostEnd {
    pub(super) shared: Arc<Shared>,
    /// Abandoned once the application has shut down its sending half.
    outgoing: ByteReceiver<Written>,
    /// Abandoned once the application has dropped its receiving half.
    incoming: ByteSender<Received>,
}

/// The host's next step for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    /// It is over, or the host can close it alone.
    Close,
    Reset,
}

impl HostEnd {
    /// Publishes the connection's id (see [`NotifyFlag::set_socket`]) and local address.
    pub(super) fn set_socket(&self, socket: SocketId, local: Option<SocketAddr>) {
        if let Some(local) = local {
            // Set only here.
            let _ = self.shared.local.set((local.ip(), local.port()));
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

    /// Moves written bytes to the host. A FIN follows the last byte. Returns false if the application has
    /// dropped the connection, and the host has no memory for what is left of it.
    pub(super) fn forward<Q, D, T, L>(
        &mut self,
        socket: SocketId,
        host: &mut Host<Q, D, T, L>,
    ) -> bool
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        // Read before the ring: the application wrote the last byte before it dropped the ring.
        let last = self.outgoing.is_abandoned();
        let mut moved = self.push(socket, host);
        // Both halves are dropped: the rest of the ring moves to the host, so that it can close the connection,
        // and the linger time and the limits of orphans apply.
        let mut is_refused = false;
        if last && self.incoming.is_abandoned() && !self.outgoing.is_empty() {
            for option in [
                SocketOption::SendBuffer(Bytes::MAX),
                SocketOption::NotsentLowat(None),
            ] {
                // Fails only if the connection is over.
                let _ = host.set_option(socket, option);
            }
            moved |= self.push(socket, host);
            is_refused = !self.outgoing.is_empty() && self.shared.send_end().is_none();
        }
        // A task woken for each segment acknowledged would write as little and wake the host.
        if moved && self.outgoing.is_half_empty() {
            self.shared.writer.wake();
        }
        if last && self.outgoing.is_empty() {
            // Fails only if the connection is over; its event is on the way.
            let _ = host.shutdown(socket);
        }
        !is_refused
    }

    /// Moves written bytes to the host as far as it has room. True if it took some.
    fn push<Q, D, T, L>(&mut self, socket: SocketId, host: &mut Host<Q, D, T, L>) -> bool
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let mut moved = false;
        loop {
            let len = self.outgoing.chunk().len();
            // An empty write would cancel the `Writable` event.
            if len == 0 {
                break;
            }
            // Bytes that a closed connection refuses stay in the ring.
            let own = |bytes: &mut bytes::Bytes| host.tcp(socket)?.send_owned(bytes);
            let taken = match self.outgoing.lend(own) {
                Some(taken) => taken.unwrap_or(0),
                None => {
                    let taken = host.send(socket, self.outgoing.chunk()).unwrap_or(0);
                    self.outgoing.consume(taken);
                    taken
                }
            };
            moved |= taken > 0;
            if taken < len {
                break;
            }
        }
        moved
    }

    /// Moves received bytes to the application, through `scratch` if they must be copied. A packet
    /// that is not copied enters the ring whole if half of it fits; one no longer than the ring waits for
    /// that, which is at the latest when half of the ring is free. A reader that peeks frees nothing: for one
    /// that wants more, the ring is filled with copies.
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
        let is_peeked = self.shared.is_peeked.swap(false, Ordering::AcqRel);
        let mut moved = false;
        while self.shared.receive_end().is_none() {
            let room = self.room();
            if room == 0 {
                break;
            }
            let capacity = self.incoming.capacity();
            let mut waits = false;
            let fits = |len: usize| {
                let half_fits = len.div_ceil(2) <= room;
                waits = len <= capacity && !half_fits && !is_peeked;
                len <= capacity && half_fits
            };
            if let Ok(Some(packet)) = host.tcp(socket).and_then(|mut tcp| tcp.recv_owned(fits)) {
                self.incoming.push_owned(packet);
                moved = true;
                continue;
            }
            if waits && self.waits_for_half() {
                break;
            }
            let space = room.min(scratch.len());
            match host.recv(socket, &mut scratch[..space]) {
                Ok(Recv::Data(count)) => {
                    // Others may have spent the budget meanwhile; the bytes are here already.
                    self.incoming.push_all(&scratch[..count]);
                    moved = true;
                }
                Ok(Recv::Empty) => break,
                Ok(Recv::EndOfStream) => self.shared.end_receiving(Ok(())),
                Err(_) => match self.shared.send_end() {
                    Some(why) => self.shared.end_receiving(Err(why)),
                    // The `Closed` event with the reason is on its way.
                    None => break,
                },
            }
        }
        if moved {
            self.shared.reader.wake();
        }
    }

    /// Whether more than half of the receive ring is unread. The reader will notify the host once it is not.
    fn waits_for_half(&self) -> bool {
        self.shared.full.swap(true, Ordering::AcqRel);
        !self.incoming.is_half_empty()
    }

    /// Room in the receive ring. If it is full, the reader will notify the host.
    fn room(&self) -> usize {
        match self.incoming.room() {
            0 => {
                // Checked again after setting the flag: the reader checks the flag after freeing
                // space.
                self.shared.full.swap(true, Ordering::AcqRel);
                self.incoming.room()
            }
            room => room,
        }
    }

    /// The next step, from the state of the application's handles.
    pub(super) fn fate(&mut self) -> Fate {
        let released = self.outgoing.is_abandoned() && self.incoming.is_abandoned();
        let unread = self.incoming.has_unread();
        let over = self.shared.send_end().is_some();
        if self.shared.abort.load(Ordering::Acquire)
            || (released && (unread || self.shared.settings.resets()))
        {
            Fate::Reset
        } else if (released && (over || self.outgoing.is_empty()))
            || (over && self.shared.receive_end().is_some())
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
