//! One upload from a client to a server in this process, over QUIC, with every byte checked.

use std::convert::Infallible;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::{
    ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig,
};
use rustls::RootCertStore;
use tautline_base::{Bytes, Rate};
use tautline_quinn::{Algorithm, ControllerConfig};

use crate::relay::{Link, Relay};

/// Any error, for display.
pub(crate) type AnyError = Box<dyn Error + Send + Sync>;

/// Outcome of an upload at the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Bytes of the stream over the time from the first to the server's word that it has all.
    pub(crate) goodput: Rate,
    /// Mean of quinn's smoothed round trip over that time.
    pub(crate) rtt: Duration,
    /// Lowest round trip.
    pub(crate) min_rtt: Duration,
    /// Mean window over that time, in bytes.
    pub(crate) cwnd: u64,
    /// Packets quinn declared lost.
    pub(crate) lost: u64,
    /// Datagrams the bottleneck dropped, as the relay counted them.
    pub(crate) dropped: u64,
}

const SAMPLE: Duration = Duration::from_millis(5);
const CHUNK: usize = 64 << 10;
/// Of a datagram; what quinn's own search would find within the first round trips. Given, because a
/// controller's segments cannot grow.
const MTU: u16 = 1452;

/// Uploads `size` under `algorithm`, through `link` or straight.
///
/// # Errors
/// Those of sockets, certificates and QUIC; an algorithm that needs what quinn does not tell; bytes
/// that differ.
pub(crate) async fn run(
    algorithm: Algorithm,
    size: Bytes,
    link: Option<Link>,
) -> Result<Outcome, AnyError> {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(ControllerConfig::new(algorithm)?))
        .initial_mtu(MTU);
    let (server_config, client_config) = configs(transport)?;
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(server_config, local)?;
    let relay = link
        .map(|link| Relay::start(server.local_addr()?, link))
        .transpose()?;
    let address = relay
        .as_ref()
        .map_or_else(|| server.local_addr(), |relay| Ok(relay.address()))?;
    let served = tokio::spawn(serve(server));

    let client = Endpoint::client(local)?;
    let connection = client
        .connect_with(client_config, address, "localhost")?
        .await?;
    let (send, receive) = connection.open_bi().await?;
    let begun = Instant::now();
    let mut means = Means::default();
    let counted = tokio::select! {
        counted = upload(send, receive, size) => counted?,
        never = means.watch(&connection) => match never {},
    };
    let took = begun.elapsed();
    if counted != size {
        return Err(format!("the server has {counted} of {size} intact").into());
    }
    means.take(&connection);
    let stats = connection.stats().path;
    connection.close(0_u8.into(), b"done");
    client.wait_idle().await;
    served.await??;
    let dropped = relay.as_ref().map_or(0, Relay::dropped);
    let goodput = Rate::from_amount(size, took);
    let (rtt, cwnd) = means.get();
    Ok(Outcome {
        goodput,
        rtt,
        min_rtt: stats.min_rtt,
        cwnd,
        lost: stats.lost_packets,
        dropped,
    })
}

/// Sends the pattern; returns how much of it the server found intact.
async fn upload(
    mut send: SendStream,
    mut receive: RecvStream,
    size: Bytes,
) -> Result<Bytes, AnyError> {
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    while offset < size.get() {
        let len = (size.get() - offset).min(CHUNK as u64);
        let data = &mut chunk[..len as usize];
        fill(data, offset);
        send.write_all(data).await?;
        offset += len;
    }
    send.finish()?;
    let mut answer = [0; 8];
    receive.read_exact(&mut answer).await?;
    Ok(Bytes::new(u64::from_be_bytes(answer)))
}

/// Takes one connection and one stream; answers with the length of what came before the first wrong
/// byte.
async fn serve(server: Endpoint) -> Result<(), AnyError> {
    let connection = server.accept().await.ok_or("the endpoint closed")?.await?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut expected = vec![0; CHUNK];
    let mut intact = 0_u64;
    let mut good = true;
    while let Some(chunk) = receive.read_chunk(CHUNK, true).await? {
        let expected = &mut expected[..chunk.bytes.len()];
        fill(expected, chunk.offset);
        good &= chunk.bytes == *expected;
        intact += if good { chunk.bytes.len() as u64 } else { 0 };
    }
    send.write_all(&intact.to_be_bytes()).await?;
    send.finish()?;
    connection.closed().await;
    Ok(())
}

/// The bytes of the stream from `offset` on: no power of two is their period.
fn fill(data: &mut [u8], offset: u64) {
    for (i, byte) in (offset..).zip(data) {
        *byte = (i % 251) as u8 ^ (i >> 12) as u8;
    }
}

/// Means of what a connection shows, taken as often as [`SAMPLE`] says.
#[derive(Default)]
struct Means {
    rtt: Duration,
    cwnd: u64,
    samples: u32,
}

impl Means {
    async fn watch(&mut self, connection: &Connection) -> Infallible {
        loop {
            tokio::time::sleep(SAMPLE).await;
            self.take(connection);
        }
    }

    fn take(&mut self, connection: &Connection) {
        let path = connection.stats().path;
        self.rtt += path.rtt;
        self.cwnd = self.cwnd.saturating_add(path.cwnd);
        self.samples += 1;
    }

    fn get(&self) -> (Duration, u64) {
        let samples = self.samples.max(1);
        (self.rtt / samples, self.cwnd / u64::from(samples))
    }
}

/// A server with a certificate of its own making, and a client that trusts no other.
fn configs(transport: TransportConfig) -> Result<(ServerConfig, ClientConfig), AnyError> {
    let transport = Arc::new(transport);
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    server.transport_config(transport.clone());
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(trusted))?;
    client.transport_config(transport);
    Ok((server, client))
}
