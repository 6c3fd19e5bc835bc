//! Datagrams: an association for each sender, bounded in number and in time.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};
use tokio::time::timeout;

use super::{Associate, Association, Datagrams, RelayLimits};
use crate::udp_memory::{Memory, Queued};

/// Datagrams of one sender that wait for its association; the rest is dropped.
const WAITING: usize = 64;
/// Longest IP packet.
const LONGEST: usize = 65_535;

/// A datagram and its destination.
type Outgoing = (SocketAddr, Queued);

/// Forwards until there are no more `datagrams`.
pub(crate) async fn forward<W: Associate, D: Datagrams>(
    upstream: Arc<W>,
    limits: RelayLimits,
    datagrams: Arc<D>,
) {
    let mut senders: HashMap<SocketAddr, Sender<Outgoing>> = HashMap::new();
    let memory = Memory::new(limits.udp_memory);
    let mut buffer = vec![0; LONGEST];
    while let Ok((len, from, to)) = datagrams.recv(&mut buffer).await {
        let Some(data) = memory.copy(&buffer[..len]) else {
            continue;
        };
        let mut outgoing = (to, data);
        if let Some(sender) = senders.get(&from) {
            match sender.try_send(outgoing) {
                Ok(()) | Err(TrySendError::Full(_)) => continue,
                // It was idle.
                Err(TrySendError::Closed(unsent)) => outgoing = unsent,
            }
        }
        if senders.len() >= limits.udp_senders {
            senders.retain(|_, sender| !sender.is_closed());
        }
        if senders.len() >= limits.udp_senders && !senders.contains_key(&from) {
            continue;
        }
        let (sender, waiting) = channel(WAITING);
        // An empty queue accepts a datagram.
        let _ = sender.try_send(outgoing);
        senders.insert(from, sender);
        let (upstream, datagrams) = (Arc::clone(&upstream), Arc::clone(&datagrams));
        tokio::spawn(async move {
            // Datagrams that the upstream refuses are lost.
            let _ = relay(&*upstream, limits, &*datagrams, from, waiting).await;
        });
    }
}

/// Passes the datagrams of `client` on and those for it back, until neither come.
async fn relay(
    upstream: &impl Associate,
    limits: RelayLimits,
    datagrams: &impl Datagrams,
    client: SocketAddr,
    mut waiting: Receiver<Outgoing>,
) -> io::Result<()> {
    let association = timeout(limits.connect_timeout, upstream.associate()).await??;
    let mut buffer = vec![0; LONGEST];
    let mut turn = async || -> io::Result<bool> {
        tokio::select! {
            outgoing = waiting.recv() => {
                let Some((to, data)) = outgoing else {
                    return Ok(false);
                };
                association.send(to, data.bytes()).await?;
            }
            received = association.recv(&mut buffer) => {
                let (from, data) = received?;
                // A datagram that does not fit is dropped, as on a link with this MTU.
                let _ = datagrams.send(&buffer[data], from, client).await;
            }
        }
        Ok(true)
    };
    while let Ok(turned) = timeout(limits.udp_idle, turn()).await {
        if !turned? {
            break;
        }
    }
    Ok(())
}
