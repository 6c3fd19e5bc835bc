//! Live captures: the packets of a bridge as pcapng on a client's connection, or in a file.
//!
//! A [`PacketTap`] on each side copies events into a ring per capture; a thread per capture formats them. A
//! record for which the ring has no room is dropped and counted, so a slow client never delays a
//! packet.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::mem::take;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use tautline_base::{DropReason, Instant};
use tautline_rt::Clock;
use tautline_sim::{Capture, CaptureConfig, Part};
use tautline_stack::{PacketEvent, Tracer, What};

use super::packet_log::PacketLog;
use crate::report::wall_clock;

/// Bytes of a client's ring: what 20 ms at 3 Gbit/s leave.
const RING: usize = 8 << 20;
/// Captures at one time.
const CAPTURES: usize = 8;
/// Time between two reads of an empty ring.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// Longest packet kept in full: 64 KiB of payload and its headers.
const SNAPLEN: u32 = 262_144;

/// Parameters of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wanted {
    /// The pair of interfaces, if the middlebox has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<String>,
    /// Where packets are captured.
    pub points: Points,
    /// Bytes kept of each packet.
    pub snaplen: u32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            pair: None,
            points: Points::default(),
            snaplen: SNAPLEN,
        }
    }
}

/// Where packets are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Points {
    /// Each packet once: where it leaves, or where it is dropped
    #[default]
    Leaving,
    /// Also where it arrives, and where it enters the qdisc
    All,
}

/// Clock and names of the places of a capture: the sides that the ways to the right and to the left
/// leave at.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Clock of the events.
    pub clock: Clock,
    /// Names of the two sides.
    pub places: [String; 2],
}

/// The captures of one bridge.
#[derive(Clone, Default)]
pub struct Taps(Rc<RefCell<Vec<Subscription>>>);

impl Taps {
    /// The tracer of the side with number `place` in [`Feed::places`].
    pub fn tap(&self, place: u8) -> PacketTap {
        PacketTap {
            place,
            marked: false,
            taps: self.clone(),
        }
    }

    /// Captures into `file` on a thread of its own, until the last tap is dropped.
    ///
    /// # Errors
    /// If too many captures run already; the thread's result has those of the file.
    pub fn record(&self, file: File, feed: Feed) -> Result<JoinHandle<io::Result<()>>, String> {
        let (subscription, records) = Subscription::new(&Wanted::default());
        self.add(subscription)?;
        Ok(std::thread::spawn(move || {
            let pause = || pause(&mut []).map(|()| false);
            write(file, records, SNAPLEN, &feed, pause)
        }))
    }

    /// Logs the direction with number `place` in [`Feed::places`] to `log` on a thread of its own, until
    /// the last tap is dropped.
    ///
    /// # Errors
    /// If too many captures run already; the thread's result has those of the file.
    pub fn log<W: io::Write + Send + 'static>(
        &self,
        mut log: PacketLog<W>,
        place: u8,
        clock: Clock,
    ) -> Result<JoinHandle<io::Result<()>>, String> {
        let wanted = Wanted {
            points: Points::All,
            snaplen: 0,
            ..Wanted::default()
        };
        let (subscription, mut records) = Subscription::new(&wanted);
        self.add(subscription)?;
        Ok(std::thread::spawn(move || {
            let mut nothing = Vec::new();
            loop {
                let is_complete = records.is_abandoned();
                while let Some(head) = pop(&mut records, &mut nothing) {
                    log.lost(head.lost)?;
                    if head.place == place {
                        log.record(&head.event(), head.len)?;
                    }
                }
                if is_complete {
                    return log.finish(clock.now());
                }
                pause(&mut [])?;
            }
        }))
    }

    /// Begins a capture.
    pub(super) fn add(&self, subscription: Subscription) -> Result<(), String> {
        let mut captures = self.0.borrow_mut();
        captures.retain(Subscription::is_live);
        if captures.len() >= CAPTURES {
            return Err(format!("{CAPTURES} captures run already; end one"));
        }
        captures.push(subscription);
        Ok(())
    }
}

/// Copies the packets of one side into every capture.
pub struct PacketTap {
    place: u8,
    /// The packet of the next event was marked.
    marked: bool,
    taps: Taps,
}

impl Tracer for PacketTap {
    fn record(&mut self, event: &PacketEvent, frame: &[u8]) {
        let mut captures = self.taps.0.borrow_mut();
        if captures.is_empty() {
            return;
        }
        if event.what == What::Marked {
            self.marked = true;
            return;
        }
        let marked = take(&mut self.marked);
        let Some(what) = code(event.what) else {
            return;
        };
        let head = Head {
            at: event.at,
            sojourn: event.sojourn,
            lost: 0,
            len: frame.len() as u32,
            kept: 0,
            place: self.place,
            what,
            marked,
        };
        captures.retain_mut(|capture| {
            capture.offer(head, frame);
            capture.is_live()
        });
    }
}

/// One client's capture, at the thread that forwards.
pub(super) struct Subscription {
    ring: Producer<u8>,
    points: Points,
    snaplen: u32,
    /// Records dropped since the last one with room.
    lost: u64,
}

impl Subscription {
    /// A capture and its end at the client's thread.
    pub(super) fn new(wanted: &Wanted) -> (Self, Consumer<u8>) {
        Self::with_ring(wanted, RING)
    }

    fn with_ring(wanted: &Wanted, bytes: usize) -> (Self, Consumer<u8>) {
        let (ring, reader) = RingBuffer::new(bytes);
        let subscription = Self {
            ring,
            points: wanted.points,
            snaplen: wanted.snaplen,
            lost: 0,
        };
        (subscription, reader)
    }

    fn is_live(&self) -> bool {
        !self.ring.is_abandoned()
    }

    fn offer(&mut self, head: Head, frame: &[u8]) {
        if self.points == Points::Leaving && !head.is_leaving() {
            return;
        }
        let kept = &frame[..frame.len().min(self.snaplen as usize)];
        if self.ring.slots() < HEAD + kept.len() {
            self.lost += 1;
            return;
        }
        let head = Head {
            kept: kept.len() as u32,
            lost: take(&mut self.lost),
            ..head
        };
        let whole = self.ring.push_entire_slice(&head.to_bytes());
        debug_assert!(whole.is_ok(), "there was room");
        let whole = self.ring.push_entire_slice(kept);
        debug_assert!(whole.is_ok(), "there was room");
    }
}

/// Bytes of an encoded [`Head`].
const HEAD: usize = 35;
const QUEUED: u8 = 0;
const RINGED: u8 = 1;
const RECEIVED: u8 = 2;
/// Drops: this and the index of the reason.
const DROPPED: u8 = 16;

/// The code of an event that captures have.
fn code(what: What) -> Option<u8> {
    match what {
        What::Queued => Some(QUEUED),
        What::Ringed => Some(RINGED),
        What::Received => Some(RECEIVED),
        What::Dropped(reason) => Some(DROPPED + reason.index() as u8),
        What::Born | What::Marked | What::Completed => None,
    }
}

fn decode(code: u8) -> What {
    match code {
        QUEUED => What::Queued,
        RECEIVED => What::Received,
        RINGED..DROPPED => What::Ringed,
        _ => What::Dropped(DropReason::ALL[usize::from(code - DROPPED)]),
    }
}

/// A record in a ring, before the bytes of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    at: Instant,
    sojourn: Duration,
    /// Records dropped before this one.
    lost: u64,
    /// Bytes of the packet, and those that follow here.
    len: u32,
    kept: u32,
    place: u8,
    what: u8,
    marked: bool,
}

impl Head {
    fn event(&self) -> PacketEvent {
        PacketEvent {
            at: self.at,
            what: decode(self.what),
            socket: None,
            seq: 0,
            len: self.len,
            sojourn: self.sojourn,
        }
    }

    fn is_leaving(&self) -> bool {
        self.what == RINGED || self.what >= DROPPED
    }

    fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.at.as_nanos().to_le_bytes());
        let sojourn = u64::try_from(self.sojourn.as_nanos()).unwrap_or(u64::MAX);
        bytes[8..16].copy_from_slice(&sojourn.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lost.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.len.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.kept.to_le_bytes());
        bytes[32..].copy_from_slice(&[self.place, self.what, u8::from(self.marked)]);
        bytes
    }

    fn parse(bytes: &[u8; HEAD]) -> Self {
        let long = |at: usize| {
            bytes[at..]
                .first_chunk()
                .map_or(0, |b| u64::from_le_bytes(*b))
        };
        let short = |at: usize| {
            bytes[at..]
                .first_chunk()
                .map_or(0, |b| u32::from_le_bytes(*b))
        };
        Self {
            at: Instant::from_nanos(long(0)),
            sojourn: Duration::from_nanos(long(8)),
            lost: long(16),
            len: short(24),
            kept: short(28),
            place: bytes[32],
            what: bytes[33],
            marked: bytes[34] != 0,
        }
    }
}

/// Writes the records of `ring` to `out` until the bridge ends, or `has_ended` says so; that waits a
/// moment before it answers.
pub(super) fn write(
    out: impl io::Write,
    mut ring: Consumer<u8>,
    snaplen: u32,
    feed: &Feed,
    has_ended: impl Fn() -> io::Result<bool>,
) -> io::Result<()> {
    let config = CaptureConfig {
        snaplen,
        epoch: wall_clock().saturating_sub(feed.clock.now() - Instant::ZERO),
    };
    let capture = Capture::new(BufWriter::new(out), config)?;
    let mut capture = capture.named(feed.places.to_vec(), Vec::new());
    let mut frame = Vec::new();
    loop {
        let is_complete = ring.is_abandoned();
        while let Some(head) = pop(&mut ring, &mut frame) {
            keep(&mut capture, &head, &frame);
        }
        capture.flush()?;
        if is_complete || has_ended()? {
            return Ok(());
        }
    }
}

/// Takes one record from `ring`, and writes its bytes to `frame`; nothing if the ring has no whole one.
fn pop(ring: &mut Consumer<u8>, frame: &mut Vec<u8>) -> Option<Head> {
    let mut head = [0; HEAD];
    // The head appears before the rest: both must be there.
    let chunk = ring.read_chunk(HEAD).ok()?;
    let (first, second) = chunk.as_slices();
    head[..first.len()].copy_from_slice(first);
    head[first.len()..].copy_from_slice(second);
    let parsed = Head::parse(&head);
    if ring.slots() < HEAD + parsed.kept as usize {
        return None;
    }
    frame.resize(parsed.kept as usize, 0);
    let popped = ring
        .pop_entire_slice(&mut head)
        .and_then(|()| ring.pop_entire_slice(frame));
    debug_assert!(popped.is_ok(), "both are there");
    Some(parsed)
}

/// Writes a record to `capture`.
fn keep(capture: &mut Capture<impl io::Write>, head: &Head, frame: &[u8]) {
    let (event, place) = (head.event(), usize::from(head.place));
    let part = Part {
        bytes: frame,
        len: head.len,
    };
    capture.note_lost(head.lost);
    if head.marked {
        let marked = PacketEvent {
            what: What::Marked,
            ..event
        };
        capture.on_part(place, &marked, part);
    }
    capture.on_part(place, &event, part);
}

/// Waits [`PAUSE`] long, or until the client hangs up; returns whether it has.
pub(super) fn has_hung_up(stream: &UnixStream) -> io::Result<bool> {
    let mut client = [PollFd::new(stream, PollFlags::empty())];
    pause(&mut client)?;
    Ok(!client[0].revents().is_empty())
}

/// Waits [`PAUSE`] long, or for an event of `descriptors`.
fn pause(descriptors: &mut [PollFd<'_>]) -> io::Result<()> {
    match poll(descriptors, Some(&PAUSE)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
