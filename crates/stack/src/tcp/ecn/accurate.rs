//! Accurate feedback: the receiver counts what arrives marked; every segment carries the lowest
//! three bits of the packet count, and an option, where it fits, the byte counts (RFC 9768 §3.2).

use tautline_base::{Bytes, Ecn};

use super::AckUrgency;
use super::handshake::reflect;
use crate::wire::{EchoedBytes, EcnFlags, growth};

/// Where the counts begin (RFC 9768 §3.2.1): not at zero, so that a zeroed field shows.
const FIRST_COUNT: u64 = 5;
const FIRST_BYTES: ByteCounts = ByteCounts {
    ect0: 1,
    ce: 0,
    ect1: 1,
};
/// Number of values of the field.
const WIDTH: u64 = 8;
/// Marks since the last acknowledgment that force one: while data waits to be acknowledged, and
/// else, when the answer may be to acknowledgments alone (RFC 9768 §3.2.2.5.1).
const FORCES_ACK: u64 = 2;
const FORCES_ACK_OF_ACKS: u64 = 3;

/// A connection with accurate feedback.
#[derive(Debug)]
pub(super) struct Accurate {
    arrived: Arrived,
    echoed: Echoed,
}

/// The receiver's half: counts of arrivals, and the counts last sent to the peer.
#[derive(Debug)]
struct Arrived {
    /// Marked packets (r.cep).
    packets: u64,
    /// The same when an acknowledgment last left.
    reported: u64,
    /// Bytes of payload by codepoint (r.e0b, r.ceb, r.e1b).
    bytes: ByteCounts,
    /// The same when an option last left.
    reported_bytes: ByteCounts,
    /// The last packet was marked.
    last_marked: bool,
    /// Codepoint of the peer's SYN-ACK, until a bare acknowledgment has reported it.
    reflect: Option<Ecn>,
    /// A CE mark on a SYN-ACK was counted; only one ever is.
    counted_syn_ack: bool,
}

/// The sender's half: the feedback received from the peer.
#[derive(Debug)]
struct Echoed {
    /// Marked packets (s.cep).
    packets: u64,
    /// Marked bytes (s.ceb).
    bytes: u64,
    /// Marked bytes made up from counts of packets since an option last came.
    guessed: u64,
    /// Packets of ours it is known to have.
    delivered: u64,
    /// The counts are trusted.
    trusted: bool,
    options: Options,
}

/// Whether the peer's options arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Options {
    /// None has yet.
    Unseen,
    Seen,
    /// Somebody clears their fields.
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteCounts {
    ect0: u64,
    ce: u64,
    ect1: u64,
}

/// Packets and bytes that an acknowledgment newly delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMarks {
    /// Packets.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: Bytes,
    /// Most bytes in one packet.
    pub(crate) segment: u64,
}

/// The marked part of newly delivered packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) packets: u64,
    pub(super) bytes: Bytes,
}

impl Accurate {
    pub(super) fn new() -> Self {
        let arrived = Arrived {
            packets: FIRST_COUNT,
            reported: FIRST_COUNT,
            bytes: FIRST_BYTES,
            reported_bytes: FIRST_BYTES,
            last_marked: false,
            reflect: None,
            counted_syn_ack: false,
        };
        let echoed = Echoed {
            packets: FIRST_COUNT,
            bytes: FIRST_BYTES.ce,
            guessed: 0,
            delivered: 0,
            trusted: true,
            options: Options::Unseen,
        };
        Self { arrived, echoed }
    }

    /// A SYN-ACK arrived, perhaps not the first one: its codepoint is fed back, and a mark counts,
    /// once.
    pub(super) fn on_syn_ack(&mut self, codepoint: Ecn) {
        self.arrived.reflect = Some(codepoint);
        if codepoint == Ecn::Ce && !self.arrived.counted_syn_ack {
            self.arrived.counted_syn_ack = true;
            self.arrived.packets += 1;
        }
    }

    /// The bare acknowledgment that completes the handshake says that the SYN-ACK was marked.
    pub(super) fn syn_ack_was_marked(&mut self) {
        self.echoed.packets += 1;
    }

    /// The peer's counts mean nothing.
    pub(super) fn distrust(&mut self) {
        self.echoed.trusted = false;
    }

    /// The option in the peer's last word of the handshake, or its absence (RFC 9768 §3.2.3.2.3–4).
    pub(super) fn on_first_option(&mut self, option: Option<EchoedBytes>) {
        self.echoed.options = match option {
            None => Options::Unseen,
            Some(EchoedBytes { ect0: Some(0), .. } | EchoedBytes { ect1: Some(0), .. }) => {
                Options::Ignored
            }
            Some(_) => Options::Seen,
        };
    }

    /// A bare acknowledgment has to report the codepoint of the SYN-ACK.
    pub(super) fn owes_reflection(&self) -> bool {
        self.arrived.reflect.is_some()
    }

    /// Packets other than a SYN arrived, as one, with `data` bytes of payload; `owes`: an
    /// acknowledgment waits to be sent.
    pub(super) fn on_packets(
        &mut self,
        codepoint: Ecn,
        (packets, data): (u64, u64),
        owes: bool,
    ) -> AckUrgency {
        let arrived = &mut self.arrived;
        match codepoint {
            Ecn::NotEct => {}
            Ecn::Ect0 => arrived.bytes.ect0 += data,
            Ecn::Ect1 => arrived.bytes.ect1 += data,
            Ecn::Ce => arrived.bytes.ce += data,
        }
        let marked = codepoint == Ecn::Ce;
        let changed = marked && !arrived.last_marked;
        arrived.last_marked = marked;
        arrived.packets += if marked { packets } else { 0 };
        let unreported = arrived.packets - arrived.reported;
        let enough = if data > 0 || owes {
            FORCES_ACK
        } else {
            FORCES_ACK_OF_ACKS
        };
        if marked && ((changed && data > 0) || unreported >= enough) {
            AckUrgency::Now
        } else {
            AckUrgency::None
        }
    }

    /// The flags of a segment; `bare`: it carries neither data nor SACK blocks.
    pub(super) fn flags(&self, bare: bool) -> EcnFlags {
        match self.arrived.reflect {
            Some(codepoint) if bare => reflect(codepoint),
            _ => EcnFlags::from_bits((self.arrived.packets % WIDTH) as u8),
        }
    }

    /// The option with every count, which tries the path.
    pub(super) fn all_bytes(&self) -> EchoedBytes {
        let ByteCounts { ect0, ce, ect1 } = self.arrived.bytes;
        EchoedBytes {
            ect0: Some(ect0 as u32),
            ce: Some(ce as u32),
            ect1: Some(ect1 as u32),
        }
    }

    /// The option of an acknowledgment: every count that has ever changed, if one has since it was
    /// last reported; all of them with the first acknowledgment (RFC 9768 §3.2.3.3).
    pub(super) fn option(&self) -> Option<EchoedBytes> {
        let Arrived {
            bytes,
            reported_bytes,
            ..
        } = &self.arrived;
        if self.arrived.reflect.is_some() {
            return Some(self.all_bytes());
        }
        let changed = |count: u64, first: u64| (count != first).then_some(count as u32);
        (bytes != reported_bytes).then(|| EchoedBytes {
            ect0: changed(bytes.ect0, FIRST_BYTES.ect0),
            ce: changed(bytes.ce, FIRST_BYTES.ce),
            ect1: changed(bytes.ect1, FIRST_BYTES.ect1),
        })
    }

    /// A segment with these flags left, and with the option if `with_option`.
    pub(super) fn sent(&mut self, with_option: bool) {
        self.arrived.reported = self.arrived.packets;
        if with_option {
            self.arrived.reported_bytes = self.arrived.bytes;
        }
    }

    /// A pure acknowledgment with these flags and this option left. Whether or not it was bare, the
    /// codepoint of the SYN-ACK is reported no more.
    pub(super) fn sent_pure_ack(&mut self) {
        self.sent(true);
        self.arrived.reflect = None;
    }

    /// Reads an acknowledgment: what the peer has newly seen marked.
    pub(super) fn on_acknowledgment(
        &mut self,
        flags: EcnFlags,
        option: Option<EchoedBytes>,
        newly: NewMarks,
    ) -> Marked {
        let echoed = &mut self.echoed;
        let first = echoed.delivered == 0;
        echoed.delivered += newly.packets;
        // The count begins at 5: with fewer than three packets delivered it cannot have come round
        // to 0. Somebody clears it.
        if first && flags == EcnFlags::NONE && echoed.delivered < WIDTH - FIRST_COUNT {
            echoed.trusted = false;
        }
        if !echoed.trusted || newly.packets == 0 {
            return Marked::default();
        }
        echoed.take(
            flags,
            option.filter(|_| echoed.options != Options::Ignored),
            newly,
        )
    }

    /// The peer's counts are trusted.
    pub(super) fn trusted(&self) -> bool {
        self.echoed.trusted
    }
}

impl Echoed {
    fn take(&mut self, flags: EcnFlags, option: Option<EchoedBytes>, newly: NewMarks) -> Marked {
        let least = (u64::from(flags.bits()) + WIDTH - self.packets % WIDTH) % WIDTH;
        let marked = match option {
            Some(EchoedBytes { ce, .. }) => {
                self.options = Options::Seen;
                let bytes = ce.map_or(0, |ce| growth(self.bytes, ce));
                self.bytes += bytes;
                let fresh = bytes.saturating_sub(std::mem::take(&mut self.guessed));
                let packets = at_least(least, fresh.div_ceil(newly.segment.max(1)), newly.packets);
                Marked {
                    packets,
                    bytes: Bytes::new(fresh).min(newly.bytes),
                }
            }
            None => {
                // Where options arrive, one is missing because it did not fit; the next one makes
                // up for it.
                let packets = if self.options == Options::Seen {
                    least
                } else {
                    most(least, newly.packets)
                };
                let bytes = share(newly, packets);
                self.guessed += bytes.get();
                Marked { packets, bytes }
            }
        };
        self.packets += marked.packets;
        marked
    }
}

/// The growth of a count of packets whose lowest bits have grown by `least`. If it may have come
/// round unseen, it is taken to have done so as often as it can have: with as many marks as there
/// can be, the sender errs on the safe side (RFC 9768 §3.2.2.5.2, appendix A.2).
fn most(least: u64, packets: u64) -> u64 {
    if packets < WIDTH {
        least
    } else {
        packets - (packets - least) % WIDTH
    }
}

/// The same, if the marked bytes fill `fullest` packets: the field has wrapped as often as that
/// requires.
fn at_least(least: u64, fullest: u64, packets: u64) -> u64 {
    let rounds = fullest.saturating_sub(least).div_ceil(WIDTH);
    (least + rounds * WIDTH).min(most(least, packets).max(least))
}

/// The bytes of `packets` among those newly delivered.
fn share(newly: NewMarks, packets: u64) -> Bytes {
    if packets >= newly.packets {
        return newly.bytes;
    }
    let bytes =
        u128::from(newly.bytes.get()) * u128::from(packets) / u128::from(newly.packets.max(1));
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn newly(packets: u64) -> NewMarks {
        NewMarks {
            packets,
            bytes: Bytes::new(1000 * packets),
            segment: 1000,
        }
    }

    #[test]
    fn the_count_starts_at_five_and_wraps() {
        let mut receiver = Accurate::new();
        for count in [6, 7, 0, 1, 2] {
            receiver.on_packets(Ecn::Ce, (1, 1000), false);
            assert_eq!(receiver.flags(true), EcnFlags::from_bits(count));
        }
    }

    #[test]
    fn a_change_and_every_second_mark_ask_for_an_acknowledgment() {
        let mut receiver = Accurate::new();
        assert_eq!(
            receiver.on_packets(Ecn::Ect0, (1, 1000), false),
            AckUrgency::None
        );
        assert_eq!(
            receiver.on_packets(Ecn::Ce, (1, 1000), true),
            AckUrgency::Now,
            "marks begin"
        );
        receiver.sent_pure_ack();
        assert_eq!(
            receiver.on_packets(Ecn::Ce, (1, 1000), false),
            AckUrgency::None
        );
        assert_eq!(
            receiver.on_packets(Ecn::Ce, (1, 1000), true),
            AckUrgency::Now,
            "the second"
        );
        receiver.sent_pure_ack();
        assert_eq!(
            receiver.on_packets(Ecn::Ect0, (1, 1000), false),
            AckUrgency::None,
            "marks end: no news"
        );
        // Marked acknowledgments: every third one is answered, so that two ends never answer each
        // other's answers for long.
        let answers = [Ecn::Ce; 6].map(|codepoint| {
            let urgency = receiver.on_packets(codepoint, (1, 0), false);
            if urgency == AckUrgency::Now {
                receiver.sent_pure_ack();
            }
            urgency == AckUrgency::Now
        });
        assert_eq!(answers, [false, false, true, false, false, true]);
    }

    #[test]
    fn the_first_bare_acknowledgment_reports_the_syn_ack_which_counts_once() {
        let mut client = Accurate::new();
        client.on_syn_ack(Ecn::Ce);
        client.on_syn_ack(Ecn::Ce);
        assert_eq!(client.flags(true), reflect(Ecn::Ce));
        assert_eq!(
            client.flags(false),
            EcnFlags::from_bits(6),
            "data cannot tell of it"
        );
        client.sent_pure_ack();
        assert_eq!(client.flags(true), EcnFlags::from_bits(6));
    }

    /// RFC 9768 appendix A.2: the smallest growth, unless more packets were acknowledged than the
    /// field can count.
    #[test]
    fn a_count_that_may_have_come_round_is_taken_to_have_done_so() {
        assert_eq!([most(0, 1), most(1, 1), most(7, 7)], [0, 1, 7]);
        assert_eq!(most(1, 9), 9, "one mark or nine: nine");
        assert_eq!(most(1, 8), 1, "nine marks do not fit eight packets");
        assert_eq!(most(0, 45), 40);
    }

    #[test]
    fn a_field_that_is_always_zero_is_not_believed() {
        let mut sender = Accurate::new();
        assert_eq!(
            sender
                .on_acknowledgment(EcnFlags::NONE, None, newly(2))
                .packets,
            0
        );
        assert!(!sender.trusted());
        // Three marks bring it to zero honestly.
        let mut sender = Accurate::new();
        assert_eq!(
            sender
                .on_acknowledgment(EcnFlags::NONE, None, newly(3))
                .packets,
            3
        );
        assert!(sender.trusted());
    }

    proptest! {
        #[test]
        fn sender_and_receiver_agree_while_no_more_than_seven_are_acknowledged_at_once(
            marks in prop::collection::vec(prop::bool::ANY, 1..400),
            stretch in prop::collection::vec(1usize..8, 400),
        ) {
            let (mut receiver, mut sender) = (Accurate::new(), Accurate::new());
            let (mut marked, mut rest) = (0, &marks[..]);
            for take in stretch {
                let (now, later) = rest.split_at(take.min(rest.len()));
                rest = later;
                for mark in now {
                    receiver.on_packets(if *mark { Ecn::Ce } else { Ecn::Ect1 }, (1, 1000), true);
                    marked += u64::from(*mark);
                }
                sender.on_acknowledgment(receiver.flags(true), None, newly(now.len() as u64));
                receiver.sent_pure_ack();
                prop_assert_eq!(sender.echoed.packets - FIRST_COUNT, marked);
            }
        }

        #[test]
        fn the_guess_never_falls_short(heard in 5u64..1000, packets in 0u64..200, share in 0u64..=100) {
            let marked = packets * share / 100;
            let guess = most(((heard + marked) % WIDTH + WIDTH - heard % WIDTH) % WIDTH, packets);
            prop_assert!(marked <= guess && guess <= packets.max(WIDTH - 1), "{} of {}", guess, packets);
            prop_assert_eq!((guess - marked) % WIDTH, 0);
        }

        /// With the option, however many are acknowledged at once, the count is exact when packets
        /// are full.
        #[test]
        fn with_the_option_stretches_of_any_length_are_reported_exactly(
            marks in prop::collection::vec(prop::bool::ANY, 1..400),
            stretch in prop::collection::vec(1usize..60, 400),
        ) {
            let (mut receiver, mut sender) = (Accurate::new(), Accurate::new());
            sender.on_first_option(Some(receiver.all_bytes()));
            let (mut marked, mut reported, mut rest) = (0, 0, &marks[..]);
            for take in stretch {
                let (now, later) = rest.split_at(take.min(rest.len()));
                rest = later;
                for mark in now {
                    receiver.on_packets(if *mark { Ecn::Ce } else { Ecn::Ect1 }, (1, 1000), true);
                    marked += u64::from(*mark);
                }
                let heard = sender.on_acknowledgment(receiver.flags(true), receiver.option(), newly(now.len() as u64));
                receiver.sent_pure_ack();
                reported += heard.bytes.get();
                prop_assert_eq!((sender.echoed.packets - FIRST_COUNT, reported), (marked, 1000 * marked));
            }
        }
    }

    #[test]
    fn the_option_holds_what_has_ever_changed_and_only_news() {
        let mut receiver = Accurate::new();
        assert_eq!(receiver.option(), None);
        receiver.on_packets(Ecn::Ect1, (1, 1000), false);
        let ect1 = EchoedBytes {
            ect1: Some(1001),
            ..EchoedBytes::default()
        };
        assert_eq!(receiver.option(), Some(ect1));
        receiver.sent(false);
        assert_eq!(receiver.option(), Some(ect1), "data left without it");
        receiver.sent(true);
        assert_eq!(receiver.option(), None, "no news");
        receiver.on_packets(Ecn::Ce, (1, 500), false);
        assert_eq!(
            receiver.option(),
            Some(EchoedBytes {
                ce: Some(500),
                ..ect1
            })
        );
    }

    #[test]
    fn options_whose_fields_are_zeroed_are_ignored() {
        let mut sender = Accurate::new();
        sender.on_first_option(Some(EchoedBytes {
            ect0: Some(0),
            ce: Some(0),
            ect1: Some(0),
        }));
        let zero = Some(EchoedBytes {
            ect0: Some(0),
            ce: Some(0),
            ect1: None,
        });
        assert_eq!(
            sender
                .on_acknowledgment(EcnFlags::from_bits(6), zero, newly(9))
                .packets,
            9,
            "the safe reading of the flags"
        );
    }

    #[test]
    fn a_lie_about_bytes_is_cut_to_what_was_delivered() {
        let mut sender = Accurate::new();
        let lie = Some(EchoedBytes {
            ect0: None,
            ce: Some(8_000_000),
            ect1: None,
        });
        let marked = sender.on_acknowledgment(EcnFlags::from_bits(6), lie, newly(2));
        assert_eq!(
            marked,
            Marked {
                packets: 1,
                bytes: Bytes::new(2000)
            }
        );
    }
}
