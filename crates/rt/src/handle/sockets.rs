//! [`Sockets`]: the host's side of all handles. The cost of a turn is linear in the number of
//! sockets with work.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use tautline_base::{Device, Instant, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{CloseReason, Event, Host, Rejection, Tracer};

use super::command::{Command, Connect};
use super::connection::{self, Fate};
use super::oneshot::Reply;
use super::{Failure, Fixed, Rebuild, listener_host, udp_host};
use crate::application::{Application, Next};
use crate::log;

/// Most commands per turn, so that a busy application does not starve the host's packets.
const COMMANDS: usize = 256;
/// Most bytes per read from the host.
const SCRATCH: usize = 64 << 10;

/// The host's end of all handles, an [`Application`] of the host's event loop. Dropping it fails
/// every handle with [`Failure::HostGone`].
///
/// It ignores sockets that were opened on the host directly: an application may own a `Sockets` and
/// forward events and turns to it.
#[derive(Debug)]
pub struct Sockets<B = Fixed> {
    commands: Receiver<Command>,
    rebuild: B,
    /// Their end is that of the host.
    ends: Vec<Reply<Infallible>>,
    /// Indexed by the socket's index.
    slots: Vec<Option<Slot>>,
    scratch: Box<[u8]>,
}

#[derive(Debug)]
struct Slot {
    id: SocketId,
    end: End,
}

#[derive(Debug)]
enum End {
    Connection(connection::HostEnd),
    Listener(Box<listener_host::HostEnd>),
    Udp(Box<udp_host::HostEnd>),
}

impl Sockets {
    pub(super) fn new(commands: Receiver<Command>) -> Self {
        Self {
            commands,
            rebuild: Fixed,
            ends: Vec::new(),
            slots: Vec::new(),
            scratch: vec![0; SCRATCH].into(),
        }
    }
}

impl<B> Sockets<B> {
    /// Lets [`StackHandle::set_qdisc`](super::StackHandle::set_qdisc) replace the host's qdisc.
    #[must_use]
    pub fn rebuilding<R>(self, rebuild: R) -> Sockets<R> {
        let Self {
            commands,
            ends,
            slots,
            scratch,
            ..
        } = self;
        Sockets {
            commands,
            rebuild,
            ends,
            slots,
            scratch,
        }
    }

    /// Resets every connection that the application still holds and closes every listener. Called before the
    /// host stops, so that peers notice. What the application has dropped goes on to be delivered.
    pub fn abort_all<Q, D, T, L>(&mut self, host: &mut Host<Q, D, T, L>, now: Instant)
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
        B: Rebuild<Q>,
    {
        // It may have dropped a stream since the last turn, or written to it.
        while let Ok(command) = self.commands.try_recv() {
            self.handle_command(command, host, now);
        }
        for Slot { id, .. } in std::mem::take(&mut self.slots).into_iter().flatten() {
            reset(id, host, now);
        }
    }

    fn handle_command<Q, D, T, L>(
        &mut self,
        command: Command,
        host: &mut Host<Q, D, T, L>,
        now: Instant,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
        B: Rebuild<Q>,
    {
        match command {
            Command::Connect(connect) => {
                let Connect { local, tcp, end } = *connect;
                match host.connect_from(local, end.shared.peer, tcp, now) {
                    Ok(id) => {
                        end.set_socket(id, host.local(id));
                        self.insert(id, End::Connection(end));
                        self.serve(id, host, now);
                    }
                    Err(error) => end.shared.fail(Failure::Connect(error)),
                }
            }
            Command::Accept(request, end) => self.answer_request(request, *end, host, now),
            // Fails only if the request has expired.
            Command::Reject(request, how) => drop(host.reject(request, how, now)),
            Command::Listen(end) => match host.listen(end.at, end.tcp.clone()) {
                Ok(id) => {
                    end.bound(id);
                    self.insert(id, End::Listener(end));
                    self.serve(id, host, now);
                }
                Err(error) => end.end(Failure::Listen(error)),
            },
            Command::BindUdp(bind) => self.bind_udp(*bind, host, now),
            Command::Serve(id) => {
                match self.end(id) {
                    Some(End::Connection(end)) => end.clear_notification(),
                    Some(End::Listener(end)) => end.clear_notification(),
                    Some(End::Udp(end)) => end.clear_notification(),
                    None => return,
                }
                self.serve(id, host, now);
            }
            query => self.answer(query, host, now),
        }
    }

    /// Answers a SYN whose application accepts it.
    fn answer_request<Q, D, T, L>(
        &mut self,
        request: SocketId,
        end: connection::HostEnd,
        host: &mut Host<Q, D, T, L>,
        now: Instant,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        if end.shared.abort.load(Ordering::Acquire) {
            // It has given up. A reset behind a SYN without an answer would be ignored, and the SYN come again.
            let _ = host.reject(request, Rejection::Reset, now);
            return;
        }
        match host.accept(request, now) {
            Ok(id) => {
                end.set_socket(id, host.local(id));
                self.insert(id, End::Connection(end));
                self.serve(id, host, now);
            }
            // It has expired, or its listener was closed.
            Err(_) => end.shared.fail(Failure::Closed(CloseReason::Local)),
        }
    }

    /// Answers a command that changes no socket of the table.
    fn answer<Q, D, T, L>(&mut self, query: Command, host: &mut Host<Q, D, T, L>, now: Instant)
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
        B: Rebuild<Q>,
    {
        match query {
            Command::Qdisc(tree, reply) => {
                let replaced = self
                    .rebuild
                    .rebuild(&tree)
                    .and_then(|qdisc| host.set_qdisc(qdisc, now).map_err(Failure::StuckQdisc));
                reply.send(replaced);
            }
            Command::QdiscReport(reply) => {
                let report = self.rebuild.report(host.port().qdisc());
                reply.send(report.ok_or(Failure::FixedQdisc));
            }
            Command::IsDelivering(reply) => {
                reply.send(Ok(host.is_delivering() || host.outstanding() > 0));
            }
            Command::End(reply) => {
                // A program that waits for this and other things asks again after each of them.
                self.ends.retain(Reply::is_awaited);
                self.ends.push(reply);
            }
            Command::ConnectUdp(id, remote, reply) => {
                let connected = host.udp().connect(id, remote);
                // Also for a caller that does not wait for the reply any more.
                if let (Ok(()), Some(End::Udp(end))) = (&connected, self.end(id)) {
                    end.connected(remote);
                }
                reply.send(connected.map_err(Failure::Send));
            }
            Command::UdpInfo(id, reply) => reply.send(host.udp().info(id).ok_or(Failure::NotOpen)),
            // Fails only if the connection is over.
            Command::Set(id, option) => drop(host.set_option(id, option)),
            Command::TcpInfo(id, reply) => reply.send(host.info(id).ok_or(Failure::NotOpen)),
            Command::HostStats(reply, rings) => {
                // At one moment: bytes that move from a buffer to a ring must not count twice.
                let memory = host.buffer_memory() + rings.held();
                reply.send(Ok((host.stats(), host.socket_count(), memory)));
            }
            // The others are `handle_command`'s.
            _ => {}
        }
    }

    fn bind_udp<Q, D, T, L>(
        &mut self,
        bind: udp_host::Bind,
        host: &mut Host<Q, D, T, L>,
        now: Instant,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let udp_host::Bind { local, udp, end } = bind;
        let bound = match local {
            Some(local) => host.udp().bind(local, udp),
            None => host.udp().bind_everywhere(udp),
        };
        match bound {
            Ok(id) => {
                let longest = [true, false].map(|v4| host.udp().longest_datagram(v4));
                let everywhere = (Ipv6Addr::UNSPECIFIED, 0).into();
                let local = host.udp().local(id).unwrap_or(everywhere);
                end.bound(id, local, longest.into());
                self.insert(id, End::Udp(Box::new(end)));
                self.serve(id, host, now);
            }
            Err(error) => end.refuse(Failure::Bind(error)),
        }
    }

    /// Moves bytes both ways; closes a socket that is over or whose handles were dropped.
    fn serve<Q, D, T, L>(&mut self, id: SocketId, host: &mut Host<Q, D, T, L>, now: Instant)
    where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let Self { slots, scratch, .. } = self;
        let fate = match end(slots, id) {
            Some(End::Connection(end)) => {
                let is_kept = end.forward(id, host);
                end.fetch(id, host, scratch);
                // As Linux resets an orphan that it has no memory for (`tcp_check_oom`).
                if is_kept { end.fate() } else { Fate::Reset }
            }
            Some(End::Udp(end)) => {
                if end.serve(id, host, scratch) {
                    Fate::Open
                } else {
                    Fate::Close
                }
            }
            Some(End::Listener(end)) if end.is_released() => Fate::Close,
            Some(End::Listener(_)) | None => Fate::Open,
        };
        match fate {
            Fate::Open => return,
            Fate::Close => {
                log::released(host, id);
                host.close(id, now);
            }
            Fate::Reset => {
                log::released(host, id);
                reset(id, host, now);
            }
        }
        self.slots[id.index as usize] = None;
    }

    fn accept<Q, D, T, L>(
        &mut self,
        listener: SocketId,
        socket: SocketId,
        host: &mut Host<Q, D, T, L>,
        now: Instant,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        // Our listeners are closed in a turn, after all events: an unknown one is not ours.
        let Some(End::Listener(listener)) = self.end(listener) else {
            return;
        };
        let ends = host.local(socket).zip(host.peer(socket));
        match ends
            .and_then(|(local, peer): (SocketAddr, SocketAddr)| listener.push(socket, local, peer))
        {
            Some(end) => self.insert(socket, End::Connection(end)),
            None => reset(socket, host, now),
        }
    }

    /// Hands a SYN to the application of its listener. One that finds the queue full is dropped.
    fn request<Q, D, T, L>(
        &mut self,
        listener: SocketId,
        request: SocketId,
        host: &mut Host<Q, D, T, L>,
        now: Instant,
    ) where
        D: Device,
        Q: Qdisc<Packet<D::Frame>>,
        T: Tracer,
        L: Limit,
    {
        let Some(End::Listener(listener)) = self.end(listener) else {
            return;
        };
        let ends = host.local(request).zip(host.peer(request));
        if !ends.is_some_and(|(local, peer)| listener.push_request(request, local, peer)) {
            host.close(request, now);
        }
    }

    fn insert(&mut self, id: SocketId, end: End) {
        let index = id.index as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(Slot { id, end });
    }

    fn end(&mut self, id: SocketId) -> Option<&mut End> {
        end(&mut self.slots, id)
    }
}

/// Our end of socket `id`, unless it was opened on the host directly.
fn end(slots: &mut [Option<Slot>], id: SocketId) -> Option<&mut End> {
    let slot = slots
        .get_mut(id.index as usize)?
        .as_mut()
        .filter(|slot| slot.id == id)?;
    Some(&mut slot.end)
}

/// Resets and frees socket `id`.
fn reset<Q, D, T, L>(id: SocketId, host: &mut Host<Q, D, T, L>, now: Instant)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    // Fails for a listener, which has nothing to reset.
    let _ = host.abort(id);
    host.close(id, now);
}

impl<Q, D, T, L, B> Application<Host<Q, D, T, L>> for Sockets<B>
where
    B: Rebuild<Q>,
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    fn on_event(&mut self, host: &mut Host<Q, D, T, L>, event: Event, now: Instant) {
        let id = match event {
            Event::Accepted { listener, socket } => {
                return self.accept(listener, socket, host, now);
            }
            Event::Connected(id) => {
                if let Some(End::Connection(end)) = self.end(id) {
                    end.opened();
                }
                id
            }
            Event::Closed { socket, why } => {
                if let Some(End::Connection(end)) = self.end(socket) {
                    end.shared.closed(why);
                }
                socket
            }
            Event::Readable(id) | Event::Writable(id) => id,
            Event::Requested { listener, request } => {
                return self.request(listener, request, host, now);
            }
            // Neither pings nor addresses have a handle.
            _ => return,
        };
        self.serve(id, host, now);
    }

    fn turn(&mut self, host: &mut Host<Q, D, T, L>, now: Instant) -> Next {
        for _ in 0..COMMANDS {
            let Ok(command) = self.commands.try_recv() else {
                return Next::Event;
            };
            self.handle_command(command, host, now);
        }
        Next::At(now)
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests;
