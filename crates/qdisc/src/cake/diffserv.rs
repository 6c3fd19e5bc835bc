//! [`Tins`]: into how many classes of service CAKE divides the link, and which packet goes into
//! which (`net/sched/sch_cake.c` `cake_config_diffserv4` and its siblings).

use core::fmt;

use tautline_base::{Item, Rate};

use super::headers::network;

/// A division of the link into tins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tins {
    /// One for all.
    BestEffort,
    /// Eight, by the old precedence bits.
    Precedence,
    /// Bulk, best effort, voice. The default (Linux).
    #[default]
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
    /// Eight, by the code points of RFC 4594 and its kin.
    Diffserv8,
}

/// The largest number of tins.
pub(super) const MAX_TINS: usize = 8;

/// The code point that ARP counts as: network control.
const NETWORK_CONTROL: u8 = 56;

impl Tins {
    /// Every division, in `tc`'s order.
    pub const ALL: [Self; 5] = [
        Self::BestEffort,
        Self::Precedence,
        Self::Diffserv3,
        Self::Diffserv4,
        Self::Diffserv8,
    ];

    /// `tc`'s name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BestEffort => "besteffort",
            Self::Precedence => "precedence",
            Self::Diffserv3 => "diffserv3",
            Self::Diffserv4 => "diffserv4",
            Self::Diffserv8 => "diffserv8",
        }
    }

    /// Number of tins.
    pub const fn count(self) -> usize {
        match self {
            Self::BestEffort => 1,
            Self::Diffserv3 => 3,
            Self::Diffserv4 => 4,
            Self::Precedence | Self::Diffserv8 => 8,
        }
    }

    /// The tin of packets with this code point, 0 to 63. Higher tins are served first as long as
    /// they keep to their share.
    pub const fn tin_of(self, dscp: u8) -> usize {
        match (self, dscp) {
            (Self::BestEffort, _) => 0,
            (Self::Precedence, _) => (dscp >> 3) as usize & 7,
            (Self::Diffserv3 | Self::Diffserv4, 1 | 8) => 1,
            (Self::Diffserv3, 4 | 44 | 46 | 48 | 56) => 2,
            (Self::Diffserv3, _) => 0,
            (Self::Diffserv4, 4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
            (Self::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            (Self::Diffserv4, _) => 0,
            (Self::Diffserv8, 1) => 0,
            (Self::Diffserv8, 2 | 8 | 10 | 12 | 14) => 1,
            (Self::Diffserv8, 24 | 26 | 28 | 30 | 34 | 36 | 38) => 3,
            (Self::Diffserv8, 4 | 18 | 20 | 22) => 4,
            (Self::Diffserv8, 16) => 5,
            (Self::Diffserv8, 32 | 40 | 44 | 46) => 6,
            (Self::Diffserv8, 48 | 56) => 7,
            (Self::Diffserv8, _) => 2,
        }
    }

    /// The tins in the order in which they are shown and marks count them, which begins with the
    /// least urgent.
    pub(super) const fn order(self) -> &'static [usize] {
        match self {
            Self::BestEffort => &[0],
            Self::Diffserv3 => &[1, 0, 2],
            Self::Diffserv4 => &[1, 0, 2, 3],
            Self::Precedence | Self::Diffserv8 => &[0, 1, 2, 3, 4, 5, 6, 7],
        }
    }

    /// The names of the tins, in the order of [`order`](Self::order).
    pub(super) const fn names(self) -> &'static [&'static str] {
        match self {
            Self::BestEffort => &["Tin 0"],
            Self::Diffserv3 => &["Bulk", "Best Effort", "Voice"],
            Self::Diffserv4 => &["Bulk", "Best Effort", "Video", "Voice"],
            Self::Precedence | Self::Diffserv8 => &[
                "Tin 0", "Tin 1", "Tin 2", "Tin 3", "Tin 4", "Tin 5", "Tin 6", "Tin 7",
            ],
        }
    }

    /// The share of `whole` below which a tin goes first.
    pub(super) fn threshold(self, tin: usize, whole: Rate) -> Rate {
        let bytes = whole.as_bytes_per_sec();
        Rate::bytes_per_sec(match (self, tin) {
            (Self::Precedence | Self::Diffserv8, _) => (0..tin).fold(bytes, |rate, _| {
                u64::try_from((u128::from(rate) * 7) >> 3).expect("seven eighths")
            }),
            (_, 0) => bytes,
            (_, 1) => bytes >> 4,
            (Self::Diffserv4, 2) => bytes >> 1,
            _ => bytes >> 2,
        })
    }

    /// Bytes a tin sends per turn when there is no shaper.
    pub(super) const fn quantum(self, tin: usize) -> i32 {
        const EIGHT: [i32; MAX_TINS] = [256, 224, 196, 171, 149, 130, 113, 98];
        match (self, tin) {
            (Self::BestEffort, _) => 65_535,
            (Self::Precedence | Self::Diffserv8, tin) => EIGHT[tin],
            (_, 0) => 1024,
            (_, 1) => 64,
            (Self::Diffserv4, 2) => 512,
            _ => 256,
        }
    }
}

impl fmt::Display for Tins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The protocol that a packet's link header names.
enum Carried {
    Ip,
    Arp,
    Other,
}

/// Looks at the link header. Packets that do not show it count as IP.
fn carried(packet: &impl Item) -> Carried {
    match network(packet) {
        Some(([0x08, 0x00] | [0x86, 0xdd], _)) | None => Carried::Ip,
        Some(([0x08, 0x06], _)) => Carried::Arp,
        Some(_) => Carried::Other,
    }
}

/// The code point of `packet`. ARP counts as network control, whatever has none as best effort.
pub(super) fn dscp(packet: &impl Item) -> u8 {
    match carried(packet) {
        Carried::Ip => packet.tos() >> 2,
        Carried::Arp => NETWORK_CONTROL,
        Carried::Other => 0,
    }
}

/// Clears the code point of `packet` and leaves its ECN field.
pub(super) fn wash(packet: &mut impl Item) {
    let tos = packet.tos();
    if tos >> 2 != 0 && matches!(carried(packet), Carried::Ip) {
        packet.set_tos(tos & 0b11);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;
    use tautline_testkit::Probe;

    /// `net/sched/sch_cake.c` `cake_config_diffserv4` and its siblings: the code points that do not
    /// go into the tin of best effort. LE (1) is Bulk since 5.9.
    #[test]
    fn code_points_go_where_linux_puts_them() {
        type Map<'a> = &'a [(usize, &'a [u8])];
        let table: [(Tins, usize, Map<'_>); 3] = [
            (
                Tins::Diffserv3,
                0,
                &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])],
            ),
            (
                Tins::Diffserv4,
                0,
                &[
                    (1, &[1, 8]),
                    (2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
                    (3, &[32, 40, 44, 46, 48, 56]),
                ],
            ),
            (
                Tins::Diffserv8,
                2,
                &[
                    (0, &[1]),
                    (1, &[2, 8, 10, 12, 14]),
                    (3, &[24, 26, 28, 30, 34, 36, 38]),
                    (4, &[4, 18, 20, 22]),
                    (5, &[16]),
                    (6, &[32, 40, 44, 46]),
                    (7, &[48, 56]),
                ],
            ),
        ];
        for (tins, rest, map) in table {
            for dscp in 0..64 {
                let listed = map.iter().find(|(_, dscps)| dscps.contains(&dscp));
                assert_eq!(
                    tins.tin_of(dscp),
                    listed.map_or(rest, |(tin, _)| *tin),
                    "{tins} {dscp}"
                );
            }
        }
        for dscp in 0..64 {
            assert_eq!(
                (Tins::BestEffort.tin_of(dscp), Tins::Precedence.tin_of(dscp)),
                (0, usize::from(dscp) / 8)
            );
        }
    }

    #[test]
    fn shares_are_those_of_linux() {
        let shares = |tins: Tins| -> Vec<u64> {
            (0..tins.count())
                .map(|tin| {
                    tins.threshold(tin, Rate::bytes_per_sec(1_000_000))
                        .as_bytes_per_sec()
                })
                .collect()
        };
        assert_eq!(shares(Tins::BestEffort), [1_000_000]);
        assert_eq!(shares(Tins::Diffserv3), [1_000_000, 62_500, 250_000]);
        assert_eq!(
            shares(Tins::Diffserv4),
            [1_000_000, 62_500, 500_000, 250_000]
        );
        let eighths = vec![
            1_000_000, 875_000, 765_625, 669_921, 586_180, 512_907, 448_793, 392_693,
        ];
        assert_eq!(
            (shares(Tins::Diffserv8), shares(Tins::Precedence)),
            (eighths.clone(), eighths)
        );
        assert!(Tins::Diffserv8.threshold(7, Rate::MAX) > Rate::ZERO);
        let quanta =
            |tins: Tins| -> Vec<i32> { (0..tins.count()).map(|tin| tins.quantum(tin)).collect() };
        assert_eq!(quanta(Tins::Diffserv3), [1024, 64, 256]);
        assert_eq!(quanta(Tins::Diffserv4), [1024, 64, 512, 256]);
        assert_eq!(
            quanta(Tins::Precedence),
            [256, 224, 196, 171, 149, 130, 113, 98]
        );
        assert_eq!(quanta(Tins::BestEffort), [65_535]);
    }

    #[test]
    fn every_tin_is_shown_once() {
        for tins in Tins::ALL {
            let mut order = tins.order().to_vec();
            order.sort_unstable();
            assert!(
                order.iter().copied().eq(0..tins.count()) && tins.names().len() == tins.count()
            );
        }
        let index = Tins::Diffserv4
            .names()
            .iter()
            .position(|name| *name == "Video")
            .expect("named");
        assert_eq!(Tins::Diffserv4.order()[index], 2);
    }

    /// ARP counts as network control, IPX as best effort; behind VLAN tags as well (a kernel bug
    /// read the tag's type).
    #[test]
    fn the_link_header_decides_what_has_a_code_point() {
        let frame = |tags: &[u8], offset, ethertype: [u8; 2]| {
            let headers = [&[0; 12], tags, &ethertype, &[0; 28]].concat();
            Probe::new(0)
                .with_headers(headers)
                .network_at(offset)
                .tos(0xb9)
        };
        let tags = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 1];
        for (tags, offset) in [
            (&tags[..0], 14),
            (&tags[4..], 18),
            (&tags[4..], 14),
            (&tags[..], 14),
            (&tags[..], 22),
        ] {
            for (ethertype, code) in [
                ([8, 0], 46),
                ([0x86, 0xdd], 46),
                ([8, 6], 56),
                ([0x81, 0x37], 0),
            ] {
                let mut packet = frame(tags, offset, ethertype);
                assert_eq!(dscp(&packet), code, "{tags:?} {ethertype:?}");
                wash(&mut packet);
                assert_eq!(packet.tos, if code == 46 { 1 } else { 0xb9 });
            }
        }
        assert_eq!(
            dscp(&Probe::new(0).tos(0xb8)),
            46,
            "without headers the TOS byte is believed"
        );
    }
}
