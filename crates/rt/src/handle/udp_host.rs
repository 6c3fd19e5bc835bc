//! The host's end of a [`UdpSocket`](super::UdpSocket).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tautline_base::{Device, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{Host, SendError, SendOptions, Tracer, UdpConfig, UdpRecv};

use super::Failure;
use super::datagram_ring::{DatagramReceiver, DatagramSender, Ends, First};
use super::notify::{Notified, NotifyFlag};
use super::waiters::Waiters;

/// Longest IP packet.
pub(super) const LONGEST: usize = 65_535;

/// State of a socket that both threads see.
#[derive(Debug, Default)]
pub(super) struct Shared {
    notify_flag: NotifyFlag,
    pub(super) reader: Waiters,
    pub(super) writer: Waiters,
    pub(super) bound: OnceLock<Bound>,
    /// The address that the socket is connected to.
    pub(super) remote: Mutex<Option<SocketAddr>>,
    /// The host found the receive ring full: the reader notifies it once there is space.
    pub(super) full: AtomicBool,
    /// `error` may be set.
    pub(super) has_error: AtomicBool,
    /// The error of an earlier datagram.
    error: Mutex<Option<Failure>>,
    /// Why the socket ended.
    pub(super) end: OnceLock<Failure>,
}

/// The host's description of a bound socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) local: SocketAddr,
    pub(super) longest_v4: usize,
    pub(super) longest_v6: usize,
}

impl Notified for Shared {
    fn notify_flag(&self) -> &NotifyFlag {
        &self.notify_flag
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn set_error(&self, error: Failure) {
        *lock(&self.error) = Some(error);
        self.has_error.store(true, Ordering::Release);
        self.reader.wake();
        self.writer.wake();
    }

    pub(super) fn take_error(&self) -> Option<Failure> {
        self.has_error.load(Ordering::Acquire).then(|| {
            self.has_error.store(false, Ordering::Relaxed);
            lock(&self.error).take()
        })?
    }

    fn end(&self, why: Failure) {
        let _ = self.end.set(why);
        self.reader.wake();
        self.writer.wake();
    }
}

/// A request to bind a socket.
#[derive(Debug)]
pub(super) struct Bind {
    /// `None`: every address and port.
    pub(super) local: Option<SocketAddr>,
    pub(super) udp: UdpConfig,
    pub(super) end: HostEnd,
}

/// The host's end of a socket. Dropping it ends the socket with [`Failure::HostGone`], unless it
/// has ended before.
#[derive(Debug)]
pub(super) struct HostEnd {
    pub(super) shared: Arc<Shared>,
    pub(super) outgoing: DatagramReceiver,
    pub(super) incoming: DatagramSender,
    /// Bound to every address and port.
    pub(super) is_everywhere: bool,
}

impl HostEnd {
    /// Publishes that the host has bound the socket as `socket`.
    pub(super) fn bound(
        &self,
        socket: SocketId,
        local: SocketAddr,
        (longest_v4, longest_v6): (usize, usize),
    ) {
        self.shared.notify_flag.set_socket(socket);
        // Set only here.
        let _ = self.shared.bound.set(Bound {
            local,
            longest_v4,
            longest_v6,
        });
        self.shared.writer.wake();
    }

    /// Publishes the address that the host has connected the socket to.
    pub(super) fn connected(&self, remote: SocketAddr) {
        *lock(&self.shared.remote) = Some(remote);
    }

    /// Fails the request.
    pub(super) fn refuse(&self, why: Failure) {
        self.shared.end(why);
    }

    /// Reports the error of one datagram. A socket that is bound everywhere serves many peers, and the next
    /// caller is rarely the sender: there the datagram is dropped.
    fn fail_one(&self, why: Failure) {
        if !self.is_everywhere {
            self.shared.set_error(why);
        }
    }

    /// See [`NotifyFlag::clear`].
    pub(super) fn clear_notification(&self) {
        self.shared.notify_flag.clear();
    }

    /// Moves datagrams both ways through `scratch`. Returns false once the application has dropped
    /// the socket and the host has all its datagrams.
    pub(super) fn serve<Q, D, T, L>(
        &mut self,
        socket: SocketId,
        host: &mut Host<Q, D, T, L>,
        scratch: &mut [u8],
    ) -> bool
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        // Read before the ring: the application pushed the last datagram before it dropped the ring.
        let released = self.outgoing.is_abandoned();
        let mut moved = false;
        while let Some(First { ends, copied, .. }) = self.outgoing.peek(scratch) {
            let options = SendOptions {
                from: ends.local,
                to: Some(ends.remote),
                ecn: ends.ecn,
            };
            match host.udp().send_with(socket, &scratch[..copied], options) {
                // A `Writable` event follows.
                Err(SendError::Full) => break,
                // The error of an earlier datagram; this one is tried again.
                Err(SendError::Path(why)) => {
                    self.fail_one(Failure::Path(why));
                    continue;
                }
                Ok(()) => {}
                Err(why) => self.fail_one(Failure::Send(why)),
            }
            self.outgoing.pop();
            moved = true;
        }
        if moved {
            self.shared.writer.wake();
        }
        self.fetch(socket, host, scratch);
        !(released && self.outgoing.is_empty())
    }

    fn fetch<Q, D, T, L>(
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
        if self.incoming.is_abandoned() {
            return;
        }
        let longest = self
            .shared
            .bound
            .get()
            .map_or(LONGEST, |bound| bound.longest_v4)
            .min(scratch.len());
        let mut moved = false;
        loop {
            if !self.incoming.fits(longest) {
                // Checked again after setting the flag: the reader checks the flag after freeing
                // space.
                self.shared.full.swap(true, Ordering::AcqRel);
                if !self.incoming.fits(longest) {
                    break;
                }
            }
            match host.udp().recv_from(socket, &mut scratch[..longest]) {
                Ok(UdpRecv::Datagram(datagram)) => {
                    let ends = Ends {
                        remote: datagram.from,
                        local: Some(datagram.to),
                        ecn: datagram.ecn,
                    };
                    moved |= self.incoming.push(ends, &scratch[..datagram.len])
                }
                Ok(UdpRecv::Failed(why)) => self.fail_one(Failure::Path(why)),
                Ok(UdpRecv::Empty) | Err(_) => break,
            }
        }
        if moved {
            self.shared.reader.wake();
        }
    }
}

impl Drop for HostEnd {
    fn drop(&mut self) {
        self.shared.end(Failure::HostGone);
    }
}
