//! Helpers of the unit tests: [`Edit`] changes parameters of a running qdisc, [`put`] fills one,
//! [`by_mark`] makes rules.

use tautline_base::{ConfigError, Drops, Instant, Item, Qdisc};
use tautline_testkit::Probe;

use crate::cake::{self, Cake};
use crate::filter::{Filter, Filters, Masked, Matcher};
use crate::{
    AqmFifo, ClassId, DualPi2, FifoAqm, Fq, FqCodel, FqPie, Htb, Ledger, Netem, Red, Sfq, Tbf,
    dualpi2, fq, fq_codel, fq_pie, htb, netem, red, sfq, tbf,
};

/// Enqueues packets of one flow at time 0. Returns the drops.
pub(crate) fn put(
    queue: &mut impl Qdisc<Probe>,
    flow: u64,
    packets: usize,
    len: u32,
) -> Drops<Probe> {
    let mut drops = Drops::new();
    for _ in 0..packets {
        let packet = Probe::new(flow as u32).flow(flow).sized(len);
        queue.enqueue(packet, Instant::ZERO, &mut drops);
    }
    drops
}

/// A change of parameters, as a row of a table.
pub(crate) type Change<C> = fn(&mut C);

/// Changes single parameters of a running qdisc and keeps all others.
pub(crate) trait Edit<P: Item> {
    /// The parameters.
    type Config;

    /// Reconfigures the qdisc with its parameters as `edit` leaves them.
    ///
    /// # Errors
    /// Those of its `reconfigure`.
    fn edit(
        &mut self,
        now: Instant,
        drops: &mut Drops<P>,
        edit: impl FnOnce(&mut Self::Config),
    ) -> Result<(), ConfigError>;
}

impl<P: Item, Q: Qdisc<P> + Edit<P>> Edit<P> for Ledger<Q> {
    type Config = Q::Config;

    #[track_caller]
    fn edit(
        &mut self,
        now: Instant,
        drops: &mut Drops<P>,
        edit: impl FnOnce(&mut Self::Config),
    ) -> Result<(), ConfigError> {
        self.with_inner("reconfigure", now, drops, |inner, drops| {
            inner.edit(now, drops, edit)
        })
    }
}

/// `edit!([generics] Qdisc, Config, |qdisc, config, now, drops| call)`: [`Edit`] for a qdisc.
macro_rules! edit {
    ([$($generics:tt)*] $queue:ty, $config:ty, |$qdisc:ident, $new:ident, $now:ident, $drops:ident| $set:expr) => {
        impl<$($generics)*> Edit<P> for $queue {
            type Config = $config;

            fn edit(
                &mut self,
                $now: Instant,
                $drops: &mut Drops<P>,
                edit: impl FnOnce(&mut $config),
            ) -> Result<(), ConfigError> {
                let $qdisc = self;
                let mut $new = $qdisc.config().clone();
                edit(&mut $new);
                $set
            }
        }
    };
}

edit!([P: Item, A: FifoAqm<Config: Clone>] AqmFifo<P, A>, A::Config, |aqm, config, _now, drops| aqm.reconfigure(config, drops));
edit!([P: Item] Cake<P>, cake::Config, |cake, config, now, drops| cake.reconfigure(config, now, drops));
edit!([P: Item] DualPi2<P>, dualpi2::Config, |dualpi2, config, _now, drops| dualpi2.reconfigure(config, drops));
edit!([P: Item] Fq<P>, fq::Config, |fq, config, _now, drops| fq.reconfigure(config, drops));
edit!([P: Item] FqCodel<P>, fq_codel::Config, |fq_codel, config, _now, drops| fq_codel.reconfigure(config, drops));
edit!([P: Item] FqPie<P>, fq_pie::Config, |fq_pie, config, _now, drops| fq_pie.reconfigure(config, drops));
edit!([P: Item, Q: Qdisc<P>] Htb<P, Q>, htb::Config, |htb, config, _now, _drops| htb.reconfigure(config));
edit!([P: Item, Q: Qdisc<P>] Netem<P, Q>, netem::Config, |netem, config, _now, _drops| netem.reconfigure(config));
edit!([P: Item, Q: Qdisc<P>] Red<P, Q>, red::Config, |red, config, _now, _drops| red.reconfigure(config));
edit!([P: Item] Sfq<P>, sfq::Config, |sfq, config, _now, drops| sfq.reconfigure(config, drops));
edit!([P: Item, Q: Qdisc<P>] Tbf<P, Q>, tbf::Config, |tbf, config, _now, _drops| tbf.reconfigure(config));

/// Rules that put packets with a mark into a class, one for each pair.
pub(crate) fn by_mark(classes: impl IntoIterator<Item = (u32, ClassId)>) -> Filters {
    let mut filters = Filters::default();
    for (value, class) in classes {
        let mark = Masked {
            value,
            mask: u32::MAX,
        };
        let rule = Filter::new(Matcher::Mark(mark), Some(class));
        filters.add(rule).expect("a valid rule");
    }
    filters
}
