//! [`Cake::reconfigure`]: new parameters for a running CAKE, and other tins for the packets of those
//! that are gone.

use alloc::vec::Vec;

use tautline_base::{Bytes, ConfigError, Drops, Instant, Item, Rate};

use super::flow::{FLOWS, FlowId};
use super::hash::Hashes;
use super::params::Config;
use super::tin::Tin;
use super::{Cake, FlowPosition, Weighed};
use crate::random::check_secret;

impl<P: Item> Cake<P> {
    /// Replaces the parameters. Packets above a lowered memory limit are dropped from the longest
    /// queues. Packets of removed tins move to others, into the queue of the same hash, which may be
    /// one that a filter named; with another isolation they are hashed anew. A new seed begins with
    /// the next instance.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if `perturbation` differs: it is fixed while packets lie in the
    /// queues. Then nothing changes.
    pub fn reconfigure(
        &mut self,
        config: Config,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        config.check()?;
        let Config {
            perturbation,
            overhead,
            ..
        } = config;
        check_secret("perturbation", perturbation, self.key)?;
        if config.bandwidth != self.config.bandwidth && config.bandwidth.at_first() > Rate::ZERO {
            self.rate = config.bandwidth.at_first();
        }
        if overhead != self.config.overhead {
            self.sizes.forget_lengths();
        }
        let same_hashes = config.isolation == self.config.isolation;
        self.config = config;
        let displaced = self.change_tins();
        self.configure(now);
        self.tins
            .iter_mut()
            .for_each(|tin| tin.isolate(self.config.isolation));
        for (packet, hashes) in displaced {
            self.reinsert(packet, same_hashes.then_some(hashes), now);
        }
        self.keep_memory(now, drops);
        Ok(())
    }

    /// Adds or removes tins as the configuration asks. Returns the packets of removed tins with the
    /// hashes of their queues.
    // DIVERGES: Linux drops them (`cake_clear_tin`).
    fn change_tins(&mut self) -> Vec<(Weighed<P>, Hashes)> {
        let count = self.config.tins.count();
        let mut displaced = Vec::new();
        for tin in count..self.tins.len() {
            for flow in 0..FLOWS as FlowId {
                let hashes = self.tins[tin].hashes_of(flow);
                displaced.extend(core::iter::from_fn(|| {
                    Some((self.take(FlowPosition { tin, flow })?, hashes))
                }));
            }
        }
        self.tins.truncate(count);
        self.tins
            .extend((self.tins.len()..count).map(|tin| Tin::new(&self.config, tin)));
        self.current = self.current.min(count - 1);
        displaced
    }

    /// Queues a packet of a removed tin. It keeps its time of arrival and is not counted again.
    fn reinsert(&mut self, mut item: Weighed<P>, hashes: Option<Hashes>, now: Instant) {
        let tin = self.tin_of(&mut item.packet);
        if self.tins[tin].bytes == Bytes::ZERO {
            self.tins[tin].clock.restart(now);
        }
        let hashes =
            hashes.unwrap_or_else(|| Hashes::of(&item.packet, self.config.isolation, self.key));
        let place = FlowPosition {
            tin,
            flow: self.tins[tin].queue_of(hashes),
        };
        self.put(place, item);
        self.tins[tin].wake(place.flow, &mut self.random);
    }
}
