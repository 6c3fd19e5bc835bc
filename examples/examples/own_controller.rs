//! A congestion controller of one's own: `cargo run --release --example own_controller`.
//!
//! A window that never changes, beside CUBIC, over the same simulated link with a deep buffer. A
//! window of one bandwidth-delay product fills the link and not the buffer; CUBIC fills both.

use std::time::Duration;

use tautline_base::{Bytes, Instant, Rate};
use tautline_cc::{Ack, Algorithm, Congestion, Controller, Factory, Idle, Verdict};
use tautline_sim::{Buffer, LinkConfig, Transfer, TransferError};
use tautline_stack::TcpConfig;

/// Never asks the network.
struct FixedWindow {
    window: Bytes,
    rate: Rate,
}

impl Controller for FixedWindow {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _congestion: &Congestion) {}

    fn on_undo(&mut self, _now: Instant) {}

    fn on_idle(&mut self, _idle: &Idle) {}

    fn verdict(&self) -> Verdict {
        Verdict {
            cwnd: self.window,
            ssthresh: Bytes::MAX,
            pacing_rate: self.rate,
            burst: Bytes::new(3000),
        }
    }
}

fn main() -> Result<(), TransferError> {
    let (rate, delay) = (Rate::mbit(50), Duration::from_millis(10));
    let window = rate * (delay * 2);
    let fixed = Factory::new(move |_| {
        Box::new(FixedWindow {
            window,
            rate: rate.percent(110),
        })
    });
    let there = LinkConfig {
        rate,
        delay,
        queue: Buffer::TailDrop {
            packets: 1000,
            bytes: Bytes::MAX,
        },
        ..Default::default()
    };
    let back = LinkConfig {
        delay,
        ..Default::default()
    };
    for congestion in [Algorithm::Cubic.factory(), fixed] {
        let sender = TcpConfig {
            congestion,
            ..TcpConfig::default()
        };
        let links = [there.clone(), back.clone()];
        let outcome = Transfer {
            bytes: 50 << 20,
            links,
            sender,
            ..Transfer::default()
        }
        .run()?;
        let (name, srtt, drops) = (
            outcome.sender.congestion,
            outcome.sender.srtt,
            outcome.sender.retransmits,
        );
        println!(
            "{name:6} {} goodput, {srtt:.1?} round trip at the end, {drops} retransmits",
            outcome.goodput
        );
    }
    Ok(())
}
