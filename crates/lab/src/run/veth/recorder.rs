//! [`Recorder`]: writes the packets that all nodes of a run on veth see to one pcapng file, with an
//! interface for each host and router port, as runs in virtual time do. Nodes append under a lock;
//! a separate thread writes full buffers to the disk, so a node waits only when all buffers are
//! full.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use tautline_rt::Clock;
use tautline_sim::{Capture, CaptureConfig, Record};
use tautline_stack::{PacketEvent, Tracer};

use crate::run::capture::{KEPT, PartFile};

/// Bytes of a buffer.
const BUFFER: usize = 1 << 18;
/// Buffers queued for the thread: with those at both ends 4 MiB.
const BUFFERS: usize = 14;

/// The capture file of a run.
pub(super) struct Recorder {
    part: PartFile,
    places: Vec<String>,
    capture: Arc<Mutex<Capture<Spool>>>,
}

impl Recorder {
    /// Starts writing `file`, which appears when [`finish`](Self::finish) is called. `places`:
    /// hosts, and the ports of routers.
    pub(super) fn begin(file: &Path, places: Vec<String>, clock: Clock) -> io::Result<Self> {
        let config = CaptureConfig {
            snaplen: KEPT,
            epoch: epoch(clock),
        };
        let (part, out) = PartFile::create(file)?;
        let capture = Capture::new(Spool::new(out)?, config)?.named(places.clone(), Vec::new());
        Ok(Self {
            part,
            places,
            capture: Arc::new(Mutex::new(capture)),
        })
    }

    /// The tracer of the place `name`.
    pub(super) fn line(&self, name: &str) -> PlaceTracer {
        let place = self
            .places
            .iter()
            .position(|place| place == name)
            .unwrap_or(self.places.len());
        PlaceTracer {
            place,
            capture: Arc::clone(&self.capture),
        }
    }

    /// Finishes the file, after all tracers are dropped.
    pub(super) fn finish(self) -> io::Result<()> {
        let capture =
            Arc::into_inner(self.capture).ok_or_else(|| io::Error::other("a node still writes"))?;
        capture
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .finish()?
            .finish()?;
        self.part.complete()
    }
}

/// The clock's zero as time since 1970.
fn epoch(clock: Clock) -> std::time::Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "stamps in the file are the wall clock's, as tcpdump's are"
    )]
    let wall = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    wall.saturating_sub(std::time::Duration::from_nanos(clock.now().as_nanos()))
}

/// The tracer of one place.
#[derive(Clone)]
pub(super) struct PlaceTracer {
    place: usize,
    capture: Arc<Mutex<Capture<Spool>>>,
}

impl Tracer for PlaceTracer {
    fn record(&mut self, event: &PacketEvent, frame: &[u8]) {
        self.capture
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .on_host(self.place, event, frame);
    }
}

/// Buffers bytes and hands them to a thread that writes them.
struct Spool {
    buffer: Vec<u8>,
    full: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl Spool {
    fn new(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let (full, buffers) = sync_channel::<Vec<u8>>(BUFFERS);
        let write = move || {
            buffers
                .iter()
                .try_for_each(|buffer| out.write_all(&buffer))
                .and_then(|()| out.flush())
        };
        let writer = thread::Builder::new().name("pcapng".into()).spawn(write)?;
        Ok(Self {
            buffer: Vec::with_capacity(BUFFER),
            full: Some(full),
            writer: Some(writer),
        })
    }

    /// Waits until everything is written; returns the first write error.
    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.full = None;
        let written = self.writer.take().map_or(Ok(Ok(())), JoinHandle::join);
        written.unwrap_or_else(|_| Err(io::Error::other("the writer of packets ended badly")))
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Sends the buffer to the thread; if the thread has ended, returns its error.
    fn flush(&mut self) -> io::Result<()> {
        let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(BUFFER));
        match &self.full {
            Some(to) if to.send(full).is_ok() => Ok(()),
            _ => self
                .join()
                .and_then(|()| Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of this capacity, which exposes the bytes written.
    struct Disk(usize, std::sync::mpsc::Sender<usize>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            let _nobody_listens = self.1.send(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_that_is_written_reaches_the_disk() {
        let (took, taken) = std::sync::mpsc::channel();
        let mut spool = Spool::new(Disk(usize::MAX, took)).expect("a thread");
        for _ in 0..10_000 {
            spool.write_all(&[7; 1000]).expect("room");
        }
        spool.finish().expect("written");
        assert_eq!(taken.iter().sum::<usize>(), 10_000_000);
    }

    #[test]
    fn a_full_disk_is_told() {
        let (took, _taken) = std::sync::mpsc::channel();
        let mut spool = Spool::new(Disk(3 * BUFFER, took)).expect("a thread");
        let written = (0..100).try_for_each(|_| spool.write_all(&[7; BUFFER]));
        assert_eq!(
            written
                .and_then(|()| spool.finish())
                .expect_err("full")
                .kind(),
            io::ErrorKind::StorageFull
        );
    }
}
