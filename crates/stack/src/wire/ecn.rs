//! Congestion fields of a TCP header: [`EcnFlags`], its three flags (RFC 3168 §6.1, RFC 9768
//! §3.1.1), and [`EchoedBytes`], the AccECN option (RFC 9768 §3.2.3).

/// AE, CWR and ECE as the number of three bits they form in the header, AE first. Once AccECN is
/// agreed on they are one field, ACE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnFlags(u8);

impl EcnFlags {
    /// No flag.
    pub(crate) const NONE: Self = Self(0b000);
    /// ECN-Echo: the SYN-ACK that agrees to classic ECN, and the echo of a mark.
    pub(crate) const ECE: Self = Self(0b001);
    /// Congestion window reduced.
    pub(crate) const CWR: Self = Self(0b010);
    /// The SYN that requests classic ECN.
    pub(crate) const CLASSIC_SETUP: Self = Self(0b011);
    /// The SYN that requests AccECN.
    pub(crate) const ACCURATE_SETUP: Self = Self(0b111);

    /// The flags one by one.
    pub(crate) const fn new(ae: bool, cwr: bool, ece: bool) -> Self {
        Self((ae as u8) << 2 | (cwr as u8) << 1 | ece as u8)
    }

    /// The lowest three bits of `number`.
    pub(crate) const fn from_bits(number: u8) -> Self {
        Self(number & 0b111)
    }

    /// The number.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Accurate ECN.
    pub(crate) const fn ae(self) -> bool {
        self.0 & 0b100 != 0
    }

    /// Congestion window reduced.
    pub(crate) const fn cwr(self) -> bool {
        self.0 & Self::CWR.0 != 0
    }

    /// ECN-Echo.
    pub(crate) const fn ece(self) -> bool {
        self.0 & Self::ECE.0 != 0
    }
}

/// Kinds of the AccECN option: the fields begin with the bytes of ECT(0), or with those of ECT(1)
/// (RFC 9768 §3.2.3).
const KIND_ECT0_FIRST: u8 = 172;
const KIND_ECT1_FIRST: u8 = 174;
/// The fields count modulo 2²⁴.
const FIELD_MASK: u32 = 0xff_ffff;
/// Longest option: kind, length and three fields.
const LONGEST: usize = 11;

/// An AccECN option: bytes that arrived with each codepoint, each modulo 2²⁴ and present or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EchoedBytes {
    /// With ECT(0).
    pub(crate) ect0: Option<u32>,
    /// With CE.
    pub(crate) ce: Option<u32>,
    /// With ECT(1).
    pub(crate) ect1: Option<u32>,
}

impl EchoedBytes {
    /// The first AccECN option of a header. An odd length counts as its whole fields (RFC 9768
    /// §3.2.3).
    pub(crate) fn find(options: &[u8]) -> Option<Self> {
        super::tcp::options(options)
            .find(|(kind, _)| matches!(*kind, KIND_ECT0_FIRST | KIND_ECT1_FIRST))
            .map(|(kind, value)| Self::read(kind, value))
    }

    fn read(kind: u8, value: &[u8]) -> Self {
        let mut fields = value
            .chunks_exact(3)
            .map(|field| u32::from_be_bytes([0, field[0], field[1], field[2]]));
        let (first, ce, last) = (fields.next(), fields.next(), fields.next());
        match kind {
            KIND_ECT0_FIRST => Self {
                ect0: first,
                ce,
                ect1: last,
            },
            _ => Self {
                ect0: last,
                ce,
                ect1: first,
            },
        }
    }

    /// Length in a header, padding included.
    pub(crate) fn padded_len(&self) -> usize {
        self.encode().0.next_multiple_of(4)
    }

    /// Writes it into `place`, which is as long as it is with its padding.
    pub(crate) fn write(&self, place: &mut [u8]) {
        const NO_OPERATION: u8 = 1;
        let (len, bytes) = self.encode();
        place.fill(NO_OPERATION);
        place[..len].copy_from_slice(&bytes[..len]);
    }

    /// The bytes on the wire, and how many. Fields are left out from the end only: one that is
    /// missing before another is zero.
    fn encode(&self) -> (usize, [u8; LONGEST]) {
        let ect1_first = self.ect0.is_none() && self.ect1.is_some();
        let (kind, first, last) = if ect1_first {
            (KIND_ECT1_FIRST, self.ect1, None)
        } else {
            (KIND_ECT0_FIRST, self.ect0, self.ect1)
        };
        let fields = [first, self.ce, last];
        let count = fields
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        let mut bytes = [0; LONGEST];
        for (place, field) in bytes[2..].chunks_exact_mut(3).zip(fields) {
            place.copy_from_slice(&(field.unwrap_or(0) & FIELD_MASK).to_be_bytes()[1..]);
        }
        let len = 2 + 3 * count;
        (bytes[0], bytes[1]) = (kind, len as u8);
        (len, bytes)
    }
}

/// Growth of a counter from `before` to a value whose lowest 24 bits are `field`. A decrease counts
/// as no growth.
pub(crate) fn growth(before: u64, field: u32) -> u64 {
    let growth = field.wrapping_sub(before as u32) & FIELD_MASK;
    if growth > FIELD_MASK / 2 {
        0
    } else {
        u64::from(growth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(option: EchoedBytes) -> Vec<u8> {
        let mut bytes = vec![0; option.padded_len()];
        option.write(&mut bytes);
        bytes
    }

    /// RFC 9768 figure 4 and table 5.
    #[test]
    fn the_wire_format() {
        let all = EchoedBytes {
            ect0: Some(1),
            ce: Some(0x01_0203),
            ect1: Some(0xff_ffff),
        };
        assert_eq!(written(all), [172, 11, 0, 0, 1, 1, 2, 3, 255, 255, 255, 1]);
        assert_eq!(
            written(EchoedBytes { ect1: None, ..all }),
            [172, 8, 0, 0, 1, 1, 2, 3]
        );
        assert_eq!(
            written(EchoedBytes {
                ect0: Some(7),
                ce: None,
                ect1: None
            }),
            [172, 5, 0, 0, 7, 1, 1, 1]
        );
        assert_eq!(
            written(EchoedBytes { ect0: None, ..all }),
            [174, 8, 255, 255, 255, 1, 2, 3]
        );
        assert_eq!(written(EchoedBytes::default()), [172, 2, 1, 1]);
    }

    #[test]
    fn odd_lengths_and_preceding_options_are_parsed() {
        let option = EchoedBytes {
            ect0: Some(9),
            ce: Some(5),
            ect1: None,
        };
        let options = [&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2][..], &written(option)].concat();
        assert_eq!(EchoedBytes::find(&options), Some(option));
        assert_eq!(
            EchoedBytes::find(&[172, 7, 0, 0, 9, 0, 0, 0]),
            Some(EchoedBytes {
                ect0: Some(9),
                ..Default::default()
            })
        );
        assert_eq!(
            EchoedBytes::find(&[172, 14, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4])
                .and_then(|found| found.ect1),
            Some(3)
        );
        for broken in [
            &[172][..],
            &[172, 0, 0, 0],
            &[172, 1],
            &[172, 12, 0, 0],
            &[0, 172, 2],
            &[5, 0, 172, 2],
            &[],
        ] {
            assert_eq!(EchoedBytes::find(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn counts_grow_modulo_and_never_shrink() {
        assert_eq!(
            [growth(10, 15), growth(0xff_fffe, 3), growth(1 << 24, 7)],
            [5, 5, 7]
        );
        assert_eq!([growth(15, 10), growth(10, 10)], [0, 0]);
    }

    proptest! {
        #[test]
        fn any_options_parse_without_panic(options in prop::collection::vec(any::<u8>(), 0..41)) {
            EchoedBytes::find(&options);
        }

        #[test]
        fn what_is_written_is_read(ect0 in 0u32..1 << 24, ce in 0u32..1 << 24, ect1 in 0u32..1 << 24, len in 0u8..4) {
            let option = EchoedBytes {
                ect0: (len > 0).then_some(ect0),
                ce: (len > 1).then_some(ce),
                ect1: (len > 2).then_some(ect1),
            };
            prop_assert_eq!(EchoedBytes::find(&written(option)), Some(option));
        }
    }
}
