//! The wrappers: they report and change what they wrap.

use tautline_base::{Drops, Instant, Item, Qdisc};
use tautline_qdisc::{FlowStats, Ledger, Parked, Stats};

use crate::discipline::{Change, Inspect, Target};
use crate::report::Report;
use crate::words::{ParseError, Words};

impl<Q: Inspect> Inspect for Stats<Q> {
    fn report(&self) -> Report {
        let report = self.inner().report();
        Report {
            id: self.name().or(report.id),
            common: Some(self.common()),
            sojourn: Some(self.stats().sojourn.clone()),
            ..report
        }
    }
}

/// [`Change`] of a wrapper that counts the drops below it.
macro_rules! change_counted {
    ($($wrapper:ident),+) => {$(
        impl<P: Item, Q: Qdisc<P> + Change<P>> Change<P> for $wrapper<Q> {
            fn change(
                &mut self,
                target: Target,
                words: &mut Words<'_>,
                now: Instant,
                drops: &mut Drops<P>,
            ) -> Result<(), ParseError> {
                self.with_inner(drops, |inner, drops| {
                    inner.change(target, words, now, drops)
                })
            }
        }
    )+};
}
change_counted!(Stats, FlowStats);

impl<Q: Inspect> Inspect for FlowStats<Q> {
    fn report(&self) -> Report {
        Report {
            flows: self.by_bytes_sent(),
            ..self.inner().report()
        }
    }
}

impl<Q: Inspect> Inspect for Ledger<Q> {
    fn report(&self) -> Report {
        self.inner().report()
    }
}

impl<P: Item, Q: Qdisc<P> + Change<P>> Change<P> for Ledger<Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        self.with_inner("change", now, drops, |inner, drops| {
            inner.change(target, words, now, drops)
        })
    }
}

impl<P: Item, Q: Qdisc<P> + Inspect> Inspect for Parked<P, Q> {
    fn report(&self) -> Report {
        self.inner().report()
    }
}

impl<P: Item, Q: Qdisc<P> + Change<P>> Change<P> for Parked<P, Q> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        self.inner_mut().change(target, words, now, drops)
    }
}
