//! hyper serves the files of a directory over our streams, as it would over tokio's own.
//!
//! `cargo run -p tautline-examples --example http_server -- --iface tap0 --device tap --ip
//! 10.7.0.1/24 --root .`

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll};

use clap::Parser;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tautline_cli::args::{StackArgs, parse};
use tautline_cli::failure::exit_code;
use tautline_cli::sockets::{Sockets, with_sockets};
use tautline_rt::{TcpListener, TcpStream};
use tokio::sync::Barrier;

/// Serves the files of a directory by HTTP.
#[derive(Parser, Debug)]
struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Port to listen on
    #[arg(long, default_value_t = 80)]
    listen: u16,
    /// The directory
    #[arg(long)]
    root: PathBuf,
    /// Let so many connections come together before any of them is served: shows that they are open
    /// at the same time
    #[arg(long, default_value_t = 1)]
    together: usize,
}

/// A file, read as the client takes it: one that never reads holds a block, not the file.
#[derive(Default)]
struct FileBody {
    file: Option<File>,
    left: u64,
}

/// Bytes of a file read at a time, and of a response that hyper gathers before it waits for the client.
const BLOCK: usize = 16 << 10;

impl FileBody {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let left = metadata.len();
        Ok(Self {
            file: Some(file),
            left,
        })
    }

    fn next_block(&mut self) -> io::Result<Option<Frame<Bytes>>> {
        let Some(file) = self.file.as_mut().filter(|_| self.left > 0) else {
            return Ok(None);
        };
        let mut block = vec![0; BLOCK.min(usize::try_from(self.left).unwrap_or(BLOCK))];
        file.read_exact(&mut block)?;
        self.left -= block.len() as u64;
        Ok(Some(Frame::data(block.into())))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.next_block().transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn respond(status: StatusCode, body: FileBody) -> Response<FileBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

async fn answer(root: &Path, request: Request<Incoming>) -> Result<Response<FileBody>, Infallible> {
    if request.method() != Method::GET {
        return Ok(respond(StatusCode::METHOD_NOT_ALLOWED, FileBody::default()));
    }
    // Only plain names, so that no path leaves the root.
    let name = Path::new(request.uri().path().trim_start_matches('/'));
    let plain = name
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let file = plain
        .then(|| FileBody::open(&root.join(name)).ok())
        .flatten();
    Ok(file.map_or_else(
        || respond(StatusCode::NOT_FOUND, FileBody::default()),
        |body| respond(StatusCode::OK, body),
    ))
}

async fn serve(stream: TcpStream, root: Arc<PathBuf>, together: Arc<Barrier>) {
    together.wait().await;
    let service = service_fn(move |request| {
        let root = Arc::clone(&root);
        async move { answer(&root, request).await }
    });
    if let Err(error) = http1::Builder::new()
        .max_buf_size(BLOCK)
        .serve_connection(TokioIo::new(stream), service)
        .await
    {
        eprintln!("http_server: {error}");
    }
}

fn main() -> ExitCode {
    let Args {
        stack,
        listen,
        root,
        together,
    } = parse();
    let program = move |Sockets { stack, addresses }: Sockets| -> io::Result<()> {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?
            .block_on(async {
                let listener = TcpListener::bind(&stack, listen).await?;
                let (root, together) = (Arc::new(root), Arc::new(Barrier::new(together)));
                eprintln!("listening on {addresses:?}, port {listen}");
                loop {
                    let (stream, _) = listener.accept().await?;
                    tokio::spawn(serve(stream, Arc::clone(&root), Arc::clone(&together)));
                }
            })
    };
    exit_code("http_server", with_sockets(&stack, None, program))
}
