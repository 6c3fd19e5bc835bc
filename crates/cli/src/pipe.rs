//! [`PipeReader`] and [`FileWriter`]: threads that wait for pipes, terminals and disks, so that the loop
//! that drives a host need not: timers and ARP go on meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::task::Waker;
use std::thread::Builder;
use std::time::Duration;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};

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
                let read = patiently(&mut file, PollFlags::IN, |file| file.read(&mut buffer));
                let read = read.map(|len| Bytes::copy_from_slice(&buffer[..len]));
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
                let outcome = write_all(&mut file, &block).map(|()| block);
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

    /// A block that was written since, if any. One in the hands of the writer is waited for, up to `patience`.
    pub(crate) fn reclaim(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        if self.queued == 0 {
            return Ok(None);
        }
        match self.written.recv_timeout(patience) {
            Ok(block) => {
                self.queued -= 1;
                block.map(Some)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Repeats `call` after a signal, and once `file` is ready for what `flags` says: another process may have
/// made a standard stream non-blocking.
fn patiently(
    file: &mut File,
    flags: PollFlags,
    mut call: impl FnMut(&mut File) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        match call(file) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // An error shows at the next call.
                let _ready = poll(&mut [PollFd::new(file, flags)], None);
            }
            outcome => return outcome,
        }
    }
}

fn write_all(file: &mut File, mut block: &[u8]) -> io::Result<()> {
    while !block.is_empty() {
        let count = patiently(file, PollFlags::OUT, |file| file.write(block))?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        block = &block[count..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn streams_that_do_not_block_are_waited_for() {
        let (near, far) = UnixStream::pair().expect("streams");
        for stream in [&near, &far] {
            stream.set_nonblocking(true).expect("an option");
        }
        let [near, far] = [near, far].map(|stream| File::from(OwnedFd::from(stream)));
        let data: Vec<u8> = (0..1 << 20).map(|byte: u32| (byte / 7) as u8).collect();
        let mut writer = FileWriter::start(near, Waker::noop().clone()).expect("a thread");
        writer.push(data.clone());
        let mut reader = PipeReader::start(far, Waker::noop().clone()).expect("a thread");
        let mut arrived = Vec::new();
        while arrived.len() < data.len() {
            if let Some(bytes) = reader.next().expect("no error") {
                assert!(!bytes.is_empty(), "the writer has given up");
                arrived.extend_from_slice(&bytes);
            }
            thread::yield_now();
        }
        assert!(arrived == data);
        assert!(writer.reclaim(Duration::MAX).expect("no error").is_some());
    }
}
