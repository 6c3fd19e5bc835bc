//! Effect: senders of both kinds over one link.

use super::*;

/// A sender as RFC 9332 couples them: Reno halves once per round trip for any loss or mark, a
/// scalable one by half the share of marks.
struct Sender {
    window: f64,
    in_flight: f64,
    acks: VecDeque<(u64, bool)>,
    calm_until: u64,
    marked: f64,
    tos: u8,
}

impl Sender {
    fn new(tos: u8) -> Self {
        Self {
            window: 10.0,
            in_flight: 0.0,
            acks: VecDeque::new(),
            calm_until: 0,
            marked: 0.0,
            tos,
        }
    }

    fn scalable(&self) -> bool {
        self.tos == ECT1
    }

    fn signal(&mut self, micros: u64) {
        if micros >= self.calm_until {
            self.window = f64::max(self.window / 2.0, 2.0);
            self.calm_until = micros + 20_000;
        }
    }

    fn hear(&mut self, micros: u64) {
        while let Some(&(at, marked)) = self.acks.front().filter(|(at, _)| *at <= micros) {
            self.acks.pop_front();
            self.in_flight -= 1.0;
            self.window += 1.0 / self.window;
            match (marked, self.scalable()) {
                (true, true) => self.window = f64::max(self.window - 0.5, 2.0),
                (true, false) => self.signal(at),
                (false, _) => {}
            }
            self.marked += f64::from(u8::from(marked));
        }
    }
}

/// Two senders 10 ms away share a link of 40 Mbit/s for 20 s; packets delivered and mean delay (ms)
/// of each in the second half.
fn shared(config: Config, kinds: [u8; 2]) -> [(f64, f64); 2] {
    let (mut queue, mut drops) = (DualPi2::new(config).expect("valid"), Drops::new());
    let mut senders = kinds.map(Sender::new);
    let mut results = [(0.0, 0.0); 2];
    for micros in (0..20_000_000).step_by(300) {
        let now = Instant::from_micros(micros);
        for (flow, sender) in (0..).zip(&mut senders) {
            sender.hear(micros);
            while sender.in_flight < sender.window {
                sender.in_flight += 1.0;
                queue.enqueue(Probe::new(0).flow(flow).tos(sender.tos), now, &mut drops);
            }
        }
        if let Some(packet) = queue.dequeue(now, &mut drops) {
            let flow = packet.flow as usize;
            senders[flow]
                .acks
                .push_back((micros + 10_000, packet.tos == CE));
            if micros > 10_000_000 {
                results[flow].0 += 1.0;
                results[flow].1 += (now - packet.enqueued()).as_secs_f64() * 1e3;
            }
        }
        for (packet, _) in drops.drain() {
            let sender = &mut senders[packet.flow as usize];
            sender.in_flight -= 1.0;
            sender.signal(micros);
        }
    }
    results.map(|(packets, delays)| (packets, delays / packets))
}

/// Effect: a scalable sender beside a Reno-like one: about equal shares, the classic delay near its
/// target, the other's below a few milliseconds. In one queue with the same base probability the
/// scalable one would wait as long as the other.
#[test]
fn both_kinds_share_the_link_and_only_one_waits() {
    for config in [Config::default(), Config::rfc9332()] {
        for classic in [NOT_ECT, ECT0] {
            let [(classic_sent, classic_waits), (low_sent, low_waits)] =
                shared(config.clone(), [classic, ECT1]);
            let ratio = low_sent / classic_sent;
            assert!((0.3..3.0).contains(&ratio), "{ratio}");
            assert!((5.0..25.0).contains(&classic_waits), "{classic_waits}");
            assert!(low_waits < 2.0, "{low_waits}");
        }
    }
    let uncoupled = Config {
        alpha: 0.0,
        beta: 0.0,
        ..Config::default()
    };
    let [(_, classic_waits), _] = shared(uncoupled, [NOT_ECT, ECT1]);
    assert!(
        classic_waits > 50.0,
        "without the controller the classic queue fills: {classic_waits}"
    );
}
