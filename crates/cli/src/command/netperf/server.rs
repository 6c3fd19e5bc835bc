//! `tautline netserver`: any number of tests at a time, each with a port of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clap::Args;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

use super::session::{Done, PORT, Ready, Remote, Request, Test};
use crate::args::OptionalStack;
use crate::failure::Failure;
use crate::net::{
    MESSAGE_TIMEOUT, Net, TcpListener, TcpOptions, TcpStream, UdpSocket, payload, with_net,
};

/// Serves `tautline netperf`, in the foreground, until it is interrupted.
#[derive(Args, Debug)]
pub(in crate::command) struct Netserver {
    /// Port to listen on
    #[arg(short, default_value_t = PORT)]
    port: u16,
    /// Local address
    #[arg(short = 'L', value_name = "ADDRESS")]
    local: Option<IpAddr>,
    /// Accepted and ignored: the server always runs in the foreground
    #[arg(short = 'D')]
    foreground: bool,
    #[command(flatten)]
    over: OptionalStack,
}

impl Netserver {
    pub(in crate::command) fn run(self) -> Result<(), Failure> {
        let stack = self.over.0.clone();
        with_net(stack.as_ref(), None, |net| self.serve(net))
    }

    async fn serve(self, net: Net) -> io::Result<()> {
        let listener = net.listen(self.local, self.port).await?;
        eprintln!("listening on port {}", self.port);
        loop {
            let control = listener.accept().await?;
            let net = net.clone();
            tokio::spawn(async move {
                if let Err(error) = serve_one(&net, &control).await {
                    eprintln!("netserver: {error}");
                }
            });
        }
    }
}

/// The socket for the data of a test.
enum Data {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

async fn serve_one(net: &Net, control: &TcpStream) -> io::Result<()> {
    control.watch_peer()?;
    let request: Request = control.recv_json().await?;
    let (own, peer) = control.ends()?;
    // Refused by an older version of the program, or by hand.
    let sizes = [
        request.send_size,
        request.remote_size,
        request.request,
        request.response,
    ];
    if sizes.iter().any(|size| !(1..=1 << 20).contains(size)) {
        let why = "a size is out of range".to_owned();
        return control.send_json(&Ready::Refused(why)).await;
    }
    let (data, port) = match open(net, own, &request).await {
        Ok(opened) => opened,
        Err(error) => return control.send_json(&Ready::Refused(error.to_string())).await,
    };
    control.send_json(&Ready::Port(port)).await?;
    let counts = Counts::default();
    let remote = match data {
        Data::Udp(socket) => {
            tokio::select! {
                outcome = respond_to_datagrams(&socket, peer.ip(), &request, &counts) => outcome?,
                done = wait(control) => done?,
            }
            counts.remote()
        }
        Data::Tcp(listener) => {
            let stream = timeout(MESSAGE_TIMEOUT, listener.accept()).await??;
            drop(listener);
            stream.set(&options(&request))?;
            tokio::select! {
                outcome = transfer(&stream, &request, &counts) => {
                    // A receiver that closes while data is on its way resets the connection.
                    if let Err(error) = outcome && request.test != Test::Maerts {
                        return Err(error);
                    }
                    wait(control).await?;
                }
                done = wait(control) => done?,
            }
            let state = stream.state().await.unwrap_or_default();
            Remote {
                congestion: stream.congestion().await.unwrap_or_default(),
                retransmits: state.retransmits,
                ..counts.remote()
            }
        }
    };
    control.send_json(&remote).await
}

/// Waits for the client's last message.
async fn wait(control: &TcpStream) -> io::Result<()> {
    let mut length = [0; 4];
    control.recv_exact(&mut length).await?;
    let mut message = vec![0; u32::from_be_bytes(length).min(64) as usize];
    control.recv_exact(&mut message).await?;
    let Done = serde_json::from_slice(&message)?;
    Ok(())
}

async fn open(net: &Net, own: SocketAddr, request: &Request) -> io::Result<(Data, u16)> {
    let any = SocketAddr::new(own.ip(), 0);
    if request.test.is_udp() {
        let socket = net.bind(any).await?;
        socket.set_tos(request.tos)?;
        let port = socket.local_addr()?.port();
        return Ok((Data::Udp(socket), port));
    }
    let listener = net.listen(Some(own.ip()), 0).await?;
    let port = listener.port()?;
    Ok((Data::Tcp(listener), port))
}

fn options(request: &Request) -> TcpOptions {
    TcpOptions {
        congestion: request.congestion.clone(),
        tos: request.tos,
        nodelay: request.nodelay || request.test == Test::TcpRr,
        ..TcpOptions::default()
    }
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counts {
    fn remote(&self) -> Remote {
        Remote {
            sent: self.sent.load(Relaxed),
            received: self.received.load(Relaxed),
            ..Remote::default()
        }
    }
}

async fn transfer(stream: &TcpStream, request: &Request, counts: &Counts) -> io::Result<()> {
    match request.test {
        Test::Maerts => {
            let block = payload(request.remote_size as usize)?;
            loop {
                consume_budget().await;
                counts
                    .sent
                    .fetch_add(stream.send(&block).await? as u64, Relaxed);
            }
        }
        Test::TcpRr => {
            let mut question = vec![0; request.request as usize];
            let response = payload(request.response as usize)?;
            loop {
                match stream.recv_exact(&mut question).await {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    received => received?,
                }
                stream.send_all(&response).await?;
                counts.received.fetch_add(question.len() as u64, Relaxed);
                counts.sent.fetch_add(response.len() as u64, Relaxed);
            }
        }
        Test::Stream | Test::UdpRr => {
            let mut block = vec![0; 128 << 10];
            loop {
                consume_budget().await;
                match stream.recv(&mut block).await? {
                    0 => return Ok(()),
                    count => counts.received.fetch_add(count as u64, Relaxed),
                };
            }
        }
    }
}

/// A response begins with the first byte of its request, so that a late one is known.
async fn respond_to_datagrams(
    socket: &UdpSocket,
    client: IpAddr,
    request: &Request,
    counts: &Counts,
) -> io::Result<()> {
    let mut question = vec![0; 65_535];
    let mut response = payload(request.response as usize)?;
    loop {
        consume_budget().await;
        let (count, from) = socket.recv_from(&mut question).await?;
        // The data may take another way than the control connection, but not another client.
        if count == 0 || from.is_ipv4() != client.is_ipv4() {
            continue;
        }
        response[0] = question[0];
        counts.received.fetch_add(count as u64, Relaxed);
        let sent = socket.send_to(&response, from).await?;
        counts.sent.fetch_add(sent as u64, Relaxed);
    }
}
