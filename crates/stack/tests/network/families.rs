//! IPv4 and IPv6 at one host.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tautline_stack::{ConnectError, TcpConfig};

use crate::frames::{is_ipv6, payload_len};
use crate::pair::{PORT, Pair, address, address_v6};
use crate::{connect_to, data};

/// A pair whose side 1 listens.
fn listening() -> Pair {
    let mut pair = Pair::new(7);
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    pair
}

#[test]
fn a_stream_over_ipv6_arrives_through_loss() {
    let mut pair = listening();
    let (client, server) = connect_to(&mut pair, address_v6(1), TcpConfig::default());
    assert_eq!(pair.hosts[1].peer(server), pair.hosts[0].local(client));
    assert_eq!(
        pair.hosts[0].local(client).map(|local| local.ip()),
        Some(address_v6(0).into())
    );
    let mut count = 0;
    pair.filter = Box::new(move |_, _| {
        count += 1;
        count % 29 != 0
    });
    let data = data(400_000);
    assert!(pair.transfer(0, client, server, &data, Duration::from_secs(60)) == data);
    assert!(pair.hosts[0].info(client).expect("open").retransmits > 5);
}

#[test]
fn one_listener_serves_both_families_at_once() {
    let mut pair = listening();
    let families: Rc<RefCell<[usize; 2]>> = Rc::default();
    let keep = families.clone();
    pair.filter = Box::new(move |_, frame| {
        keep.borrow_mut()[usize::from(is_ipv6(frame))] +=
            usize::from(payload_len(frame).unwrap_or(0) > 0);
        true
    });
    let v4 = connect_to(&mut pair, address(1), TcpConfig::default());
    let v6 = connect_to(&mut pair, address_v6(1), TcpConfig::default());
    for (client, server) in [v4, v6] {
        let data = data(50_000);
        assert!(pair.transfer(0, client, server, &data, Duration::from_secs(10)) == data);
        assert!(pair.transfer(1, server, client, &data, Duration::from_secs(10)) == data);
    }
    let [v4, v6] = *families.borrow();
    assert!(v4 > 60 && v6 > 60, "{v4} {v6}");
}

#[test]
fn segments_of_ipv6_are_twenty_bytes_shorter() {
    let mut pair = listening();
    let sizes: Vec<u64> = [IpAddr::V4(address(1)), address_v6(1).into()]
        .into_iter()
        .map(|to| {
            let (client, _) = connect_to(&mut pair, to, TcpConfig::default());
            pair.hosts[0].info(client).expect("open").mss.get()
        })
        .collect();
    assert_eq!(sizes[0], sizes[1] + 20);
}

/// RFC 6437 §3: one label for all of a flow, and others for others.
#[test]
fn a_connection_has_one_flow_label_of_its_own() {
    let labels: Rc<RefCell<Vec<BTreeSet<u32>>>> = Rc::default();
    let mut pair = listening();
    let keep = labels.clone();
    pair.filter = Box::new(move |side, frame| {
        if side == 0 && payload_len(frame).is_some() {
            let label = u32::from_be_bytes([0, frame[15] & 15, frame[16], frame[17]]);
            keep.borrow_mut()
                .last_mut()
                .expect("one per connection")
                .insert(label);
        }
        true
    });
    for _ in 0..4 {
        labels.borrow_mut().push(BTreeSet::new());
        let (client, server) = connect_to(&mut pair, address_v6(1), TcpConfig::default());
        pair.transfer(0, client, server, &data(20_000), Duration::from_secs(10));
    }
    let all: Vec<_> = labels
        .borrow()
        .iter()
        .map(|labels| labels.iter().copied().collect::<Vec<_>>())
        .collect();
    assert!(
        all.iter().all(|labels| labels.len() == 1 && labels[0] != 0),
        "{all:?}"
    );
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 4, "{all:?}");
}

#[test]
fn link_local_addresses_speak_to_each_other() {
    let mut pair = listening();
    // From the hardware address 02:00:00:00:00:02.
    let remote: IpAddr = "fe80::ff:fe00:2".parse().expect("an address");
    let (client, _) = connect_to(&mut pair, remote, TcpConfig::default());
    let local = pair.hosts[0].local(client).expect("open").ip();
    assert_eq!(
        local,
        "fe80::ff:fe00:1".parse::<IpAddr>().expect("an address")
    );
}

#[test]
fn an_ipv4_address_in_ipv6_notation_is_one_of_ipv4() {
    let mut pair = listening();
    let (client, _) = connect_to(&mut pair, address(1).to_ipv6_mapped(), TcpConfig::default());
    assert_eq!(
        pair.hosts[0].peer(client),
        Some(SocketAddr::from((address(1), PORT)))
    );
}

#[test]
fn what_cannot_be_connected_to_is_refused_in_words() {
    let mut pair = Pair::new(7);
    let mut refusal = |remote: &str| {
        let remote: SocketAddr = remote.parse().expect("an address");
        pair.hosts[0]
            .connect(remote, TcpConfig::default(), pair.now)
            .expect_err("it is refused")
    };
    for remote in [
        "[::]:80",
        "[ff02::1]:80",
        "[fd07::1]:80",
        "[::1]:80",
        "[fd07::2]:0",
        "127.0.0.1:80",
        "10.7.0.255:80",
    ] {
        assert_eq!(
            refusal(remote),
            ConnectError::BadAddress(remote.parse().expect("an address"))
        );
    }
    for remote in ["[2001:db8::1]:80", "192.0.2.1:80"] {
        let remote: SocketAddr = remote.parse().expect("an address");
        assert_eq!(
            refusal(&remote.to_string()),
            ConnectError::NoRoute(remote.ip())
        );
    }
}
