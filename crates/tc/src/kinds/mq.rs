//! `mq`.

use alloc::vec::Vec;

use tautline_base::{ConfigError, Drops, Instant, Item, Qdisc};
use tautline_qdisc::mq::Config;
use tautline_qdisc::{ClassId, Classful, Common, Mq};

use super::class_report;
use crate::discipline::{Change, Configured, Inspect, change_children};
use crate::report::Report;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "mq";
    const PARAMETERS: &'static [Parameter<Self>] = &[value!("queues", number::<u16>(), queues)];
}

impl<P, Q, F> Configured for Mq<P, Q, F>
where
    P: Item,
    Q: Qdisc<P> + Inspect + Change<P>,
    F: Fn(&P, usize) -> usize,
{
    type Packet = P;
    type Config = Config;

    fn parameters(&self) -> Config {
        self.config()
    }

    fn set_parameters(
        &mut self,
        config: Config,
        _: Instant,
        _: &mut Drops<P>,
    ) -> Result<(), ConfigError> {
        self.reconfigure(&config)
    }

    /// Packets and bytes sent are sums over all queues, as in Linux.
    fn details(&self) -> Report {
        let classes = self.classes().map(|class| class_report("mq", class));
        let classes: Vec<Report> = classes.collect();
        let mut common = Common {
            backlog: self.backlog(),
            ..Common::default()
        };
        for class in classes.iter().filter_map(|class| class.common) {
            common.sent_bytes += class.sent_bytes;
            common.sent_packets += class.sent_packets;
            common.drops += class.drops;
        }
        let children = || classes.iter().flat_map(|class| &class.children);
        Report {
            id: Some(ClassId::new(self.handle(), 0)),
            common: Some(common),
            overlimits: children().map(|child| child.overlimits).sum(),
            requeues: children().map(|child| child.requeues).sum(),
            classes,
            ..Report::default()
        }
    }

    change_children!();
}
