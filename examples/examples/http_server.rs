//! hyper serves the files of a directory over our streams, as it would over tokio's own.
//!
//! `cargo run -p tautline-examples --example http_server -- --iface tap0 --device tap --ip
//! 10.7.0.1/24 --root .`

use std::convert::Infallible;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tautline_examples::args::{StackArgs, parse};
use tautline_examples::failure::exit_code;
use tautline_examples::sockets::{Sockets, with_sockets};
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

fn respond(status: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

async fn answer(
    root: &Path,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET {
        return Ok(respond(StatusCode::METHOD_NOT_ALLOWED, Vec::new()));
    }
    // Only plain names: nobody climbs out of the root.
    let name = Path::new(request.uri().path().trim_start_matches('/'));
    let plain = name
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let read = plain.then(|| std::fs::read(root.join(name)).ok()).flatten();
    Ok(read.map_or_else(
        || respond(StatusCode::NOT_FOUND, Vec::new()),
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
