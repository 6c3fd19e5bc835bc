//! Full segments that leave one after the other have their headers from one template and are
//! accounted for together. A connection with latency attribution takes each by the long way: both
//! must send the same frames, at the same times, and end in the same state.

#[expect(dead_code, reason = "of what tests share, these need little")]
mod pair;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use pair::{PORT, Pair, address, address_v6};
use proptest::prelude::*;
use tautline_base::{Bytes, Instant, Medium};
use tautline_stack::{PacerConfig, Pacing, TcpConfig, TsqLimit};

/// Parameters of a run, but for attribution.
#[derive(Clone, Debug)]
struct Case {
    medium: Medium,
    is_ipv6: bool,
    config: TcpConfig,
    /// Bytes that the application writes, how, and milliseconds until the next write.
    writes: Vec<(usize, Way, u64)>,
    /// One frame in so many is lost.
    loses_one_in: usize,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Copied,
    Owned,
    Zeros,
}

fn case() -> impl Strategy<Value = Case> {
    let way = prop_oneof![Just(Way::Copied), Just(Way::Owned), Just(Way::Zeros)];
    let pacing = prop::sample::select(vec![Pacing::Off, Pacing::Internal, Pacing::Qdisc]);
    let pacer = prop::sample::select(vec![PacerConfig::default(), PacerConfig::linux()]);
    let tsq = prop::sample::select(vec![TsqLimit::default(), TsqLimit::Off]);
    let timestamps = any::<bool>();
    let buffer = prop_oneof![Just(1_000_000), 5_000u64..100_000];
    (
        (any::<bool>(), any::<bool>()),
        (pacing, pacer, tsq, timestamps, buffer),
        prop::collection::vec((1usize..80_000, way, 0u64..30), 1..12),
        prop_oneof![Just(usize::MAX), 10usize..200],
    )
        .prop_map(
            |(
                (is_bare, is_ipv6),
                (pacing, pacer, tsq, timestamps, buffer),
                writes,
                loses_one_in,
            )| {
                let mut config = TcpConfig {
                    pacing,
                    pacer,
                    tsq,
                    send_buffer: Bytes::new(2 * buffer),
                    receive_buffer: Bytes::new(buffer),
                    ..TcpConfig::default()
                };
                config.negotiation.timestamps = timestamps;
                Case {
                    medium: if is_bare {
                        Medium::Ip
                    } else {
                        Medium::Ethernet
                    },
                    is_ipv6,
                    config,
                    writes,
                    loses_one_in,
                }
            },
        )
}

/// Every frame with its side and time, the state of the sender at the end, and its births in
/// trains.
type Run = (Vec<(usize, Instant, Vec<u8>)>, String, u64);

fn run(case: &Case, attribution: bool) -> Run {
    let config = TcpConfig {
        attribution,
        ..case.config.clone()
    };
    let mut pair = Pair::over(case.medium, 1, |config| config);
    let (frames, loses) = (Rc::new(RefCell::new(Vec::new())), case.loses_one_in);
    let seen = frames.clone();
    pair.filter = Box::new(move |side, frame| {
        let mut seen = seen.borrow_mut();
        seen.push((side, Instant::ZERO, frame.to_vec()));
        seen.len() % loses != loses - 1
    });
    pair.hosts[1].listen(PORT, config.clone()).expect("free");
    let remote: SocketAddr = if case.is_ipv6 {
        (address_v6(1), PORT).into()
    } else {
        (address(1), PORT).into()
    };
    let client = pair.hosts[0]
        .connect(remote, config, pair.now)
        .expect("good");
    let step = |pair: &mut Pair, millis| {
        for _ in 0..millis {
            let before = frames.borrow().len();
            pair.run_for(Duration::from_millis(1));
            for (_, at, _) in &mut frames.borrow_mut()[before..] {
                *at = pair.now;
            }
        }
    };
    step(&mut pair, 3000);
    let server = pair.events[1].iter().find_map(|event| match event {
        tautline_stack::Event::Accepted { socket, .. } => Some(*socket),
        _ => None,
    });
    for &(len, way, millis) in &case.writes {
        let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        match way {
            Way::Copied => pair.hosts[0].send(client, &data).map(drop),
            Way::Owned => {
                let mut data = bytes::Bytes::from(data);
                let socket = pair.hosts[0].tcp(client);
                socket
                    .and_then(|mut socket| socket.send_owned(&mut data))
                    .map(drop)
            }
            Way::Zeros => {
                let socket = pair.hosts[0].tcp(client);
                socket
                    .and_then(|mut socket| socket.send_zeros(len))
                    .map(drop)
            }
        }
        .ok();
        step(&mut pair, millis);
        if let Some(server) = server {
            pair.read(1, server);
        }
    }
    step(&mut pair, 2000);
    // Attribution itself is reported there.
    let info = pair.hosts[0].info(client).map(|mut info| {
        info.limited = None;
        info
    });
    let in_trains = pair.hosts[0].stats().births_in_trains;
    (frames.take(), format!("{info:?}"), in_trains)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn trains_are_what_single_segments_are(case in case()) {
        let (frames, info, _) = run(&case, false);
        let (expected, expected_info, in_trains) = run(&case, true);
        prop_assert_eq!(in_trains, 0, "attribution");
        for (number, (frame, expected)) in frames.iter().zip(&expected).enumerate() {
            prop_assert_eq!(frame, expected, "frame {}", number);
        }
        prop_assert_eq!(frames.len(), expected.len());
        prop_assert_eq!(info, expected_info);
    }
}

/// A host that never asks for a train would send the same frames, only slower.
#[test]
fn most_full_segments_of_a_burst_leave_in_trains() {
    let case = Case {
        medium: Medium::Ethernet,
        is_ipv6: false,
        config: TcpConfig {
            pacing: Pacing::Off,
            tsq: TsqLimit::Off,
            ..TcpConfig::default()
        },
        writes: vec![(80_000, Way::Copied, 30); 4],
        loses_one_in: usize::MAX,
    };
    let (frames, _, in_trains) = run(&case, false);
    let full = frames.iter().filter(|(_, _, frame)| frame.len() == 1514);
    let full = full.count() as u64;
    assert!(full > 200 && in_trains > full / 2, "{in_trains} of {full}");
}
