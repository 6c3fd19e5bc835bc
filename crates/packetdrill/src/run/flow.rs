//! [`Flow`]: ports and numbers of the script's connection, and how they translate between the
//! script and the wire. The peer's numbers stand on the wire as in the script; the host's are
//! shifted to its ISN.

use crate::calls::PEER_PORT;
use crate::options::{self, FAST_OPEN};
use crate::syntax::{Segment, TcpOption};
use crate::wire::WireSegment;
use crate::world::LOCAL_PORT;

const SYN: u16 = 2;
const PSH: u16 = 8;
const ACK: u16 = 16;
/// First port of a peer that connects.
const FIRST_PEER_PORT: u16 = 40_000;

/// The connection that packets of the script belong to.
#[derive(Debug)]
pub(super) struct Flow {
    host_port: u16,
    peer_port: u16,
    /// The host's ISN on the wire and in the script.
    isn: Option<(u32, u32)>,
    /// The host's timestamps: in the script, and on the wire.
    clock: Vec<(u32, u32)>,
    /// The latest Fast Open cookie of the host where the script names it.
    cookie: Option<Vec<u8>>,
    /// Port of the next peer that connects.
    next_peer_port: u16,
    /// The application has begun to listen: the peer's next SYN belongs to a new flow.
    listens: bool,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            host_port: LOCAL_PORT,
            peer_port: FIRST_PEER_PORT,
            isn: None,
            cookie: None,
            clock: Vec::new(),
            next_peer_port: FIRST_PEER_PORT + 1,
            listens: false,
        }
    }
}

impl Flow {
    /// Whether a segment of the host belongs to this flow; a SYN without ACK begins a new one.
    pub(super) fn is_ours(&mut self, wire: &WireSegment) -> bool {
        let is_active_open = wire.flags & (SYN | ACK) == SYN && wire.destination == PEER_PORT;
        if is_active_open && wire.source != self.host_port {
            *self = Self {
                host_port: wire.source,
                peer_port: PEER_PORT,
                next_peer_port: self.next_peer_port,
                ..Self::default()
            };
        }
        wire.source == self.host_port && wire.destination == self.peer_port
    }

    /// A socket begins to listen: the peer's next SYN is of another connection. Further ones belong to
    /// the same connection, as in packetdrill, so that a script can repeat a SYN or reuse the ports.
    pub(super) fn listen(&mut self) {
        self.listens = true;
    }

    /// The peer's `segment` on the wire.
    pub(super) fn translate_to_wire(&mut self, segment: &Segment) -> Result<WireSegment, String> {
        if segment.flags & (SYN | ACK) == SYN && self.listens {
            *self = Self {
                peer_port: self.next_peer_port,
                next_peer_port: self.next_peer_port.wrapping_add(1),
                cookie: self.cookie.take(),
                ..Self::default()
            };
        }
        let shift = |number: u32| match self.isn {
            Some((live, script)) => number.wrapping_sub(script).wrapping_add(live),
            None => number,
        };
        let mut translated = segment.options.clone().unwrap_or_default();
        for option in &mut translated {
            match option {
                TcpOption::Sack(blocks) => {
                    blocks
                        .iter_mut()
                        .for_each(|(left, right)| (*left, *right) = (shift(*left), shift(*right)));
                }
                TcpOption::Timestamp(_, echo) => *echo = self.live_clock(*echo),
                TcpOption::FastOpenCookie => {
                    if let Some(cookie) = &self.cookie {
                        *option = TcpOption::Other(FAST_OPEN, cookie.clone());
                    }
                }
                _ => {}
            }
        }
        Ok(WireSegment {
            source: self.peer_port,
            destination: self.host_port,
            seq: segment.seq,
            ack: segment.ack.map_or(0, shift),
            flags: segment.flags,
            window: segment.window.unwrap_or(u16::MAX),
            urgent: segment.urgent,
            ecn: segment.ecn.unwrap_or(0),
            options: options::encode(&translated)?,
            len: segment.len as usize,
        })
    }

    /// The host's clock for a timestamp of the script: the one the script gave that name, or as far
    /// from the first as in the script.
    fn live_clock(&self, script: u32) -> u32 {
        let exact = self.clock.iter().rev().find(|(named, _)| *named == script);
        match (exact, self.clock.first()) {
            (Some((_, live)), _) => *live,
            (None, Some((named, live))) => script.wrapping_sub(*named).wrapping_add(*live),
            (None, None) => script,
        }
    }

    /// The host's segment in the script's numbers; `expected` names its ISN and timestamps.
    pub(super) fn translate_to_script(
        &mut self,
        wire: &WireSegment,
        expected: &Segment,
    ) -> Result<Segment, String> {
        // A SYN with another number opens a new connection between the same ports.
        if wire.flags & SYN != 0 && self.isn.is_none_or(|(live, _)| live != wire.seq) {
            self.isn = Some((wire.seq, expected.seq));
        }
        let (live, script) = self.isn.unwrap_or_default();
        let mut found = options::decode(&wire.options)?;
        let named = expected
            .options
            .iter()
            .flatten()
            .find_map(|option| match option {
                TcpOption::Timestamp(value, _) => Some(*value),
                _ => None,
            });
        let options = expected.options.as_deref().unwrap_or_default();
        let names_cookie = options.contains(&TcpOption::FastOpenCookie);
        for option in &mut found {
            match option {
                TcpOption::Timestamp(value, _) => {
                    let name = named.unwrap_or(*value);
                    self.clock.push((name, *value));
                    *value = name;
                }
                TcpOption::Other(FAST_OPEN, cookie) if names_cookie && !cookie.is_empty() => {
                    self.cookie = Some(std::mem::take(cookie));
                    *option = TcpOption::FastOpenCookie;
                }
                _ => {}
            }
        }
        Ok(Segment {
            ecn: Some(wire.ecn),
            flags: wire.flags,
            seq: wire.seq.wrapping_sub(live).wrapping_add(script),
            len: wire.len as u32,
            ack: (wire.flags & ACK != 0).then_some(wire.ack),
            window: Some(wire.window),
            urgent: wire.urgent,
            options: Some(found),
        })
    }

    /// A segment of the host's, as an ICMP error quotes it.
    pub(super) fn quoted(&self, seq: u32, len: u32) -> Result<WireSegment, String> {
        let (live, script) = self
            .isn
            .ok_or("an ICMP error quotes a segment, and none has left")?;
        Ok(WireSegment {
            source: self.host_port,
            destination: self.peer_port,
            seq: seq.wrapping_sub(script).wrapping_add(live),
            ack: 0,
            flags: ACK,
            window: 0,
            urgent: 0,
            ecn: 0,
            options: Vec::new(),
            len: len as usize,
        })
    }
}

/// First difference between an expected segment and one that left.
pub(super) fn difference(
    expected: &Segment,
    live: &Segment,
    compare_push: bool,
) -> Option<&'static str> {
    let ignored = if compare_push { 0 } else { PSH };
    let options = |segment: &Segment| segment.options.as_deref().map(options::canonical);
    let differs = [
        (
            (expected.flags ^ live.flags) & !ignored != 0,
            "flags differ",
        ),
        (expected.seq != live.seq, "sequence numbers differ"),
        (expected.len != live.len, "lengths differ"),
        (
            expected.ack.is_some() && expected.ack != live.ack,
            "acknowledgment numbers differ",
        ),
        (
            expected.window.is_some() && expected.window != live.window,
            "windows differ",
        ),
        (expected.urgent != live.urgent, "urgent pointers differ"),
        (
            expected.ecn.is_some() && expected.ecn != live.ecn,
            "ECN fields differ",
        ),
        (
            expected.options.is_some() && options(expected) != options(live),
            "options differ",
        ),
    ];
    differs
        .into_iter()
        .find_map(|(differs, what)| differs.then_some(what))
}
