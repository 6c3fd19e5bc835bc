//! [`Tun2Socks`]: everything that arrives from a tunnel leaves by way of a SOCKS 5 server.
//!
//! A SYN is answered once the server has connected: the client of the tunnel sees a refusal as it would
//! without a proxy. Datagrams, those of DNS among them, pass through one association per sender.

mod socks5;
mod udp;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tautline_rt::TcpRequest;
use tautline_stack::Rejection;
use tokio::io::copy_bidirectional;
use tokio::time::timeout;

pub use socks5::{BadProxy, Socks5, Socks5Error};

use crate::Netstack;

/// A tunnel's way out through a proxy.
#[derive(Clone, Debug)]
pub struct Tun2Socks {
    proxy: Socks5,
    /// How long the proxy may take to connect; then the SYN stays unanswered, as it would without a
    /// proxy. Default 30 s.
    pub connect_timeout: Duration,
    /// How long a sender of datagrams may be silent, and nothing come back, before its association
    /// ends. Default 60 s.
    pub udp_idle: Duration,
    /// Associations at most; datagrams of further senders are dropped. Default 1024.
    pub udp_senders: usize,
}

impl Tun2Socks {
    /// A way out through `proxy`.
    pub fn new(proxy: Socks5) -> Self {
        Self {
            proxy,
            connect_timeout: Duration::from_secs(30),
            udp_idle: Duration::from_secs(60),
            udp_senders: 1024,
        }
    }

    /// Serves `stack` until it ends.
    ///
    /// # Errors
    /// Another listener has all ports of the stack, or the stack has ended.
    pub async fn run(self, stack: &Netstack) -> io::Result<()> {
        let (incoming, datagrams) = (stack.tcp_incoming().await?, stack.udp_incoming().await?);
        let this = Arc::new(self);
        let forwarding = udp::forward(Arc::clone(&this), Arc::new(datagrams));
        let forwarding = AbortOnDrop(tokio::spawn(forwarding));
        loop {
            let request = incoming.next().await;
            let request = match request {
                Ok(request) => request,
                Err(error) => {
                    drop(forwarding);
                    return Err(error);
                }
            };
            let this = Arc::clone(&this);
            tokio::spawn(async move { this.serve(request).await });
        }
    }

    /// Connects upstream, answers the SYN, and copies both ways.
    async fn serve(&self, request: TcpRequest) {
        let connected = timeout(
            self.connect_timeout,
            self.proxy.connect(request.local_addr()),
        );
        let mut upstream = match connected.await {
            Ok(Ok(upstream)) => upstream,
            Ok(Err(error)) => return request.reject(error.rejection()),
            Err(_) => return request.reject(Rejection::Silence),
        };
        // An error is the client's: it has given up.
        let Ok(mut stream) = request.accept().await else {
            return;
        };
        if copy_bidirectional(&mut stream, &mut upstream)
            .await
            .is_err()
        {
            // One end was reset: so is the other. Dropping `upstream` with unread data resets it.
            stream.abort();
        }
    }
}

/// Ends a task with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
