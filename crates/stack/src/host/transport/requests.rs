//! [`Requests`]: SYNs that wait for their application's answer.

use std::collections::{HashMap, VecDeque};

use tautline_base::{Instant, SocketId};

use super::Transport;
use crate::keyed::Key;
use crate::socket::Event;
use crate::sockets::{Request, Socket};
use crate::tcp::Tuple;

/// The requests of all deferred listeners, bounded by [`Limits::requests`](crate::Limits::requests).
#[derive(Debug)]
pub(in crate::host) struct Requests {
    table: HashMap<Tuple, SocketId, Key>,
    /// Deadlines, oldest first; answered requests leave their entry until it comes up.
    deadlines: VecDeque<(Instant, SocketId)>,
    /// Bytes of the frames that are longer than [`BARE`].
    long: usize,
}

/// Bytes of a frame whose SYN has no data, at most: headers of Ethernet with a tag, IPv6, and TCP with all
/// of its options.
const BARE: usize = 14 + 4 + 40 + 60;

/// Bytes of `frame` in [`Requests::long`].
fn long(frame: &[u8]) -> usize {
    if frame.len() > BARE { frame.len() } else { 0 }
}

impl Requests {
    pub(in crate::host) fn new(key: Key) -> Self {
        Self {
            table: HashMap::with_hasher(key),
            deadlines: VecDeque::new(),
            long: 0,
        }
    }

    /// The earliest deadline, or one before it.
    pub(in crate::host) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(at, _)| *at)
    }
}

impl Transport {
    /// Holds the SYN in `frame` for the application of a deferred listener. A SYN that was sent again
    /// takes the place of the one before. With a bound reached the SYN is dropped: the peer sends it
    /// again, and one with data of Fast Open without it (RFC 7413 §4.2.1).
    pub(in crate::host) fn hold(
        &mut self,
        listener: SocketId,
        tuple: Tuple,
        frame: &[u8],
        isn: Option<u32>,
        now: Instant,
    ) {
        let limits = self.memory.limits();
        let held = self.requests.table.get(&tuple).copied();
        let held = held.and_then(|id| self.sockets.request_mut(id));
        let replaced = held.as_ref().map_or(0, |held| long(&held.frame));
        let bytes = self.requests.long - replaced + long(frame);
        let is_long = long(frame) > 0 && bytes > limits.requests.saturating_mul(BARE);
        if let Some(held) = held {
            if !is_long {
                held.frame = frame.into();
                self.requests.long = bytes;
            }
            return;
        }
        if is_long || self.requests.table.len() >= limits.requests {
            self.stats.backlog_full += 1;
            self.stats.backlog_refused += 1;
            return;
        }
        let deadline = now + limits.request_deadline;
        let Some(at) = self.sockets.listener_mut(listener) else {
            return;
        };
        at.waiting += 1;
        let request = Request {
            listener,
            tuple,
            frame: frame.into(),
            isn,
        };
        let id = self.sockets.insert(|_| Socket::Request(Box::new(request)));
        self.requests.table.insert(tuple, id);
        self.requests.long = bytes;
        self.requests.deadlines.push_back((deadline, id));
        self.shed_answered();
        let event = Event::Requested {
            listener,
            request: id,
        };
        self.events.push_back(event);
    }

    /// Takes a request out of the tables, to be answered.
    pub(in crate::host) fn take_request(&mut self, id: SocketId) -> Option<Request> {
        self.sockets.request(id)?;
        let Some(Socket::Request(request)) = self.sockets.remove(id) else {
            return None;
        };
        self.requests.table.remove(&request.tuple);
        self.requests.long -= long(&request.frame);
        Some(*request)
    }

    /// Drops the requests whose deadline has passed.
    pub(super) fn expire_requests(&mut self, now: Instant) {
        while let Some((at, id)) = self.requests.deadlines.front().copied() {
            if at > now {
                return;
            }
            self.requests.deadlines.pop_front();
            self.take_request(id);
        }
    }

    /// Drops the requests of a listener that is removed.
    pub(super) fn drop_requests(&mut self, listener: SocketId) {
        let of_listener = |id: &SocketId| {
            let request = self.sockets.request(*id);
            request.is_some_and(|request| request.listener == listener)
        };
        let ids: Vec<_> = self.requests.table.values().copied().collect();
        for id in ids.into_iter().filter(of_listener).collect::<Vec<_>>() {
            self.take_request(id);
        }
    }

    /// Keeps the deadlines of answered requests fewer than those of the others, or few.
    fn shed_answered(&mut self) {
        const FEW: usize = 64;
        if self.requests.deadlines.len() > FEW + 2 * self.requests.table.len() {
            let sockets = &self.sockets;
            let is_held = |(_, id): &(Instant, SocketId)| sockets.request(*id).is_some();
            self.requests.deadlines.retain(is_held);
        }
    }
}
