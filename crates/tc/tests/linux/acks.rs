//! Traces of acknowledgments, for CAKE's ACK filter: what receivers of TCP send while their link
//! towards the sender is full.

use crate::frame::{ACK, CWR, ECE, Flow, Frame, PSH, Tcp};
use crate::trace::{Arrival, Rng, numbered};

/// Properties of the acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Acks {
    /// No options, one connection.
    Plain,
    /// Timestamps, three connections.
    Timestamps,
    /// SACK: holes that open, grow and are filled, and duplicate SACKs.
    Sack,
    /// ECE and CWR come and go.
    Echo,
    /// Data segments, window updates and repeated acknowledgments between them.
    Data,
    /// Bursts of acknowledgments and pauses, some pushed.
    Bursts,
}

/// A receiver of one connection.
struct Receiver {
    flow: Flow,
    ack: u32,
    seq: u32,
    clock: u32,
    holes: Vec<(u32, u32)>,
    echo: bool,
}

const SEGMENT: u32 = 1448;

impl Acks {
    pub(crate) const ALL: [Self; 6] = [
        Self::Plain,
        Self::Timestamps,
        Self::Sack,
        Self::Echo,
        Self::Data,
        Self::Bursts,
    ];

    pub(crate) fn name(self) -> String {
        format!("acks-{}", format!("{self:?}").to_lowercase())
    }

    /// Acknowledgments for `millis` of time: 2.5 times as many as 1 Mbit/s carries, and bulk data
    /// at a third of it.
    pub(crate) fn trace(self, millis: u32) -> Vec<Arrival> {
        let mut rng = Rng::new(100 + self as u64);
        let connections = if self == Self::Plain { 1 } else { 3 };
        let mut receivers: Vec<Receiver> = (0..connections)
            .map(|number| Receiver {
                flow: Flow {
                    source: 1,
                    destination: 1 + number as u8,
                    number,
                },
                ack: 1_000_000 * u32::from(number + 1),
                seq: 77_000,
                clock: 5_000,
                holes: Vec::new(),
                echo: false,
            })
            .collect();
        let (mut arrivals, mut at) = (Vec::new(), 0u64);
        while at < u64::from(millis) * 1_000_000 {
            let receiver = &mut receivers[rng.between(0, u32::from(connections) - 1) as usize];
            let together = if self == Self::Bursts {
                rng.between(5, 40)
            } else {
                1
            };
            for packet in 0..together {
                let frame = self.next(receiver, &mut rng);
                arrivals.push(Arrival {
                    at: at + u64::from(packet) * 14_011,
                    frame,
                });
            }
            at += u64::from(together) * u64::from(rng.between(105_000, 315_000));
        }
        let bulk = Flow {
            source: 2,
            destination: 9,
            number: 40,
        };
        let mut at = 3_000_017;
        while at < u64::from(millis) * 1_000_000 {
            arrivals.push(Arrival {
                at,
                frame: Frame::new(bulk, 1000, 0, None),
            });
            at += u64::from(rng.between(12_000_000, 36_000_000));
        }
        numbered(arrivals)
    }

    fn next(self, receiver: &mut Receiver, rng: &mut Rng) -> Frame {
        receiver.clock += rng.between(0, 2);
        receiver.ack = receiver.ack.wrapping_add(SEGMENT * rng.between(1, 2));
        let mut tcp = Tcp {
            seq: receiver.seq,
            flags: ACK,
            ..Tcp::default()
        };
        let mut len = 0;
        if self != Self::Plain {
            tcp.timestamps = Some((receiver.clock, receiver.clock.wrapping_sub(40)));
        }
        match self {
            Self::Plain | Self::Timestamps => {}
            Self::Sack => receiver.sack(&mut tcp, rng),
            Self::Echo => {
                receiver.echo ^= rng.between(0, 5) == 0;
                tcp.flags |= if receiver.echo { ECE } else { 0 };
                tcp.flags |= if rng.between(0, 19) == 0 { CWR } else { 0 };
            }
            Self::Data => match rng.between(0, 9) {
                0 => {
                    len = rng.between(100, 400);
                    receiver.seq += len - 66;
                }
                1..=3 => receiver.ack = receiver.ack.wrapping_sub(SEGMENT),
                _ => {}
            },
            Self::Bursts => tcp.flags |= if rng.between(0, 14) == 0 { PSH } else { 0 },
        }
        tcp.ack = receiver.ack;
        Frame::new(receiver.flow, len, 0, Some(&tcp))
    }
}

impl Receiver {
    /// A hole is open one time in two: then the acknowledgment stands still and the blocks beyond
    /// it grow.
    fn sack(&mut self, tcp: &mut Tcp, rng: &mut Rng) {
        if self.holes.is_empty() {
            if rng.between(0, 7) == 0 {
                self.holes.push((
                    self.ack.wrapping_add(SEGMENT),
                    self.ack.wrapping_add(2 * SEGMENT),
                ));
            } else if rng.between(0, 15) == 0 {
                tcp.sack = vec![(
                    self.ack.wrapping_sub(3 * SEGMENT),
                    self.ack.wrapping_sub(2 * SEGMENT),
                )];
            }
            return;
        }
        match rng.between(0, 9) {
            0 => {
                self.ack = self
                    .holes
                    .drain(..)
                    .next_back()
                    .map_or(self.ack, |(_, right)| right)
            }
            1 if self.holes.len() < 3 => {
                let (_, right) = self.holes[self.holes.len() - 1];
                self.holes
                    .push((right.wrapping_add(SEGMENT), right.wrapping_add(2 * SEGMENT)));
            }
            _ => {
                self.ack = self.holes[0].0.wrapping_sub(SEGMENT);
                let last = self.holes.last_mut().expect("not empty");
                last.1 = last.1.wrapping_add(SEGMENT);
            }
        }
        tcp.sack = self.holes.iter().rev().copied().collect();
    }
}
