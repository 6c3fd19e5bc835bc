//! The conversation of `talk`, over a stream in memory: both sides agree, and each finds what the other did not say.

use std::io;
use std::time::Duration;

use tautline_examples::conversation::{Plan, answer, call};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};

const PLAN: Plan = Plan {
    up: 100_000,
    down: 70_001,
    seed: 7,
    pause: Duration::ZERO,
    think: Duration::ZERO,
};

async fn whole_call(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    stream.write_all(&PLAN.head()).await?;
    call(stream, PLAN).await
}

#[tokio::test]
async fn both_sides_agree() {
    let (caller, answerer) = duplex(1000);
    let (called, answered) = tokio::join!(whole_call(caller), answer(answerer));
    called.unwrap();
    assert_eq!(answered.unwrap(), (100_000, 70_001));
}

/// Passes on what `from` says to `to`, byte number `flip` with another value.
async fn garble(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    flip: usize,
) -> io::Result<()> {
    let (mut at, mut block) = (0, [0; 512]);
    loop {
        let len = from.read(&mut block).await?;
        if len == 0 {
            return to.shutdown().await;
        }
        if let Some(byte) = flip.checked_sub(at).filter(|i| *i < len) {
            block[byte] ^= 1;
        }
        at += len;
        to.write_all(&block[..len]).await?;
    }
}

#[tokio::test]
async fn one_wrong_byte_either_way_is_found() {
    for (up, down) in [(50_000, usize::MAX), (usize::MAX, 40_000), (usize::MAX, 5)] {
        let ((caller, outside), (inside, answerer)) = (duplex(1000), duplex(1000));
        let ((a, b), (c, d)) = (tokio::io::split(outside), tokio::io::split(inside));
        let relay = async { tokio::try_join!(garble(a, d, up), garble(c, b, down)) };
        let (called, ..) = tokio::join!(whole_call(caller), answer(answerer), relay);
        assert_eq!(called.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
