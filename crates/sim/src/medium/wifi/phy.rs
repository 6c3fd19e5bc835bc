//! [`Phy`]: duration of transmissions of IEEE 802.11n (HT, mixed format) and 802.11ac (VHT).
//!
//! Bits per symbol are data subcarriers × bits per subcarrier × code rate × streams. The values are
//! from IEEE Std 802.11-2020, clauses 19 (HT) and 21 (VHT), for equal modulation and one user.

use std::time::Duration;

use tautline_base::{Bytes, Rate};

use crate::config_error::ConfigError;

/// Parameters of transmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    /// The standard, which determines the preamble.
    pub standard: Standard,
    /// Channel width.
    pub width: Width,
    /// Spatial streams: 1 to 4, or 8 for 802.11ac.
    pub streams: u8,
    /// Modulation and code rate of each stream: 0 to 7, or 9 for 802.11ac. The MCS of 802.11n is
    /// this + 8 × (streams − 1).
    pub mcs: u8,
    /// Guard interval between symbols.
    pub guard: Guard,
}

/// The standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// IEEE 802.11n, "high throughput", Wi-Fi 4.
    N,
    /// IEEE 802.11ac, "very high throughput", Wi-Fi 5.
    Ac,
}

/// Width of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 20 MHz: 52 data subcarriers.
    Mhz20,
    /// 40 MHz: 108 data subcarriers.
    Mhz40,
    /// 80 MHz, 802.11ac only: 234 data subcarriers.
    Mhz80,
    /// 160 MHz, 802.11ac only: 468 data subcarriers.
    Mhz160,
}

/// The guard interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// 0.8 µs: a symbol takes 4 µs.
    Long,
    /// 0.4 µs: a symbol takes 3.6 µs.
    Short,
}

/// Bits per subcarrier and symbol, and the code rate as a fraction, by MCS.
const MODULATION: [(u64, u64, u64); 10] = [
    (1, 1, 2),
    (2, 1, 2),
    (2, 3, 4),
    (4, 1, 2),
    (4, 3, 4),
    (6, 2, 3),
    (6, 3, 4),
    (6, 5, 6),
    (8, 3, 4),
    (8, 5, 6),
];

/// Bits of the service field and of the tail of one encoder.
const SERVICE_AND_TAIL: u64 = 16 + 6;

impl Phy {
    /// 802.11n, 20 MHz, two streams at 64-QAM 5/6 with the short guard: MCS 15, 144.4 Mbit/s.
    pub const N_2X2_20: Self = Self {
        standard: Standard::N,
        width: Width::Mhz20,
        streams: 2,
        mcs: 7,
        guard: Guard::Short,
    };

    /// 802.11ac, 80 MHz, one stream at 256-QAM 5/6 with the short guard: 433.3 Mbit/s.
    pub const AC_1X1_80: Self = Self {
        standard: Standard::Ac,
        width: Width::Mhz80,
        streams: 1,
        mcs: 9,
        guard: Guard::Short,
    };

    /// Validates the combination.
    ///
    /// # Errors
    /// If a value is out of range, or 802.11ac excludes the combination.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self {
            standard,
            width,
            streams,
            mcs,
            ..
        } = *self;
        let (most_streams, best, allowed) = match standard {
            Standard::N => (4, 7, "from 0 to 7 (802.11n; of each stream)"),
            Standard::Ac => (8, 9, "from 0 to 9 (802.11ac)"),
        };
        ConfigError::check(
            (1..=most_streams).contains(&streams),
            "streams",
            streams,
            "from 1 to 4 (802.11n) or 8 (802.11ac)",
        )?;
        ConfigError::check(mcs <= best, "mcs", mcs, allowed)?;
        let fits = standard == Standard::Ac || matches!(width, Width::Mhz20 | Width::Mhz40);
        ConfigError::check(
            fits,
            "width",
            format!("{width:?}"),
            "20 or 40 MHz (802.11n)",
        )?;
        // Combinations whose coded bits do not divide evenly among the encoders.
        let exists = standard == Standard::N
            || !matches!(
                (width, mcs, streams),
                (Width::Mhz20, 9, 1 | 2 | 4 | 5 | 7 | 8)
                    | (Width::Mhz80, 6, 3 | 7)
                    | (Width::Mhz80, 9, 6)
                    | (Width::Mhz160, 9, 3)
            );
        ConfigError::check(
            exists,
            "mcs",
            mcs,
            "one that 802.11ac has for this width and number of streams",
        )
    }

    /// Data bits per symbol.
    pub fn bits_per_symbol(&self) -> u64 {
        let subcarriers = match self.width {
            Width::Mhz20 => 52,
            Width::Mhz40 => 108,
            Width::Mhz80 => 234,
            Width::Mhz160 => 468,
        };
        let (bits, numerator, denominator) = MODULATION[usize::from(self.mcs.min(9))];
        (subcarriers * bits * u64::from(self.streams) * numerator / denominator).max(1)
    }

    /// Data rate of the symbols.
    pub fn rate(&self) -> Rate {
        Rate::bits_per_sec(self.bits_per_symbol() * 1_000_000_000 / self.symbol())
    }

    /// Duration of the preamble: synchronization, signaling, and a training field per stream,
    /// rounded up to an even number.
    pub fn preamble(&self) -> Duration {
        let streams = u64::from(self.streams);
        let training = if streams == 1 {
            1
        } else {
            streams.next_multiple_of(2)
        };
        Duration::from_micros(match self.standard {
            // L-STF 8, L-LTF 8, L-SIG 4, HT-SIG 8, HT-STF 4.
            Standard::N => 32 + 4 * training,
            // L-STF 8, L-LTF 8, L-SIG 4, VHT-SIG-A 8, VHT-STF 4, then VHT-SIG-B 4.
            Standard::Ac => 36 + 4 * training,
        })
    }

    /// Duration of a transmission of `data` with its preamble, rounded up to whole symbols, and
    /// with the short guard interval to whole long symbols.
    pub fn duration(&self, data: Bytes) -> Duration {
        let bits = data
            .get()
            .saturating_mul(8)
            .saturating_add(SERVICE_AND_TAIL);
        let symbols = bits.div_ceil(self.bits_per_symbol());
        let long = symbols.saturating_mul(self.symbol()).div_ceil(4000);
        self.preamble()
            .saturating_add(Duration::from_nanos(long.saturating_mul(4000)))
    }

    /// Duration of a symbol in nanoseconds.
    fn symbol(&self) -> u64 {
        match self.guard {
            Guard::Long => 4000,
            Guard::Short => 3600,
        }
    }
}

/// Duration of a control frame of `bytes` at `rate` in the format of 802.11a (clause 17): a
/// preamble of 20 µs, symbols of 4 µs.
pub(super) fn control(bytes: u64, rate: Rate) -> Duration {
    let per_symbol = (rate.as_bits_per_sec() / 250_000).max(1);
    Duration::from_micros(20 + 4 * (bytes * 8 + SERVICE_AND_TAIL).div_ceil(per_symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phy(standard: Standard, width: Width, streams: u8, mcs: u8, guard: Guard) -> Phy {
        Phy {
            standard,
            width,
            streams,
            mcs,
            guard,
        }
    }

    #[test]
    fn rates_are_those_of_the_standards() {
        use Guard::{Long, Short};
        use Standard::{Ac, N};
        use Width::{Mhz20, Mhz40, Mhz80, Mhz160};
        let tenths = |phy: Phy| {
            phy.check().expect("it exists");
            (phy.rate().as_bits_per_sec() + 50_000) / 100_000
        };
        for (phy, expected) in [
            (phy(N, Mhz20, 1, 0, Long), 65),
            (phy(N, Mhz20, 1, 7, Long), 650),
            (phy(N, Mhz20, 1, 7, Short), 722),
            (Phy::N_2X2_20, 1444),
            (phy(N, Mhz40, 2, 7, Short), 3000),
            (phy(N, Mhz40, 3, 7, Short), 4500),
            (phy(N, Mhz40, 4, 5, Long), 4320),
            (phy(Ac, Mhz20, 1, 8, Long), 780),
            (phy(Ac, Mhz20, 3, 9, Short), 2889),
            (phy(Ac, Mhz40, 2, 9, Short), 4000),
            (Phy::AC_1X1_80, 4333),
            (phy(Ac, Mhz80, 1, 7, Short), 3250),
            (phy(Ac, Mhz80, 2, 9, Short), 8667),
            (phy(Ac, Mhz160, 8, 9, Short), 69_333),
        ] {
            assert_eq!(tenths(phy), expected, "{phy:?}");
        }
    }

    #[test]
    fn a_transmission_is_a_preamble_and_whole_symbols() {
        // 802.11n, 65 Mbit/s, one stream: 36 µs; 260 bits a symbol. 1534 bytes: 12294 bits, 48
        // symbols.
        let one = phy(Standard::N, Width::Mhz20, 1, 7, Guard::Long);
        assert_eq!(
            one.duration(Bytes::new(1534)),
            Duration::from_micros(36 + 48 * 4)
        );
        // Two streams, short guard: 40 µs; 520 bits in 3.6 µs. The same takes 24 symbols, 86.4 µs,
        // so 88.
        assert_eq!(
            Phy::N_2X2_20.duration(Bytes::new(1534)),
            Duration::from_micros(40 + 88)
        );
        assert_eq!(
            Phy::AC_1X1_80.duration(Bytes::ZERO),
            Duration::from_micros(40 + 4)
        );
        // Three streams are trained by four fields.
        assert_eq!(
            phy(Standard::Ac, Width::Mhz80, 3, 0, Guard::Long).preamble(),
            Duration::from_micros(52)
        );
        // Block ACK, 32 bytes at 24 Mbit/s: 278 bits, 3 symbols of 96. ACK, 14 bytes: 134 bits, 2
        // symbols.
        assert_eq!(control(32, Rate::mbit(24)), Duration::from_micros(32));
        assert_eq!(control(14, Rate::mbit(24)), Duration::from_micros(28));
        assert!(
            Phy::AC_1X1_80.duration(Bytes::MAX) > Duration::from_secs(1_000_000),
            "no overflow"
        );
    }

    #[test]
    fn what_the_standards_do_not_have_is_refused() {
        use Guard::Long;
        for refused in [
            phy(Standard::N, Width::Mhz20, 1, 8, Long),
            phy(Standard::N, Width::Mhz80, 1, 7, Long),
            phy(Standard::N, Width::Mhz20, 5, 7, Long),
            phy(Standard::N, Width::Mhz20, 0, 7, Long),
            phy(Standard::Ac, Width::Mhz20, 1, 9, Long),
            phy(Standard::Ac, Width::Mhz80, 3, 6, Long),
            phy(Standard::Ac, Width::Mhz80, 1, 10, Long),
        ] {
            assert!(refused.check().is_err(), "{refused:?}");
        }
    }
}
