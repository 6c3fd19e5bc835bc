//! Any bytes and any requests on the control socket of a middlebox, between packets and time: each line
//! is answered, nothing panics, and no packet is lost but what the qdiscs report.

use std::net::Ipv4Addr;
use std::time::Duration;

use arbitrary::Arbitrary;
use tautline_base::headers::UDP;
use tautline_base::{HeapFrame, Instant, Medium};
use tautline_bql::LimitKind;
use tautline_cli::control::{
    Answer, Observer, Request, State, Talkers, Taps, Wanted, Way, answer_lines, handle,
};
use tautline_cli::http::HttpRequest;
use tautline_qdisc::Stats;
use tautline_rt::bridge::{Bridge, Side};
use tautline_testkit::MemoryDevice;
use tautline_testkit::frame::Ip;

use crate::steps::Steps;

/// Frames of each side at most.
const FRAMES: usize = 512;
/// Bytes of lines at one time, so that a case stays short.
const REPEATS: u8 = 8;

/// Words that are understood.
const KNOWN: &[&str] = &[
    "pfifo limit 20",
    "fq_codel limit 100 flows 16",
    "cake bandwidth 10mbit",
    "tbf rate 8mbit burst 5kb latency 50ms; fq_codel",
    "netem delay 10ms loss 5%",
    "prio; qdisc parent 1:1 codel; qdisc parent 1:2 netem delay 5ms",
    "htb default 2; class classid 1:2 htb rate 1mbit ceil 8mbit; qdisc parent 1:2 sfq",
    "limit 5",
    "target 1ms",
    "rate 1mbit",
];

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input<'a>(Steps<Step<'a>>);

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// Lines of a client.
    Lines(&'a [u8]),
    /// A request, damaged at a place if it has one.
    Request {
        is_replacement: bool,
        to_left: bool,
        known: u8,
        words: &'a str,
        pair: Option<&'a str>,
        damage: Option<(u8, u8)>,
    },
    Show,
    Capture(u32),
    /// The head of a request over HTTP.
    Http(&'a [u8]),
    Packets {
        count: u8,
        from_left: bool,
        flow: u8,
        len: u16,
    },
    Advance(u16),
}

/// The middlebox.
type Middlebox = Bridge<MemoryDevice, MemoryDevice, Observer>;

/// Runs one case.
pub fn run(input: Input<'_>) {
    let taps = Taps::default();
    let side = |place| {
        let queue: Box<dyn tautline_tc::DynQdisc<_>> =
            tautline_tc::build("fq_codel").expect("known words");
        let observer = Observer {
            tap: taps.tap(place),
            talkers: Some(Talkers::new(Medium::Ethernet, 1)),
        };
        let frames = vec![HeapFrame::new()];
        let limit = LimitKind::default().build().expect("the default");
        Side::new(MemoryDevice::default(), frames, Stats::new(queue), limit)
            .growing_to(FRAMES)
            .traced(observer)
    };
    let (left, right) = (side(1), side(0));
    let mut middlebox = Bridge::new(left, right, 1);
    let (mut now, mut copies) = (Instant::from_millis(1), false);
    for step in input.0.0 {
        match step {
            Step::Lines(lines) => ask(&mut middlebox, lines, now, &mut copies),
            Step::Request {
                is_replacement,
                to_left,
                known,
                words,
                pair,
                damage,
            } => {
                let known = KNOWN[usize::from(known) % KNOWN.len()];
                let way = if to_left { Way::ToLeft } else { Way::ToRight };
                let (pair, words) = (pair.map(str::to_owned), format!("{known} {words}"));
                let request = if is_replacement {
                    Request::Replace { pair, way, words }
                } else {
                    Request::Change { pair, way, words }
                };
                let mut line = serde_json::to_vec(&request).expect("plain fields");
                if let Some((at, byte)) = damage {
                    let at = usize::from(at) % line.len();
                    line[at] = byte;
                }
                line.push(b'\n');
                ask(&mut middlebox, &line, now, &mut copies);
            }
            Step::Show => {
                ask(
                    &mut middlebox,
                    b"{\"command\":\"show\"}\n",
                    now,
                    &mut copies,
                );
            }
            Step::Capture(snaplen) => {
                let wanted = Wanted {
                    snaplen,
                    ..Wanted::default()
                };
                let line = serde_json::to_vec(&Request::Capture(wanted)).expect("plain fields");
                let asked = answer_lines(&[&*line, b"\n"].concat()[..], Vec::new(), |_| refusal());
                assert_eq!(
                    asked.expect("memory").map(|wanted| wanted.snaplen),
                    Some(snaplen)
                );
            }
            Step::Http(head) => {
                let _ = HttpRequest::parse(head);
            }
            Step::Packets {
                count,
                from_left,
                flow,
                len,
            } => {
                let source = Ipv4Addr::new(10, 0, 0, flow);
                let ip = Ip::new(source, Ipv4Addr::new(10, 0, 1, flow / 16), UDP);
                let payload = vec![flow; usize::from(len % 1473)];
                let frame = ip.frame([2; 6], [4; 6], &payload);
                let side = if from_left {
                    &mut middlebox.left
                } else {
                    &mut middlebox.right
                };
                let arrived = &mut side.port_mut().ring_mut().device_mut().arrived;
                arrived.extend((0..count).map(|_| frame.clone()));
            }
            Step::Advance(micros) => now += Duration::from_micros(micros.into()),
        }
        for _ in 0..REPEATS {
            if !middlebox.turn(now) {
                break;
            }
        }
        for side in [&mut middlebox.left, &mut middlebox.right] {
            side.port_mut().ring_mut().device_mut().sent.clear();
        }
        check(&mut middlebox, now, copies);
    }
}

/// Sends `lines` as a client. `copies` says whether a qdisc may have copied packets since the start.
fn ask(middlebox: &mut Middlebox, lines: &[u8], now: Instant, copies: &mut bool) {
    let mut answers = Vec::new();
    let (mut asked, names) = (0, ["right", "left"].map(str::to_owned));
    let ended = answer_lines(lines, &mut answers, |request| {
        asked += 1;
        if let Request::Change { words, .. } | Request::Replace { words, .. } = &request {
            *copies |= words.contains("dup");
        }
        handle(middlebox, (&names, &names), request, (Instant::ZERO, now))
    });
    let capture = ended.expect("memory");
    let complete = lines.iter().filter(|byte| **byte == b'\n').count();
    let given = answers.iter().filter(|byte| **byte == b'\n').count();
    assert!(asked <= given && given <= complete);
    assert!(
        given == complete || capture.is_some(),
        "a line has no answer"
    );
    for line in answers.split_inclusive(|byte| *byte == b'\n') {
        serde_json::from_slice::<Answer>(line).expect("an answer");
    }
}

fn refusal() -> Answer {
    Answer::of(Err("no capture".to_owned()))
}

/// Every packet was sent, is queued, or is counted as a drop.
fn check(middlebox: &mut Middlebox, now: Instant, copies: bool) {
    let names = ["right", "left"].map(str::to_owned);
    let shown = handle(
        middlebox,
        (&names, &names),
        Request::Show,
        (Instant::ZERO, now),
    );
    for State {
        taken,
        sent,
        backlog,
        drops,
        ..
    } in shown.ports
    {
        let outside = ["no frame free", "too long"];
        let drops = drops.iter().filter(|(why, _)| !outside.contains(&&**why));
        let dropped: u64 = drops.map(|(_, count)| count).sum();
        let found = sent.packets + backlog.packets + dropped;
        assert!(found >= taken.packets, "packets are gone");
        assert!(
            copies || found == taken.packets,
            "packets are counted twice"
        );
    }
}
