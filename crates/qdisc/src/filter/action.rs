//! [`Action`]: what a rule does to a matching packet; [`Control`]: how processing continues after
//! it.

use tautline_base::{ConfigError, Instant, Item};

use super::masked::Masked;
use super::police::{Bucket, Police};
use crate::random::Random;

/// How processing continues after an action (`TC_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The packet goes into the rule's class.
    Pass,
    /// The packet is dropped.
    Drop,
    /// Classification restarts at the first rule, at most 16 times; then the packet is dropped.
    Reclassify,
    /// The rule's next action follows; after the last, as [`Pass`](Self::Pass).
    Pipe,
    /// Classification continues with the next rule, as if this one had not matched.
    Continue,
}

/// A different control for a share of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Selection of those packets.
    pub choice: Choice,
    /// One packet in this many; at least 1.
    pub one_in: u16,
    /// Their control.
    pub control: Control,
}

/// How a share of the packets is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Each packet at random: `netrand`.
    Random,
    /// By counting: `determ`.
    Counted,
}

/// The action of a rule on a packet it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Only decides.
    Gact {
        /// The control.
        control: Control,
        /// A different control for some packets.
        share: Option<Share>,
    },
    /// Sets the packet's metadata.
    Skbedit {
        /// The local priority, 0..=15.
        priority: Option<u8>,
        /// The mark, or selected bits of it.
        mark: Option<Masked<u32>>,
        /// The control afterwards.
        control: Control,
    },
    /// Rewrites the DSCP in the packet's TOS byte (`pedit munge ip dsfield`); the ECN field stays
    /// as it is.
    Dsfield {
        /// The new bits, within 0xfc.
        set: Masked<u8>,
        /// The control afterwards.
        control: Control,
    },
    /// Polices the packets to a rate.
    Police(Police),
}

/// The bits of the TOS byte that are the DSCP.
pub const DSCP: u8 = 0xfc;

/// The state of an action between packets.
#[derive(Clone, Debug)]
pub(super) enum Memory {
    /// No state.
    None,
    /// Packets seen.
    Count(u64),
    /// Tokens.
    Bucket(Bucket),
}

impl Memory {
    /// Packets above the rate of a police action.
    pub(super) fn exceeded(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.exceeded,
            Self::None | Self::Count(_) => 0,
        }
    }
}

impl From<Control> for Action {
    fn from(control: Control) -> Self {
        Self::Gact {
            control,
            share: None,
        }
    }
}

impl Action {
    /// Validates the parameters.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Gact {
                share: Some(share), ..
            } => ConfigError::check(share.one_in > 0, "random", share.one_in, "at least 1"),
            Self::Gact { .. } => Ok(()),
            Self::Skbedit { priority, .. } => {
                let priority = priority.unwrap_or(0);
                ConfigError::check(priority < 16, "priority", priority, "from 0 to 15")
            }
            Self::Dsfield { set, .. } => ConfigError::check(
                set.mask & !DSCP == 0,
                "retain",
                format_args!("{:#x}", set.mask),
                "within 0xfc",
            ),
            Self::Police(police) => police.check(),
        }
    }

    /// The initial state.
    pub(super) fn memory(&self) -> Memory {
        match self {
            Self::Gact { share: Some(_), .. } => Memory::Count(0),
            Self::Police(police) => Memory::Bucket(Bucket::new(police)),
            _ => Memory::None,
        }
    }

    /// Applies the action to `packet`.
    pub(super) fn apply<P: Item>(
        &self,
        memory: &mut Memory,
        packet: &mut P,
        now: Instant,
        rng: &mut Random,
    ) -> Control {
        match (self, memory) {
            (
                Self::Gact {
                    control,
                    share: Some(share),
                },
                Memory::Count(seen),
            ) => {
                *seen += 1;
                let chosen = match share.choice {
                    Choice::Random => rng.below(share.one_in.into()) == 0,
                    Choice::Counted => seen.is_multiple_of(share.one_in.into()),
                };
                if chosen { share.control } else { *control }
            }
            (Self::Police(police), Memory::Bucket(bucket)) => {
                bucket.admit(police, packet.len(), now)
            }
            (
                Self::Skbedit {
                    priority,
                    mark,
                    control,
                },
                _,
            ) => {
                if let Some(priority) = *priority {
                    packet.set_priority(priority);
                }
                if let Some(mark) = mark {
                    packet.set_mark(packet.mark() & !mark.mask | mark.value);
                }
                *control
            }
            (Self::Dsfield { set, control }, _) => {
                packet.set_tos(packet.tos() & !set.mask | set.value);
                *control
            }
            (Self::Gact { control, .. }, _) => *control,
            (Self::Police(police), _) => police.conform,
        }
    }
}
