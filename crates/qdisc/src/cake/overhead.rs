//! [`Overhead`]: what a packet weighs on the link behind this host, whose framing Linux does not
//! see (`net/sched/sch_cake.c` `cake_calc_overhead`).

use core::fmt;

use tautline_base::Item;

/// Framing of packets on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// As they are.
    #[default]
    None,
    /// ATM: cells of 53 bytes that carry 48, the last one padded.
    Atm,
    /// PTM, as in VDSL2: one byte more for every 64 begun.
    Ptm,
}

impl Framing {
    /// `tc`'s name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "noatm",
            Self::Atm => "atm",
            Self::Ptm => "ptm",
        }
    }

    fn frame(self, len: u32) -> u32 {
        match self {
            Self::None => len,
            Self::Atm => len.div_ceil(48).saturating_mul(53),
            Self::Ptm => len.saturating_add(len.div_ceil(64)),
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes added to the length of a packet before the shaper is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Bytes added to the network-layer length, -64 to 256; `None` takes the length as it is, link
    /// header included ("raw"). Default none.
    pub bytes: Option<i16>,
    /// Whether the bytes are added to the length with the link header instead, as after `raw` in
    /// `tc`'s words. Default false.
    pub raw: bool,
    /// No packet counts less than this, 0 to 256 bytes. Default 0.
    pub mpu: u16,
    /// Framing, applied last. Default none.
    pub framing: Framing,
}

/// `tc`'s keywords: name, bytes, smallest packet if the keyword sets one, framing if it sets one.
const KEYWORDS: [(&str, i16, Option<u16>, Option<Framing>); 13] = [
    ("conservative", 48, None, Some(Framing::Atm)),
    ("ethernet", 38, Some(84), None),
    ("docsis", 18, Some(64), Some(Framing::None)),
    ("pppoe-ptm", 30, None, Some(Framing::Ptm)),
    ("bridged-ptm", 22, None, Some(Framing::Ptm)),
    ("pppoe-llcsnap", 40, None, Some(Framing::Atm)),
    ("pppoe-vcmux", 32, None, Some(Framing::Atm)),
    ("bridged-llcsnap", 32, None, Some(Framing::Atm)),
    ("bridged-vcmux", 24, None, Some(Framing::Atm)),
    ("pppoa-llc", 14, None, Some(Framing::Atm)),
    ("pppoa-vcmux", 10, None, Some(Framing::Atm)),
    ("ipoa-llcsnap", 16, None, Some(Framing::Atm)),
    ("ipoa-vcmux", 8, None, Some(Framing::Atm)),
];

impl Overhead {
    /// The overhead of a kind of link, in `tc`'s name: `ethernet`, `docsis`, `pppoe-ptm`; `None` if
    /// there is no such name.
    pub fn of_link(name: &str) -> Option<Self> {
        let mut overhead = Self::default();
        overhead.set_link(name).then_some(overhead)
    }

    /// Takes over what the keyword `name` sets and keeps the rest; false if there is no such
    /// keyword.
    pub fn set_link(&mut self, name: &str) -> bool {
        let found = KEYWORDS.iter().find(|(keyword, ..)| *keyword == name);
        if let Some(&(_, bytes, mpu, framing)) = found {
            *self = Self {
                bytes: Some(bytes),
                mpu: mpu.unwrap_or(self.mpu),
                framing: framing.unwrap_or(self.framing),
                ..*self
            };
        }
        found.is_some()
    }

    /// Network-layer length and length on the link of a packet of `len` bytes whose network header
    /// begins at `offset`.
    fn adjust(self, len: u32, offset: u32) -> (u32, u32) {
        let network = if self.bytes.is_some() && !self.raw {
            len.saturating_sub(offset)
        } else {
            len
        };
        let len = network.saturating_add_signed(self.bytes.unwrap_or(0).into());
        (network, self.framing.frame(len.max(self.mpu.into())))
    }
}

/// The sizes seen, as `tc -s` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Smallest and largest network-layer length.
    pub(super) network: (u32, u32),
    /// Smallest and largest length on the link.
    pub(super) adjusted: (u32, u32),
    /// Mean offset of the network header, a multiple of 2⁻¹⁶.
    offset: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            network: (u16::MAX.into(), 0),
            adjusted: (u16::MAX.into(), 0),
            offset: 0,
        }
    }
}

impl Sizes {
    /// The mean offset of the network header in bytes.
    pub(super) fn mean_offset(&self) -> u32 {
        (self.offset + 0x8000) >> 16
    }

    /// Forgets the lengths: they mean something else under another overhead.
    pub(super) fn forget_lengths(&mut self) {
        *self = Self {
            offset: self.offset,
            ..Self::default()
        };
    }

    /// The length of `packet` on the link. A packet of several segments, whose length counts the
    /// headers of each, weighs as they will: all but the last are taken to be equally long.
    pub(super) fn weigh(&mut self, overhead: Overhead, packet: &impl Item) -> u32 {
        let len = u32::try_from(packet.len().get()).unwrap_or(u32::MAX);
        let offset = u32::try_from(packet.network_offset()).unwrap_or(u32::MAX);
        self.offset = self.offset - (self.offset >> 8) + ((offset.min(0xffff) << 16) >> 8);
        let more = u32::from(packet.segments().max(1)) - 1;
        if more == 0 {
            return self.weigh_one(overhead, len, offset);
        }
        let header = u32::try_from(packet.header_len().get())
            .unwrap_or(u32::MAX)
            .min(len / (more + 1));
        let whole = len - header * (more + 1);
        let payload = whole.div_ceil(more + 1);
        // Rest of the payload.
        let last = header + whole.saturating_sub(payload.saturating_mul(more));
        let each = self.weigh_one(overhead, header + payload, offset);
        each.saturating_mul(more)
            .saturating_add(self.weigh_one(overhead, last, offset))
    }

    fn weigh_one(&mut self, overhead: Overhead, len: u32, offset: u32) -> u32 {
        let (network, adjusted) = overhead.adjust(len, offset);
        for (range, len) in [(&mut self.network, network), (&mut self.adjusted, adjusted)] {
            *range = (range.0.min(len), range.1.max(len));
        }
        adjusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tautline_testkit::Probe;

    fn weigh(name: &str, len: u32) -> u32 {
        let overhead = Overhead::of_link(name).expect(name);
        Sizes::default().weigh(overhead, &Probe::new(0).sized(len))
    }

    /// tc-cake(8): after `raw` the bytes are added to the length that Linux reports.
    #[test]
    fn bytes_may_be_added_to_the_length_with_the_link_header() {
        let ethernet = Overhead::of_link("ethernet").expect("known");
        let raw = Overhead {
            raw: true,
            ..ethernet
        };
        let packet = Probe::new(0).sized(1514);
        let mut sizes = Sizes::default();
        assert_eq!(sizes.weigh(raw, &packet), 1552);
        assert_eq!(sizes.network, (1514, 1514));
        assert_eq!(Sizes::default().weigh(ethernet, &packet), 1538);
    }

    /// `net/sched/sch_cake.c` `cake_calc_overhead`, worked by hand.
    #[test]
    fn packets_weigh_what_the_link_carries() {
        for (name, len, weight) in [
            ("ethernet", 1514, 1538),
            ("ethernet", 60, 84),
            ("ethernet", 42, 84),
            ("pppoe-llcsnap", 1514, 1749),
            ("pppoe-llcsnap", 66, 106),
            ("pppoe-ptm", 1514, 1554),
            ("conservative", 1514, 1749),
            ("docsis", 60, 64),
        ] {
            assert_eq!(weigh(name, len), weight, "{name} {len}");
        }
        assert_eq!(
            Sizes::default().weigh(Overhead::default(), &Probe::new(0).sized(60)),
            60,
            "raw"
        );
    }

    #[test]
    fn every_keyword_of_tc_is_known() {
        for (name, bytes, mpu, framing) in [
            ("ethernet", 38, 84, Framing::None),
            ("docsis", 18, 64, Framing::None),
            ("pppoe-ptm", 30, 0, Framing::Ptm),
            ("bridged-ptm", 22, 0, Framing::Ptm),
            ("conservative", 48, 0, Framing::Atm),
            ("pppoe-llcsnap", 40, 0, Framing::Atm),
            ("pppoe-vcmux", 32, 0, Framing::Atm),
            ("bridged-llcsnap", 32, 0, Framing::Atm),
            ("bridged-vcmux", 24, 0, Framing::Atm),
            ("pppoa-llc", 14, 0, Framing::Atm),
            ("pppoa-vcmux", 10, 0, Framing::Atm),
            ("ipoa-llcsnap", 16, 0, Framing::Atm),
            ("ipoa-vcmux", 8, 0, Framing::Atm),
        ] {
            assert_eq!(
                Overhead::of_link(name),
                Some(Overhead {
                    bytes: Some(bytes),
                    mpu,
                    framing,
                    raw: false
                }),
                "{name}"
            );
        }
        assert_eq!(Overhead::of_link("raw"), None);
    }

    /// Kernel bug: with unsigned arithmetic a negative overhead made a small packet enormous
    /// instead of lifting it to the MPU.
    #[test]
    fn negative_overhead_stops_at_the_smallest_packet() {
        let overhead = Overhead {
            bytes: Some(-64),
            mpu: 64,
            ..Overhead::default()
        };
        for (len, weight) in [(14, 64), (60, 64), (141, 64), (143, 65), (0, 64)] {
            assert_eq!(
                Sizes::default().weigh(overhead, &Probe::new(0).sized(len)),
                weight,
                "{len}"
            );
        }
        let nothing = Overhead { mpu: 0, ..overhead };
        assert_eq!(Sizes::default().weigh(nothing, &Probe::new(0).sized(20)), 0);
    }

    /// 3000 bytes of payload in three segments: each 1054 bytes, weighed one by one.
    #[test]
    fn a_whole_weighs_as_much_as_its_segments() {
        let overhead = Overhead::of_link("pppoe-llcsnap").expect("known");
        let one = Sizes::default().weigh(overhead, &Probe::new(0).sized(1054));
        let mut sizes = Sizes::default();
        assert_eq!(
            sizes.weigh(overhead, &Probe::new(0).sized(3162).of_segments(3)),
            3 * one
        );
        assert_eq!((sizes.network, sizes.adjusted), ((1040, 1040), (one, one)));
        // The last is shorter: 1000 + 1000 + 998.
        let last = Sizes::default().weigh(overhead, &Probe::new(0).sized(1052));
        assert_eq!(
            sizes.weigh(overhead, &Probe::new(0).sized(3160).of_segments(3)),
            2 * one + last
        );
    }

    #[test]
    fn sizes_seen_are_remembered() {
        let mut sizes = Sizes::default();
        assert_eq!(
            (sizes.network, sizes.adjusted, sizes.mean_offset()),
            ((65_535, 0), (65_535, 0), 0)
        );
        let overhead = Overhead::of_link("ethernet").expect("known");
        for len in [60, 1514].repeat(1000) {
            sizes.weigh(overhead, &Probe::new(0).sized(len));
        }
        assert_eq!(
            (sizes.network, sizes.adjusted, sizes.mean_offset()),
            ((46, 1500), (84, 1538), 14)
        );
        sizes.forget_lengths();
        assert_eq!((sizes.network, sizes.mean_offset()), ((65_535, 0), 14));
    }

    proptest! {
        /// No length, offset or number of segments overflows; framing never makes a packet lighter.
        #[test]
        fn any_packet_has_a_weight(len: u32, bytes in -64..=256i16, mpu in 0..=256u16, segments: u16, framing in 0..3usize, raw: bool) {
            let framing = [Framing::None, Framing::Atm, Framing::Ptm][framing];
            let packet = Probe::new(0).sized(len).of_segments(segments);
            let overhead = Overhead { bytes: Some(bytes), raw, mpu, framing };
            let weight = Sizes::default().weigh(overhead, &packet);
            prop_assert!(weight >= u32::from(mpu));
            let unframed = Sizes::default().weigh(Overhead { framing: Framing::None, ..overhead }, &packet);
            prop_assert!(weight >= unframed);
        }
    }
}
