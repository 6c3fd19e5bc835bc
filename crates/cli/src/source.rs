//! [`Source`]: the bytes a sender sends, from a file or generated.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::task::Waker;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use sha2::{Digest, Sha256};
use tautline_base::Instant;

use crate::args::TransferArgs;
use crate::failure::Failure;
use crate::pipe::PipeReader;
use crate::sink::{BLOCK, hex};

/// Source of the data.
#[derive(Debug)]
pub enum Source {
    /// A file.
    File(FileSource),
    /// A pipe, a terminal, a device, or standard input, whatever that is.
    Pipe(PipeSource),
    /// The same pseudo-random block over and over.
    Pattern(PatternSource),
}

/// A file, read block by block.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    /// The rest of the block that is being filled: zeros.
    block: BytesMut,
    /// Handles of the blocks before, whose memory can be had again once nothing of them is being sent.
    full: Vec<BytesMut>,
    /// The part of the block that is not yet sent.
    left: Bytes,
    sent: u64,
    /// The file is read a second time for its digest: hashing costs as much as sending.
    digest: bool,
}

/// A file that may make its reader wait, read on a thread of its own.
#[derive(Debug)]
pub struct PipeSource {
    input: Input,
    /// The part of the last read that is not yet sent.
    left: Bytes,
    /// It gives everything once, so it is hashed on the way.
    hasher: Option<Sha256>,
}

#[derive(Debug)]
enum Input {
    Opened(File),
    Started(PipeReader),
}

/// Generated data.
#[derive(Debug)]
pub struct PatternSource {
    block: Bytes,
    sent: u64,
    limit: Limit,
    digest: bool,
}

/// End of generated data.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After so many bytes.
    Bytes(u64),
    /// This long after the first read.
    Time(Duration),
    /// At this moment.
    Until(Instant),
}

impl Source {
    /// The contents of `path`; `-` is standard input.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn file(path: &Path, output: &TransferArgs) -> Result<Self, Failure> {
        let digest = !output.no_digest;
        if path.as_os_str() == "-" {
            let input = io::stdin().as_fd().try_clone_to_owned();
            // It may stand within a file, so it is hashed on the way.
            return Ok(Self::pipe(
                input.map_err(Failure::file(path))?.into(),
                digest,
            ));
        }
        let file = File::open(path).map_err(Failure::file(path))?;
        let metadata = file.metadata().map_err(Failure::file(path))?;
        // A directory opens, but cannot be read.
        if metadata.is_dir() {
            return Err(Failure::File {
                path: path.to_owned(),
                source: io::ErrorKind::IsADirectory.into(),
            });
        }
        if !metadata.is_file() {
            return Ok(Self::pipe(file, digest));
        }
        Ok(Self::File(FileSource {
            file,
            block: BytesMut::zeroed(BLOCK),
            full: Vec::new(),
            left: Bytes::new(),
            sent: 0,
            digest,
        }))
    }

    fn pipe(file: File, digest: bool) -> Self {
        Self::Pipe(PipeSource {
            input: Input::Opened(file),
            left: Bytes::new(),
            hasher: digest.then(Sha256::new),
        })
    }

    /// Generated data up to `limit`.
    pub fn pattern(limit: Limit, output: &TransferArgs) -> Self {
        Self::Pattern(PatternSource {
            block: noise().into(),
            sent: 0,
            limit,
            digest: !output.no_digest,
        })
    }

    /// Begins to read a source that may make its reader wait; `waker` is woken when there is more.
    ///
    /// # Errors
    /// If the process has no thread or descriptor left.
    pub fn start(&mut self, waker: Waker) -> io::Result<()> {
        if let Self::Pipe(source) = self
            && let Input::Opened(file) = &source.input
        {
            source.input = Input::Started(PipeReader::start(file.try_clone()?, waker)?);
        }
        Ok(())
    }

    /// The next bytes to send: no bytes at the end, `None` if nothing has come yet.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn chunk(&mut self, now: Instant) -> io::Result<Option<Bytes>> {
        match self {
            Self::File(source) => source.chunk().map(Some),
            Self::Pipe(source) => source.chunk(),
            Self::Pattern(source) => Ok(Some(source.chunk(now))),
        }
    }

    /// `count` bytes of the chunk were sent.
    pub fn advance(&mut self, count: usize) {
        match self {
            Self::File(source) => {
                source.left.advance(count);
                source.sent += count as u64;
            }
            Self::Pipe(source) => source.left.advance(count),
            Self::Pattern(source) => source.sent += count as u64,
        }
    }

    /// The SHA-256 of the data sent, if requested.
    ///
    /// # Errors
    /// If the rest of the file cannot be read.
    pub fn digest(self) -> io::Result<Option<String>> {
        match self {
            Self::File(source) => source.digest(),
            Self::Pipe(source) => Ok(source.hasher.map(hex)),
            Self::Pattern(source) => Ok(source.digest()),
        }
    }
}

impl FileSource {
    fn chunk(&mut self) -> io::Result<Bytes> {
        if self.left.is_empty() {
            self.left = Bytes::new(); // It would keep its block.
            if self.block.is_empty() {
                self.begin_block();
            }
            let read = self.file.read(&mut self.block)?;
            self.left = self.block.split_to(read).freeze();
        }
        Ok(self.left.clone())
    }

    /// Goes on with the memory of a block that was sent, if there is one.
    fn begin_block(&mut self) {
        let sent = (self.full.iter_mut()).position(|block| block.try_reclaim(BLOCK));
        let next = sent.map_or_else(BytesMut::new, |at| self.full.swap_remove(at));
        self.full.push(std::mem::replace(&mut self.block, next));
        self.block.resize(BLOCK, 0);
    }

    fn digest(mut self) -> io::Result<Option<String>> {
        if !self.digest {
            return Ok(None);
        }
        let mut hasher = Sha256::new();
        self.file.rewind()?;
        let mut again = self.file.take(self.sent);
        let mut block = vec![0; BLOCK];
        loop {
            match again.read(&mut block)? {
                0 => return Ok(Some(hex(hasher))),
                count => hasher.update(&block[..count]),
            }
        }
    }
}

impl PipeSource {
    /// Nothing comes before it was started.
    fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        if let (true, Input::Started(reader)) = (self.left.is_empty(), &mut self.input) {
            let Some(read) = reader.next()? else {
                return Ok(None);
            };
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&read);
            }
            self.left = read;
            return Ok(Some(self.left.clone()));
        }
        Ok(Some(self.left.clone()).filter(|left| !left.is_empty()))
    }
}

impl PatternSource {
    fn chunk(&mut self, now: Instant) -> Bytes {
        let from = (self.sent % BLOCK as u64) as usize;
        let left = match self.limit {
            Limit::Bytes(limit) => limit - self.sent,
            Limit::Time(time) => {
                self.limit = Limit::Until(now + time);
                u64::MAX
            }
            Limit::Until(end) if now < end => u64::MAX,
            Limit::Until(_) => 0,
        };
        let len = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(BLOCK - from);
        self.block.slice(from..from + len)
    }

    fn digest(&self) -> Option<String> {
        let mut hasher = self.digest.then(Sha256::new)?;
        for _ in 0..self.sent / BLOCK as u64 {
            hasher.update(&self.block);
        }
        hasher.update(&self.block[..(self.sent % BLOCK as u64) as usize]);
        Some(hex(hasher))
    }
}

/// A block that does not repeat inside (Marsaglia's xorshift64).
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let words = (0..BLOCK / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;

    use super::*;

    const OUTPUT: TransferArgs = TransferArgs {
        silence: Duration::ZERO,
        json: false,
        summary: None,
        no_digest: false,
        http: None,
    };

    fn read_all(mut source: Source) -> (Vec<u8>, String) {
        let mut all = Vec::new();
        let (wake, woken) = channel();
        let waker = Waker::from(Arc::new(Woken(wake)));
        source.start(waker).expect("a thread");
        loop {
            let Some(chunk) = source.chunk(Instant::ZERO).expect("readable") else {
                woken.recv().expect("its thread runs");
                continue;
            };
            if chunk.is_empty() {
                return (all, source.digest().expect("readable").expect("asked for"));
            }
            let taken = chunk.len().div_ceil(3);
            all.extend(&chunk[..taken]);
            source.advance(taken);
        }
    }

    struct Woken(Sender<()>);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            // The end of the test.
            let _ = self.0.send(());
        }
    }

    #[test]
    fn what_is_sent_is_what_is_hashed() {
        let len = 2 * BLOCK + 12_345;
        let (generated, digest) = read_all(Source::pattern(Limit::Bytes(len as u64), &OUTPUT));
        assert_eq!(generated.len(), len);
        assert_eq!(hex(Sha256::new_with_prefix(&generated)), digest);

        let path = std::env::temp_dir().join(format!("tautline-source-{}", std::process::id()));
        std::fs::write(&path, &generated).expect("a temporary file");
        let from_file = read_all(Source::file(&path, &OUTPUT).expect("it is there"));
        assert!(from_file == (generated.clone(), digest.clone()));

        // The memory of a block is used again once it was sent.
        let file = File::options().write(true).open(&path).expect("ours");
        file.set_len(8 * BLOCK as u64).expect("room");
        let source = Source::file(&path, &OUTPUT).expect("it is there");
        std::fs::remove_file(&path).expect("it is ours");
        let Source::File(mut source) = source else {
            panic!("a file");
        };
        for _ in 0..8 {
            let chunk = source.chunk().expect("readable");
            assert_eq!(chunk.len(), BLOCK);
            source.left.advance(chunk.len());
        }
        assert_eq!(source.full.len(), 1);

        // A pipe is hashed on the way.
        let (reader, mut writer) = io::pipe().expect("descriptors");
        let writing = std::thread::spawn(move || io::Write::write_all(&mut writer, &generated));
        let (piped, on_the_way) = read_all(of_pipe(&reader));
        drop(reader);
        writing
            .join()
            .expect("no panic")
            .expect("it was read to the end");
        assert_eq!((piped.len(), on_the_way), (len, digest));
    }

    fn of_pipe(reader: &io::PipeReader) -> Source {
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        Source::file(Path::new(&path), &OUTPUT).expect("it is there")
    }

    /// The loop that drives the host asks it at every turn.
    #[test]
    fn a_pipe_without_data_blocks_nobody() {
        let (reader, mut writer) = io::pipe().expect("descriptors");
        let mut source = of_pipe(&reader);
        let (wake, woken) = channel();
        let waker = Waker::from(Arc::new(Woken(wake)));
        source.start(waker).expect("a thread");
        let next = |source: &mut Source| source.chunk(Instant::ZERO).expect("readable");
        assert_eq!(next(&mut source), None);
        for data in [&b"slow"[..], b"ly"] {
            io::Write::write_all(&mut writer, data).expect("room");
            woken.recv().expect("its thread runs");
            assert_eq!(next(&mut source).as_deref(), Some(data));
            source.advance(data.len());
            assert_eq!(next(&mut source), None);
        }
        drop(writer);
        woken.recv().expect("its thread runs");
        assert_eq!(next(&mut source).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn data_for_a_time_ends_in_time() {
        let mut source = Source::pattern(Limit::Time(Duration::from_secs(1)), &OUTPUT);
        for (at, ended) in [(5_000, false), (5_999, false), (6_000, true)] {
            assert_eq!(
                source
                    .chunk(Instant::from_millis(at))
                    .expect("generated")
                    .is_some_and(|chunk| chunk.is_empty()),
                ended,
                "{at}"
            );
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Source::file(Path::new("/no/such/file"), &OUTPUT)
            .expect_err("missing")
            .to_string();
        assert!(error.starts_with("/no/such/file: No such file"), "{error}");
        assert!(Source::file(Path::new("/"), &OUTPUT).is_err());
    }
}
