//! A conversation over one TCP connection that proves both directions, on any stream with tokio's
//! traits: the kernel's or ours.
//!
//! ```text
//! caller                                                     answerer
//!   how much each way, a seed (24 bytes, big endian)  ───▶
//!   `up` bytes of the seed's pattern, end of stream   ───▶
//!                                                     ◀───   SHA-256 of what arrived
//!                                                     ◀───   `down` bytes of the next seed's pattern, end of stream
//! ```
//! The caller closes its half first, so the answer is given on a half-closed connection.

use std::io;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tautline_base::SplitMix64;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// Nothing may keep a conversation waiting for longer.
const TIMEOUT: Duration = Duration::from_secs(60);
const BLOCK: usize = 16 << 10;

/// Options of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes from the caller.
    pub up: u64,
    /// Bytes to the caller, beside 32 of digest.
    pub down: u64,
    /// Decides the bytes.
    pub seed: u64,
    /// The caller leaves the answer unread for so long: its window closes.
    pub pause: Duration,
    /// The caller says nothing for so long before it sends: the connection is idle.
    pub think: Duration,
}

impl Plan {
    /// The first bytes of the conversation.
    pub fn head(&self) -> Vec<u8> {
        let numbers = [self.up, self.down, self.seed];
        numbers.into_iter().flat_map(u64::to_be_bytes).collect()
    }
}

/// Goes on with a conversation whose [head](Plan::head) is sent, and checks the answer.
///
/// # Errors
/// Those of the stream; `InvalidData` if a byte is not what it should be; `TimedOut` if the peer is
/// silent.
pub async fn call(mut stream: impl AsyncRead + AsyncWrite + Unpin, plan: Plan) -> io::Result<()> {
    let Plan {
        up,
        down,
        seed,
        pause,
        think,
    } = plan;
    let mut sent = Sha256::new();
    sleep(think).await;
    send(&mut stream, up, seed, Some(&mut sent)).await?;
    patiently(stream.shutdown()).await?;
    sleep(pause).await;
    let mut digest = [0; 32];
    patiently(stream.read_exact(&mut digest)).await?;
    if digest != *sent.finalize() {
        return Err(wrong("the peer's digest is not ours"));
    }
    receive(&mut stream, down, seed.wrapping_add(1)).await?;
    match patiently(stream.read(&mut [0])).await? {
        0 => Ok(()),
        _ => Err(wrong("the peer sent more than was asked for")),
    }
}

/// Answers a conversation. Returns how many bytes it received and sent.
///
/// # Errors
/// As [`call`].
pub async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<(u64, u64)> {
    let mut head = [0; 24];
    patiently(stream.read_exact(&mut head)).await?;
    let [up, down, seed] = std::array::from_fn(|i| {
        u64::from_be_bytes(*head[8 * i..].first_chunk().expect("24 bytes"))
    });
    let (mut arrived, mut count) = (Sha256::new(), 0);
    let mut block = vec![0; BLOCK];
    loop {
        let len = patiently(stream.read(&mut block)).await?;
        if len == 0 {
            break;
        }
        count += len as u64;
        arrived.update(&block[..len]);
    }
    if count != up {
        return Err(wrong("the stream ended early or late"));
    }
    patiently(stream.write_all(&arrived.finalize())).await?;
    send(&mut stream, down, seed.wrapping_add(1), None).await?;
    patiently(stream.shutdown()).await?;
    Ok((up, down))
}

async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: u64,
    seed: u64,
    mut digest: Option<&mut Sha256>,
) -> io::Result<()> {
    let (mut pattern, mut left) = (Pattern::new(seed), bytes);
    let mut block = vec![0; BLOCK];
    while left > 0 {
        let len = left.min(BLOCK as u64) as usize;
        pattern.fill(&mut block);
        if let Some(digest) = &mut digest {
            digest.update(&block[..len]);
        }
        patiently(stream.write_all(&block[..len])).await?;
        left -= len as u64;
    }
    Ok(())
}

async fn receive(stream: &mut (impl AsyncRead + Unpin), bytes: u64, seed: u64) -> io::Result<()> {
    let (mut pattern, mut left) = (Pattern::new(seed), bytes);
    let (mut expected, mut block) = (vec![0; BLOCK], vec![0; BLOCK]);
    while left > 0 {
        let len = left.min(BLOCK as u64) as usize;
        pattern.fill(&mut expected);
        patiently(stream.read_exact(&mut block[..len])).await?;
        if block[..len] != expected[..len] {
            return Err(wrong("a byte is not what was sent"));
        }
        left -= len as u64;
    }
    Ok(())
}

async fn patiently<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(TIMEOUT, work)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Bytes that depend on their position, so that a lost, repeated or moved one is noticed.
#[derive(Debug)]
pub struct Pattern(SplitMix64);

impl Pattern {
    /// The bytes of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next bytes, as many whole words of eight as fit into `block`.
    pub fn fill(&mut self, block: &mut [u8]) {
        for word in block.as_chunks_mut::<8>().0 {
            *word = self.0.next_u64().to_le_bytes();
        }
    }
}
