//! Demultiplexer: the table of connections behind a one-entry cache. Segments come in runs; only
//! the first of a run needs a hash (as in 4.3BSD's `tcp_last_inpcb`).

use std::collections::HashMap;

use tautline_base::SocketId;

use crate::keyed::Key;
use crate::tcp::Tuple;

/// Connections by their two ends.
#[derive(Debug)]
pub(super) struct Demux {
    table: HashMap<Tuple, SocketId, Key>,
    /// Found last, and still in the table.
    last: Option<(Tuple, SocketId)>,
}

impl Demux {
    /// An empty table, its hashes keyed.
    pub(super) fn new(key: Key) -> Self {
        Self {
            table: HashMap::with_hasher(key),
            last: None,
        }
    }

    /// The connection between these ends.
    #[inline]
    pub(super) fn find(&mut self, tuple: &Tuple) -> Option<SocketId> {
        if let Some((last, id)) = self.last
            && last == *tuple
        {
            return Some(id);
        }
        let id = *self.table.get(tuple)?;
        self.last = Some((*tuple, id));
        Some(id)
    }

    /// The same, for once.
    pub(super) fn get(&self, tuple: &Tuple) -> Option<SocketId> {
        self.table.get(tuple).copied()
    }

    pub(super) fn contains(&self, tuple: &Tuple) -> bool {
        self.table.contains_key(tuple)
    }

    pub(super) fn insert(&mut self, tuple: Tuple, id: SocketId) {
        self.last = None;
        self.table.insert(tuple, id);
    }

    pub(super) fn remove(&mut self, tuple: &Tuple) {
        self.last = None;
        self.table.remove(tuple);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn what_is_remembered_is_what_the_table_holds() {
        let mut demux = Demux::new(Key::from_seed(1));
        let tuple = |port| Tuple {
            local: Ipv4Addr::new(10, 7, 0, 1).into(),
            remote: Ipv4Addr::new(10, 7, 0, 2).into(),
            local_port: 80,
            remote_port: port,
        };
        let id = |index| SocketId {
            index,
            generation: NonZeroU32::MIN,
        };
        demux.insert(tuple(1), id(1));
        demux.insert(tuple(2), id(2));
        for _ in 0..2 {
            assert_eq!(
                [1, 1, 2, 3, 2].map(|port| demux.find(&tuple(port))),
                [Some(id(1)), Some(id(1)), Some(id(2)), None, Some(id(2))]
            );
        }
        demux.insert(tuple(2), id(4));
        assert_eq!(demux.find(&tuple(2)), Some(id(4)));
        demux.remove(&tuple(2));
        assert_eq!(
            (
                demux.find(&tuple(2)),
                demux.get(&tuple(1)),
                demux.contains(&tuple(2))
            ),
            (None, Some(id(1)), false)
        );
    }
}
