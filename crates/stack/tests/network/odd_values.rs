//! Values of the configuration outside an option's range neither panic nor stop a transfer.

use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_stack::TcpConfig;

use crate::connect_to;
use crate::pair::{PORT, Pair, address};

fn arrives(config: &TcpConfig) {
    let mut pair = Pair::new(7);
    pair.hosts[1].listen(PORT, config.clone()).expect("free");
    let (client, server) = connect_to(&mut pair, address(1), config.clone());
    let received = pair.transfer(0, client, server, &[1; 5000], Duration::from_secs(5));
    assert_eq!(received.len(), 5000);
}

#[test]
fn segments_have_88_bytes_at_least() {
    for max_segment in [Some(0), Some(1), Some(12), Some(87), Some(u16::MAX)] {
        arrives(&TcpConfig {
            max_segment,
            ..TcpConfig::default()
        });
    }
}

#[test]
fn a_pacing_rate_of_zero_is_none() {
    arrives(&TcpConfig {
        max_pacing_rate: Some(Rate::ZERO),
        ..TcpConfig::default()
    });
}

#[test]
fn buffers_without_a_bound_are_as_large_as_windows() {
    arrives(&TcpConfig {
        send_buffer: Bytes::MAX,
        send_start: Some(Bytes::MAX),
        notsent_lowat: Some(Bytes::MAX),
        receive_buffer: Bytes::MAX,
        receive_start: Bytes::MAX,
        ..TcpConfig::default()
    });
}

#[test]
fn parts_of_linux_tcp_take_any_value() {
    for tick in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        for charge in [0, 1, 50, 100, 255] {
            for buffer in [1, 1000, 100_000] {
                for delay in [Duration::ZERO, Duration::from_millis(40), Duration::MAX] {
                    arrives(&TcpConfig {
                        delayed_ack: delay,
                        delayed_ack_max: delay,
                        timer_tick: tick,
                        quick_acks_from_data: true,
                        acks_follow_reads: true,
                        receive_charge: charge,
                        send_whole_segments: true,
                        send_buffer: Bytes::new(buffer),
                        size_on_read: true,
                        ..TcpConfig::default()
                    });
                }
            }
        }
    }
}
