//! [`Capture`]: a pcapng file (draft-ietf-opsawg-pcapng) for Wireshark: one interface per tap
//! point, nanosecond stamps, and a comment on every packet: `sojourn=4.200ms verdict=CE`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::mem::take;
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use tautline_base::Instant;
use tautline_stack::{PacketEvent, What};

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
    /// When the packets in rings entered them.
    ringed: InHost<Instant>,
    /// The host or link whose queue marked the packet of the next event.
    marked: Option<CapturePlace>,
    /// Packets missing before the next one.
    lost: u64,
    failure: Option<io::Error>,
}

/// A host or a link, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CapturePlace {
    Host(usize),
    Link(usize),
}

/// Capture point of a packet.
type Point = (CapturePlace, &'static str);

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
            ringed: InHost::new(),
            marked: None,
            lost: 0,
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

    /// The next packet follows `count` packets that are missing here; a reader shows them as its
    /// drop count.
    pub fn note_lost(&mut self, count: u64) {
        self.lost += count;
    }

    /// Hands what is buffered to the reader.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn flush(&mut self) -> io::Result<()> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.writer.get_mut().flush(),
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
    fn write(&mut self, at: Instant, point: Point, comment: String, part: Part<'_>) {
        if self.failure.is_none()
            && let Err(error) = self.try_write(at, point, comment, part)
        {
            self.failure = Some(into_io(error));
        }
    }

    fn try_write(
        &mut self,
        at: Instant,
        point: Point,
        comment: String,
        Part { bytes, len }: Part<'_>,
    ) -> Result<(), PcapError> {
        let interface_id = self.interface(point)?;
        let mut options = Vec::new();
        if !comment.is_empty() {
            options.push(EnhancedPacketOption::Comment(comment.into()));
        }
        if self.lost > 0 {
            options.push(EnhancedPacketOption::DropCount(take(&mut self.lost)));
        }
        let kept = bytes.len().min(self.config.snaplen as usize);
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: self.config.epoch + Duration::from_nanos(at.as_nanos()),
            original_len: len,
            data: Cow::Borrowed(&bytes[..kept]),
            options,
        };
        self.writer.write_pcapng_block(block).map(drop)
    }

    /// The interface of a tap point, described in the file at first use.
    fn interface(&mut self, point: Point) -> Result<u32, PcapError> {
        if let Some(id) = self.interfaces.get(&point) {
            return Ok(*id);
        }
        let (place, name) = point;
        let (names, kind, number) = match place {
            CapturePlace::Host(host) => (&self.names[0], "host", host),
            CapturePlace::Link(link) => (&self.names[1], "link", link),
        };
        let name = names.get(number).map_or_else(
            || format!("{kind}{number}:{name}"),
            |known| format!("{known}:{name}"),
        );
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

    /// [`on_host`](Record::on_host) for a packet of which only a part is at hand.
    pub fn on_part(&mut self, host: usize, event: &PacketEvent, part: Part<'_>) {
        let PacketEvent { at, sojourn, .. } = *event;
        let place = CapturePlace::Host(host);
        let (name, comment) = match event.what {
            What::Born => return,
            What::Queued => ("qdisc-in", String::new()),
            What::Marked => {
                self.marked = Some(place);
                return;
            }
            What::Ringed => {
                self.ringed.begin(host, part.bytes, at);
                ("ring", passed(sojourn, self.marked.take() == Some(place)))
            }
            What::Completed => {
                let since = self.ringed.end(host, part.bytes);
                let stay = since.map_or(Duration::ZERO, |since| at - since);
                ("completed", format!("in_ring={}", millis(stay)))
            }
            What::Dropped(reason) => {
                self.ringed.end(host, part.bytes);
                let sojourn = millis(sojourn);
                (
                    "drop",
                    format!("sojourn={sojourn} verdict=drop reason={reason}"),
                )
            }
            What::Received => ("received", String::new()),
        };
        self.write(at, (place, name), comment, part);
    }
}

/// The first bytes of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The bytes at hand.
    pub bytes: &'a [u8],
    /// Length of the packet.
    pub len: u32,
}

impl<'a> Part<'a> {
    /// The whole of a frame.
    pub const fn whole(frame: &'a [u8]) -> Self {
        Self {
            bytes: frame,
            len: frame.len() as u32,
        }
    }
}

impl<W: Write> Record for Capture<W> {
    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        self.on_part(host, event, Part::whole(frame));
    }

    fn on_link(&mut self, link: usize, event: &LinkEvent, frame: &[u8]) {
        let place = CapturePlace::Link(link);
        let (name, comment) = match event.kind {
            LinkEventKind::Entered => ("in", String::new()),
            LinkEventKind::Marked => {
                self.marked = Some(place);
                return;
            }
            LinkEventKind::Serialized { sojourn } => {
                ("wire", passed(sojourn, self.marked.take() == Some(place)))
            }
            LinkEventKind::Dropped(reason) => ("drop", format!("verdict=drop reason={reason}")),
            LinkEventKind::Lost => ("drop", "verdict=lost".to_owned()),
            LinkEventKind::Duplicated => ("wire", "verdict=duplicated".to_owned()),
            LinkEventKind::Corrupted { bit } => ("wire", format!("verdict=corrupted bit={bit}")),
            LinkEventKind::HeldBack => ("wire", "verdict=held-back".to_owned()),
            LinkEventKind::Arrived => ("out", String::new()),
        };
        self.write(event.at, (place, name), comment, Part::whole(frame));
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
