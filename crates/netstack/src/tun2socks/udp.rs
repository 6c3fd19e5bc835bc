//! Datagrams: an association with the proxy for each sender, bounded in number and in time.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};
use tokio::time::timeout;

use super::Tun2Socks;
use super::socks5::{Socks5Error, unwrap, wrap};
use crate::UdpIncoming;

/// Datagrams of one sender that wait for the proxy; the rest is dropped.
const WAITING: usize = 64;
/// Longest IP packet.
const LONGEST: usize = 65_535;

/// A datagram and its destination.
type Outgoing = (SocketAddr, Vec<u8>);

/// Forwards until the stack ends.
pub(super) async fn forward(settings: Arc<Tun2Socks>, datagrams: Arc<UdpIncoming>) {
    let mut senders: HashMap<SocketAddr, Sender<Outgoing>> = HashMap::new();
    let mut buffer = vec![0; LONGEST];
    while let Ok((len, from, to)) = datagrams.recv(&mut buffer).await {
        let mut outgoing = (to, buffer[..len].to_vec());
        if let Some(sender) = senders.get(&from) {
            match sender.try_send(outgoing) {
                Ok(()) | Err(TrySendError::Full(_)) => continue,
                // It was idle.
                Err(TrySendError::Closed(unsent)) => outgoing = unsent,
            }
        }
        if senders.len() >= settings.udp_senders {
            senders.retain(|_, sender| !sender.is_closed());
        }
        if senders.len() >= settings.udp_senders && !senders.contains_key(&from) {
            continue;
        }
        let (sender, waiting) = channel(WAITING);
        // An empty queue has room.
        let _ = sender.try_send(outgoing);
        senders.insert(from, sender);
        let (settings, datagrams) = (Arc::clone(&settings), Arc::clone(&datagrams));
        tokio::spawn(async move {
            // Datagrams are lost where the proxy does not forward them.
            let _ = associate(&settings, &datagrams, from, waiting).await;
        });
    }
}

/// Passes the datagrams of `client` to the proxy and those for it back, until neither come.
async fn associate(
    settings: &Tun2Socks,
    datagrams: &UdpIncoming,
    client: SocketAddr,
    mut waiting: Receiver<Outgoing>,
) -> Result<(), Socks5Error> {
    let (mut control, relay) = settings.proxy.associate().await?;
    let (mut message, mut buffer, mut ended) = (Vec::new(), vec![0; LONGEST], [0]);
    let mut turn = async || -> Result<bool, Socks5Error> {
        tokio::select! {
            outgoing = waiting.recv() => {
                let Some((to, data)) = outgoing else {
                    return Ok(false);
                };
                wrap(&mut message, to, &data);
                relay.send(&message).await?;
            }
            received = relay.recv(&mut buffer) => {
                if let Some((from, data)) = unwrap(&buffer[..received?]) {
                    // One that does not fit is lost, as on a link with this MTU.
                    let _ = datagrams.send(data, from, client).await;
                }
            }
            // The server ends an association by closing its stream.
            _ = control.read(&mut ended) => return Ok(false),
        }
        Ok(true)
    };
    while let Ok(turned) = timeout(settings.udp_idle, turn()).await {
        if !turned? {
            break;
        }
    }
    Ok(())
}
