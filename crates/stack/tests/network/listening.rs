//! Listeners of one address, of one family, and of all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tautline_base::SocketId;
use tautline_stack::{Event, ListenError, SynCookies, TcpConfig};

use crate::pair::{PORT, Pair, address, address_v6};

/// Connects to `to`; which listener of side 1 was told.
fn taken_by(pair: &mut Pair, to: impl Into<IpAddr>) -> Option<SocketId> {
    let before = pair.events[1].len();
    pair.hosts[0]
        .connect(
            SocketAddr::new(to.into(), PORT),
            TcpConfig::default(),
            pair.now,
        )
        .expect("the address is good");
    pair.run_for(Duration::from_millis(40));
    pair.events[1][before..]
        .iter()
        .find_map(|event| match event {
            Event::Accepted { listener, .. } => Some(*listener),
            _ => None,
        })
}

#[test]
fn the_address_comes_before_the_family_and_that_before_the_port() {
    for syn_cookies in [SynCookies::Never, SynCookies::Always] {
        let mut pair = Pair::new(7);
        let config = TcpConfig {
            syn_cookies,
            ..TcpConfig::default()
        };
        let mut listen = |address: IpAddr| {
            pair.hosts[1]
                .listen((address, PORT), config.clone())
                .expect("free")
        };
        let all = listen(Ipv6Addr::UNSPECIFIED.into());
        let family = listen(Ipv4Addr::UNSPECIFIED.into());
        let exact = listen(address(1).into());
        let exact_v6 = listen(address_v6(1).into());
        assert_eq!(taken_by(&mut pair, address(1)), Some(exact));
        assert_eq!(taken_by(&mut pair, address_v6(1)), Some(exact_v6));
        let mut without = |listener, to: IpAddr| {
            pair.hosts[1].close(listener, pair.now);
            taken_by(&mut pair, to)
        };
        assert_eq!(without(exact, address(1).into()), Some(family));
        assert_eq!(without(exact_v6, address_v6(1).into()), Some(all));
        assert_eq!(without(family, address(1).into()), Some(all));
        assert_eq!(without(all, address(1).into()), None);
    }
}

#[test]
fn a_listener_of_one_address_does_not_serve_the_others() {
    let mut pair = Pair::new(7);
    let only = pair.hosts[1]
        .listen((address(1), PORT), TcpConfig::default())
        .expect("free");
    assert_eq!(taken_by(&mut pair, address_v6(1)), None);
    assert_eq!(taken_by(&mut pair, address(1)), Some(only));
}

#[test]
fn what_cannot_be_listened_on_is_said() {
    let mut pair = Pair::new(7);
    let mut listen =
        |address: IpAddr, port| pair.hosts[1].listen((address, port), TcpConfig::default());
    assert_eq!(
        listen(address(0).into(), PORT),
        Err(ListenError::NotOurs(address(0).into()))
    );
    assert_eq!(listen(address(1).into(), 0), Err(ListenError::PortZero));
    listen(address(1).into(), PORT).expect("free");
    // The same in the socket API's other words.
    let mapped = address(1).to_ipv6_mapped();
    assert_eq!(listen(mapped.into(), PORT), Err(ListenError::InUse(PORT)));
    pair.hosts[1]
        .listen(PORT, TcpConfig::default())
        .expect("the other addresses are free");
    assert_eq!(
        pair.hosts[1].listen(PORT, TcpConfig::default()),
        Err(ListenError::InUse(PORT))
    );
}
