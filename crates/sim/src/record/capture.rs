//! [`Capture`]: a pcapng file (draft-ietf-opsawg-pcapng) for Wireshark: one interface per tap
//! point, nanosecond stamps, and a comment on every packet: `sojourn=4.200ms verdict=CE`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use tautline_base::{Ecn, Instant};
use tautline_stack::{PacketEvent, What};

use crate::classify;
use crate::link::{LinkEvent, LinkEventKind};
use crate::record::Record;
use crate::record::in_host::InHost;

/// Resolution of time stamps, as a negative power of ten seconds. Readers assume microseconds
/// unless the interface says so.
const NANOSECONDS: u8 = 9;

/// Parameters of a [`Capture`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Bytes kept of each packet. Default 65535: all of them.
    pub snaplen: u32,
    /// Time of [`Instant::ZERO`] since 1970. Default 0.
    pub epoch: Duration,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        Self {
            snaplen: 65_535,
            epoch: Duration::ZERO,
        }
    }
}

/// Writes packets at the tap points of hosts and links into a pcapng file.
///
/// | interface | packets |
/// |---|---|
/// | `host0:qdisc-in` | passed to the qdisc |
/// | `host0:drop` | dropped inside the host, with reason |
/// | `host0:ring` | placed in the device's ring, with sojourn and verdict |
/// | `host0:completed` | given back by the device, with the time it stayed there |
/// | `host0:received` | arrived from the network |
/// | `link0:in`, `link0:out` | entering and leaving a link |
/// | `link0:drop` | dropped by its queue or lost |
/// | `link0:wire` | serialized, with sojourn and verdict; doubled, damaged, held back |
pub struct Capture<W: Write> {
    config: CaptureConfig,
    /// Names of hosts and of links by number.
    names: [Vec<String>; 2],
    writer: PcapNgWriter<W>,
    interfaces: HashMap<Point, u32>,
    /// Packets inside hosts.
    inside: InHost<Stay>,
    /// The link whose queue marked the frame of the next `Serialized` event.
    marked_on_link: Option<usize>,
    failure: Option<io::Error>,
}

/// Capture point of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Point {
    Host(usize, &'static str),
    Link(usize, &'static str),
}

/// A packet in a qdisc or ring.
#[derive(Clone, Copy, Debug)]
struct Stay {
    since: Instant,
    /// CE was set before it entered, as a router's packets may have it.
    came_marked: bool,
    marked: bool,
}

impl<W: Write> Capture<W> {
    /// Begins a file. `out` should be buffered.
    ///
    /// # Errors
    /// As `out`.
    pub fn new(out: W, config: CaptureConfig) -> io::Result<Self> {
        let writer = PcapNgWriter::new(out).map_err(into_io)?;
        let interfaces = HashMap::new();
        Ok(Self {
            config,
            names: [Vec::new(), Vec::new()],
            writer,
            interfaces,
            inside: InHost::new(),
            marked_on_link: None,
            failure: None,
        })
    }

    /// Sets names of hosts and links, in order of their numbers: interfaces are then called
    /// `client:ring` and `router>server:wire` instead of `host0:ring` and `link2:wire`.
    pub fn named(self, hosts: Vec<String>, links: Vec<String>) -> Self {
        Self {
            names: [hosts, links],
            ..self
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error of writing, where the file ends.
    pub fn finish(self) -> io::Result<W> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut out = self.writer.into_inner();
        out.flush()?;
        Ok(out)
    }

    /// Writes one packet, unless writing has failed.
    fn write(&mut self, at: Instant, point: Point, comment: String, frame: &[u8]) {
        if self.failure.is_none()
            && let Err(error) = self.try_write(at, point, comment, frame)
        {
            self.failure = Some(into_io(error));
        }
    }

    fn try_write(
        &mut self,
        at: Instant,
        point: Point,
        comment: String,
        frame: &[u8],
    ) -> Result<(), PcapError> {
        let interface_id = self.interface(point)?;
        let options = if comment.is_empty() {
            Vec::new()
        } else {
            vec![EnhancedPacketOption::Comment(comment.into())]
        };
        let kept = frame.len().min(self.config.snaplen as usize);
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: self.config.epoch + Duration::from_nanos(at.as_nanos()),
            original_len: frame.len() as u32,
            data: Cow::Borrowed(&frame[..kept]),
            options,
        };
        self.writer.write_pcapng_block(block).map(drop)
    }

    /// The interface of a tap point, described in the file at first use.
    fn interface(&mut self, point: Point) -> Result<u32, PcapError> {
        if let Some(id) = self.interfaces.get(&point) {
            return Ok(*id);
        }
        let name = match point {
            Point::Host(host, name) => self.names[0].get(host).map_or_else(
                || format!("host{host}:{name}"),
                |known| format!("{known}:{name}"),
            ),
            Point::Link(link, name) => self.names[1].get(link).map_or_else(
                || format!("link{link}:{name}"),
                |known| format!("{known}:{name}"),
            ),
        };
        let options = vec![
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: self.config.snaplen,
            options,
        };
        self.writer.write_pcapng_block(block)?;
        let id = self.interfaces.len() as u32;
        self.interfaces.insert(point, id);
        Ok(id)
    }

    /// Sojourn time of the packet, and whether it was marked. Starts its next stay.
    fn leaves(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) -> (Duration, bool) {
        let Some(stay) = self.inside.find(host, frame) else {
            return (Duration::ZERO, false);
        };
        let Stay {
            since,
            came_marked,
            marked,
        } = *stay;
        *stay = Stay {
            since: event.at,
            came_marked,
            marked: false,
        };
        (event.at - since, marked && !came_marked)
    }
}

impl<W: Write> Record for Capture<W> {
    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        let at = event.at;
        match event.what {
            What::Born => {
                let came_marked =
                    classify::tos(frame).is_some_and(|tos| Ecn::of_tos(tos) == Ecn::Ce);
                self.inside.begin(
                    host,
                    frame,
                    Stay {
                        since: at,
                        came_marked,
                        marked: false,
                    },
                );
            }
            What::Queued => self.write(at, Point::Host(host, "qdisc-in"), String::new(), frame),
            What::Marked => {
                if let Some(stay) = self.inside.find(host, frame) {
                    stay.marked = true;
                }
            }
            What::Ringed => {
                let (sojourn, marked) = self.leaves(host, event, frame);
                self.write(
                    at,
                    Point::Host(host, "ring"),
                    passed(sojourn, marked),
                    frame,
                );
            }
            What::Completed => {
                let (stay, _) = self.leaves(host, event, frame);
                self.inside.end(host, frame);
                self.write(
                    at,
                    Point::Host(host, "completed"),
                    format!("in_ring={}", millis(stay)),
                    frame,
                );
            }
            What::Dropped(reason) => {
                let (sojourn, _) = self.leaves(host, event, frame);
                self.inside.end(host, frame);
                let comment = format!("sojourn={} verdict=drop reason={reason}", millis(sojourn));
                self.write(at, Point::Host(host, "drop"), comment, frame);
            }
            What::Received => self.write(at, Point::Host(host, "received"), String::new(), frame),
        }
    }

    fn on_link(&mut self, link: usize, event: &LinkEvent, frame: &[u8]) {
        let (name, comment) = match event.kind {
            LinkEventKind::Entered => ("in", String::new()),
            LinkEventKind::Marked => {
                self.marked_on_link = Some(link);
                return;
            }
            LinkEventKind::Serialized { sojourn } => (
                "wire",
                passed(sojourn, self.marked_on_link.take() == Some(link)),
            ),
            LinkEventKind::Dropped(reason) => ("drop", format!("verdict=drop reason={reason}")),
            LinkEventKind::Lost => ("drop", "verdict=lost".to_owned()),
            LinkEventKind::Duplicated => ("wire", "verdict=duplicated".to_owned()),
            LinkEventKind::Corrupted { bit } => ("wire", format!("verdict=corrupted bit={bit}")),
            LinkEventKind::HeldBack => ("wire", "verdict=held-back".to_owned()),
            LinkEventKind::Arrived => ("out", String::new()),
        };
        self.write(event.at, Point::Link(link, name), comment, frame);
    }
}

fn passed(sojourn: Duration, marked: bool) -> String {
    format!(
        "sojourn={} verdict={}",
        millis(sojourn),
        if marked { "CE" } else { "pass" }
    )
}

fn millis(time: Duration) -> String {
    format!(
        "{}.{:06}ms",
        time.as_millis(),
        time.subsec_nanos() % 1_000_000
    )
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests;
