//! Demultiplexer: the table of connections behind a one-entry cache. Segments come in runs; only
//! the first of a run needs a hash (as in 4.3BSD's `tcp_last_inpcb`).

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tautline_base::SocketId;

use crate::keyed::Key;
use crate::sockets::Sockets;
use crate::tcp::Tuple;

/// Connections by their two ends, which stand in the connection only: an entry takes 9 bytes, not
/// 49. Each method is given the sockets of all entries.
#[derive(Debug)]
pub(super) struct Demux {
    key: Key,
    table: HashTable<SocketId>,
    /// Found last, and still in the table.
    last: Option<(Tuple, SocketId)>,
}

impl Demux {
    /// An empty table, its hashes keyed.
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            table: HashTable::new(),
            last: None,
        }
    }

    /// The connection between these ends.
    #[inline]
    pub(super) fn find(&mut self, tuple: &Tuple, sockets: &Sockets) -> Option<SocketId> {
        if let Some((last, id)) = self.last
            && last == *tuple
        {
            return Some(id);
        }
        let id = self.get(tuple, sockets)?;
        self.last = Some((*tuple, id));
        Some(id)
    }

    /// The same, for once.
    pub(super) fn get(&self, tuple: &Tuple, sockets: &Sockets) -> Option<SocketId> {
        let is_between = |id: &SocketId| sockets.tuple(*id) == Some(tuple);
        self.table
            .find(self.key.hash_one(tuple), is_between)
            .copied()
    }

    /// Adds a connection, in place of another between these ends.
    pub(super) fn insert(&mut self, tuple: &Tuple, id: SocketId, sockets: &Sockets) {
        self.last = None;
        let Self { key, table, .. } = self;
        let hash = |id: &SocketId| sockets.tuple(*id).map_or(0, |tuple| key.hash_one(tuple));
        let is_between = |id: &SocketId| sockets.tuple(*id) == Some(tuple);
        match table.entry(key.hash_one(tuple), is_between, hash) {
            Entry::Occupied(mut entry) => *entry.get_mut() = id,
            Entry::Vacant(entry) => drop(entry.insert(id)),
        }
    }

    /// Removes a connection, if it is in the table. Its socket may be gone.
    pub(super) fn remove(&mut self, tuple: &Tuple, id: SocketId) {
        self.last = None;
        let hash = self.key.hash_one(tuple);
        if let Ok(entry) = self.table.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::sockets::{Request, Socket};

    #[test]
    fn what_is_remembered_is_what_the_table_holds() {
        let (mut demux, mut sockets) = (Demux::new(Key::from_seed(1)), Sockets::default());
        let tuple = |port| Tuple {
            local: Ipv4Addr::new(10, 7, 0, 1).into(),
            remote: Ipv4Addr::new(10, 7, 0, 2).into(),
            local_port: 80,
            remote_port: port,
        };
        let open = |demux: &mut Demux, sockets: &mut Sockets, tuple| {
            let request = |listener| Request {
                listener,
                tuple,
                frame: Box::default(),
                isn: None,
            };
            let id = sockets.insert(|id| Socket::Request(Box::new(request(id))));
            demux.insert(&tuple, id, sockets);
            id
        };
        // More than fit into the first allocation.
        let ids: Vec<_> = (0..100)
            .map(|port| open(&mut demux, &mut sockets, tuple(port)))
            .collect();
        for _ in 0..2 {
            assert_eq!(
                [1, 1, 2, 100, 2].map(|port| demux.find(&tuple(port), &sockets)),
                [Some(ids[1]), Some(ids[1]), Some(ids[2]), None, Some(ids[2])]
            );
        }
        let successor = open(&mut demux, &mut sockets, tuple(4));
        assert_eq!(demux.get(&tuple(4), &sockets), Some(successor));
        sockets.remove(ids[2]);
        demux.remove(&tuple(2), ids[2]);
        demux.remove(&tuple(1), ids[3]);
        assert_eq!(
            [1, 2, 3].map(|port| demux.find(&tuple(port), &sockets)),
            [Some(ids[1]), None, Some(ids[3])]
        );
        for (port, id) in ids
            .iter()
            .enumerate()
            .filter(|(port, _)| ![2, 4].contains(port))
        {
            assert_eq!(demux.get(&tuple(port as u16), &sockets), Some(*id));
        }
    }
}
