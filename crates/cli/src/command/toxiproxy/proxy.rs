//! [`Proxy`]: listens, connects each client to the server, and passes their data through toxics.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use socket2::SockRef;
use tautline_base::Instant;
use tautline_rt::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use super::chain::{Chain, Item};
use super::refusal::Refusal;
use super::toxic::{Stream, Toxic};
use crate::accept::ACCEPT_AGAIN;

/// Most bytes read at once: a piece of data for the toxics.
const PIECE: usize = 32 << 10;

/// A proxy. Ends its connections when dropped, and blocks until then.
pub(super) struct Proxy {
    pub(super) name: String,
    /// Address to listen on; once it has listened, with the port that the system chose.
    listen: String,
    upstream: String,
    listening: Option<JoinHandle<()>>,
    /// Where connections run.
    handle: Handle,
    shared: Arc<Shared>,
}

/// A proxy as clients see it.
#[derive(Serialize)]
pub(super) struct Shown {
    name: String,
    listen: String,
    upstream: String,
    enabled: bool,
    toxics: Vec<Toxic>,
}

/// Where a proxy is to listen and connect to.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) listen: String,
    pub(super) upstream: String,
    pub(super) enabled: bool,
}

/// State that a proxy shares with its connections.
struct Shared {
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    toxics: Vec<Toxic>,
    links: HashMap<u64, [Arc<Link>; 2]>,
    next: u64,
    seed: u64,
}

/// One direction of a connection.
struct Link {
    stream: Stream,
    chain: Mutex<Chain>,
    changed: Notify,
}

/// A panic elsewhere leaves the state as it was between two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    pub(super) fn new(name: &str, route: &Route, seed: u64, handle: &Handle) -> Self {
        let state = Mutex::new(State {
            toxics: Vec::new(),
            links: HashMap::new(),
            next: 0,
            seed,
        });
        Self {
            name: name.to_owned(),
            listen: route.listen.clone(),
            upstream: route.upstream.clone(),
            listening: None,
            handle: handle.clone(),
            shared: Arc::new(Shared {
                clock: Clock::start(),
                state,
            }),
        }
    }

    pub(super) fn shown(&self) -> Shown {
        Shown {
            name: self.name.clone(),
            listen: self.listen.clone(),
            upstream: self.upstream.clone(),
            enabled: self.listening.is_some(),
            toxics: self.toxics(),
        }
    }

    pub(super) fn route(&self) -> Route {
        Route {
            listen: self.listen.clone(),
            upstream: self.upstream.clone(),
            enabled: self.listening.is_some(),
        }
    }

    /// Whether it listens and connects as `route` says.
    pub(super) fn has_route(&self, route: &Route) -> bool {
        let is_same = |one: &str, other: &str| {
            one == other || address(one).is_ok_and(|one| address(other).is_ok_and(|o| one == o))
        };
        is_same(&self.listen, &route.listen) && self.upstream == route.upstream
    }

    /// Follows `route`; its connections end if that is another one.
    pub(super) fn set_route(&mut self, route: &Route) -> Result<(), Refusal> {
        if !self.has_route(route) {
            self.stop();
            self.listen.clone_from(&route.listen);
            self.upstream.clone_from(&route.upstream);
        }
        if route.enabled {
            self.start()
        } else {
            self.stop();
            Ok(())
        }
    }

    /// Listens, unless it does already.
    pub(super) fn start(&mut self) -> Result<(), Refusal> {
        if self.listening.is_some() {
            return Ok(());
        }
        let address = address(&self.listen)
            .map_err(|error| Refusal::failed(format!("listen tcp {}: {error}", self.listen)))?;
        let bind = || -> io::Result<TcpListener> {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let _entered = self.handle.enter();
            TcpListener::from_std(listener)
        };
        let refused = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => "address already in use".to_owned(),
                _ => error.to_string(),
            };
            Refusal::failed(format!("listen tcp {address}: bind: {why}"))
        };
        let listener = bind().map_err(refused)?;
        self.listen = listener.local_addr().map_err(refused)?.to_string();
        let (shared, upstream) = (Arc::clone(&self.shared), self.upstream.clone());
        let listening = accept(listener, shared, upstream);
        self.listening = Some(self.handle.spawn(listening));
        Ok(())
    }

    /// Returns once the address is free again. Not for tasks: it blocks.
    fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            let _it_was_aborted = self.handle.block_on(listening);
        }
    }

    /// Upstream toxics first, each direction in the order of their creation.
    pub(super) fn toxics(&self) -> Vec<Toxic> {
        let mut toxics = lock(&self.shared.state).toxics.clone();
        toxics.sort_by_key(|toxic| toxic.stream == Stream::Downstream);
        toxics
    }

    /// Changes the list of toxics, here and in every connection.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<Toxic>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut state = lock(&self.shared.state);
        let changed = change(&mut state.toxics)?;
        for link in state.links.values().flatten() {
            let toxics = state.toxics_of(link.stream);
            lock(&link.chain).apply(&toxics, self.shared.clock.now());
            link.changed.notify_one();
        }
        Ok(changed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
    }
}

impl State {
    fn toxics_of(&self, stream: Stream) -> Vec<Toxic> {
        let toxics = self.toxics.iter();
        toxics
            .filter(|toxic| toxic.stream == stream)
            .cloned()
            .collect()
    }
}

impl Shared {
    /// The two directions of a new connection: upstream, downstream.
    fn connect(&self) -> (u64, [Arc<Link>; 2]) {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        let links = [Stream::Upstream, Stream::Downstream].map(|stream| {
            let seed = state.seed.wrapping_add(2 * number + stream as u64);
            let chain = Chain::new(&state.toxics_of(stream), seed, self.clock.now());
            Arc::new(Link {
                stream,
                chain: Mutex::new(chain),
                changed: Notify::new(),
            })
        });
        state.links.insert(number, links.clone());
        (number, links)
    }
}

impl Link {
    /// Moves data through the toxics. Returns when more will move, what comes out if `pop`, and whether
    /// more may come in.
    fn advance(&self, clock: &Clock, pop: bool) -> (Option<Instant>, Option<Item>, bool) {
        let mut chain = lock(&self.chain);
        let wake = chain.run(clock.now());
        let out = if pop { chain.pop() } else { None };
        (wake, out, chain.has_room())
    }
}

/// The address of `listen`: a host and a port; without a host any address, without a port a free one.
fn address(listen: &str) -> io::Result<SocketAddr> {
    let listen = match listen.rsplit_once(':') {
        None if listen.is_empty() => "0.0.0.0:0".to_owned(),
        Some(("", port)) => format!("0.0.0.0:{port}"),
        _ => listen.to_owned(),
    };
    let all: Vec<_> = listen.to_socket_addrs()?.collect();
    // As other programs on this host are likely to try first.
    let four = all.iter().find(|address| address.is_ipv4());
    let found = four.or_else(|| all.first()).copied();
    found.ok_or_else(|| io::Error::other("the name has no address"))
}

/// Accepts until aborted; all connections end with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>, upstream: String) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((client, _)) => {
                let (shared, upstream) = (Arc::clone(&shared), upstream.clone());
                connections.spawn(async move { relay(client, &shared, &upstream).await });
            }
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

/// A connection's entry in the list, removed on drop.
struct Entry<'a>(&'a Shared, u64);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).links.remove(&self.1);
    }
}

async fn relay(mut client: TcpStream, shared: &Shared, upstream: &str) {
    // A client of a server that cannot be reached sees its connection closed.
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        return;
    };
    for stream in [&client, &server] {
        // Small pieces are to leave as they come.
        let _closed_already = stream.set_nodelay(true);
    }
    let (number, [up, down]) = shared.connect();
    let _entry = Entry(shared, number);
    if both(&mut client, &mut server, &shared.clock, [&up, &down]).await == Item::Reset {
        for stream in [&client, &server] {
            // Closing then sends RST (socket(7), SO_LINGER).
            let _closed_already = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Passes data both ways until both are finished or a toxic ends the connection.
async fn both(
    client: &mut TcpStream,
    server: &mut TcpStream,
    clock: &Clock,
    [up, down]: [&Link; 2],
) -> Item {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let mut up = pin!(pump(from_client, to_server, clock, up));
    let mut down = pin!(pump(from_server, to_client, clock, down));
    let (first, upstream_is_open) = tokio::select! {
        end = &mut up => (end, false),
        end = &mut down => (end, true),
    };
    match first {
        Item::Fin if upstream_is_open => up.await,
        Item::Fin => down.await,
        end => end,
    }
}

/// Passes data one way through the toxics of `link`; an error of either end closes both.
async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, clock: &Clock, link: &Link) -> Item {
    let mut piece = vec![0; PIECE];
    let (mut has_ended, mut pending) = (false, Vec::new());
    loop {
        let (wake, out, has_room) = link.advance(clock, pending.is_empty());
        match out {
            Some(Item::Data(data)) => pending = data,
            Some(Item::Fin) => {
                let _closed_already = to.shutdown().await;
                return Item::Fin;
            }
            Some(end) => return end,
            None => {}
        }
        let left = wake.map(|wake| wake - clock.now()).unwrap_or_default();
        tokio::select! {
            read = from.read(&mut piece), if has_room && !has_ended => {
                let item = match read {
                    Ok(0) => Item::Fin,
                    Ok(count) => Item::Data(piece[..count].to_vec()),
                    Err(_) => Item::Close,
                };
                has_ended = !matches!(item, Item::Data(_));
                lock(&link.chain).push(item, clock.now());
            }
            written = to.write(&pending), if !pending.is_empty() => match written {
                Ok(count) => drop(pending.drain(..count)),
                Err(_) => return Item::Close,
            },
            () = tokio::time::sleep(left), if wake.is_some() => {}
            () = link.changed.notified() => {}
        }
    }
}
