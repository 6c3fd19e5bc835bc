//! [`Path`]: one direction of an emulated link as a qdisc: a queue, a line that drains it by a recorded
//! trace if there is one, then losses and delay.

use std::time::Duration;

use tautline_base::{Bytes, DropReason, Drops, Instant, Item, Qdisc, SplitMix64};
use tautline_qdisc::{Backlog, Stats};
use tautline_rt::system_seed;
use tautline_sim::{LineRate, Schedule, Trace};
use tautline_tc::{Change, DynQdisc, Inspect, ParseError, Report, Target, Words, build};

/// Packets that may be in flight behind the queue, so that only the queue has a limit: 1 s of
/// 1 Gbit/s in full packets.
const IN_FLIGHT: usize = 100_000;

/// One direction of a link, before it is built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathConfig {
    /// Qdisc at the bottleneck, in tc's words.
    pub queue: String,
    /// Delivery opportunities of the line behind the queue; without them it takes a packet at once.
    pub trace: Option<Trace>,
    /// One-way delay.
    pub delay: Duration,
    /// Lost packets in percent.
    pub loss: f64,
    /// Most packets lost in a row by `loss`, if limited.
    pub loss_burst: Option<u32>,
    /// Packets with a flipped bit, in percent.
    pub corrupt: f64,
    /// Times at which every packet is lost.
    pub blackhole: Option<Blackhole>,
}

/// Periods in which a path loses every packet, from its first packet on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blackhole {
    /// Length of each period before a period of loss.
    pub on: Duration,
    /// Length of each period of loss.
    pub off: Duration,
    /// Number of periods of loss.
    pub repeat: u32,
}

impl Blackhole {
    /// Whether packets are lost this long after the first.
    fn is_losing(&self, passed: Duration) -> bool {
        let cycle = (self.on + self.off).as_nanos().max(1);
        let (cycles, at) = (passed.as_nanos() / cycle, passed.as_nanos() % cycle);
        cycles < u128::from(self.repeat) && at >= self.on.as_nanos()
    }
}

/// One direction of a link.
pub struct Path<P: Item> {
    queue: Stats<Box<dyn DynQdisc<P>>>,
    line: Option<TraceLine<P>>,
    losses: Losses,
    beyond: Option<Stats<Box<dyn DynQdisc<P>>>>,
}

/// Losses between the line and the delay beyond it.
struct Losses {
    blackhole: Option<Blackhole>,
    /// Arrival of the first packet.
    begun: Option<Instant>,
    /// Percentage, and most in a row.
    random: Option<(f64, u32)>,
    in_a_row: u32,
    rng: SplitMix64,
}

impl Losses {
    /// Decides about the next packet.
    fn should_drop(&mut self, now: Instant) -> bool {
        let begun = *self.begun.get_or_insert(now);
        if self
            .blackhole
            .is_some_and(|hole| hole.is_losing(now - begun))
        {
            return true;
        }
        let Some((percent, most)) = self.random else {
            return false;
        };
        let draw = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let lost = self.in_a_row < most && draw * 100.0 < percent;
        self.in_a_row = if lost { self.in_a_row + 1 } else { 0 };
        lost
    }
}

/// A line that sends one packet at a time.
struct TraceLine<P> {
    rate: LineRate,
    /// Departure time of the last packet.
    free: Instant,
    /// The packet on the line, and when it leaves.
    sending: Option<(P, Instant)>,
}

impl PathConfig {
    /// Makes the qdisc.
    ///
    /// # Errors
    /// If tc's words are not understood or refused.
    pub fn build<P: Item + Send + 'static>(&self) -> Result<Path<P>, ParseError> {
        let Self {
            queue,
            trace,
            delay,
            loss,
            loss_burst,
            corrupt,
            blackhole,
        } = self;
        let limited = loss_burst.filter(|_| *loss > 0.0);
        let line = trace.clone().map(|trace| TraceLine {
            rate: LineRate::new(trace.mean_rate(), Bytes::ZERO, Schedule::Trace(trace)),
            free: Instant::ZERO,
            sending: None,
        });
        let mut words = format!("netem limit {IN_FLIGHT}");
        if !delay.is_zero() {
            words += &format!(" delay {}us", delay.as_micros());
        }
        if *corrupt > 0.0 {
            words += &format!(" corrupt {corrupt}%");
        }
        if *loss > 0.0 && limited.is_none() {
            words += &format!(" loss {loss}%");
        }
        let plain = format!("netem limit {IN_FLIGHT}");
        let beyond = (words != plain)
            .then(|| build(&words).map(Stats::new))
            .transpose()?;
        Ok(Path {
            queue: Stats::new(build(queue)?),
            line,
            losses: Losses {
                blackhole: *blackhole,
                begun: None,
                random: limited.map(|most| (*loss, most)),
                in_a_row: 0,
                rng: SplitMix64::new(system_seed().unwrap_or_default()),
            },
            beyond,
        })
    }
}

impl<P: Item> Path<P> {
    /// The next packet that is not lost at the end of the line.
    fn next_kept(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        loop {
            let packet = self.next_sent(now, drops)?;
            if !self.losses.should_drop(now) {
                return Some(packet);
            }
            drops.push(packet, DropReason::Loss);
        }
    }

    /// The next packet at the end of the line.
    fn next_sent(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        let Some(line) = &mut self.line else {
            return self.queue.dequeue(now, drops);
        };
        if line.sending.is_none() {
            let packet = self.queue.dequeue(now, drops)?;
            // The line is idle only while the queue is empty, however late this is called.
            let start = line.free.max(packet.enqueued());
            let leaves = line.rate.departure(start, packet.len());
            line.sending = Some((packet, leaves));
        }
        let (packet, leaves) = line.sending.take_if(|(_, leaves)| *leaves <= now)?;
        line.free = leaves;
        Some(packet)
    }
}

impl<P: Item> Qdisc<P> for Path<P> {
    fn enqueue(&mut self, packet: P, now: Instant, drops: &mut Drops<P>) {
        self.queue.enqueue(packet, now, drops);
    }

    fn dequeue(&mut self, now: Instant, drops: &mut Drops<P>) -> Option<P> {
        if self.beyond.is_none() {
            return self.next_kept(now, drops);
        }
        while let Some(packet) = self.next_kept(now, drops) {
            self.beyond.as_mut()?.enqueue(packet, now, drops);
        }
        self.beyond.as_mut()?.dequeue(now, drops)
    }

    fn ready_at(&self) -> Option<Instant> {
        let sending = self.line.as_ref().and_then(|line| line.sending.as_ref());
        let next = sending.map_or_else(|| self.queue.ready_at(), |(_, leaves)| Some(*leaves));
        let beyond = self.beyond.as_ref().and_then(Qdisc::ready_at);
        next.into_iter().chain(beyond).min()
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        if let Some((packet, _)) = self.line.as_ref().and_then(|line| line.sending.as_ref()) {
            backlog.add(packet.len());
        }
        if let Some(beyond) = &self.beyond {
            let Backlog { packets, bytes } = beyond.backlog();
            backlog.packets += packets;
            backlog.bytes += bytes;
        }
        backlog
    }
}

impl<P: Item> Inspect for Path<P> {
    /// The queue's report comes first among the children.
    fn report(&self) -> Report {
        let beyond = self.beyond.as_ref().map(Inspect::report);
        Report {
            kind: "path",
            children: std::iter::once(self.queue.report()).chain(beyond).collect(),
            ..Report::default()
        }
    }
}

impl<P: Item> Change<P> for Path<P> {
    fn change(
        &mut self,
        target: Target,
        words: &mut Words<'_>,
        now: Instant,
        drops: &mut Drops<P>,
    ) -> Result<(), ParseError> {
        self.queue.change(target, words, now, drops)
    }
}

#[cfg(test)]
mod tests {
    use tautline_base::Packet;

    use super::*;

    fn config(queue: &str, trace: Option<&str>, delay_ms: u64, loss: f64) -> PathConfig {
        PathConfig {
            queue: queue.to_owned(),
            trace: trace.map(|text| text.parse().expect("a trace")),
            delay: Duration::from_millis(delay_ms),
            loss,
            ..PathConfig::default()
        }
    }

    /// Milliseconds at which `count` full packets, queued at 0, come out of `config`.
    fn departures(config: &PathConfig, count: usize) -> Vec<u64> {
        let (mut path, mut drops, mut out) = (config.build().expect("fits"), Drops::new(), vec![]);
        for _ in 0..count {
            path.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
        }
        let mut now = Instant::ZERO;
        while let Some(at) = path.ready_at() {
            now = now.max(at);
            while path.dequeue(now, &mut drops).is_some() {
                out.push(now.as_nanos() / 1_000_000);
            }
        }
        assert_eq!(path.backlog(), Backlog::default());
        out
    }

    #[test]
    fn a_trace_sends_at_its_opportunities_and_the_delay_comes_after() {
        let traced = |delay| config("pfifo", Some("5\n5\n10\n"), delay, 0.0);
        assert_eq!(departures(&traced(0), 5), [5, 5, 10, 15, 15]);
        assert_eq!(departures(&traced(20), 4), [25, 25, 30, 35]);
    }

    #[test]
    fn a_late_call_costs_no_opportunity() {
        let config = config("pfifo", Some("1\n"), 0, 0.0);
        let (mut path, mut drops) = (config.build().expect("fits"), Drops::new());
        for _ in 0..100 {
            path.enqueue(Packet::new((), 1514), Instant::ZERO, &mut drops);
        }
        let sent = |path: &mut Path<Packet<()>>, ms, drops: &mut Drops<_>| {
            std::iter::from_fn(|| path.dequeue(Instant::from_millis(ms), drops)).count()
        };
        assert_eq!(sent(&mut path, 7, &mut drops), 7);
        assert_eq!(sent(&mut path, 50, &mut drops), 43);
    }

    #[test]
    fn the_queue_is_reported_without_the_delay_beyond_it() {
        let config = config("tbf rate 1mbit burst 2kb latency 1s; pfifo", None, 100, 0.0);
        assert_eq!(departures(&config, 1), [100]);
        let mut path = config.build::<Packet<()>>().expect("fits");
        let mut drops = Drops::new();
        path.enqueue(Packet::new((), 1000), Instant::ZERO, &mut drops);
        assert!(path.dequeue(Instant::ZERO, &mut drops).is_none());
        assert!(
            path.dequeue(Instant::from_millis(100), &mut drops)
                .is_some()
        );
        let report = path.report();
        let sojourn = report.children[0].sojourn.as_ref().expect("counted");
        assert_eq!((sojourn.count(), sojourn.max), (1, Duration::ZERO));
    }

    #[test]
    fn losses_happen_behind_the_queue() {
        let all = departures(&config("pfifo limit 5000", None, 0, 50.0), 4000);
        assert!((1800..2200).contains(&all.len()), "{}", all.len());
        assert!(config("fifoo", None, 0, 0.0).build::<Packet<()>>().is_err());
    }

    #[test]
    fn a_blackhole_loses_in_its_periods_and_no_more_than_a_burst_is_lost() {
        let hole = Blackhole {
            on: Duration::from_millis(10),
            off: Duration::from_millis(5),
            repeat: 2,
        };
        let lost = (0..40).filter(|ms| hole.is_losing(Duration::from_millis(*ms)));
        assert_eq!(
            lost.collect::<Vec<_>>(),
            [10, 11, 12, 13, 14, 25, 26, 27, 28, 29]
        );
        let config = PathConfig {
            loss_burst: Some(2),
            ..config("pfifo limit 5000", None, 0, 90.0)
        };
        let (mut path, mut drops) = (config.build().expect("fits"), Drops::new());
        let mut longest = (0, 0);
        for _ in 0..3000 {
            path.enqueue(Packet::new((), 100), Instant::ZERO, &mut drops);
            let came = path.dequeue(Instant::ZERO, &mut drops).is_some();
            longest.1 = if came { 0 } else { longest.1 + 1 };
            longest.0 = longest.0.max(longest.1);
        }
        assert_eq!(longest.0, 2);
        let lost = drops.drain().count();
        assert!((1800..2000).contains(&lost), "{lost}");
    }
}
