//! Going through the rules with a packet.

use tautline_base::headers::Headers;
use tautline_base::{Instant, Item};

use super::action::Control;
use super::selector::{Origin, Selector};
use super::tables::{Entered, Step, Walk};
use super::{Filters, Matcher, Verdict};

/// Most restarts of classification by [`Control::Reclassify`] (Linux's).
const RECLASSIFICATIONS: usize = 16;
impl Filters {
    /// Applies the rules in order until one decides; actions on the way may rewrite the packet's
    /// TOS, priority and mark.
    #[inline]
    pub fn classify<P: Item>(&mut self, packet: &mut P, now: Instant) -> Verdict {
        if self.order.is_empty() {
            return Verdict::Continue;
        }
        self.apply(packet, now)
    }

    fn apply<P: Item>(&mut self, packet: &mut P, now: Instant) -> Verdict {
        let headers = Headers::of(packet);
        for _ in 0..=RECLASSIFICATIONS {
            match self.round(packet, &headers, now) {
                Outcome::Decided(verdict) => return verdict,
                Outcome::Again => {}
            }
        }
        Verdict::Drop
    }

    /// Goes through the rules once.
    fn round<P: Item>(&mut self, packet: &mut P, headers: &Headers, now: Instant) -> Outcome {
        let base = i64::try_from(packet.network_offset()).unwrap_or(i64::MAX / 2);
        let origin = Origin { base, behind: 0 };
        for place in 0..self.order.len() {
            let index = self.order[place];
            let rule = &mut self.rules[index];
            if !rule.filter.protocol.admits(headers.protocol) {
                continue;
            }
            rule.tried += 1;
            let outcome = match &rule.filter.matcher {
                Matcher::U32(selector) if selector.matches(packet, headers, origin) => {
                    match selector.link {
                        Some(_) => self.descend(index, packet, headers, base, now),
                        None => self.conclude(index, packet, now),
                    }
                }
                Matcher::Mark(mark) if mark.matches(packet.mark()) => {
                    self.conclude(index, packet, now)
                }
                Matcher::Flower(keys) if keys.matches(packet, headers) => {
                    self.conclude(index, packet, now)
                }
                Matcher::All => self.conclude(index, packet, now),
                _ => None,
            };
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
        Outcome::Decided(Verdict::Continue)
    }

    /// Follows the link of the rule number `from`; `None` if nothing decides there.
    fn descend<P: Item>(
        &mut self,
        from: usize,
        packet: &mut P,
        headers: &Headers,
        base: i64,
        now: Instant,
    ) -> Option<Outcome> {
        let mut walk = Walk::default();
        let mut linking = Some((from, base));
        loop {
            let mut decisive = None;
            if let Some((rule, base)) = linking.take()
                && let Matcher::U32(Selector {
                    link: Some(link), ..
                }) = &self.rules[rule].filter.matcher
            {
                match walk.enter(&self.tables, rule, link, packet, headers, base) {
                    Entered::List => {}
                    Entered::Nowhere => {
                        decisive = Some(rule).filter(|rule| self.rules[*rule].filter.decides())
                    }
                    Entered::TooDeep => return None,
                }
            } else {
                match walk.step(&self.tables)? {
                    Step::Return(rule) => {
                        decisive = Some(rule).filter(|rule| self.rules[*rule].filter.decides())
                    }
                    Step::Try(index, origin) => {
                        let rule = &mut self.rules[index];
                        rule.tried += 1;
                        if let Matcher::U32(selector) = &rule.filter.matcher
                            && rule.filter.protocol.admits(headers.protocol)
                            && selector.matches(packet, headers, origin)
                        {
                            match selector.link {
                                Some(_) => linking = Some((index, origin.base)),
                                None => decisive = Some(index),
                            }
                        }
                    }
                }
            }
            if let Some(outcome) = decisive.and_then(|rule| self.conclude(rule, packet, now)) {
                return Some(outcome);
            }
        }
    }

    /// Does the actions of the rule number `index`, which matched; `None` if the rules after it are
    /// to be tried.
    fn conclude<P: Item>(&mut self, index: usize, packet: &mut P, now: Instant) -> Option<Outcome> {
        let rule = &mut self.rules[index];
        rule.hits += 1;
        for (action, memory) in rule.filter.actions.iter().zip(&mut rule.memories) {
            match action.apply(memory, packet, now, &mut self.rng) {
                Control::Pipe => {}
                Control::Pass => break,
                Control::Drop => return Some(Outcome::Decided(Verdict::Drop)),
                Control::Reclassify => return Some(Outcome::Again),
                Control::Continue => return None,
            }
        }
        Some(Outcome::Decided(
            rule.filter.class.map_or(Verdict::Continue, Verdict::Class),
        ))
    }
}

/// The result of one pass through the rules.
enum Outcome {
    Decided(Verdict),
    Again,
}
