//! [`band_of`]: how a qdisc of numbered bands chooses among them (`prio_classify` in
//! `net/sched/sch_prio.c`, `ets_classify` in `net/sched/sch_ets.c`).

use tautline_base::{Instant, Item};

use crate::filter::{Filters, Verdict};

/// The band of `packet` among `bands`; `None` if a filter drops it. Filters choose by class: band *n*
/// is class *n* + 1. Without one that decides, the `priomap` does; a class that is no band means the
/// band of priority 0.
pub(crate) fn band_of(
    filters: &mut Filters,
    packet: &mut impl Item,
    (bands, priomap): (u8, &[u8; 16]),
    now: Instant,
) -> Option<usize> {
    match filters.classify(packet, now) {
        Verdict::Drop => None,
        Verdict::Continue => Some(priomap[usize::from(packet.priority() & 15)].into()),
        Verdict::Class(class) => {
            let band = class.minor.wrapping_sub(1);
            let known = band < bands.into();
            Some(if known { band } else { priomap[0].into() }.into())
        }
    }
}
