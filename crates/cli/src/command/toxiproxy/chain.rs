//! [`Chain`]: the toxics of one direction of a connection, one after the other. It has no clock and does
//! no I/O.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_base::{Instant, SplitMix64};

use super::toxic::{Effect, Toxic};

/// Most bytes held; if data is delayed, as much as toxiproxy holds then.
const ROOM: usize = 64 << 10;
const DELAYED_ROOM: usize = 32 << 20;

/// An item at the end of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Data.
    Data(Vec<u8>),
    /// The sender has closed its half.
    Fin,
    /// Close both halves.
    Close,
    /// Reset the connection.
    Reset,
}

/// An item with the time when it came out of the stage before.
type Timed = (Item, Instant);

/// Toxics and the data between them.
pub(super) struct Chain {
    stages: Vec<Stage>,
    out: VecDeque<Timed>,
    rng: SplitMix64,
}

struct Stage {
    toxic: Toxic,
    /// Uniform over 0..1: the toxic acts on the connection if this is below the toxicity.
    draw: f32,
    queue: VecDeque<Timed>,
    /// When the toxic was added.
    since: Instant,
    /// When the last piece of a limited or sliced flow has passed.
    free: Instant,
    /// When the first item may leave.
    ready: Option<Instant>,
    /// Bytes that have passed.
    passed: u64,
    /// Whether the connection was closed here; later items are discarded.
    over: bool,
}

/// The outcome of one step of a stage.
enum Step {
    /// Items leave.
    Out(Vec<Timed>),
    /// It discarded its first item.
    Gone,
    /// Nothing happens before this time, or before another item comes.
    Wait(Option<Instant>),
}

impl Chain {
    /// The chain of a connection that begins `now`.
    pub(super) fn new(toxics: &[Toxic], seed: u64, now: Instant) -> Self {
        let mut chain = Self {
            stages: Vec::new(),
            out: VecDeque::new(),
            rng: SplitMix64::new(seed),
        };
        chain.apply(toxics, now);
        chain
    }

    /// Takes over the present toxics. What a removed one holds leaves it at once.
    pub(super) fn apply(&mut self, toxics: &[Toxic], now: Instant) {
        for index in (0..self.stages.len()).rev() {
            let name = &self.stages[index].toxic.name;
            if toxics.iter().all(|toxic| toxic.name != *name) {
                self.remove(index, now);
            }
        }
        for toxic in toxics {
            let mut stages = self.stages.iter_mut();
            match stages.find(|stage| stage.toxic.name == toxic.name) {
                Some(stage) if stage.toxic == *toxic => {}
                Some(stage) => {
                    stage.toxic = toxic.clone();
                    stage.ready = None;
                }
                None => {
                    let draw = (self.rng.next_u64() >> 40) as f32 / (1_u64 << 24) as f32;
                    self.stages.push(Stage {
                        toxic: toxic.clone(),
                        draw,
                        queue: VecDeque::new(),
                        since: now,
                        free: now,
                        ready: None,
                        passed: 0,
                        over: false,
                    });
                }
            }
        }
    }

    fn remove(&mut self, index: usize, now: Instant) {
        let mut stage = self.stages.remove(index);
        if let (Effect::Timeout { .. }, false) = (stage.effect(), stage.over) {
            stage.queue.push_back((Item::Close, now));
        }
        self.queue_after(index).append(&mut stage.queue);
    }

    /// The queue of the stage with this number, or the chain's output.
    fn queue_after(&mut self, index: usize) -> &mut VecDeque<Timed> {
        let stage = self.stages.get_mut(index);
        stage.map_or(&mut self.out, |stage| &mut stage.queue)
    }

    /// Whether more data may come in.
    pub(super) fn has_room(&self) -> bool {
        let delays = |stage: &Stage| matches!(stage.effect(), Effect::Latency { .. });
        let room = if self.stages.iter().any(delays) {
            DELAYED_ROOM
        } else {
            ROOM
        };
        let queues = self.stages.iter().map(|stage| &stage.queue);
        let items = queues.chain([&self.out]).flatten();
        let held = items.map(|(item, _)| match item {
            Item::Data(data) => data.len(),
            Item::Fin | Item::Close | Item::Reset => 0,
        });
        held.sum::<usize>() < room
    }

    /// Appends an item of the sender.
    pub(super) fn push(&mut self, item: Item, now: Instant) {
        self.queue_after(0).push_back((item, now));
    }

    /// Moves items as far as they may go at `now`. Returns when the next one moves by itself.
    pub(super) fn run(&mut self, now: Instant) -> Option<Instant> {
        let mut wakes = Vec::new();
        for index in 0..self.stages.len() {
            loop {
                let step = self.stages[index].step(now, &mut self.rng);
                match step {
                    Step::Out(items) => self.queue_after(index + 1).extend(items),
                    Step::Gone => {}
                    Step::Wait(wake) => {
                        wakes.extend(wake);
                        break;
                    }
                }
            }
        }
        wakes.into_iter().min()
    }

    /// The next item of the output.
    pub(super) fn pop(&mut self) -> Option<Item> {
        self.out.pop_front().map(|(item, _)| item)
    }
}

impl Stage {
    /// The effect of the toxic on this connection.
    fn effect(&self) -> Effect {
        if self.draw < self.toxic.toxicity {
            self.toxic.effect
        } else {
            Effect::Noop {}
        }
    }

    fn step(&mut self, now: Instant, rng: &mut SplitMix64) -> Step {
        if self.over {
            self.queue.clear();
            return Step::Wait(None);
        }
        match self.effect() {
            Effect::Noop {} => self.forward(),
            Effect::Latency { latency, jitter } => self.delay(now, rng, (latency, jitter)),
            Effect::Bandwidth { rate } => self.shape(now, rate),
            Effect::SlowClose { delay } => self.slow_close(now, delay),
            Effect::Timeout { timeout } => self.time_out(now, timeout),
            Effect::ResetPeer { timeout } => self.reset(now, timeout),
            Effect::Slicer {
                average_size,
                size_variation,
                delay,
            } => self.slice(now, rng, (average_size, size_variation, delay)),
            Effect::LimitData { bytes } => self.limit(now, bytes),
        }
    }

    fn forward(&mut self) -> Step {
        let first = self.queue.pop_front();
        first.map_or(Step::Wait(None), |first| Step::Out(vec![first]))
    }

    fn delay(&mut self, now: Instant, rng: &mut SplitMix64, times: (u32, u32)) -> Step {
        let Some((Item::Data(_), came)) = self.queue.front() else {
            return self.forward();
        };
        let ready = *self.ready.get_or_insert_with(|| *came + delay(times, rng));
        if now < ready {
            return Step::Wait(Some(ready));
        }
        self.ready = None;
        let first = self.queue.pop_front();
        first.map_or(Step::Gone, |(item, _)| Step::Out(vec![(item, ready)]))
    }

    /// A kilobyte per second is a byte per millisecond.
    fn shape(&mut self, now: Instant, rate: u32) -> Step {
        let Some((Item::Data(data), came)) = self.queue.front_mut() else {
            return self.forward();
        };
        if rate == 0 {
            return Step::Wait(None);
        }
        // At most 100 ms at once.
        let piece = data.len().min(rate as usize * 100);
        let time = Duration::from_nanos(piece as u64 * 1_000_000 / u64::from(rate));
        let through = self.free.max(*came) + time;
        if now < through {
            return Step::Wait(Some(through));
        }
        self.free = through;
        let rest = data.split_off(piece);
        let piece = std::mem::replace(data, rest);
        if data.is_empty() {
            self.queue.pop_front();
        }
        Step::Out(vec![(Item::Data(piece), through)])
    }

    fn slow_close(&mut self, now: Instant, delay: u32) -> Step {
        let Some((Item::Fin | Item::Close, came)) = self.queue.front() else {
            return self.forward();
        };
        let ready = *came + millis(delay);
        if now < ready {
            return Step::Wait(Some(ready));
        }
        self.forward()
    }

    fn time_out(&mut self, now: Instant, timeout: u32) -> Step {
        let deadline = (timeout > 0).then(|| self.since + millis(timeout));
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.over = true;
            return Step::Out(vec![(Item::Close, now)]);
        }
        match self.queue.front() {
            Some((Item::Data(_), _)) => {
                self.queue.pop_front();
                Step::Gone
            }
            Some(_) => self.forward(),
            None => Step::Wait(deadline),
        }
    }

    fn reset(&mut self, now: Instant, timeout: u32) -> Step {
        let Some((_, came)) = self.queue.front() else {
            return Step::Wait(None);
        };
        let at = *came + millis(timeout);
        if now < at {
            return Step::Wait(Some(at));
        }
        self.over = true;
        Step::Out(vec![(Item::Reset, now)])
    }

    fn slice(
        &mut self,
        now: Instant,
        rng: &mut SplitMix64,
        (average, variation, pause): (u32, u32, u32),
    ) -> Step {
        let Some((Item::Data(data), came)) = self.queue.front_mut() else {
            return self.forward();
        };
        if now < self.free {
            return Step::Wait(Some(self.free));
        }
        self.free = now + Duration::from_micros(pause.into());
        let spread = 2 * u64::from(variation) + 1;
        let size = u64::from(average) + rng.next_u64() % spread;
        let size = size.saturating_sub(variation.into()).max(1);
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(data.len());
        let rest = data.split_off(size);
        let piece = (Item::Data(std::mem::replace(data, rest)), *came);
        if data.is_empty() {
            self.queue.pop_front();
        }
        Step::Out(vec![piece])
    }

    fn limit(&mut self, now: Instant, bytes: u64) -> Step {
        let Some((Item::Data(data), _)) = self.queue.front_mut() else {
            return self.forward();
        };
        let left = bytes.saturating_sub(self.passed);
        data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        self.passed += data.len() as u64;
        let mut out: Vec<_> = self.queue.pop_front().into_iter().collect();
        if self.passed >= bytes {
            self.over = true;
            out.push((Item::Close, now));
        }
        Step::Out(out)
    }
}

fn millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

/// `latency` ± `jitter`, uniform.
fn delay((latency, jitter): (u32, u32), rng: &mut SplitMix64) -> Duration {
    let (latency, jitter) = (u64::from(latency) * 1000, u64::from(jitter) * 1000);
    let drawn = latency + rng.next_u64() % (2 * jitter + 1);
    Duration::from_micros(drawn.saturating_sub(jitter))
}

#[cfg(test)]
mod tests {
    use super::super::toxic::Stream;
    use super::*;

    fn toxic(name: &str, effect: Effect) -> Toxic {
        Toxic {
            name: name.to_owned(),
            stream: Stream::Upstream,
            toxicity: 1.0,
            effect,
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn data(len: usize) -> Item {
        Item::Data(vec![7; len])
    }

    /// Every item that comes out with its time in milliseconds, until nothing moves by itself.
    fn drain(chain: &mut Chain, from_ms: u64) -> Vec<(u64, Item)> {
        let (mut now, mut out) = (at(from_ms), Vec::new());
        loop {
            let wake = chain.run(now);
            out.extend(
                std::iter::from_fn(|| chain.pop()).map(|item| (now.as_nanos() / 1_000_000, item)),
            );
            match wake {
                Some(wake) => now = wake,
                None => return out,
            }
        }
    }

    /// The output of these toxics for `items` at 0.
    fn through(effects: &[Effect], items: &[Item]) -> Vec<(u64, Item)> {
        let toxics = effects.iter().enumerate();
        let toxics: Vec<_> = toxics
            .map(|(n, effect)| toxic(&n.to_string(), *effect))
            .collect();
        let mut chain = Chain::new(&toxics, 1, at(0));
        items
            .iter()
            .for_each(|item| chain.push(item.clone(), at(0)));
        drain(&mut chain, 0)
    }

    #[test]
    fn each_toxic_does_what_its_name_says() {
        use Effect::*;
        let latency = Latency {
            latency: 100,
            jitter: 0,
        };
        assert_eq!(
            through(&[], &[data(5), Item::Fin]),
            [(0, data(5)), (0, Item::Fin)]
        );
        assert_eq!(
            through(&[latency, latency], &[data(5), Item::Fin]),
            [(200, data(5)), (200, Item::Fin)]
        );
        let bandwidth = Bandwidth { rate: 10 };
        assert_eq!(
            through(&[bandwidth], &[data(1500), data(500)]),
            [(100, data(1000)), (150, data(500)), (200, data(500))]
        );
        assert_eq!(through(&[Bandwidth { rate: 0 }], &[data(1)]), []);
        assert_eq!(
            through(&[SlowClose { delay: 30 }], &[data(1), Item::Fin]),
            [(0, data(1)), (30, Item::Fin)]
        );
        assert_eq!(
            through(&[Timeout { timeout: 50 }], &[data(1)]),
            [(50, Item::Close)]
        );
        assert_eq!(through(&[Timeout { timeout: 0 }], &[data(1)]), []);
        assert_eq!(
            through(&[ResetPeer { timeout: 20 }], &[data(1)]),
            [(20, Item::Reset)]
        );
        assert_eq!(through(&[ResetPeer { timeout: 20 }], &[]), []);
        let limit = LimitData { bytes: 7 };
        assert_eq!(
            through(&[limit], &[data(5), data(5), data(5)]),
            [(0, data(5)), (0, data(2)), (0, Item::Close)]
        );
        let slicer = Slicer {
            average_size: 400,
            size_variation: 0,
            delay: 10_000,
        };
        assert_eq!(
            through(&[slicer], &[data(1000)]),
            [(0, data(400)), (10, data(400)), (20, data(200))]
        );
    }

    #[test]
    fn jitter_and_sizes_stay_in_their_range_and_data_in_its_order() {
        let effects = [
            Effect::Slicer {
                average_size: 100,
                size_variation: 50,
                delay: 0,
            },
            Effect::Latency {
                latency: 40,
                jitter: 20,
            },
        ];
        let out = through(
            &effects,
            &[Item::Data((0..=255).cycle().take(10_000).collect())],
        );
        let mut whole: Vec<u8> = Vec::new();
        let mut sizes = Vec::new();
        for (ms, item) in &out {
            let Item::Data(data) = item else {
                panic!("{item:?}");
            };
            assert!((20..=60).contains(ms), "{ms}");
            sizes.push(data.len());
            whole.extend(data);
        }
        assert!(whole.into_iter().eq((0..=255).cycle().take(10_000)));
        sizes.pop();
        assert!(
            sizes.iter().all(|size| (50..=150).contains(size)),
            "{sizes:?}"
        );
        assert!(sizes.iter().any(|size| *size != sizes[0]));
    }

    #[test]
    fn toxics_come_change_and_go_while_data_is_under_them() {
        let slow = toxic(
            "slow",
            Effect::Latency {
                latency: 1000,
                jitter: 0,
            },
        );
        let stop = toxic("stop", Effect::Bandwidth { rate: 0 });
        let mut chain = Chain::new(&[slow.clone(), stop.clone()], 1, at(0));
        chain.push(data(3), at(0));
        assert_eq!(chain.run(at(10)), Some(at(1000)));
        let quick = toxic(
            "slow",
            Effect::Latency {
                latency: 50,
                jitter: 0,
            },
        );
        chain.apply(&[quick.clone(), stop], at(20));
        assert_eq!(chain.run(at(20)), Some(at(50)));
        assert_eq!((chain.run(at(50)), chain.pop()), (None, None));
        chain.push(data(4), at(60));
        chain.apply(&[], at(70));
        assert_eq!(drain(&mut chain, 70), [(70, data(3)), (70, data(4))]);
    }

    #[test]
    fn removing_a_timeout_closes_and_a_spent_limit_stays_spent() {
        let timeout = toxic("t", Effect::Timeout { timeout: 0 });
        let mut chain = Chain::new(&[timeout], 1, at(0));
        chain.apply(&[], at(5));
        assert_eq!(drain(&mut chain, 5), [(5, Item::Close)]);
        let limit = |bytes| toxic("l", Effect::LimitData { bytes });
        let mut chain = Chain::new(&[limit(10)], 1, at(0));
        chain.push(data(8), at(0));
        assert_eq!(drain(&mut chain, 0), [(0, data(8))]);
        chain.apply(&[limit(9)], at(1));
        chain.push(data(8), at(1));
        assert_eq!(drain(&mut chain, 1), [(1, data(1)), (1, Item::Close)]);
    }

    #[test]
    fn the_toxicity_is_the_share_of_connections() {
        let some = Toxic {
            toxicity: 0.3,
            ..toxic("some", Effect::Timeout { timeout: 0 })
        };
        let disturbed = |seed| {
            let mut chain = Chain::new(std::slice::from_ref(&some), seed, at(0));
            chain.push(data(1), at(0));
            drain(&mut chain, 0).is_empty()
        };
        let count = (0..1000).filter(|seed| disturbed(*seed)).count();
        assert!((250..350).contains(&count), "{count}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut chain = Chain::new(&[toxic("stop", Effect::Bandwidth { rate: 0 })], 1, at(0));
        let mut pushed = 0;
        while chain.has_room() {
            chain.push(data(1000), at(0));
            pushed += 1000;
        }
        assert!(pushed < ROOM + 1000);
    }
}
