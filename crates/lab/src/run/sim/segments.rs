//! [`Segments`]: one-way delay of each segment of selected streams, from its creation in one host
//! to its arrival in another.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use tautline_base::Instant;
use tautline_sim::Record;
use tautline_sim::app::Sample;
use tautline_stack::{PacketEvent, What};

/// Measures the segments of streams, identified by destination port.
pub(super) struct Segments {
    /// The measured flows, by destination port.
    flows: BTreeMap<u16, String>,
    /// Segments in flight, by port and sequence number, with the time of their last transmission.
    born: HashMap<(u16, u32), Instant>,
    /// Delivered segments, in order of time.
    pub(super) seen: Rc<RefCell<Vec<(String, Sample)>>>,
}

impl Segments {
    /// Measures `flows`.
    pub(super) fn new(flows: BTreeMap<u16, String>) -> Self {
        Self {
            flows,
            born: HashMap::new(),
            seen: Rc::default(),
        }
    }
}

impl Record for Segments {
    fn on_host(&mut self, _host: usize, event: &PacketEvent, frame: &[u8]) {
        if !matches!(event.what, What::Born | What::Received) {
            return;
        }
        let Some(port) = payload_to(frame) else {
            return;
        };
        let Some(flow) = self.flows.get(&port) else {
            return;
        };
        let key = (port, event.seq);
        if event.what == What::Born {
            self.born.insert(key, event.at);
        } else if let Some(at) = self.born.remove(&key) {
            self.seen.borrow_mut().push((
                flow.clone(),
                Sample {
                    at,
                    took: event.at - at,
                },
            ));
        }
    }
}

/// Destination port of the TCP segment in an Ethernet frame with IPv4, if it has payload.
fn payload_to(frame: &[u8]) -> Option<u16> {
    let [high, low] = *frame.get(12..14)? else {
        return None;
    };
    let ip = frame.get(14..)?;
    if (high, low) != (8, 0) || *ip.get(9)? != 6 {
        return None;
    }
    let header = usize::from(ip[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let tcp = ip.get(header..)?;
    let payload = total.saturating_sub(header + usize::from(*tcp.get(12)? >> 4) * 4);
    (payload > 0).then(|| u16::from_be_bytes([tcp[2], tcp[3]]))
}
