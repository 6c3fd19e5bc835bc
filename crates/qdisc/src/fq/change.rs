//! [`Fq::reconfigure`]: new parameters for a running FQ.

use alloc::vec::Vec;

use tautline_base::{ConfigError, DropReason, Drops, Item};

use super::params::{Config, Priorities, Weighted};
use super::{Fq, signed};
use crate::index::Index;

impl<P: Item> Fq<P> {
    /// Replaces the parameters. Packets above a lowered limit are dropped: of each flow at its
    /// head, of all flows in turn.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if `orphan_mask` differs or bands are configured where there were
    /// no bands, or the reverse: packets of a flow would no longer stand in one queue. Then nothing
    /// changes.
    pub fn reconfigure(&mut self, config: Config, drops: &mut Drops<P>) -> Result<(), ConfigError> {
        config.check()?;
        let fixed = "what it was at creation";
        let mask = config.orphan_mask.unwrap_or(u32::MAX);
        ConfigError::check(
            config.orphan_mask == self.config.orphan_mask,
            "orphan_mask",
            mask,
            fixed,
        )?;
        let [was, is] =
            [&self.config, &config].map(|config| config.priorities == Priorities::Control);
        ConfigError::check(was == is, "linux", is, fixed)?;
        if config.buckets != self.config.buckets {
            self.flows.resize(config.buckets as usize);
        }
        if let Priorities::Bands(Weighted { weights, .. }) = &config.priorities {
            for (band, weight) in self.bands.iter_mut().zip(weights) {
                band.credit = band.credit.min(signed(*weight));
            }
        }
        self.config = config;
        // The departure times of throttled flows may have changed.
        while self.throttled.len() > 0 {
            self.release_first();
        }
        self.keep_limits(drops);
        Ok(())
    }

    /// Drops until every limit holds. Looks at every flow, so it is only for when limits change.
    fn keep_limits(&mut self, drops: &mut Drops<P>) {
        let holding: Vec<Index> = self.flows.holding().collect();
        for &at in &holding {
            while self.flows[at].packets > self.config.flow_limit
                && let Some(packet) = self.pop(at)
            {
                self.counters.flows_plimit += 1;
                drops.push(packet, DropReason::FlowLimit);
            }
        }
        let allowed = self.config.limit as usize;
        loop {
            let mut dropped = 0;
            for &at in &holding {
                let band = usize::from(self.flows[at].band);
                if self.held_by(band) > allowed
                    && let Some(packet) = self.pop(at)
                {
                    self.drop_for_limit(packet, band, drops);
                    dropped += 1;
                }
            }
            if dropped == 0 {
                break;
            }
        }
        // Without bands the limit counts the packets that pass by too.
        while self.held_by(0) > allowed
            && let Some(packet) = self.internal.pop_front()
        {
            self.backlog.remove(packet.len());
            self.drop_for_limit(packet, 0, drops);
        }
    }
}
