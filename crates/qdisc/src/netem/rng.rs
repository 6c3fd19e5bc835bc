//! [`Rng`]: which of the things that may befall a packet do.

use super::params::{Chance, Config, GilbertElliott, Loss, States};
use crate::random::Random;

/// A share of one as a threshold that 32 random bits are compared with.
fn threshold(share: f64) -> u32 {
    libm::rint(share * f64::from(u32::MAX)) as u32
}

/// Random numbers, each with a part of the one before.
#[derive(Clone, Debug)]
pub(super) struct Correlated {
    correlation: u32,
    last: u32,
}

impl Correlated {
    fn new(random: &mut Random) -> Self {
        Self {
            correlation: 0,
            last: random.bits32(),
        }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> u32 {
        let new = random.bits32();
        if self.correlation == 0 {
            return new;
        }
        let part = u64::from(self.correlation) + 1;
        // A weighted mean of two 32-bit numbers; the sum of the products stays below 2⁶⁴.
        self.last =
            ((u64::from(new) * ((1 << 32) - part) + u64::from(self.last) * part) >> 32) as u32;
        self.last
    }
}

/// An event of some probability.
#[derive(Clone, Debug)]
pub(super) struct Event {
    threshold: u32,
    numbers: Correlated,
}

impl Event {
    fn new(random: &mut Random) -> Self {
        Self {
            threshold: 0,
            numbers: Correlated::new(random),
        }
    }

    fn set(&mut self, chance: Chance) {
        self.threshold = threshold(chance.probability);
        self.numbers.correlation = threshold(chance.correlation);
    }

    /// Whether it happens this time.
    pub(super) fn happens(&mut self, random: &mut Random) -> bool {
        self.threshold > 0 && self.threshold >= self.numbers.next(random)
    }
}

/// State of the loss model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    /// State 1 of four; the good one of two.
    Good,
    /// State 2 of four: received within a burst.
    Gap,
    /// State 3 of four; the bad one of two.
    Bad,
    /// State 4 of four: lost alone.
    Alone,
}

/// All that is random but for the delays' distribution.
#[derive(Clone, Debug)]
pub(super) struct Rng {
    pub(super) random: Random,
    pub(super) delay: Correlated,
    pub(super) duplicate: Event,
    pub(super) corrupt: Event,
    pub(super) reorder: Event,
    loss: Event,
    model: Loss,
    channel: Channel,
}

impl Rng {
    pub(super) fn new(config: &Config) -> Self {
        let mut random = Random::new(config.seed);
        let mut rng = Self {
            delay: Correlated::new(&mut random),
            duplicate: Event::new(&mut random),
            corrupt: Event::new(&mut random),
            reorder: Event::new(&mut random),
            loss: Event::new(&mut random),
            model: Loss::default(),
            channel: Channel::Good,
            random,
        };
        rng.set(config);
        rng
    }

    /// Takes new probabilities. The numbers go on where they were, and so does the model of losses,
    /// if it is of the same kind.
    pub(super) fn set(&mut self, config: &Config) {
        self.delay.correlation = threshold(config.delay_correlation);
        self.duplicate.set(config.duplicate);
        self.corrupt.set(config.corrupt);
        self.reorder.set(
            config
                .reorder
                .map_or_else(Chance::default, |reorder| reorder.chance),
        );
        if let Loss::Random(chance) = config.loss {
            self.loss.set(chance);
        }
        if core::mem::discriminant(&self.model) != core::mem::discriminant(&config.loss) {
            self.channel = Channel::Good;
        }
        self.model = config.loss;
    }

    /// Whether the next packet is lost.
    #[inline]
    pub(super) fn loses(&mut self) -> bool {
        match self.model {
            Loss::Random(_) => self.loss.happens(&mut self.random),
            Loss::States(states) => self.moves(states),
            Loss::GilbertElliott(channel) => self.passes_through(channel),
        }
    }

    /// Makes one step from state to state; true if it leads to one in which packets are lost.
    fn moves(
        &mut self,
        States {
            p13,
            p31,
            p32,
            p23,
            p14,
        }: States,
    ) -> bool {
        let number = self.random.unit();
        self.channel = match self.channel {
            Channel::Good if number < p14 => Channel::Alone,
            Channel::Good if number < p14 + p13 => Channel::Bad,
            Channel::Good | Channel::Alone => Channel::Good,
            Channel::Gap if number < p23 => Channel::Bad,
            Channel::Gap => Channel::Gap,
            Channel::Bad if number < p32 => Channel::Gap,
            Channel::Bad if number < p32 + p31 => Channel::Good,
            Channel::Bad => Channel::Bad,
        };
        matches!(self.channel, Channel::Bad | Channel::Alone)
    }

    /// The fate of a packet in the state the channel is in; then the channel may change.
    fn passes_through(&mut self, channel: GilbertElliott) -> bool {
        let good = self.channel == Channel::Good;
        let (change, loss) = if good {
            (channel.to_bad, channel.good_loss)
        } else {
            (channel.to_good, channel.bad_loss)
        };
        if self.random.chance(change) {
            self.channel = if good { Channel::Bad } else { Channel::Good };
        }
        self.random.chance(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn losses(loss: Loss, packets: usize) -> Vec<bool> {
        let mut rng = Rng::new(&Config {
            loss,
            ..Config::default()
        });
        (0..packets).map(|_| rng.loses()).collect()
    }

    fn share(losses: &[bool]) -> f64 {
        losses.iter().filter(|&&lost| lost).count() as f64 / losses.len() as f64
    }

    /// Mean number of losses in a row.
    fn burst(losses: &[bool]) -> f64 {
        let starts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        losses.iter().filter(|&&lost| lost).count() as f64 / starts as f64
    }

    const PACKETS: usize = 100_000;

    /// Binomial: within four standard deviations.
    #[test]
    fn independent_losses_are_as_many_as_asked_for() {
        for probability in [0.0, 0.01, 0.3, 1.0] {
            let lost = share(&losses(Loss::Random(Chance::of(probability)), PACKETS));
            let deviation = (probability * (1.0 - probability) / PACKETS as f64).sqrt();
            assert!(
                (lost - probability).abs() <= 4.0 * deviation,
                "{probability}: {lost}"
            );
        }
    }

    /// Correlated numbers come in runs, and thin out at the ends: at 50 % the frequency stays, the
    /// bursts grow.
    #[test]
    fn correlation_makes_bursts() {
        let [independent, correlated] = [0.0, 0.9].map(|correlation| {
            losses(
                Loss::Random(Chance {
                    probability: 0.5,
                    correlation,
                }),
                PACKETS,
            )
        });
        assert!((share(&correlated) - 0.5).abs() < 0.02);
        assert!(
            (burst(&independent) - 2.0).abs() < 0.05 && burst(&correlated) > 4.0,
            "{}",
            burst(&correlated)
        );
    }

    /// `net/sched/sch_netem.c`, worked by hand: p = r = ½, 1-h = 1, 1-k = 0 loses half. In general
    /// the bad state holds p / (p + r) of the time.
    #[test]
    fn the_channel_of_two_states_has_its_share_and_bursts() {
        for (p, r, bad, good) in [
            (0.5, 0.5, 1.0, 0.0),
            (0.01, 0.1, 1.0, 0.0),
            (0.05, 0.2, 0.8, 0.1),
        ] {
            let model = GilbertElliott {
                to_bad: p,
                to_good: r,
                bad_loss: bad,
                good_loss: good,
            };
            let lost = losses(Loss::GilbertElliott(model), PACKETS);
            let expected = (p * bad + r * good) / (p + r);
            assert!(
                (share(&lost) - expected).abs() < 0.012,
                "{p} {r}: {}",
                share(&lost)
            );
            if bad == 1.0 {
                assert!((burst(&lost) * r - 1.0).abs() < 0.12, "{}", burst(&lost));
            }
        }
        let first = Loss::GilbertElliott(GilbertElliott {
            to_bad: 1.0,
            to_good: 1.0,
            bad_loss: 1.0,
            good_loss: 0.0,
        });
        assert_eq!(
            losses(first, 4),
            [false, true, false, true],
            "the state before the move decides"
        );
    }

    /// Stationary shares of the four states: π₁ p₁₃ + π₂ p₂₃ = π₃ (p₃₁ + p₃₂), π₂ p₂₃ = π₃ p₃₂, π₄
    /// = π₁ p₁₄.
    #[test]
    fn the_chain_of_four_states_has_its_share() {
        let (p13, p31, p32, p23, p14) = (0.02, 0.3, 0.2, 0.4, 0.01);
        let lost = losses(
            Loss::States(States {
                p13,
                p31,
                p32,
                p23,
                p14,
            }),
            PACKETS,
        );
        let (bad, gap) = (p13 / p31, p13 / p31 * p32 / p23);
        let expected = (bad + p14) / (1.0 + bad + gap + p14);
        assert!(
            (share(&lost) - expected).abs() < 0.006,
            "{} {expected}",
            share(&lost)
        );
        let alone = Loss::States(States {
            p13: 0.0,
            p31: 1.0,
            p32: 0.0,
            p23: 1.0,
            p14: 1.0,
        });
        assert_eq!(losses(alone, 4), [true, false, true, false]);
        let endless = Loss::States(States {
            p13: 1.0,
            p31: 0.0,
            p32: 0.0,
            p23: 1.0,
            p14: 0.0,
        });
        assert_eq!(losses(endless, 4), [true; 4]);
    }

    #[test]
    fn a_change_of_the_numbers_keeps_the_state() {
        let states = States {
            p13: 1.0,
            p31: 0.0,
            p32: 0.0,
            p23: 0.0,
            p14: 0.0,
        };
        let config = |loss| Config {
            loss,
            ..Config::default()
        };
        let mut rng = Rng::new(&config(Loss::States(states)));
        assert!(rng.loses());
        rng.set(&config(Loss::States(States { p13: 0.0, ..states })));
        assert!(rng.loses(), "still in the burst");
        rng.set(&config(Loss::Random(Chance::of(1.0))));
        rng.set(&config(Loss::States(States { p13: 0.0, ..states })));
        assert!(!rng.loses(), "begins anew");
    }
}
