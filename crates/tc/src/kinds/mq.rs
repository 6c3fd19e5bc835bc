//! `mq`.

use tautline_base::{ConfigError, Drops, Instant, Item, Qdisc};
use tautline_qdisc::mq::Config;
use tautline_qdisc::{Classful, Mq};

use super::{class_report, sum_of_classes};
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
        sum_of_classes(self.handle(), self, classes.collect())
    }

    change_children!();
}
