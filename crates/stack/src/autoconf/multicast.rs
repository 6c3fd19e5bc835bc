//! Membership in multicast groups: reports of changes and answers to queries (RFC 3810 §6).
//!
//! Only solicited-node groups are joined, from any source. Without reports a switch that snoops
//! (RFC 4541) would keep solicitations for our addresses from us. DIVERGES: a query of version 1 is
//! not answered, for want of its reports.

use std::net::Ipv6Addr;
use std::time::Duration;

use tautline_base::Instant;

use super::Random;
use crate::wire::mld::{Query, Record};

/// Reports of a change (RFC 3810 §9.1, robustness variable).
const REPORTS: u8 = 2;
/// Longest time between them (§9.11).
const INTERVAL: Duration = Duration::from_secs(1);

/// The groups of a host. Their number is bounded by that of its addresses.
#[derive(Debug, Default)]
pub(super) struct Groups {
    members: Vec<Member>,
    /// Time of the next report of changes.
    report: Option<Instant>,
    /// Time of the answer to queries.
    answer: Option<Instant>,
}

#[derive(Debug)]
struct Member {
    group: Ipv6Addr,
    has_left: bool,
    /// Reports of its last change that are still to be sent.
    reports: u8,
    /// A query asks for it.
    is_asked: bool,
}

impl Groups {
    pub(super) fn join(&mut self, group: Ipv6Addr, now: Instant) {
        let known = self.members.iter_mut().find(|one| one.group == group);
        match known {
            Some(member) if !member.has_left => return,
            Some(member) => (member.has_left, member.reports) = (false, REPORTS),
            None => self.members.push(Member {
                group,
                has_left: false,
                reports: REPORTS,
                is_asked: false,
            }),
        }
        self.report = Some(now);
    }

    /// Leaves the groups that `is_needed` refuses.
    pub(super) fn leave_unless(&mut self, is_needed: impl Fn(Ipv6Addr) -> bool, now: Instant) {
        for member in &mut self.members {
            if !member.has_left && !is_needed(member.group) {
                (member.has_left, member.reports) = (true, REPORTS);
                self.report = Some(now);
            }
        }
    }

    pub(super) fn on_query(&mut self, query: &Query, random: &mut Random, now: Instant) {
        let mut is_asked = false;
        for member in &mut self.members {
            if query.group.is_unspecified() || member.group == query.group {
                member.is_asked = true;
                is_asked = true;
            }
        }
        if is_asked {
            let at = now + random.within(query.within);
            self.answer = Some(self.answer.map_or(at, |answer| answer.min(at)));
        }
    }

    /// The records of a report that is due.
    pub(super) fn on_deadline(
        &mut self,
        random: &mut Random,
        now: Instant,
    ) -> Option<Vec<(Record, Ipv6Addr)>> {
        let mut records = Vec::new();
        if self.report.is_some_and(|at| at <= now) {
            for member in self.members.iter_mut().filter(|one| one.reports > 0) {
                member.reports -= 1;
                let change = if member.has_left {
                    Record::Left
                } else {
                    Record::Joined
                };
                records.push((change, member.group));
            }
            self.members.retain(|one| !one.has_left || one.reports > 0);
            let is_left = self.members.iter().any(|one| one.reports > 0);
            self.report = is_left.then(|| now + random.within(INTERVAL));
        }
        if self.answer.is_some_and(|at| at <= now) {
            self.answer = None;
            for member in &mut self.members {
                if std::mem::take(&mut member.is_asked) && !member.has_left {
                    records.push((Record::Member, member.group));
                }
            }
        }
        (!records.is_empty()).then_some(records)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.report.into_iter().chain(self.answer).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::Key;

    /// RFC 3810 §6.1: each change is reported as often as the robustness variable says.
    #[test]
    fn joining_and_leaving_are_reported_twice() {
        let key = Key::from_seed(1);
        let (mut groups, mut random) = (Groups::default(), Random { key, count: 0 });
        let group = "ff02::1:ff00:1".parse().expect("a group");
        let mut now = Instant::from_secs(1);
        let mut reports = |groups: &mut Groups| -> Vec<(Record, Ipv6Addr)> {
            let mut all = Vec::new();
            while let Some(at) = groups.next_deadline() {
                now = now.max(at);
                all.extend(groups.on_deadline(&mut random, now).into_iter().flatten());
            }
            all
        };
        groups.join(group, Instant::from_secs(1));
        assert_eq!(reports(&mut groups), [(Record::Joined, group); 2]);
        groups.leave_unless(|_| true, Instant::from_secs(9));
        assert_eq!(reports(&mut groups), []);
        groups.leave_unless(|_| false, Instant::from_secs(9));
        assert_eq!(reports(&mut groups), [(Record::Left, group); 2]);
        assert!(groups.members.is_empty());
    }
}
