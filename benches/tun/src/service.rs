//! The services of the ports.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads everything.
pub(crate) const SINK: u16 = 5001;
/// Writes until the peer leaves.
pub(crate) const SOURCE: u16 = 5002;
/// Returns what it reads.
pub(crate) const ECHO: u16 = 5003;

const CHUNK: usize = 64 << 10;

/// Serves a connection to `port` until either end closes it.
pub(crate) async fn serve(
    port: u16,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut buffer = vec![0; if port == ECHO { 1 << 10 } else { CHUNK }];
    match port {
        SOURCE => loop {
            stream.write_all(&buffer).await?;
        },
        _ => loop {
            let len = stream.read(&mut buffer).await?;
            if len == 0 {
                return stream.shutdown().await;
            }
            if port == ECHO {
                stream.write_all(&buffer[..len]).await?;
            }
        },
    }
}
