//! A send buffer that follows the congestion window stays small on a slow path, grows on a fast
//! one, and slows neither by more than a thirtieth; a bound on what is unsent keeps the
//! application's data its own until shortly before it leaves.

use std::time::Duration;

use crate::common::{ms, path, run, run_watched, sender_info};
use tautline_base::Bytes;
use tautline_cc::Algorithm;
use tautline_sim::{Outcome, Transfer};
use tautline_stack::TcpConfig;

fn transfer(mbit: u64, rtt: Duration, bytes: u64, sender: TcpConfig) -> Outcome {
    run(&Transfer {
        bytes,
        links: path(mbit, rtt),
        sender,
        ..Transfer::default()
    })
}

/// As it is from the beginning, and as it follows the window.
fn both(mbit: u64, rtt: Duration, bytes: u64, congestion: Algorithm) -> [Outcome; 2] {
    [None, Some(TcpConfig::LINUX_SEND_START)].map(|send_start| {
        let congestion = congestion.factory();
        transfer(
            mbit,
            rtt,
            bytes,
            TcpConfig {
                send_start,
                congestion,
                ..TcpConfig::default()
            },
        )
    })
}

#[test]
fn the_buffer_follows_the_window() {
    for congestion in [Algorithm::Cubic, Algorithm::Bbr] {
        let slow = both(2, ms(20), 1 << 20, congestion);
        let fast = both(200, ms(60), 32 << 20, congestion);
        for (name, [whole, follows]) in [("slow", &slow), ("fast", &fast)] {
            println!(
                "{congestion} {name}: {:?} {:?}, {}",
                whole.duration, follows.duration, follows.sender.send_buffer
            );
            assert_eq!(whole.sender.send_buffer, Bytes::mib(4));
            assert!(
                follows.duration <= whole.duration + whole.duration / 30,
                "{congestion} {name}: it slows little"
            );
        }
        let [slow, fast] = [slow, fast].map(|[_, follows]| follows.sender.send_buffer);
        assert!(
            slow <= Bytes::kib(256),
            "{congestion}: {slow} for 5 kB in flight"
        );
        assert!(
            slow >= Bytes::new(87_040),
            "{congestion}: {slow}: ten segments twice"
        );
        assert!(
            fast >= Bytes::mib(3),
            "{congestion}: {fast} for 1.5 MB in flight"
        );
    }
}

#[test]
fn what_is_unsent_stays_below_its_bound() {
    let unsent = |notsent_lowat| {
        let sender = TcpConfig {
            notsent_lowat,
            ..TcpConfig::default()
        };
        let transfer = Transfer {
            bytes: 8 << 20,
            links: path(50, ms(20)),
            sender,
            ..Transfer::default()
        };
        let mut most = Bytes::ZERO;
        let outcome = run_watched(&transfer, |network| {
            if let Some(info) = sender_info(network) {
                most = most.max(info.unsent);
            }
        });
        (most, outcome.duration)
    };
    let (free, bounded) = (unsent(None), unsent(Some(Bytes::kib(16))));
    println!("{free:?} {bounded:?}");
    assert!(free.0 > Bytes::mib(3), "{free:?}");
    assert!(bounded.0 <= Bytes::kib(16), "{bounded:?}");
    assert!(
        bounded.1 <= free.1 + free.1 / 100,
        "{bounded:?}: it slows nothing"
    );
}
