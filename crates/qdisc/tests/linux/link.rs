//! stand-in
use std::time::Duration;
use tautline_base::{Instant, Item};
use tautline_qdisc::{Backlog, Drops, Parked, Qdisc};
use crate::frame::Frame;
pub(crate) struct Link<Q> { inner: Parked<Frame, Q>, tokens: i64, last: Instant, ready: Option<Instant>, buffer: i64 }
impl<Q: Qdisc<Frame>> Link<Q> {
    pub(crate) fn new(inner: Q) -> Self { Self { inner: Parked::new(inner), tokens: 1_066_000, last: Instant::ZERO, ready: None, buffer: 1_066_000 } }
}
impl<Q: Qdisc<Frame>> Qdisc<Frame> for Link<Q> {
    fn enqueue(&mut self, p: Frame, now: Instant, d: &mut Drops<Frame>) { self.inner.enqueue(p, now, d); self.ready = Some(Instant::ZERO); }
    fn dequeue(&mut self, now: Instant, d: &mut Drops<Frame>) -> Option<Frame> {
        let Some(p) = self.inner.peek(now, d) else { self.ready = None; return None };
        let cost = (p.len().get() as i64) * 8_000 / 12;
        let toks = ((now.as_nanos() - self.last.as_nanos()).min(self.buffer as u64) as i64 + self.tokens).min(self.buffer) - cost;
        if toks >= 0 { self.tokens = toks; self.last = now; return self.inner.dequeue(now, d); }
        self.ready = Some(now + Duration::from_nanos(-toks as u64));
        None
    }
    fn ready_at(&self) -> Option<Instant> { if self.inner.backlog().is_empty() { None } else { self.ready } }
    fn backlog(&self) -> Backlog { self.inner.backlog() }
}
