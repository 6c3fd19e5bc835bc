//! Events of a host for a subscriber of `tracing`: connections and addresses at level `DEBUG`,
//! readiness at `TRACE`. Without a subscriber an event costs a comparison.

use tautline_base::{Device, Packet, SocketId};
use tautline_bql::Limit;
use tautline_qdisc::Qdisc;
use tautline_stack::{CloseReason, Event, Host, Tracer};
use tracing::{Level, debug, enabled, trace};

/// Reports `event` before the application handles it.
pub(crate) fn report<Q, D, T, L>(host: &Host<Q, D, T, L>, event: &Event)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    if !enabled!(Level::DEBUG) {
        return;
    }
    match *event {
        Event::Accepted { socket, .. } => opened(host, socket, "accepted"),
        Event::Connected(socket) => opened(host, socket, "connected"),
        Event::Requested { request, .. } => opened(host, request, "requested"),
        Event::Closed { socket, why } => ended(host, socket, Some(why), "closed"),
        Event::Readable(socket) => trace!(?socket, "readable"),
        Event::Writable(socket) => trace!(?socket, "writable"),
        Event::Pong { from, rtt, .. } => debug!(%from, ?rtt, "echo reply"),
        Event::PingFailed { to, why, .. } => debug!(%to, %why, "echo request failed"),
        Event::AddressesChanged => debug!("addresses changed"),
        ref other => debug!(event = ?other, "event"),
    }
}

fn opened<Q, D, T, L>(host: &Host<Q, D, T, L>, socket: SocketId, what: &str)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let (local, peer) = (host.local(socket), host.peer(socket));
    debug!(
        ?socket,
        local = local.map(display),
        peer = peer.map(display),
        "{what}"
    );
}

/// Reports that the application has no handle of `socket` any more.
pub(crate) fn released<Q, D, T, L>(host: &Host<Q, D, T, L>, socket: SocketId)
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    if enabled!(Level::DEBUG) {
        ended(host, socket, None, "released");
    }
}

fn ended<Q, D, T, L>(
    host: &Host<Q, D, T, L>,
    socket: SocketId,
    why: Option<CloseReason>,
    what: &str,
) where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let info = host.info(socket);
    debug!(
        ?socket,
        local = host.local(socket).map(display),
        peer = host.peer(socket).map(display),
        acknowledged = info.as_ref().map(|info| info.bytes_acked),
        received = info.as_ref().map(|info| info.bytes_received),
        retransmits = info.as_ref().map(|info| info.retransmits),
        why = why.map(display),
        "{what}"
    );
}
