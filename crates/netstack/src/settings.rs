//! [`Settings`]: a stack's settings as a driver takes them.

use std::sync::Arc;

use tautline_base::{HeapFrame, Packet};
use tautline_qdisc::Stats;
use tautline_rt::handle::Config;
use tautline_stack::{HostConfig, Limits};
use tautline_tc::DynQdisc;

use crate::start::Start;

/// The queueing discipline of every stack.
pub(crate) type Queue = Stats<Box<dyn DynQdisc<Packet<HeapFrame>>>>;

/// The settings of [`Builder`](crate::Builder), verified.
pub struct Settings {
    pub(crate) host: HostConfig,
    pub(crate) qdisc: Box<dyn DynQdisc<Packet<HeapFrame>>>,
    pub(crate) sockets: Config,
    pub(crate) limits: Limits,
    pub(crate) frames: usize,
    pub(crate) start: Arc<Start>,
}
