//! [`History`]: the last minutes of ports: rates, sojourn times, queue length over time.

use std::collections::VecDeque;
use std::time::Duration;

use tautline_qdisc::stats::Sojourn;

use crate::snapshot::{Counted, PortState, Snapshot, Talker};

/// Period that rates and sojourn times cover.
const WINDOW: Duration = Duration::from_secs(1);
/// Samples kept of a queue's length: more than a terminal has columns.
const SAMPLES: usize = 512;

/// Recent snapshots of ports.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The snapshots of the last second, and the one before.
    recent: VecDeque<Snapshot>,
    /// Backlog of each port in packets over time, the latest last.
    courses: Vec<VecDeque<u64>>,
}

/// Packets and bits in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Throughput {
    pub(crate) packets: f64,
    pub(crate) bits: f64,
}

impl History {
    /// Adds a snapshot. One that is not later than the last starts a new
    /// history.
    pub fn push(&mut self, snapshot: Snapshot) {
        let again = self
            .recent
            .back()
            .is_some_and(|last| snapshot.at <= last.at || snapshot.ports.len() != last.ports.len());
        if again {
            *self = Self::default();
        }
        self.courses.resize(snapshot.ports.len(), VecDeque::new());
        for (course, port) in self.courses.iter_mut().zip(&snapshot.ports) {
            if course.len() == SAMPLES {
                course.pop_front();
            }
            course.push_back(port.backlog.packets as u64);
        }
        let begins = snapshot.at.saturating_sub(WINDOW);
        while self.recent.get(1).is_some_and(|next| next.at <= begins) {
            self.recent.pop_front();
        }
        self.recent.push_back(snapshot);
    }

    /// The latest snapshot.
    pub fn now(&self) -> Option<&Snapshot> {
        self.recent.back()
    }

    /// The last `count` lengths of the queue of port number `port`, in packets, the latest last.
    pub fn course(&self, port: usize, count: usize) -> Vec<u64> {
        let course = self.courses.get(port).map(|course| {
            course
                .iter()
                .copied()
                .skip(course.len().saturating_sub(count))
        });
        course.map(Iterator::collect).unwrap_or_default()
    }

    /// Rate of `counted` at port number `port` over the last second.
    pub(crate) fn throughput(
        &self,
        port: usize,
        counted: impl Fn(&PortState) -> Counted,
    ) -> Throughput {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else {
            return Throughput::default();
        };
        let (Some(before), Some(now)) = (first.ports.get(port), last.ports.get(port)) else {
            return Throughput::default();
        };
        let (before, now, seconds) = (
            counted(before),
            counted(now),
            (last.at - first.at).as_secs_f64(),
        );
        if seconds == 0.0 {
            return Throughput::default();
        }
        Throughput {
            packets: now.packets.saturating_sub(before.packets) as f64 / seconds,
            bits: now.bytes.saturating_sub(before.bytes) as f64 * 8.0 / seconds,
        }
    }

    /// Hosts or flows of port number `port`, each with its bits in a second and its mean sojourn time
    /// of the last second.
    pub(crate) fn talkers(
        &self,
        port: usize,
        table: impl Fn(&PortState) -> &[Talker],
    ) -> Vec<(&Talker, f64, Option<Duration>)> {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else {
            return Vec::new();
        };
        let (Some(before), Some(now)) = (first.ports.get(port), last.ports.get(port)) else {
            return Vec::new();
        };
        let (before, now) = (table(before), table(now));
        let seconds = (last.at - first.at).as_secs_f64();
        let rows = now.iter().map(|talker| {
            let earlier = before.iter().find(|earlier| earlier.name == talker.name);
            // One that left the table and came back counts anew.
            let earlier = earlier.filter(|earlier| earlier.sent.packets <= talker.sent.packets);
            let nothing = Talker::default();
            let earlier = earlier.unwrap_or(&nothing);
            let bytes = talker.sent.bytes.saturating_sub(earlier.sent.bytes);
            let rate = if seconds > 0.0 {
                bytes as f64 * 8.0 / seconds
            } else {
                0.0
            };
            let sojourn = talker.sojourn_sum.saturating_sub(earlier.sojourn_sum);
            let packets = talker.sent.packets - earlier.sent.packets;
            let mean = sojourn.checked_div(u32::try_from(packets).unwrap_or(u32::MAX));
            (talker, rate, mean)
        });
        rows.collect()
    }

    /// Sojourn times of the packets that left port number `port` in the last second.
    pub(crate) fn sojourn(&self, port: usize) -> Sojourn {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else {
            return Sojourn::default();
        };
        let (Some(before), Some(now)) = (first.ports.get(port), last.ports.get(port)) else {
            return Sojourn::default();
        };
        if self.recent.len() > 1 {
            now.sojourn.since(&before.sojourn)
        } else {
            now.sojourn.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64, packets: u64) -> Snapshot {
        let sent = Counted {
            packets,
            bytes: packets * 1000,
        };
        let mut port = PortState {
            sent,
            ..PortState::default()
        };
        port.backlog.packets = packets as usize;
        port.sojourn.histogram.record_many(1 << 20, packets);
        Snapshot {
            at: Duration::from_millis(millis),
            ports: vec![port],
        }
    }

    #[test]
    fn rates_and_sojourn_times_are_those_of_the_last_second() {
        let mut history = History::default();
        for (millis, packets) in [
            (0, 0),
            (250, 10),
            (500, 20),
            (750, 20),
            (1000, 20),
            (1250, 30),
            (1500, 120),
        ] {
            history.push(at(millis, packets));
        }
        let throughput = history.throughput(0, |port| port.sent);
        assert_eq!(
            throughput,
            Throughput {
                packets: 100.0,
                bits: 800_000.0
            }
        );
        assert_eq!(history.sojourn(0).count(), 100);
        assert_eq!(history.course(0, 3), [20, 30, 120]);
    }

    #[test]
    fn nothing_and_one_have_no_speed_and_time_that_steps_back_begins_anew() {
        let mut history = History::default();
        assert_eq!(
            history.throughput(0, |port| port.sent),
            Throughput::default()
        );
        history.push(at(5000, 7));
        assert_eq!(
            (
                history.throughput(0, |port| port.sent),
                history.sojourn(0).count()
            ),
            (Throughput::default(), 7)
        );
        history.push(at(4000, 3));
        assert_eq!(
            (history.course(0, 10), history.now().map(|now| now.at)),
            (vec![3], Some(Duration::from_secs(4)))
        );
        assert_eq!(
            history.throughput(9, |port| port.sent),
            Throughput::default()
        );
    }

    #[test]
    fn the_course_is_bounded() {
        let mut history = History::default();
        (0..2000).for_each(|number| history.push(at(number, number)));
        assert_eq!(history.course(0, 5000).len(), SAMPLES);
        assert!(history.recent.len() <= 1002);
    }
}
