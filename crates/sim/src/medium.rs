//! [`Medium`]: shared air, which says when the cards on it may send.
//!
//! A medium carries no frames: [`Network`](crate::Network) stays a tree of cables, with their
//! delays and accidents. The cards on a medium are *granted* ([`SimNic::await_grants`]): what is in
//! their rings leaves when the medium takes it. So what stands above such a card, TSQ and queue
//! limits too, sees completions when they happen on a real one, and the medium has one subject,
//! time.
//!
//! A cell of `n` stations has `2n` cards: number `2i` is that of station `i`, number `2i + 1` what
//! its access point or base station sends to it with. The latter is a [`Link`](crate::Link)'s card,
//! one for each station, because both kinds of base keep a queue for each: mac80211 since its own
//! queues, LTE in RLC.
//!
//! | module | holds |
//! |---|---|
//! | [`wifi`] | [`Wifi`]: IEEE 802.11n/ac, contention and aggregation |
//! | [`lte`] | [`Lte`]: resource blocks in turn, RLC UM, buffer status reports |

pub mod lte;
pub mod wifi;

use tautline_base::Instant;

use crate::nic::SimNic;

pub use lte::{Lte, LteConfig};
pub use wifi::{Wifi, WifiConfig};

/// The cards on a medium, by number.
pub trait Cards {
    /// Card `number`.
    fn card(&self, number: usize) -> &SimNic;
}

/// The cards on a medium, to be served.
pub trait CardsMut: Cards {
    /// Card `number`.
    fn card_mut(&mut self, number: usize) -> &mut SimNic;
}

impl Cards for [SimNic] {
    fn card(&self, number: usize) -> &SimNic {
        &self[number]
    }
}

impl CardsMut for [SimNic] {
    fn card_mut(&mut self, number: usize) -> &mut SimNic {
        &mut self[number]
    }
}

/// Shared air of some kind.
#[derive(Debug)]
pub enum Medium {
    /// A cell of IEEE 802.11n or ac.
    Wifi(Box<Wifi>),
    /// A cell of LTE.
    Lte(Lte),
}

impl Medium {
    /// Lets time pass until `now`: concludes what was on the air until then, takes what goes onto
    /// it now. Call it before the cards advance, and again whenever
    /// [`next_event`](Self::next_event) says so.
    pub fn advance(&mut self, now: Instant, cards: &mut (impl CardsMut + ?Sized)) {
        match self {
            Self::Wifi(wifi) => wifi.advance(now, cards),
            Self::Lte(lte) => lte.advance(now, cards),
        }
    }

    /// When [`advance`](Self::advance) has something to do; a moment of the past means at once.
    pub fn next_event(&self, cards: &(impl Cards + ?Sized)) -> Option<Instant> {
        match self {
            Self::Wifi(wifi) => wifi.next_event(cards),
            Self::Lte(lte) => lte.next_event(cards),
        }
    }

    /// How many cards are on it: two for each station.
    pub fn cards(&self) -> usize {
        match self {
            Self::Wifi(wifi) => wifi.cards(),
            Self::Lte(lte) => lte.cards(),
        }
    }

    /// Makes `card`, which must be at rest, its own card `number`.
    pub fn join(&self, number: usize, card: &mut SimNic) {
        card.await_grants(match self {
            Self::Wifi(wifi) => wifi.driver_queue(number),
            Self::Lte(_) => None,
        });
    }
}

impl From<Wifi> for Medium {
    fn from(wifi: Wifi) -> Self {
        Self::Wifi(Box::new(wifi))
    }
}

impl From<Lte> for Medium {
    fn from(lte: Lte) -> Self {
        Self::Lte(lte)
    }
}
