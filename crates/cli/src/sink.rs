//! [`Sink`]: takes the bytes of a transfer, hashes them and, if asked to, writes them to a file.
//!
//! Hashing and writing cost about as much as receiving. So that a transfer measures the network,
//! blocks are kept in memory up to a budget and stored after it; beyond the budget the oldest block is
//! stored at once.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

/// Size of a block.
pub const BLOCK: usize = 1 << 20;

/// SHA-256 of a stream, and a copy of it in a file.
#[derive(Debug)]
pub struct Sink {
    hasher: Option<Sha256>,
    file: Option<File>,
    kept: VecDeque<Vec<u8>>,
    /// Blocks that may be kept.
    budget: usize,
    spare: Option<Vec<u8>>,
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
            kept: VecDeque::new(),
            budget,
            spare: None,
        }
    }

    /// A block of [`BLOCK`] bytes to be filled.
    pub fn empty_block(&mut self) -> Vec<u8> {
        self.spare.take().unwrap_or_else(|| vec![0; BLOCK])
    }

    /// Takes a filled block.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn take(&mut self, block: Vec<u8>) -> io::Result<()> {
        self.kept.push_back(block);
        if self.kept.len() > self.budget
            && let Some(mut oldest) = self.kept.pop_front()
        {
            self.store(&oldest)?;
            oldest.resize(BLOCK, 0);
            self.spare = Some(oldest);
        }
        Ok(())
    }

    /// Hashes and writes the oldest block that was kept. Returns whether there are more.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store_next(&mut self) -> io::Result<bool> {
        let block = self.kept.pop_front();
        block
            .map_or(Ok(()), |block| self.store(&block))
            .map(|()| !self.kept.is_empty())
    }

    /// Hashes and writes the remaining buffered data. Returns the digest in hexadecimal, if
    /// requested.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<Option<String>> {
        while self.store_next()? {}
        Ok(self.hasher.map(hex))
    }

    fn store(&mut self, block: &[u8]) -> io::Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(block);
        }
        self.file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(block))
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
