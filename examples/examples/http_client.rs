//! hyper fetches over our streams, on as many connections at a time as you like, and prints the
//! SHA-256 of what it got.
//!
//! `cargo run -p tautline-examples --example http_client -- --iface tap0 --device tap --ip
//! 10.7.0.2/24 --get 10.7.0.1:80/file`

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use clap::Parser;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tautline_cli::args::{StackArgs, parse};
use tautline_cli::failure::exit_code;
use tautline_cli::sockets::{Sockets, with_sockets};
use tautline_rt::{StackHandle, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Fetches a page by HTTP and prints how often each SHA-256 came.
#[derive(Parser, Debug)]
struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Server and path, e.g. 10.7.0.1:80/file
    #[arg(long)]
    get: Page,
    /// Connections that are open at the same time: none asks before all are there
    #[arg(long, default_value_t = 1)]
    connections: usize,
}

/// A URL to fetch.
#[derive(Clone, Debug)]
struct Page {
    server: SocketAddr,
    path: String,
}

impl FromStr for Page {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (server, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let server = server
            .parse()
            .map_err(|error| format!("{server}: {error}; write an address and a port"))?;
        Ok(Self {
            server,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
        })
    }
}

async fn fetch(stack: StackHandle, page: Page, together: Arc<Barrier>) -> io::Result<String> {
    let stream = TcpStream::connect(&stack, page.server).await?;
    together.wait().await;
    let (mut requests, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let request = Request::get(&page.path)
        .header(HOST, page.server.to_string())
        .body(Empty::<Bytes>::new());
    let response = requests
        .send_request(request.map_err(io::Error::other)?)
        .await
        .map_err(io::Error::other)?;
    if !response.status().is_success() {
        return Err(io::Error::other(format!(
            "{}: {}",
            page.path,
            response.status()
        )));
    }
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(io::Error::other)?
        .to_bytes();
    drop(requests);
    connection.await?.map_err(io::Error::other)?;
    Ok(Sha256::digest(&body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

async fn fetch_all(stack: StackHandle, page: Page, connections: usize) -> io::Result<()> {
    let together = Arc::new(Barrier::new(connections));
    let mut fetches = JoinSet::new();
    for _ in 0..connections {
        fetches.spawn(fetch(stack.clone(), page.clone(), Arc::clone(&together)));
    }
    let mut digests = BTreeMap::<String, usize>::new();
    while let Some(fetched) = fetches.join_next().await {
        *digests.entry(fetched??).or_default() += 1;
    }
    digests
        .iter()
        .for_each(|(digest, count)| println!("{digest} {count}"));
    Ok(())
}

fn main() -> ExitCode {
    let Args {
        stack,
        get,
        connections,
    } = parse();
    let server = get.server;
    let program = move |Sockets { stack, .. }: Sockets| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        runtime.block_on(fetch_all(stack, get, connections))
    };
    exit_code("http_client", with_sockets(&stack, Some(server), program))
}
