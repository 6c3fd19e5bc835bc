//! Two hosts on a cable, and a runtime that does not wait forever.

use std::cell::RefCell;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tautline_base::{HeapFrame, Packet, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::pfifo::{self, Pfifo};
use tautline_rt::handle::Config;
use tautline_rt::{Cable, HostThread, Idle, StackHandle, TcpListener, TcpStream, cable};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};

/// Where the server listens.
pub(crate) const PORT: u16 = 5001;
/// The server's address.
pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 7, 0, 2), PORT);

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(30);
const FRAMES: usize = 1024;

/// A client's host and a server's.
pub(crate) struct World {
    pub(crate) client: StackHandle,
    pub(crate) server: StackHandle,
    client_thread: RefCell<Option<HostThread>>,
    server_thread: RefCell<Option<HostThread>>,
}

/// The configuration of both hosts.
pub(crate) fn config() -> Config {
    Config::default()
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: Config) -> Self {
        let [left, right] = cable().expect("descriptors");
        let spawn = |device, number| {
            HostThread::spawn(config.clone(), Idle::Sleep, move || {
                Ok(host(device, number))
            })
            .expect("a thread")
        };
        let ((client_thread, client), (server_thread, server)) = (spawn(left, 1), spawn(right, 2));
        Self {
            client,
            server,
            client_thread: RefCell::new(Some(client_thread)),
            server_thread: RefCell::new(Some(server_thread)),
        }
    }

    pub(crate) async fn listen(&self) -> TcpListener {
        TcpListener::bind(&self.server, PORT)
            .await
            .expect("the port is free")
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.client, SERVER)
            .await
            .expect("somebody listens")
    }

    /// Runs `test` on a current-thread runtime, then ends both hosts.
    pub(crate) fn run(self, test: impl AsyncFnOnce(&Self)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(within(test(&self)));
        self.stop();
    }

    pub(crate) fn stop_server(&self) {
        if let Some(thread) = self.server_thread.take() {
            thread.stop().expect("the loop ran to its end");
        }
    }

    pub(crate) fn stop_client(&self) {
        if let Some(thread) = self.client_thread.take() {
            thread.stop().expect("the loop ran to its end");
        }
    }

    /// Ends both at once: each delivers to the other what is left.
    pub(crate) fn stop(self) {
        let threads = [self.server_thread.take(), self.client_thread.take()];
        std::thread::scope(|scope| {
            for thread in threads.into_iter().flatten() {
                scope.spawn(|| thread.stop().expect("the loop ran to its end"));
            }
        });
    }
}

/// `future`, which must end in time.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("the test ends in time")
}

/// So many bytes without a pattern.
pub(crate) fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..count).map(step).collect()
}

type Queue = Pfifo<Packet<HeapFrame>>;

/// Host `number` of 10.7.0.0/24.
pub(crate) fn identity(number: u8) -> HostConfig {
    HostConfig::new([2, 0, 0, 0, 0, number], u64::from(number))
        .address(Cidr::new(Ipv4Addr::new(10, 7, 0, number), 24))
}

fn host(device: Cable, number: u8) -> Host<Queue, Cable, NoTrace> {
    let port = Port::new(
        Queue::new(pfifo::Config::default()),
        Ring::new(device, Dql::default()),
    );
    Host::new(
        identity(number),
        port,
        Pool::new((0..FRAMES).map(|_| HeapFrame::new()).collect()),
        NoTrace,
    )
}
