//! [`Sink`]: takes the bytes of a transfer, hashes them and, if asked to, writes them to a file.
//!
//! Hashing and writing cost about as much as receiving. So that a transfer measures the network,
//! blocks are kept in memory up to a budget and stored after it; beyond the budget the oldest block is
//! stored at once.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::task::Waker;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::pipe::FileWriter;

/// Size of a block.
pub const BLOCK: usize = 1 << 20;
/// How long a file may take for a block of a transfer that has failed.
const PATIENCE: Duration = Duration::from_secs(1);

/// SHA-256 of a stream, and a copy of it in a file.
#[derive(Debug)]
pub struct Sink {
    hasher: Option<Sha256>,
    file: Option<File>,
    /// Writes in the place of `file`.
    writer: Option<FileWriter>,
    kept: VecDeque<Vec<u8>>,
    /// Blocks that may be kept.
    budget: usize,
    spare: Option<Vec<u8>>,
}

/// Result of [`Sink::store_next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// There may be more to store.
    More,
    /// The output takes nothing now; the waker is woken when that may have changed.
    Blocked,
    /// Everything is stored.
    All,
}

impl Sink {
    /// A sink that keeps up to `budget` bytes for later.
    pub fn new(digest: bool, file: Option<File>, budget: u64) -> Self {
        let budget = if digest || file.is_some() {
            usize::try_from(budget).unwrap_or(usize::MAX) / BLOCK
        } else {
            0
        };
        Self {
            hasher: digest.then(Sha256::new),
            file,
            writer: None,
            kept: VecDeque::new(),
            budget,
            spare: None,
        }
    }

    /// Writes the file on a thread of its own from now on, for a pipe without a reader and a disk may make
    /// their writer wait; `waker` is woken when it takes more.
    ///
    /// # Errors
    /// If the process has no thread left.
    pub fn start(&mut self, waker: Waker) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            self.writer = Some(FileWriter::start(file, waker)?);
        }
        Ok(())
    }

    /// A block of [`BLOCK`] bytes to be filled.
    pub fn empty_block(&mut self) -> Vec<u8> {
        match self.spare.take() {
            None => vec![0; BLOCK],
            Some(mut block) => {
                block.resize(BLOCK, 0);
                block
            }
        }
    }

    /// Takes a filled block. Returns whether there is [room](Self::make_room) for another.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn take(&mut self, block: Vec<u8>) -> io::Result<bool> {
        self.kept.push_back(block);
        self.make_room()
    }

    /// Stores the blocks beyond the budget; false if the output does not take them yet.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn make_room(&mut self) -> io::Result<bool> {
        while self.kept.len() > self.budget {
            if self.store_next()? == Stored::Blocked {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hashes and writes the oldest block that was kept.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store_next(&mut self) -> io::Result<Stored> {
        self.store_oldest(Duration::ZERO)
    }

    /// Hashes and writes the remaining buffered data. Returns the digest in hexadecimal, if
    /// requested.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<Option<String>> {
        while self.store_oldest(Duration::MAX)? != Stored::All {}
        Ok(self.hasher.map(hex))
    }

    /// Writes what is left of a transfer that has failed, until the file takes nothing for a second:
    /// a pipe may have no reader any more.
    pub fn abandon(mut self) {
        while let Ok(Stored::More) = self.store_oldest(PATIENCE) {}
    }

    /// Stores the oldest block; an output that does not take it yet is waited for, up to `patience`.
    fn store_oldest(&mut self, patience: Duration) -> io::Result<Stored> {
        if let Some(writer) = &mut self.writer {
            let must_wait = self.kept.is_empty() || !writer.has_room();
            let patience = if must_wait { patience } else { Duration::ZERO };
            while let Some(block) = writer.reclaim(patience)? {
                self.spare = Some(block);
            }
            if !writer.has_room() || self.kept.is_empty() && writer.queued() > 0 {
                return Ok(Stored::Blocked);
            }
        }
        let Some(block) = self.kept.pop_front() else {
            return Ok(Stored::All);
        };
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&block);
        }
        if let Some(writer) = &mut self.writer {
            writer.push(block);
            return Ok(Stored::More);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&block)?;
        }
        self.spare = Some(block);
        Ok(Stored::More)
    }
}

/// A digest as people write it.
pub fn hex(hasher: Sha256) -> String {
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_does_not_depend_on_the_budget() {
        let digest = |budget| {
            let mut sink = Sink::new(true, None, budget);
            for round in 0..5u8 {
                let mut block = sink.empty_block();
                assert_eq!(block.len(), BLOCK);
                block.fill(round);
                block.truncate(BLOCK - usize::from(round));
                sink.take(block).expect("no file is involved");
            }
            sink.finish()
                .expect("no file is involved")
                .expect("asked for")
        };
        assert_eq!(digest(0), digest(u64::MAX));
        assert_eq!(digest(2 * BLOCK as u64), digest(0));
    }

    /// A pipe whose reader takes nothing for a while.
    #[test]
    fn a_slow_pipe_blocks_nobody_and_gets_everything() {
        const BLOCKS: usize = 8;
        let (mut reader, writer) = io::pipe().expect("descriptors");
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut sink = Sink::new(true, Some(file), 0);
        sink.start(Waker::noop().clone()).expect("a thread");
        let mut taken = 0;
        let is_full = (0..BLOCKS).any(|round| {
            let mut block = sink.empty_block();
            block.fill(round as u8);
            taken += 1;
            !sink.take(block).expect("nobody has closed it")
        });
        assert!(is_full && taken < BLOCKS, "full after {taken}");
        assert!(!sink.make_room().expect("nobody has closed it"));
        assert_eq!(
            sink.store_next().expect("nobody has closed it"),
            Stored::Blocked
        );
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            io::Read::read_to_end(&mut reader, &mut all).map(|_| all)
        });
        let digest = sink.finish().expect("it is read").expect("asked for");
        let all = reading.join().expect("no panic").expect("readable");
        assert_eq!(all.len(), taken * BLOCK);
        let is_ordered = all.chunks(BLOCK).zip(0..).all(|(block, round)| {
            let is_its_own = |byte: &u8| *byte == round;
            block.iter().all(is_its_own)
        });
        assert!(is_ordered);
        assert_eq!(digest, hex(Sha256::new_with_prefix(&all)));
    }

    /// A disk may be slow, too: the loop that drives the host hands its blocks over.
    #[test]
    fn a_file_is_written_on_a_thread_of_its_own() {
        let path = std::env::temp_dir().join(format!("tautline-sink-{}", std::process::id()));
        let file = File::create(&path).expect("a temporary file");
        let mut sink = Sink::new(true, Some(file), 0);
        sink.start(Waker::noop().clone()).expect("a thread");
        let block = sink.empty_block();
        assert!(sink.take(block).expect("room on the disk"));
        let queued = sink.writer.as_ref().map(FileWriter::queued);
        assert_eq!(queued, Some(1), "written on the thread of the host");
        let digest = sink.finish().expect("room on the disk");
        let written = std::fs::read(&path).expect("ours");
        std::fs::remove_file(&path).expect("ours");
        assert_eq!(written.len(), BLOCK);
        assert_eq!(digest, Some(hex(Sha256::new_with_prefix(&written))));
    }

    /// One pipe is read, of the other nobody takes anything.
    #[test]
    fn what_a_failed_transfer_has_received_is_written_if_the_file_takes_it() {
        for is_read in [true, false] {
            let (mut reader, writer) = io::pipe().expect("descriptors");
            let file = File::from(std::os::fd::OwnedFd::from(writer));
            let mut sink = Sink::new(false, Some(file), u64::MAX);
            sink.start(Waker::noop().clone()).expect("a thread");
            for _ in 0..4 {
                let block = sink.empty_block();
                assert!(sink.take(block).expect("it is kept"));
            }
            let (open, reading) = if is_read {
                let reading = std::thread::spawn(move || {
                    let mut all = Vec::new();
                    io::Read::read_to_end(&mut reader, &mut all)
                });
                (None, Some(reading))
            } else {
                (Some(reader), None)
            };
            sink.abandon();
            drop(open);
            if let Some(reading) = reading {
                let count = reading.join().expect("no panic").expect("readable");
                assert_eq!(count, 4 * BLOCK);
            }
        }
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error() {
        let (reader, writer) = io::pipe().expect("descriptors");
        drop(reader);
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut sink = Sink::new(false, Some(file), u64::MAX);
        sink.start(Waker::noop().clone()).expect("a thread");
        let block = sink.empty_block();
        assert!(sink.take(block).expect("it is kept"));
        let error = sink.finish().expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_empty_stream_has_the_published_digest() {
        let digest = Sink::new(true, None, 0)
            .finish()
            .expect("no file")
            .expect("asked for");
        assert_eq!(
            digest,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
