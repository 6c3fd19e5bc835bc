//! hyper over two hosts that a cable joins: it uses our streams only through tokio's traits.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use tautline_base::{HeapFrame, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{FqCodel, fq_codel};
use tautline_rt::handle::Config;
use tautline_rt::{Cable, HostThread, Idle, StackHandle, TcpListener, TcpStream, cable};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};
use tokio::task::JoinSet;

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), 80);
const CONNECTIONS: usize = 100;

fn host(number: u8, device: Cable) -> (HostThread, StackHandle) {
    HostThread::spawn(Config::default(), Idle::Sleep, move || {
        let config = HostConfig::new([2, 0, 0, 0, 0, number], number.into())
            .address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24));
        let qdisc = FqCodel::new(fq_codel::Config::default()).map_err(std::io::Error::other)?;
        let port = Port::new(qdisc, Ring::new(device, Dql::default()));
        Ok(Host::new(
            config,
            port,
            Pool::new((0..1024).map(|_| HeapFrame::new()).collect()),
            NoTrace,
        ))
    })
    .expect("a thread")
}

/// Sends a body back, every byte one higher.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request
        .into_body()
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let body: Vec<u8> = body.iter().map(|byte| byte.wrapping_add(1)).collect();
    Ok(Response::new(Full::new(body.into())))
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let connection = server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(connection);
    }
}

/// Several requests on one connection, small and large.
async fn ask(stack: StackHandle, number: usize) {
    let stream = TcpStream::connect(&stack, SERVER).await.expect("connected");
    let (mut requests, connection) = client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("a connection");
    let connection = tokio::spawn(connection);
    for size in [0, 1, 30_000 + number] {
        let body: Vec<u8> = (0..size)
            .map(|at| (at ^ (at >> 8) ^ number) as u8)
            .collect();
        let expected: Vec<u8> = body.iter().map(|byte| byte.wrapping_add(1)).collect();
        let request = Request::post("/")
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let response = requests.send_request(request).await.expect("a response");
        let body = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        assert!(body == expected, "connection {number}, {size} bytes");
    }
    drop(requests);
    connection
        .await
        .expect("no panic")
        .expect("closed in order");
}

#[test]
fn hyper_does_not_see_the_difference() {
    let [left, right] = cable().expect("descriptors");
    let ((client_thread, client), (server_thread, server)) = (host(1, left), host(2, right));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        tokio::spawn(serve(
            TcpListener::bind(&server, SERVER.port())
                .await
                .expect("the port is free"),
        ));
        let mut clients: JoinSet<()> = (0..CONNECTIONS)
            .map(|number| ask(client.clone(), number))
            .collect();
        let all = async {
            while let Some(asked) = clients.join_next().await {
                asked.expect("every answer is right");
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all)
            .await
            .expect("in time");
    });
    drop(runtime);
    client_thread.stop().expect("ran to its end");
    server_thread.stop().expect("ran to its end");
}
