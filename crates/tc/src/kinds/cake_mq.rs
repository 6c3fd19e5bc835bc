//! `cake_mq`: the words of `cake`, for all queues together.

use alloc::vec::Vec;

use tautline_base::Item;
use tautline_qdisc::CakeMq;
use tautline_qdisc::cake;
use tautline_qdisc::cake_mq::Config;

use super::{class_report, sum_of_classes};
use crate::discipline::{Configured, configured};
use crate::report::Report;
use crate::words::parameter::*;

impl Parameters for Config {
    const KIND: &'static str = "cake_mq";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        value!("queues", number::<u16>(), queues),
        value!("sync_time", TIME, sync_time),
        part!(cake: cake::Config),
    ];
}

impl<P, F> Configured for CakeMq<P, F>
where
    P: Item,
    F: Fn(&P, usize) -> usize,
{
    configured!(Config, |root, config, now, drops| root
        .reconfigure(config, now, drops));

    /// As those of `mq`; a single queue cannot be changed, nor in Linux.
    fn details(&self) -> Report {
        let classes = self.classes().map(|class| class_report("cake_mq", class));
        let classes: Vec<Report> = classes.collect();
        sum_of_classes(self.handle(), self, classes)
    }
}
