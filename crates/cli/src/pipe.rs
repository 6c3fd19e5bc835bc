//! [`PipeReader`] and [`FileWriter`]: threads that wait for pipes, terminals and disks, so that the loop
//! that drives a host need not: timers and ARP go on meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::task::Waker;
use std::thread::Builder;

use bytes::Bytes;

/// Bytes of a read, as many as a pipe of Linux holds.
const READ: usize = 64 << 10;
/// Reads that wait to be sent: 1 MiB.
const READS: usize = 16;
/// Blocks in the hands of a writer: one that is being written and the next.
const BLOCKS: usize = 2;

/// Reads a file ahead.
#[derive(Debug)]
pub(crate) struct PipeReader {
    reads: Receiver<io::Result<Bytes>>,
    has_ended: bool,
}

impl PipeReader {
    /// Starts to read. `waker` is woken when there is more.
    pub(crate) fn start(mut file: File, waker: Waker) -> io::Result<Self> {
        let (sender, reads) = sync_channel(READS);
        Builder::new().name("input".into()).spawn(move || {
            let mut buffer = vec![0; READ];
            loop {
                let read = match file.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read.map(|len| Bytes::copy_from_slice(&buffer[..len])),
                };
                let is_last = read.as_ref().map_or(true, Bytes::is_empty);
                // The other end is gone with the transfer.
                let is_wanted = sender.send(read).is_ok();
                waker.wake_by_ref();
                if is_last || !is_wanted {
                    return;
                }
            }
        })?;
        Ok(Self {
            reads,
            has_ended: false,
        })
    }

    /// The next bytes read; no bytes at the end, `None` if nothing has come yet.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.has_ended {
            return Ok(Some(Bytes::new()));
        }
        match self.reads.try_recv() {
            Ok(read) => {
                self.has_ended = read.as_ref().map_or(true, Bytes::is_empty);
                read.map(Some)
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Writes blocks to a file.
#[derive(Debug)]
pub(crate) struct FileWriter {
    blocks: SyncSender<Vec<u8>>,
    /// Blocks that were written, to be filled again, or why one was not.
    written: Receiver<io::Result<Vec<u8>>>,
    /// Blocks not yet returned.
    queued: usize,
}

impl FileWriter {
    /// Starts to write. `waker` is woken after each block.
    pub(crate) fn start(mut file: File, waker: Waker) -> io::Result<Self> {
        let (blocks, to_write) = sync_channel::<Vec<u8>>(BLOCKS);
        let (sender, written) = sync_channel(BLOCKS);
        Builder::new().name("output".into()).spawn(move || {
            for block in to_write {
                let outcome = file.write_all(&block).map(|()| block);
                // The other end is gone with the transfer.
                let is_over = outcome.is_err() | sender.send(outcome).is_err();
                waker.wake_by_ref();
                if is_over {
                    return;
                }
            }
        })?;
        Ok(Self {
            blocks,
            written,
            queued: 0,
        })
    }

    /// Whether a block can be pushed.
    pub(crate) fn has_room(&self) -> bool {
        self.queued < BLOCKS
    }

    /// Blocks that were handed over and not [reclaimed](Self::reclaim) since.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Hands a block over; there must be [room](Self::has_room).
    pub(crate) fn push(&mut self, block: Vec<u8>) {
        debug_assert!(self.has_room(), "pushed without room");
        self.queued += 1;
        // Why a writer has ended comes with the block before.
        let _ = self.blocks.try_send(block);
    }

    /// A block that was written since, if any; with `wait` it is waited for.
    pub(crate) fn reclaim(&mut self, wait: bool) -> io::Result<Option<Vec<u8>>> {
        let written = if wait && self.queued > 0 {
            self.written.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            self.written.try_recv()
        };
        match written {
            Ok(block) => {
                self.queued -= 1;
                block.map(Some)
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
