//! [`Start`]: a stack receives nothing before its application is ready for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

use atomic_waker::AtomicWaker;

/// The condition for the first packet. What arrives before the application listens would be refused: so a
/// stack begins to receive with its first socket, or, if its application opens several, with the last
/// of them.
#[derive(Debug, Default)]
pub(crate) struct Start {
    holds: AtomicUsize,
    driver: AtomicWaker,
}

impl Start {
    /// A stack that has not begun does not do so until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.holds.fetch_add(1, Ordering::AcqRel);
        Hold(Arc::clone(self))
    }

    /// Whether a stack with `sockets` sockets may begin; the task of `context` is woken when holds end.
    pub(crate) fn may_begin(&self, sockets: usize, context: &Context<'_>) -> bool {
        self.driver.register(context.waker());
        sockets > 0 && self.holds.load(Ordering::Acquire) == 0
    }
}

/// Keeps a stack that has not begun from it: [`Netstack::hold`](crate::Netstack::hold).
#[derive(Debug)]
#[must_use = "the stack begins once it is dropped"]
pub struct Hold(Arc<Start>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
        self.0.driver.wake();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use tautline_rt::UdpSocket;
    use tokio::net::UnixDatagram;
    use tokio::time::{sleep, timeout};

    use crate::device::FrameSocket;
    use crate::{Cidr, Netstack};

    const SERVER: [u8; 4] = [10, 9, 0, 1];
    const CLIENT: [u8; 4] = [10, 9, 0, 2];

    fn stack(socket: UnixDatagram, address: [u8; 4]) -> Netstack {
        let [.., last] = address;
        Netstack::builder(FrameSocket::new(socket, 1500))
            .mac([2, 0, 0, 0, 0, last])
            .address(Cidr::new(address, 24))
            .build()
            .expect("a runtime")
    }

    /// A datagram that comes while the application opens its sockets waits for the one it is for.
    #[tokio::test]
    async fn nothing_is_refused_while_the_application_opens_its_sockets() {
        for holds in [true, false] {
            let (left, right) = UnixDatagram::pair().expect("sockets");
            let (server, client) = (stack(left, SERVER), stack(right, CLIENT));
            let hold = holds.then(|| server.hold());
            let _connections = server.tcp_incoming().await.expect("the first");
            let socket = UdpSocket::bind(client.handle(), SocketAddr::from((CLIENT, 99)));
            let socket = socket.await.expect("free");
            let to = SocketAddr::from((SERVER, 53));
            socket.send_to(b"early", to).await.expect("room");
            sleep(Duration::from_millis(100)).await;
            let datagrams = server.udp_incoming().await.expect("the first");
            drop(hold);
            let mut buffer = [0; 100];
            let wait = Duration::from_millis(if holds { 20_000 } else { 300 });
            let received = timeout(wait, datagrams.recv(&mut buffer)).await;
            assert_eq!(received.is_ok(), holds);
        }
    }
}
