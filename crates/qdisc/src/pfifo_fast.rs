//! [`PfifoFast`]: three FIFOs in strict priority, Linux's default qdisc for a single-queue device
//! (`tc`'s `pfifo_fast`).
//!
//! Linux gives each band a ring of its own, so the three together hold up to three limits; ns-3
//! shares one limit among them. This follows Linux. The priomap is fixed, as it is there.

use core::fmt;

use tautline_base::{Backlog, Bytes, Drops, Instant, Item, Qdisc};

use crate::pfifo::{self, Pfifo};

/// Number of bands; band 0 is served first.
pub const BANDS: usize = 3;

/// Band of each local priority (`Item::priority`): `tc`'s `priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1
/// 1`.
pub const PRIOMAP: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// Local priority that Linux derives from a TOS byte (when an application sets `IP_TOS`, when it
/// forwards IPv4): best effort 0, bulk 2, interactive 6, interactive bulk 4. Only the four bits of
/// the old TOS definition count; with today's meaning of the byte these are the lower three DSCP
/// bits and one ECN bit, and the latter changes nothing.
pub const fn priority_of_tos(tos: u8) -> u8 {
    const BY_DELAY_AND_THROUGHPUT: [u8; 4] = [0, 2, 6, 4];
    BY_DELAY_AND_THROUGHPUT[(tos as usize & 0x18) >> 3]
}

/// Parameters of [`PfifoFast`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Limit of each band in packets. Default 1000, the transmit queue length of a Linux Ethernet
    /// device.
    pub limit: u32,
    /// When the slot of a departed packet is free again. Default [`Places::AtOnce`].
    pub places: Places,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1000,
            places: Places::AtOnce,
        }
    }
}

impl Config {
    /// Behaves like Linux: with [`Places::Batched`].
    pub fn linux() -> Self {
        Self {
            places: Places::Batched,
            ..Self::default()
        }
    }
}

/// When a band's slot of a departed packet is free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// At once: a band holds its limit.
    #[default]
    AtOnce,
    /// When 16 packets or the last slot of the ring have been consumed, as in Linux since 4.16,
    /// whose rings thereby avoid bouncing a cache line between two processors: a full band of
    /// `limit` packets may refuse a newcomer up to 15 packets early. Rings of fewer than 32 places
    /// are not batched.
    Batched,
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtOnce => "at-once",
            Self::Batched => "batched",
        })
    }
}

/// Packets whose places Linux's rings free together: two cache lines of pointers.
const BATCH: u32 = 16;

/// Read position of a ring.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    /// The place read next.
    head: u32,
    /// Places read and not yet free.
    spent: u32,
}

impl Ring {
    /// A packet left a ring of `size` places.
    fn read(&mut self, size: u32) {
        let batch = if BATCH > size / 2 { 1 } else { BATCH };
        self.head += 1;
        self.spent += 1;
        if self.head >= size {
            *self = Self::default();
        } else if self.spent >= batch {
            self.spent = 0;
        }
    }
}

/// Three FIFOs in strict priority.
///
/// ```
/// use tautline_base::{Instant, Item, Packet};
/// use tautline_qdisc::{Drops, PfifoFast, Qdisc, pfifo_fast::Config};
///
/// let (mut queue, mut drops) = (PfifoFast::new(Config::default()), Drops::new());
/// for priority in [0, 6] { // best effort, interactive
///     queue.enqueue(Packet::new((), 100).with_tos(0, priority), Instant::ZERO, &mut drops);
/// }
/// let first = queue.dequeue(Instant::ZERO, &mut drops);
/// assert_eq!(first.map(|packet| packet.priority()), Some(6));
/// # Ok::<(), tautline_qdisc::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct PfifoFast<P> {
    config: Config,
    bands: [Pfifo<P>; BANDS],
    rings: [Ring; BANDS],
}

impl<P> PfifoFast<P> {
    /// Three empty bands. Every configuration is valid; with limit 0 it drops everything.
    pub fn new(config: Config) -> Self {
        let limit = config.limit;
        let bands = core::array::from_fn(|_| Pfifo::new(pfifo::Config { limit }));
        Self {
            config,
            bands,
            rings: [Ring::default(); BANDS],
        }
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its three FIFOs, the most urgent first.
    pub fn bands(&self) -> &[Pfifo<P>] {
        &self.bands
    }

    /// Replaces the parameters. Packets above a lowered limit stay.
    pub fn reconfigure(&mut self, config: Config) {
        let limit = config.limit;
        (self.config, self.rings) = (config, [Ring::default(); BANDS]);
        self.bands
            .iter_mut()
            .for_each(|band| band.reconfigure(pfifo::Config { limit }));
    }
}

impl<P: Item> Qdisc<P> for PfifoFast<P> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        let band = usize::from(PRIOMAP[usize::from(packet.priority() & 15)]);
        let (fifo, limit) = (&mut self.bands[band], self.config.limit);
        if self.rings[band].spent == 0 {
            return fifo.enqueue(packet, now, drops);
        }
        fifo.reconfigure(pfifo::Config {
            limit: limit.saturating_sub(self.rings[band].spent),
        });
        fifo.enqueue(packet, now, drops);
        fifo.reconfigure(pfifo::Config { limit });
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let (ring, packet) = self
            .bands
            .iter_mut()
            .zip(&mut self.rings)
            .find_map(|(band, ring)| Some((ring, band.dequeue(now, drops)?)))?;
        if self.config.places == Places::Batched {
            ring.read(self.config.limit);
        }
        Some(packet)
    }

    fn ready_at(&self) -> Option<Instant> {
        self.bands.iter().find_map(Qdisc::<P>::ready_at)
    }

    fn backlog(&self) -> Backlog {
        self.bands.iter().fold(Backlog::default(), |sum, band| {
            let band = band.backlog();
            Backlog {
                packets: sum.packets + band.packets,
                bytes: sum.bytes + band.bytes,
            }
        })
    }

    fn peek_len(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<Bytes> {
        self.bands
            .iter_mut()
            .find_map(|band| band.peek_len(now, drops))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use tautline_testkit::{Probe, ids};

    fn drain(fifo: &mut PfifoFast<Probe>) -> Vec<u32> {
        ids(core::iter::from_fn(|| {
            fifo.dequeue(Instant::ZERO, &mut Drops::new())
        }))
    }

    /// `net/sched/sch_generic.c` `pfifo_fast_dequeue`, worked by hand: priorities 0, 2, 6, 0 leave
    /// as C, A, D, B.
    #[test]
    fn bands_leave_in_strict_priority_and_in_order() {
        let (mut fifo, mut drops) = (PfifoFast::new(Config::default()), Drops::new());
        for (id, priority) in [(b'A', 0), (b'B', 2), (b'C', 6), (b'D', 0)] {
            fifo.enqueue(
                Probe::new(id.into()).with_priority(priority),
                Instant::ZERO,
                &mut drops,
            );
        }
        assert_eq!(drain(&mut fifo), [b'C', b'A', b'D', b'B'].map(u32::from));
        assert!(drops.is_empty());
    }

    /// Linux: each band has the whole limit to itself, and only the full band drops.
    #[test]
    fn the_limit_is_per_band() {
        let (mut fifo, mut drops) = (
            PfifoFast::new(Config {
                limit: 2,
                ..Config::default()
            }),
            Drops::new(),
        );
        for id in 0..9 {
            let priority = [0, 2, 6][id as usize % 3];
            fifo.enqueue(
                Probe::new(id).with_priority(priority),
                Instant::ZERO,
                &mut drops,
            );
        }
        assert_eq!(ids(drops.drain().map(|(packet, _)| packet)), [6, 7, 8]);
        assert_eq!(fifo.backlog().packets, 6);
    }

    /// Linux, seen in traces: a full ring of 40 has no place again before 16 packets have left, or
    /// its end was read.
    #[test]
    fn linux_frees_places_in_batches() {
        let (mut fifo, mut drops) = (
            PfifoFast::new(Config {
                limit: 40,
                ..Config::linux()
            }),
            Drops::new(),
        );
        let mut fill = |fifo: &mut PfifoFast<Probe>| {
            (0..99).for_each(|id| fifo.enqueue(Probe::new(id), Instant::ZERO, &mut drops));
            99 - drops.drain().count()
        };
        assert_eq!(fill(&mut fifo), 40);
        let mut taken = |fifo: &mut PfifoFast<Probe>, count| {
            (0..count)
                .for_each(|_| assert!(fifo.dequeue(Instant::ZERO, &mut Drops::new()).is_some()));
            fill(fifo)
        };
        assert_eq!(
            [15, 1, 16, 7, 1].map(|count| taken(&mut fifo, count)),
            [0, 16, 16, 0, 8]
        );
        let mut small = PfifoFast::new(Config {
            limit: 31,
            ..Config::linux()
        });
        assert_eq!([taken(&mut small, 0), taken(&mut small, 1)], [31, 1]);
    }

    /// `net/ipv4/route.c` `ip_tos2prio`, worked by hand; the ECN bits change nothing.
    #[test]
    fn priorities_follow_the_old_tos_bits() {
        let table = [
            (0x00, 0),
            (0x08, 2),
            (0x10, 6),
            (0x18, 4),
            (0xb8, 4),
            (0x28, 2),
            (0x30, 6),
            (0x88, 2),
            (0x90, 6),
            (0x98, 4),
            (0x20, 0),
            (0xc0, 0),
            (0xb0, 6),
            (0x04, 0),
        ];
        for (tos, priority) in table {
            for ecn in 0..4 {
                assert_eq!(priority_of_tos(tos | ecn), priority, "tos {tos:#x}");
            }
        }
    }

    /// ns-3's pfifo-fast suite: TOS 00-06 to band 1, 08-0e to 2, 10-16 to 0, 18-1e to 1; AFx1 to 2,
    /// AFx2 to 0, AFx3, CSn, EF to 1.
    #[test]
    fn tos_and_dscp_reach_the_bands_that_ns3_expects() {
        let band = |tos| PRIOMAP[usize::from(priority_of_tos(tos))];
        for tos in 0..0x20 {
            assert_eq!(
                band(tos),
                [1, 2, 0, 1][usize::from(tos) >> 3],
                "tos {tos:#x}"
            );
        }
        for class in 1..=4u8 {
            for (precedence, expected) in [(1, 2), (2, 0), (3, 1)] {
                assert_eq!(
                    band((class << 3 | precedence << 1) << 2),
                    expected,
                    "AF{class}{precedence}"
                );
            }
        }
        for dscp in (0..8).map(|class| class << 3).chain([46]) {
            assert_eq!(band(dscp << 2), 1, "dscp {dscp}");
        }
    }
}
