//! Accurate feedback: the receiver counts marked packets and the sender reads the lowest three bits of the count (RFC 9768 §3.2).

use tautline_base::{Bytes, Ecn};

use super::Urgency;
use super::handshake::reflect;
use crate::wire::EcnFlags;

/// Where the count of marked packets begins (RFC 9768 §3.2.1): not at zero, so that a zeroed field shows.
const FIRST_COUNT: u64 = 5;
/// The field is so many values wide.
const WIDTH: u64 = 8;
/// Marks since the last acknowledgement that force one: while data waits to be acknowledged, and else, when the answer may be to
/// acknowledgements alone (RFC 9768 §3.2.2.5.1).
const FORCES_ACK: u64 = 2;
const FORCES_ACK_OF_ACKS: u64 = 3;

/// A connection with accurate feedback.
#[derive(Debug)]
pub(super) struct Accurate {
    /// Marked packets received (r.cep).
    received: u64,
    /// The same when an acknowledgement last left.
    told: u64,
    /// The last packet was marked.
    last_marked: bool,
    /// What the peer's SYN-ACK carried, until a bare acknowledgement has told it.
    reflect: Option<Ecn>,
    /// A CE mark on a SYN-ACK was counted; only one ever is.
    counted_syn_ack: bool,
    /// Marked packets the peer has told of (s.cep).
    heard: u64,
    /// Packets of ours it is known to have.
    delivered: u64,
    /// The peer's count is believed.
    trusted: bool,
}

/// What an acknowledgement newly delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newly {
    /// Packets.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: Bytes,
}

impl Accurate {
    pub(super) fn new() -> Self {
        Self {
            received: FIRST_COUNT,
            told: FIRST_COUNT,
            last_marked: false,
            reflect: None,
            counted_syn_ack: false,
            heard: FIRST_COUNT,
            delivered: 0,
            trusted: true,
        }
    }

    /// A SYN-ACK arrived, perhaps not the first one: its codepoint is to be told, and a mark counts, once.
    pub(super) fn on_syn_ack(&mut self, codepoint: Ecn) {
        self.reflect = Some(codepoint);
        if codepoint == Ecn::Ce && !self.counted_syn_ack {
            self.counted_syn_ack = true;
            self.received += 1;
        }
    }

    /// The bare acknowledgement that completes the handshake says that the SYN-ACK was marked.
    pub(super) fn syn_ack_was_marked(&mut self) {
        self.heard += 1;
    }

    /// The peer's count means nothing.
    pub(super) fn distrust(&mut self) {
        self.trusted = false;
    }

    /// A bare acknowledgement has to tell of the SYN-ACK.
    pub(super) fn owes_reflection(&self) -> bool {
        self.reflect.is_some()
    }

    /// A packet other than a SYN arrived. `data`: with payload; `owes`: an acknowledgement waits to be sent.
    pub(super) fn on_packet(&mut self, codepoint: Ecn, data: bool, owes: bool) -> Urgency {
        let marked = codepoint == Ecn::Ce;
        let changed = marked && !std::mem::replace(&mut self.last_marked, marked);
        self.received += u64::from(marked);
        let untold = self.received - self.told;
        let enough = if data || owes { FORCES_ACK } else { FORCES_ACK_OF_ACKS };
        if marked && ((changed && data) || untold >= enough) { Urgency::Now } else { Urgency::None }
    }

    /// The flags of a segment; `bare`: it carries neither data nor SACK blocks.
    pub(super) fn flags(&self, bare: bool) -> EcnFlags {
        match self.reflect {
            Some(codepoint) if bare => reflect(codepoint),
            _ => EcnFlags::from_bits((self.received % WIDTH) as u8),
        }
    }

    /// A segment with these flags left.
    pub(super) fn sent(&mut self, bare: bool) {
        self.told = self.received;
        if bare {
            self.reflect = None;
        }
    }

    /// Reads an acknowledgement: how many more packets the peer has seen marked.
    pub(super) fn on_acknowledgement(&mut self, flags: EcnFlags, newly: Newly) -> u64 {
        let first = self.delivered == 0;
        self.delivered += newly.packets;
        // The count begins at 5: with fewer than three packets delivered it cannot have come round to 0. Somebody clears it.
        if first && flags == EcnFlags::NONE && self.delivered < WIDTH - FIRST_COUNT {
            self.trusted = false;
        }
        if !self.trusted || newly.packets == 0 {
            return 0;
        }
        let more = advance(self.heard, flags, newly.packets);
        self.heard += more;
        more
    }

    /// The peer's count is believed.
    pub(super) fn trusted(&self) -> bool {
        self.trusted
    }
}

/// By how much a count that stood at `heard` has grown when its lowest bits are `flags` and so many `packets` were newly
/// acknowledged. If it may have come round unseen, it is taken to have done so as often as is possible: with as many marks as
/// there can be, the sender errs on the safe side (RFC 9768 §3.2.2.5.2, appendix A.2).
fn advance(heard: u64, flags: EcnFlags, packets: u64) -> u64 {
    let least = (u64::from(flags.bits()) + WIDTH - heard % WIDTH) % WIDTH;
    if packets < WIDTH { least } else { packets - (packets - least) % WIDTH }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn newly(packets: u64) -> Newly {
        Newly { packets, bytes: Bytes::new(1000 * packets) }
    }

    #[test]
    fn the_count_starts_at_five_and_wraps() {
        let mut receiver = Accurate::new();
        for count in [6, 7, 0, 1, 2] {
            receiver.on_packet(Ecn::Ce, true, false);
            assert_eq!(receiver.flags(true), EcnFlags::from_bits(count));
        }
    }

    #[test]
    fn a_change_and_every_second_mark_ask_for_an_acknowledgement() {
        let mut receiver = Accurate::new();
        assert_eq!(receiver.on_packet(Ecn::Ect0, true, false), Urgency::None);
        assert_eq!(receiver.on_packet(Ecn::Ce, true, true), Urgency::Now, "marks begin");
        receiver.sent(true);
        assert_eq!(receiver.on_packet(Ecn::Ce, true, false), Urgency::None);
        assert_eq!(receiver.on_packet(Ecn::Ce, true, true), Urgency::Now, "the second");
        receiver.sent(true);
        assert_eq!(receiver.on_packet(Ecn::Ect0, true, false), Urgency::None, "marks end: no news");
        // Marked acknowledgements: every third one is answered, so that two ends never answer each other's answers for long.
        let answers = [Ecn::Ce; 6].map(|codepoint| {
            let urgency = receiver.on_packet(codepoint, false, false);
            if urgency == Urgency::Now {
                receiver.sent(true);
            }
            urgency == Urgency::Now
        });
        assert_eq!(answers, [false, false, true, false, false, true]);
    }

    #[test]
    fn the_syn_ack_is_told_of_in_the_first_bare_acknowledgement_and_counts_once() {
        let mut client = Accurate::new();
        client.on_syn_ack(Ecn::Ce);
        client.on_syn_ack(Ecn::Ce);
        assert_eq!(client.flags(true), reflect(Ecn::Ce));
        assert_eq!(client.flags(false), EcnFlags::from_bits(6), "data cannot tell of it");
        client.sent(true);
        assert_eq!(client.flags(true), EcnFlags::from_bits(6));
    }

    /// RFC 9768 appendix A.2: the smallest growth, unless more packets were acknowledged than the field can count.
    #[test]
    fn a_count_that_may_have_come_round_is_taken_to_have_done_so() {
        let after = |flags, packets| advance(5, EcnFlags::from_bits(flags), packets);
        assert_eq!([after(5, 1), after(6, 1), after(4, 7)], [0, 1, 7]);
        assert_eq!(after(6, 9), 9, "one mark or nine: nine");
        assert_eq!(after(6, 8), 1, "nine marks do not fit eight packets");
        assert_eq!(after(5, 45), 40);
    }

    #[test]
    fn a_field_that_is_always_zero_is_not_believed() {
        let mut sender = Accurate::new();
        assert_eq!(sender.on_acknowledgement(EcnFlags::NONE, newly(2)), 0);
        assert!(!sender.trusted());
        // Three marks bring it to zero honestly.
        let mut sender = Accurate::new();
        assert_eq!(sender.on_acknowledgement(EcnFlags::NONE, newly(3)), 3);
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
                    receiver.on_packet(if *mark { Ecn::Ce } else { Ecn::Ect1 }, true, true);
                    marked += u64::from(*mark);
                }
                sender.on_acknowledgement(receiver.flags(true), newly(now.len() as u64));
                receiver.sent(true);
                prop_assert_eq!(sender.heard - FIRST_COUNT, marked);
            }
        }

        #[test]
        fn the_guess_never_falls_short(heard in 5u64..1000, packets in 0u64..200, share in 0u64..=100) {
            let marked = packets * share / 100;
            let flags = EcnFlags::from_bits(((heard + marked) % WIDTH) as u8);
            let guess = advance(heard, flags, packets);
            prop_assert!(marked <= guess && guess <= packets.max(WIDTH - 1), "{} of {}", guess, packets);
            prop_assert_eq!((guess - marked) % WIDTH, 0);
        }
    }
}
