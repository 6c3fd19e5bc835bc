//! Values of the configuration outside an option's range neither panic nor stop a transfer.

use std::time::Duration;

use tautline_base::Rate;
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
