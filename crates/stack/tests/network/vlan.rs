//! VLAN tags (IEEE 802.1Q).

use std::time::Duration;

use tautline_stack::{HostConfig, TcpConfig};

use crate::connect_to;
use crate::pair::{PORT, Pair, address, address_v6};

#[test]
fn hosts_of_one_vlan_tag_every_frame_and_hear_each_other() {
    let mut pair = Pair::configured(7, |config| HostConfig {
        vlan: Some(42),
        ..config
    });
    pair.filter = Box::new(|_, frame| {
        assert_eq!(frame[12..16], [0x81, 0, 0, 42], "every frame has the tag");
        true
    });
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    let data = vec![7; 100_000];
    let (client, server) = connect_to(&mut pair, address(1), TcpConfig::default());
    assert!(pair.transfer(0, client, server, &data, Duration::from_secs(10)) == data);
    let (client, server) = connect_to(&mut pair, address_v6(1), TcpConfig::default());
    assert!(pair.transfer(0, client, server, &data, Duration::from_secs(10)) == data);
}

#[test]
fn hosts_of_two_vlans_do_not_hear_each_other() {
    let mut pair = Pair::configured(7, |config| HostConfig {
        vlan: (config.mac[5] == 1).then_some(42),
        ..config
    });
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    pair.connect(TcpConfig::default());
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.hosts[1].socket_count(), 1, "the listener alone");
    assert!(pair.hosts[1].stats().not_for_us >= 3);
}
