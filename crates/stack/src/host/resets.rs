//! [`reset_connections`]: the end of a host.

use tautline_base::{Device, Packet, Qdisc};
use tautline_bql::Limit;

use super::Host;
use crate::socket::CloseReason;
use crate::tcp::{Connection, State};
use crate::trace::Tracer;

/// Resets the connections of a host that is about to stop: their peers would retransmit, or wait, until
/// they time out. Returns their number. Those that were opened on the host directly count, too, and the
/// cost is linear in the number of all.
///
/// A connection that was [closed](Host::close) and has delivered everything, its FIN included, ends in
/// silence, as FIN-WAIT-2 does in Linux after `tcp_fin_timeout`: a reset would cost its peer what it has not
/// read yet (RFC 9293 §3.10.7.4).
pub fn reset_connections<Q, D, T, L>(host: &mut Host<Q, D, T, L>) -> usize
where
    D: Device,
    Q: Qdisc<Packet<D::Frame>>,
    T: Tracer,
    L: Limit,
{
    let transport = &mut host.transport;
    let open = transport.sockets.connections().filter(|connection| {
        let state = connection.state();
        // The peer of one that waits for its SYN-ACK knows nothing of it.
        let is_known = state != State::SynSent && !state.is_over();
        is_known && (state.may_deliver() || !connection.orphan)
    });
    let open: Vec<_> = open.map(|connection| connection.id).collect();
    for id in &open {
        let abort = |connection: &mut Connection| connection.abort(CloseReason::Aborted);
        // They are in the table.
        let _ = transport.with_connection(*id, abort);
    }
    open.len()
}
