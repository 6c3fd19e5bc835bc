//! [`Tracer`]: receives every event in the life of a packet inside one host. With tracing off it
//! costs nothing: [`NoTrace`] compiles away.

use std::time::Duration;

use tautline_base::headers::{IPV4, IPV6, IPV6_HEADER, Medium, TCP, u32_at};
use tautline_base::{Instant, SocketId};
use tautline_qdisc::DropReason;

/// One event in the life of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Time of the event.
    pub at: Instant,
    /// The kind of event.
    pub what: What,
    /// The connection it belongs to, if any.
    pub socket: Option<SocketId>,
    /// TCP sequence number on the wire; 0 for packets without one.
    pub seq: u32,
    /// Bytes on the wire.
    pub len: u32,
    /// Time in the qdisc, of packets `Ringed` or `Dropped`; zero of others.
    pub sojourn: Duration,
}

/// The kind of a packet event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was written by a connection or in answer to a frame.
    Born,
    /// It was handed to the qdisc (which may drop it at once).
    Queued,
    /// It was dropped in this host.
    Dropped(DropReason),
    /// The qdisc marked it "congestion experienced".
    Marked,
    /// It was placed in the device's ring.
    Ringed,
    /// The device has sent it and gave it back.
    Completed,
    /// It arrived from the network.
    Received,
}

/// Receives events, in order: those of packets in a host, unless `E` is another kind.
pub trait Tracer<E = PacketEvent> {
    /// False if events are discarded: the host then does not even collect them.
    const ENABLED: bool = true;

    /// `event` happened to the packet whose bytes are `frame`.
    fn record(&mut self, event: &E, frame: &[u8]);
}

/// Discards all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl<E> Tracer<E> for NoTrace {
    const ENABLED: bool = false;

    fn record(&mut self, _event: &E, _frame: &[u8]) {}
}

impl<E, A: Tracer<E>, B: Tracer<E>> Tracer<E> for (A, B) {
    const ENABLED: bool = A::ENABLED || B::ENABLED;

    fn record(&mut self, event: &E, frame: &[u8]) {
        self.0.record(event, frame);
        self.1.record(event, frame);
    }
}

impl<E, T: Tracer<E>> Tracer<E> for Option<T> {
    const ENABLED: bool = T::ENABLED;

    fn record(&mut self, event: &E, frame: &[u8]) {
        if let Some(tracer) = self {
            tracer.record(event, frame);
        }
    }
}

/// The TCP sequence number in a frame, tagged or not; 0 if it holds none.
pub(crate) fn sequence_number(frame: &[u8], medium: Medium) -> u32 {
    let network = medium.network_offset(frame);
    let tcp = match (medium.ethertype(frame), frame.get(network)) {
        (Some(IPV4), Some(first)) if frame.get(network + 9) == Some(&TCP) => {
            network + usize::from(first & 0x0f) * 4
        }
        (Some(IPV6), _) if frame.get(network + 6) == Some(&TCP) => network + IPV6_HEADER,
        _ => return 0,
    };
    u32_at(frame, tcp + 4).unwrap_or(0)
}
