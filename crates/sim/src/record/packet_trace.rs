//! [`PacketTrace`]: one record per packet that a host sent, with the time of each event.

use std::io::{self, Write};

use tautline_base::{Instant, SocketId};
use tautline_qdisc::DropReason;
use tautline_stack::{PacketEvent, What};

use crate::record::Record;
use crate::record::in_host::InHost;

/// The life of one packet in its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// Its host.
    pub host: usize,
    /// Its connection, if any.
    pub socket: Option<SocketId>,
    /// TCP sequence number; 0 without one.
    pub seq: u32,
    /// Bytes on the wire.
    pub len: u32,
    /// Time of writing.
    pub born: Instant,
    /// Time of entering the qdisc.
    pub queued: Option<Instant>,
    /// Time at which the qdisc marked it "congestion experienced".
    pub marked: Option<Instant>,
    /// Time of entering the device's ring.
    pub ringed: Option<Instant>,
    /// Its end.
    pub fate: Fate,
}

/// The end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet has not ended.
    Pending,
    /// The device completed it.
    Completed(Instant),
    /// It was dropped inside the host.
    Dropped(Instant, DropReason),
}

/// Keeps a [`PacketRecord`] of every packet in memory.
#[derive(Debug)]
pub struct PacketTrace {
    ended: Vec<PacketRecord>,
    inside: InHost<PacketRecord>,
}

impl PacketTrace {
    /// The first line of [`write_csv`](Self::write_csv). Times are in nanoseconds; an event that
    /// did not happen is an empty field.
    pub const CSV_HEADER: &str = "host,socket,generation,seq,len,born_ns,queued_ns,marked_ns,ringed_ns,completed_ns,dropped_ns,drop_reason";

    /// No packets yet.
    pub fn new() -> Self {
        Self {
            ended: Vec::new(),
            inside: InHost::new(),
        }
    }

    /// Every packet that has ended, in order of the ends.
    pub fn records(&self) -> &[PacketRecord] {
        &self.ended
    }

    /// Packets that have not ended.
    pub fn pending(&self) -> usize {
        self.inside.len()
    }

    /// Writes a header and one line per packet that has ended.
    ///
    /// # Errors
    /// As `out`.
    pub fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "{}", Self::CSV_HEADER)?;
        self.ended
            .iter()
            .try_for_each(|record| record.write_csv(&mut out))
    }
}

impl Default for PacketTrace {
    fn default() -> Self {
        Self::new()
    }
}

impl Record for PacketTrace {
    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        let at = event.at;
        match event.what {
            What::Born => self
                .inside
                .begin(host, frame, PacketRecord::born(host, event)),
            What::Queued => self.note(host, frame, |record| record.queued = Some(at)),
            What::Marked => self.note(host, frame, |record| record.marked = Some(at)),
            What::Ringed => self.note(host, frame, |record| record.ringed = Some(at)),
            What::Completed => self.end(host, frame, Fate::Completed(at)),
            What::Dropped(reason) => self.end(host, frame, Fate::Dropped(at, reason)),
            What::Received => {}
        }
    }
}

impl PacketTrace {
    fn note(&mut self, host: usize, frame: &[u8], write: impl FnOnce(&mut PacketRecord)) {
        if let Some(record) = self.inside.find(host, frame) {
            write(record);
        }
    }

    fn end(&mut self, host: usize, frame: &[u8], fate: Fate) {
        if let Some(record) = self.inside.end(host, frame) {
            self.ended.push(PacketRecord { fate, ..record });
        }
    }
}

impl PacketRecord {
    fn born(host: usize, event: &PacketEvent) -> Self {
        let PacketEvent {
            at,
            what: _,
            socket,
            seq,
            len,
            sojourn: _,
        } = *event;
        Self {
            host,
            socket,
            seq,
            len,
            born: at,
            queued: None,
            marked: None,
            ringed: None,
            fate: Fate::Pending,
        }
    }

    /// One line in the columns of [`PacketTrace::CSV_HEADER`].
    fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        let Self {
            host,
            socket,
            seq,
            len,
            born,
            queued,
            marked,
            ringed,
            fate,
        } = self;
        let (index, generation) = socket.map_or_else(Default::default, |id| {
            (id.index.to_string(), id.generation.to_string())
        });
        let time =
            |at: Option<Instant>| at.map_or_else(String::new, |at| at.as_nanos().to_string());
        let (completed, dropped, reason) = match *fate {
            Fate::Pending => (None, None, String::new()),
            Fate::Completed(at) => (Some(at), None, String::new()),
            Fate::Dropped(at, reason) => (None, Some(at), reason.to_string()),
        };
        let [born, queued, marked] = [Some(*born), *queued, *marked].map(time);
        let [ringed, completed, dropped] = [*ringed, completed, dropped].map(time);
        writeln!(
            out,
            "{host},{index},{generation},{seq},{len},{born},{queued},{marked},{ringed},{completed},{dropped},{reason}"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn emit(trace: &mut PacketTrace, at: u64, what: What, frame: &[u8]) {
        let event = PacketEvent {
            at: Instant::from_nanos(at),
            what,
            socket: None,
            seq: 9,
            len: frame.len() as u32,
            sojourn: Duration::ZERO,
        };
        trace.on_host(0, &event, frame);
    }

    #[test]
    fn equal_packets_are_told_apart_and_each_has_its_times() {
        let mut trace = PacketTrace::new();
        let (first, second) = ([0; 60], [0; 60]);
        for (at, frame) in [(1, &first), (2, &second)] {
            emit(&mut trace, at, What::Born, frame);
            emit(&mut trace, at, What::Queued, frame);
        }
        emit(&mut trace, 3, What::Dropped(DropReason::Overlimit), &second);
        emit(&mut trace, 4, What::Marked, &first);
        emit(&mut trace, 4, What::Ringed, &first);
        assert_eq!(trace.pending(), 1);
        emit(&mut trace, 5, What::Completed, &first);
        let mut csv = Vec::new();
        trace.write_csv(&mut csv).expect("memory");
        let csv = String::from_utf8(csv).expect("text");
        let lines: Vec<_> = csv.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["0,,,9,60,2,2,,,,3,overlimit", "0,,,9,60,1,1,4,4,5,,"]
        );
        assert_eq!(
            PacketTrace::CSV_HEADER.split(',').count(),
            lines[0].split(',').count()
        );
        assert_eq!(trace.pending(), 0);
    }
}
