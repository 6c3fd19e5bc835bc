//! CoDel holds the standing delay of a bottleneck near its target where a FIFO lets it stand at its
//! limit.

use std::time::Duration;

use crate::common::{long_wire, ms, path, run_recorded};
use tautline_base::{Instant, Rate};
use tautline_sim::{LinkEvent, LinkEventKind, NicConfig, Outcome, Record, Transfer};
use tautline_stack::{PacketEvent, TcpConfig, TsqLimit, What};

/// Sojourn times after the start-up.
#[derive(Default)]
struct Sojourns {
    times: Vec<Duration>,
    queued: std::collections::HashMap<u32, Instant>,
}

impl Sojourns {
    const STARTUP: Instant = Instant::from_secs(3);

    fn median(&mut self) -> Duration {
        self.times.sort();
        self.times[self.times.len() / 2]
    }
}

impl Record for Sojourns {
    fn on_host(&mut self, host: usize, event: &PacketEvent, _frame: &[u8]) {
        let PacketEvent { at, what, seq, .. } = *event;
        match what {
            What::Queued if host == 0 => drop(self.queued.insert(seq, at)),
            What::Ringed if host == 0 && at > Self::STARTUP => self
                .times
                .extend(self.queued.get(&seq).map(|queued| at - *queued)),
            _ => {}
        }
    }
}

/// The same for the link there.
#[derive(Default)]
struct LinkSojourns(Sojourns);

impl Record for LinkSojourns {
    fn on_link(&mut self, link: usize, event: &LinkEvent, _frame: &[u8]) {
        if let LinkEventKind::Serialized { sojourn } = event.kind
            && link == 0
            && event.at > Sojourns::STARTUP
        {
            self.0.times.push(sojourn);
        }
    }
}

/// A router with `queue` at 10 Mbit/s.
fn at_router(queue: &str) -> (Outcome, Duration) {
    let [mut there, back] = path(10, ms(20));
    there.queue = queue.parse().expect("valid");
    let transfer = Transfer {
        bytes: 8 << 20,
        links: [there, back],
        ..Transfer::default()
    };
    let (outcome, mut sojourns) = run_recorded(&transfer, LinkSojourns::default());
    (outcome, sojourns.0.median())
}

/// The sender's own NIC at 10 Mbit/s behind `qdisc`.
fn at_sender(qdisc: &str) -> (Outcome, Duration) {
    let nic = NicConfig {
        rate: Rate::mbit(10),
        ..NicConfig::default()
    };
    let sender = TcpConfig {
        tsq: TsqLimit::Off,
        ..TcpConfig::default()
    };
    let qdisc = qdisc.parse().expect("valid");
    let transfer = Transfer {
        bytes: 8 << 20,
        links: long_wire(ms(20)),
        nic,
        qdisc,
        sender,
        ..Transfer::default()
    };
    let (outcome, mut sojourns) = run_recorded(&transfer, Sojourns::default());
    (outcome, sojourns.median())
}

fn compare(place: &str, run: fn(&str) -> (Outcome, Duration)) {
    let (fifo, standing) = run("pfifo limit 400");
    for words in ["codel limit 400", "fq_codel limit 400"] {
        let (outcome, sojourn) = run(words);
        println!(
            "{place}, {words}: {sojourn:?} at {}; pfifo: {standing:?} at {}",
            outcome.goodput, fifo.goodput
        );
        assert!(
            standing > ms(150),
            "{place}: a FIFO of 400 packets holds half a second at 10 Mbit/s, not {standing:?}"
        );
        assert!(
            sojourn < ms(15),
            "{place}, {words}: {sojourn:?}, the target is 5 ms"
        );
        assert!(
            outcome.goodput >= fifo.goodput.percent(90),
            "{place}, {words}: {} against {}",
            outcome.goodput,
            fifo.goodput
        );
    }
}

#[test]
fn a_router_with_codel_delays_less_than_a_fifo() {
    compare("router", at_router);
}

#[test]
fn a_sender_with_codel_delays_less_than_a_fifo() {
    compare("sender", at_sender);
}
