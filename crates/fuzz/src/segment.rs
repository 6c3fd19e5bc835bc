//! [`Segment`]: a TCP segment near what a connection expects, with any flags and options; checksums
//! right.

use arbitrary::Arbitrary;

use crate::frame::{ACK, SYN, Tcp};
use crate::rig::{Flow, pattern};

/// A number relative to the one that would be right.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Near {
    Exactly,
    /// Within a segment or so.
    By(i8),
    /// Within a window or so.
    Within(i16),
    Far(i32),
}

impl Near {
    /// The number, if `right` would be right.
    pub fn to(self, right: u32) -> u32 {
        match self {
            Self::Exactly => right,
            Self::By(distance) => right.wrapping_add_signed(distance.into()),
            Self::Within(distance) => right.wrapping_add_signed(distance.into()),
            Self::Far(distance) => right.wrapping_add_signed(distance),
        }
    }
}

/// A TCP option, valid or not.
#[derive(Arbitrary, Clone, Debug)]
pub enum Choice {
    Nop,
    End,
    Mss(u16),
    Scale(u8),
    SackPermitted,
    /// Blocks relative to what the host sent: left edge, and right edge from there.
    Sack(Vec<(Near, i16)>),
    Timestamp {
        value: u32,
        echo: u32,
    },
    /// Any kind with any length byte, followed by any bytes.
    Odd {
        kind: u8,
        length: u8,
        value: Vec<u8>,
    },
}

/// The timestamp option of a segment on a connection that uses them.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Stamp {
    Right,
    Missing,
    Off { value: i32, echo: i32 },
}

/// A segment towards the host.
#[derive(Arbitrary, Clone, Debug)]
pub struct Segment {
    pub flags: Flags,
    pub seq: Near,
    pub ack: Near,
    pub window: u16,
    pub stamp: Stamp,
    pub options: Vec<Choice>,
    pub payload: u16,
}

/// The flags byte: mostly what connections see.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Flags {
    Ack,
    AckToo(u8),
    Any(u8),
}

impl Segment {
    /// The segment on `flow`. Each byte of data is what [`pattern`] has at its sequence number, so
    /// that everything the host's application reads can be checked.
    pub fn on(&self, flow: &Flow) -> Tcp {
        let seq = self.seq.to(flow.host_ack);
        let len = usize::from(self.payload) % 1461;
        let flags = match self.flags {
            Flags::Ack => ACK,
            Flags::AckToo(flags) => u16::from(flags) | ACK,
            Flags::Any(flags) => flags.into(),
        };
        // A SYN has a number of its own.
        let first = seq.wrapping_add(u32::from(flags & SYN != 0));
        Tcp {
            source_port: flow.peer_port,
            destination_port: flow.host_port,
            seq,
            ack: self.ack.to(flow.host_next),
            flags,
            window: self.window,
            options: self.options(flow),
            payload: (0..len as u32)
                .map(|i| pattern(first.wrapping_add(i)))
                .collect(),
            ..Tcp::default()
        }
    }

    fn options(&self, flow: &Flow) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some((value, echo)) = flow.timestamp {
            match self.stamp {
                Stamp::Right => timestamp(&mut bytes, value, echo),
                Stamp::Missing => {}
                Stamp::Off {
                    value: by,
                    echo: echo_by,
                } => {
                    timestamp(
                        &mut bytes,
                        value.wrapping_add_signed(by),
                        echo.wrapping_add_signed(echo_by),
                    );
                }
            }
        }
        for choice in &self.options {
            choice.write(flow, &mut bytes);
        }
        bytes
    }
}

impl Choice {
    fn write(&self, flow: &Flow, bytes: &mut Vec<u8>) {
        match self {
            Self::Nop => bytes.push(1),
            Self::End => bytes.push(0),
            Self::Mss(mss) => bytes.extend([&[2, 4][..], &mss.to_be_bytes()].concat()),
            Self::Scale(scale) => bytes.extend([3, 3, *scale]),
            Self::SackPermitted => bytes.extend([4, 2]),
            Self::Sack(blocks) => {
                let blocks = &blocks[..blocks.len().min(4)];
                bytes.extend([5, 2 + 8 * blocks.len() as u8]);
                for (left, len) in blocks {
                    let left = left.to(flow.host_next);
                    bytes.extend(left.to_be_bytes());
                    bytes.extend(left.wrapping_add_signed((*len).into()).to_be_bytes());
                }
            }
            Self::Timestamp { value, echo } => timestamp(bytes, *value, *echo),
            Self::Odd {
                kind,
                length,
                value,
            } => {
                bytes.extend([*kind, *length]);
                bytes.extend(value.iter().take(38));
            }
        }
    }
}

/// Appends a timestamp option.
pub fn timestamp(bytes: &mut Vec<u8>, value: u32, echo: u32) {
    bytes.extend([1, 1, 8, 10]);
    bytes.extend(value.to_be_bytes());
    bytes.extend(echo.to_be_bytes());
}
