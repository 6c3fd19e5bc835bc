//! [`Datagrams`]: a queue that stores payloads back to back in one ring of bytes. The steady state
//! does not allocate.

use std::collections::VecDeque;

/// A payload in two pieces, one behind the other.
pub(crate) type Pieces<'a> = (&'a [u8], &'a [u8]);

/// Datagrams in order, each with a label.
#[derive(Debug)]
pub(crate) struct Datagrams<L> {
    labels: VecDeque<(L, usize)>,
    bytes: VecDeque<u8>,
}

impl<L> Default for Datagrams<L> {
    fn default() -> Self {
        Self {
            labels: VecDeque::new(),
            bytes: VecDeque::new(),
        }
    }
}

impl<L: Copy> Datagrams<L> {
    /// Adds a datagram whose payload is given in two pieces.
    pub(crate) fn push(&mut self, label: L, payload: Pieces<'_>) {
        self.bytes.extend(payload.0);
        self.bytes.extend(payload.1);
        self.labels
            .push_back((label, payload.0.len() + payload.1.len()));
    }

    /// The first datagram, its payload in two pieces.
    pub(crate) fn front(&self) -> Option<(L, Pieces<'_>)> {
        let (label, len) = *self.labels.front()?;
        let (front, back) = self.bytes.as_slices();
        let split = len.min(front.len());
        Some((label, (&front[..split], &back[..len - split])))
    }

    /// Removes the first datagram. An empty queue keeps its buffer for the next one.
    pub(crate) fn pop(&mut self) -> Option<L> {
        let (label, len) = self.labels.pop_front()?;
        self.bytes.drain(..len);
        Some(label)
    }

    /// Datagrams held.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Payload bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_every_datagram_back_whole_and_in_order(
            sizes in prop::collection::vec((0usize..40, 0usize..40, any::<bool>()), 1..100)
        ) {
            let mut queue = Datagrams::default();
            let mut model = VecDeque::new();
            for (number, (a, b, pop)) in sizes.into_iter().enumerate() {
                let payload: Vec<u8> = (0..a + b).map(|at| (at * 7 + number) as u8).collect();
                queue.push(number, payload.split_at(a));
                model.push_back((number, payload));
                if pop {
                    let (label, (front, back)) = queue.front().expect("pushed");
                    prop_assert_eq!(Some((label, [front, back].concat())), model.pop_front());
                    prop_assert_eq!(queue.pop(), Some(label));
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.bytes(), model.iter().map(|(_, payload)| payload.len()).sum::<usize>());
            }
        }
    }
}
