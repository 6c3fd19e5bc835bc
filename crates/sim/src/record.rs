//! [`Record`]: receives every packet event of a network, from all hosts and links.
//!
//! | recorder | keeps |
//! |---|---|
//! | [`TraceHash`] | one number that two equal runs share |
//! | [`PacketTrace`] | a line per packet: born, queued, marked, ringed, completed or dropped, with times |
//! | [`Capture`] | a pcapng file for Wireshark, with verdict and sojourn as packet comments |
//!
//! Recorders compose as pairs and options. A host uses one as its [`Tracer`]: through a [`Tap`] in
//! a simulation, where all hosts share one recorder, and in a [`Solo`] anywhere else.

mod capture;
mod in_host;
mod packet_trace;
mod trace_hash;

use std::cell::RefCell;
use std::rc::Rc;

use tautline_stack::{PacketEvent, Tracer};

use crate::link::LinkEvent;

pub use capture::{Capture, CaptureConfig, Part};
pub use packet_trace::{Fate, PacketRecord, PacketTrace};
pub use trace_hash::TraceHash;

/// Receives packet events in order of time.
pub trait Record {
    /// False for a recorder that ignores all events: frames in flight are then never read, and
    /// their [deferred](tautline_base::Deferred) parts stay unwritten.
    const ENABLED: bool = true;

    /// `event` happened in host number `host` to the packet whose bytes are `frame`.
    fn on_host(&mut self, _host: usize, _event: &PacketEvent, _frame: &[u8]) {}

    /// `event` happened to `frame` on link number `link`.
    fn on_link(&mut self, _link: usize, _event: &LinkEvent, _frame: &[u8]) {}
}

/// Ignores all events.
impl Record for () {
    const ENABLED: bool = false;
}

impl<A: Record, B: Record> Record for (A, B) {
    const ENABLED: bool = A::ENABLED || B::ENABLED;

    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        self.0.on_host(host, event, frame);
        self.1.on_host(host, event, frame);
    }

    fn on_link(&mut self, link: usize, event: &LinkEvent, frame: &[u8]) {
        self.0.on_link(link, event, frame);
        self.1.on_link(link, event, frame);
    }
}

impl<R: Record> Record for Option<R> {
    const ENABLED: bool = R::ENABLED;

    fn on_host(&mut self, host: usize, event: &PacketEvent, frame: &[u8]) {
        if let Some(recorder) = self {
            recorder.on_host(host, event, frame);
        }
    }

    fn on_link(&mut self, link: usize, event: &LinkEvent, frame: &[u8]) {
        if let Some(recorder) = self {
            recorder.on_link(link, event, frame);
        }
    }
}

/// The tracer of one simulated host, for a recorder that all share.
#[derive(Debug)]
pub struct Tap<R> {
    host: usize,
    recorder: Rc<RefCell<R>>,
}

impl<R> Tap<R> {
    /// The tracer of host number `host`.
    pub fn new(host: usize, recorder: &Rc<RefCell<R>>) -> Self {
        Self {
            host,
            recorder: Rc::clone(recorder),
        }
    }

    pub(crate) fn host(&self) -> usize {
        self.host
    }
}

impl<R: Record> Tracer for Tap<R> {
    const ENABLED: bool = R::ENABLED;

    fn record(&mut self, event: &PacketEvent, frame: &[u8]) {
        self.recorder.borrow_mut().on_host(self.host, event, frame);
    }
}

/// A recorder as the tracer of a single host.
#[derive(Clone, Debug, Default)]
pub struct Solo<R>(pub R);

impl<R: Record> Tracer for Solo<R> {
    const ENABLED: bool = R::ENABLED;

    fn record(&mut self, event: &PacketEvent, frame: &[u8]) {
        self.0.on_host(0, event, frame);
    }
}

/// The tracer of a link, for one call.
pub(crate) struct LinkTap<'a, R> {
    pub(crate) link: usize,
    pub(crate) recorder: &'a mut R,
}

impl<R: Record> Tracer<LinkEvent> for LinkTap<'_, R> {
    const ENABLED: bool = R::ENABLED;

    fn record(&mut self, event: &LinkEvent, frame: &[u8]) {
        self.recorder.on_link(self.link, event, frame);
    }
}
