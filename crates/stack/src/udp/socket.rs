//! [`UdpSocket`]: one datagram socket.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use tautline_base::{Bytes, Credit, Ecn, SocketId};

use super::queue::{Datagrams, Pieces};
use super::{Datagram, SendError, UdpConfig, UdpInfo, UdpRecv};
use crate::socket::PathError;
use crate::wire::ip_header_len;
use crate::wire::udp::UDP_HEADER;

/// Most datagrams that wait for the hardware address of their next hop (Linux `unres_qlen` holds
/// 101 packets a neighbor; here it is for all neighbors of a socket).
const MOST_ASIDE: usize = 64;

/// Ends and ECN field of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) broadcast: bool,
    pub(crate) ecn: Ecn,
}

/// Membership of a socket in the host's queues.
#[derive(Debug, Default)]
pub(crate) struct QueueLinks {
    /// On the run queue.
    pub(crate) queued: bool,
    /// Waiting for a free frame.
    pub(crate) starved: bool,
}

/// Pending notifications of the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingEvents {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// One socket.
#[derive(Debug)]
pub(crate) struct UdpSocket {
    pub(crate) id: SocketId,
    /// An unspecified address means all of ours: of IPv4 if it is IPv4's, of both families if it is
    /// IPv6's.
    pub(crate) local: SocketAddr,
    pub(crate) config: UdpConfig,
    pub(crate) links: QueueLinks,
    pub(crate) pending: PendingEvents,
    /// The application has closed it: queued datagrams are still sent.
    pub(crate) orphan: bool,
    remote: Option<SocketAddr>,
    outgoing: Datagrams<Label>,
    /// Datagrams whose next hop is not known yet.
    aside: Datagrams<Label>,
    /// Number of those to try again.
    retry: usize,
    /// From, to, ECN field.
    incoming: Datagrams<(SocketAddr, SocketAddr, Ecn)>,
    /// Outgoing bytes, in the socket and below it; then those below it only.
    sending: u64,
    below: u64,
    throttled: bool,
    failure: Option<PathError>,
    wants_room: bool,
    wants_data: bool,
    totals: UdpInfo,
}

/// Bytes charged for an outgoing datagram.
fn cost(label: &Label, len: usize) -> u64 {
    (ip_header_len(label.to.ip()) + UDP_HEADER + len) as u64
}

impl UdpSocket {
    pub(crate) fn new(id: SocketId, local: SocketAddr, config: UdpConfig) -> Self {
        Self {
            id,
            local,
            config,
            links: QueueLinks::default(),
            pending: PendingEvents::default(),
            orphan: false,
            remote: None,
            outgoing: Datagrams::default(),
            aside: Datagrams::default(),
            retry: 0,
            incoming: Datagrams::default(),
            sending: 0,
            below: 0,
            throttled: false,
            failure: None,
            wants_room: false,
            wants_data: true,
            totals: UdpInfo::default(),
        }
    }

    /// Receives only from `remote`, and sends to it by default.
    pub(crate) fn connect(&mut self, remote: SocketAddr) {
        self.remote = Some(remote);
    }

    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Queues a datagram.
    pub(crate) fn send(&mut self, label: Label, payload: &[u8]) -> Result<(), SendError> {
        let cost = cost(&label, payload.len());
        // An empty socket takes any datagram, or a small buffer would never let one go.
        if self.sending > 0 && self.sending + cost > self.config.send_buffer.get() {
            self.wants_room = true;
            return Err(SendError::Full);
        }
        self.sending += cost;
        self.outgoing.push(label, (payload, &[]));
        Ok(())
    }

    /// Reads a received datagram.
    pub(crate) fn recv(&mut self, out: &mut [u8]) -> UdpRecv {
        if let Some(failure) = self.failure.take() {
            return UdpRecv::Failed(failure);
        }
        let Some(((from, to, ecn), (front, back))) = self.incoming.front() else {
            self.wants_data = true;
            return UdpRecv::Empty;
        };
        let whole = front.len() + back.len();
        let len = whole.min(out.len());
        let split = len.min(front.len());
        out[..split].copy_from_slice(&front[..split]);
        out[split..len].copy_from_slice(&back[..len - split]);
        self.incoming.pop();
        UdpRecv::Datagram(Datagram {
            len,
            whole,
            from,
            to,
            ecn,
        })
    }

    /// Whether a datagram from `source` to `destination`, perhaps a `broadcast`, is for this
    /// socket.
    pub(crate) fn accepts(&self, source: SocketAddr, destination: IpAddr, broadcast: bool) -> bool {
        let local = self.local.ip();
        let all = local.is_unspecified() && (local.is_ipv6() || destination.is_ipv4());
        let here = if broadcast {
            all && self.config.broadcast
        } else {
            all || local == destination
        };
        here && self.remote.is_none_or(|remote| remote == source)
    }

    /// A datagram has arrived.
    pub(crate) fn deliver(&mut self, from: SocketAddr, to: SocketAddr, ecn: Ecn, payload: &[u8]) {
        let full = self.incoming.len() >= self.config.receive_datagrams
            || self.incoming.bytes() + payload.len() > self.config.receive_buffer.as_usize();
        if full {
            self.totals.overflowed += 1;
            return;
        }
        self.totals.received += 1;
        self.incoming.push((from, to, ecn), (payload, &[]));
        self.notice_data();
    }

    /// Records an ICMP error about an earlier datagram: the next call returns it (Linux
    /// `SO_ERROR`).
    pub(crate) fn fail(&mut self, failure: PathError) {
        self.failure = Some(failure);
        self.notice_data();
    }

    /// Takes the pending error of an earlier datagram.
    pub(crate) fn take_failure(&mut self) -> Option<PathError> {
        self.failure.take()
    }

    fn notice_data(&mut self) {
        self.pending.readable |= std::mem::replace(&mut self.wants_data, false);
    }

    /// The next datagram, unless the limit below the socket is reached: then the completion of one
    /// of the socket's packets makes it runnable again.
    pub(crate) fn next(&mut self) -> Option<(Label, Pieces<'_>)> {
        let front = if self.retry > 0 {
            self.aside.front()
        } else {
            self.outgoing.front()
        };
        // The test precedes the charge, so one datagram may overshoot, as with TCP Small Queues.
        if front.is_some()
            && self.below > 0
            && self
                .config
                .below
                .is_some_and(|limit| self.below > limit.get())
        {
            self.totals.throttles += u64::from(!std::mem::replace(&mut self.throttled, true));
            return None;
        }
        front
    }

    /// Sends the datagram that [`next`](Self::next) returned; its credit travels in the packet.
    pub(crate) fn departed(&mut self) -> Option<Credit> {
        let from = if self.retry > 0 {
            &mut self.aside
        } else {
            &mut self.outgoing
        };
        self.retry = self.retry.saturating_sub(1);
        let len = from
            .front()
            .map(|(_, (front, back))| front.len() + back.len())?;
        let cost = cost(&from.pop()?, len);
        self.below += cost;
        self.totals.sent += 1;
        NonZeroU32::new(u32::try_from(cost).unwrap_or(u32::MAX)).map(Credit::new)
    }

    /// Sets the datagram that [`next`](Self::next) returned aside until its next hop resolves, so
    /// that others need not wait for it.
    pub(crate) fn set_aside(&mut self) {
        let from = if self.retry > 0 {
            &mut self.aside
        } else {
            &mut self.outgoing
        };
        let Some((label, (front, back))) = from.front() else {
            return;
        };
        let payload = [front, back].concat();
        from.pop();
        self.retry = self.retry.saturating_sub(1);
        self.aside.push(label, (&payload, &[]));
        if self.aside.len() > MOST_ASIDE {
            self.give_up_one_aside();
        }
    }

    /// Datagrams wait for their next hop.
    pub(crate) fn has_aside(&self) -> bool {
        self.aside.len() > 0
    }

    /// A next hop may have resolved.
    pub(crate) fn try_again(&mut self) {
        self.retry = self.aside.len();
    }

    /// A next hop did not resolve: discards the waiting datagrams whose destination `is_behind` it. The
    /// others look up theirs again.
    pub(crate) fn drop_aside(&mut self, is_behind: impl Fn(IpAddr) -> bool) {
        let before = self.aside.len();
        for _ in 0..before {
            let Some((label, (front, back))) = self.aside.front() else {
                break;
            };
            if is_behind(label.to.ip()) {
                self.give_up_one_aside();
            } else {
                let payload = [front, back].concat();
                self.aside.pop();
                self.aside.push(label, (&payload, &[]));
            }
        }
        if self.aside.len() < before {
            self.note(PathError::HostUnreachable);
        }
        self.try_again();
    }

    /// Discards the datagram that [`next`](Self::next) returned: no way leads to its destination, its
    /// source is not this host's any more, or the link carries less than before. The application
    /// learns `why` if the socket has one peer only.
    pub(crate) fn discard(&mut self, why: PathError) {
        let from = if self.retry > 0 {
            &mut self.aside
        } else {
            &mut self.outgoing
        };
        let Some((label, (front, back))) = from.front() else {
            return;
        };
        let cost = cost(&label, front.len() + back.len());
        from.pop();
        self.retry = self.retry.saturating_sub(1);
        self.on_discarded(cost);
        self.note(why);
    }

    fn note(&mut self, why: PathError) {
        if self.remote.is_some() {
            self.fail(why);
        }
    }

    fn on_discarded(&mut self, cost: u64) {
        self.sending -= cost;
        self.totals.unresolved += 1;
        self.notice_room();
    }

    fn give_up_one_aside(&mut self) {
        let Some((label, (front, back))) = self.aside.front() else {
            return;
        };
        let cost = cost(&label, front.len() + back.len());
        self.aside.pop();
        self.retry = self.retry.min(self.aside.len());
        self.on_discarded(cost);
    }

    /// Settles a packet that left the host or was dropped in it. Returns true if the socket may
    /// send again.
    pub(crate) fn release(&mut self, credit: &Credit, sent: bool) -> bool {
        let cost = u64::from(credit.bytes());
        self.below = self.below.saturating_sub(cost);
        self.sending = self.sending.saturating_sub(cost);
        self.totals.local_drops += u64::from(!sent);
        self.notice_room();
        std::mem::take(&mut self.throttled)
    }

    /// Notifies the application once half of the buffer is free.
    fn notice_room(&mut self) {
        if self.wants_room && self.sending <= self.config.send_buffer.get() / 2 {
            self.wants_room = false;
            self.pending.writable = true;
        }
    }

    /// Whether the socket is closed and all its datagrams have left the host.
    pub(crate) fn finished(&self) -> bool {
        self.orphan && self.outgoing.len() + self.aside.len() == 0
    }

    /// A snapshot.
    pub(crate) fn info(&self) -> UdpInfo {
        UdpInfo {
            sending: Bytes::new(self.sending),
            below: Bytes::new(self.below),
            unread: Bytes::new(self.incoming.bytes() as u64),
            ..self.totals
        }
    }
}
