//! Automatic configuration of IPv6: duplicates, multicast reports, routers, prefixes, lifetimes, and
//! forged messages (RFC 4861 §6.3, RFC 4862, RFC 3810).

#[path = "../pair/mod.rs"]
#[expect(
    dead_code,
    reason = "a module shared by test files, each of which uses a part of it"
)]
mod pair;

mod duplicates;
mod multicast;
mod prefixes;
mod routers;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use tautline_stack::{Autoconfiguration, HostConfig};
use tautline_testkit::Ip;

use crate::pair::Pair;

/// The side under test, and the other one.
const HOST: usize = 0;
const PEER: usize = 1;
const ROUTER: &str = "fe80::1:1";
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
/// All nodes, and their hardware address.
const ALL_NODES: &str = "ff02::1";
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
/// Longer than every test of addresses takes.
const SETTLED: Duration = Duration::from_secs(4);
const HOUR: u32 = 3600;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// Tests addresses and believes routers.
fn automatic(config: HostConfig) -> HostConfig {
    HostConfig {
        autoconfiguration: Autoconfiguration::IPV6,
        ..config
    }
}

/// The same without configured addresses.
fn bare(config: HostConfig) -> HostConfig {
    let automatic = automatic(config);
    HostConfig {
        addresses: Vec::new(),
        ..automatic
    }
}

/// Frames that the host sends, with the time of each.
type Sent = Rc<RefCell<Vec<Vec<u8>>>>;

/// Keeps what the host sends from now on.
fn watch(pair: &mut Pair) -> Sent {
    let sent = Sent::default();
    let keep = sent.clone();
    pair.filter = Box::new(move |side, frame| {
        if side == HOST {
            keep.borrow_mut().push(frame.to_vec());
        }
        true
    });
    sent
}

/// The ICMPv6 messages in `frames` of type `kind`: source, destination, message.
fn messages(frames: &[Vec<u8>], kind: u8) -> Vec<(Ipv6Addr, Ipv6Addr, Vec<u8>)> {
    let address = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).expect("sixteen bytes").into();
    let is_ipv6 = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd];
    let message = |frame: &Vec<u8>| {
        // Hop-by-hop options are eight bytes long.
        let at = if frame[20] == 0 { 62 } else { 54 };
        (
            address(&frame[22..38]),
            address(&frame[38..54]),
            frame[at..].to_vec(),
        )
    };
    let all = frames.iter().filter(is_ipv6).map(message);
    all.filter(|(.., message)| message[0] == kind).collect()
}

/// An advertisement.
#[derive(Clone, Debug)]
struct Advertisement {
    from: Ipv6Addr,
    hop_limit: u8,
    code: u8,
    cur_hop_limit: u8,
    lifetime: u16,
    /// Reachable and retransmission time, in milliseconds.
    times: [u32; 2],
    options: Vec<u8>,
}

impl Advertisement {
    /// From the router, for half an hour.
    fn new() -> Self {
        Self {
            from: v6(ROUTER),
            hop_limit: 255,
            code: 0,
            cur_hop_limit: 64,
            lifetime: 1800,
            times: [0, 0],
            options: Vec::new(),
        }
    }

    /// With a prefix of 64 bits: flags, valid and preferred lifetime.
    fn prefix(self, network: &str, flags: u8, valid: u32, preferred: u32) -> Self {
        let option = [
            &[3, 4, 64, flags][..],
            &valid.to_be_bytes(),
            &preferred.to_be_bytes(),
            &[0; 4],
            &v6(network).octets(),
        ]
        .concat();
        self.option(&option)
    }

    fn option(mut self, option: &[u8]) -> Self {
        self.options.extend(option);
        self
    }

    fn frame(&self) -> Vec<u8> {
        let lifetime = self.lifetime.to_be_bytes();
        let fixed = [
            134,
            self.code,
            0,
            0,
            self.cur_hop_limit,
            0,
            lifetime[0],
            lifetime[1],
        ];
        let times = self.times.map(u32::to_be_bytes).concat();
        let message = [&fixed[..], &times, &self.options].concat();
        let ip = Ip {
            hop_limit: self.hop_limit,
            ..Ip::new(self.from, v6(ALL_NODES), 58)
        };
        ip.frame(ALL_NODES_MAC, ROUTER_MAC, &message)
    }
}

/// Flags of a prefix.
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// The global addresses of the host.
fn global(pair: &Pair) -> Vec<Ipv6Addr> {
    let own = pair.hosts[HOST].configuration().addresses.into_iter();
    own.filter_map(|own| match own.address() {
        IpAddr::V6(own) if !own.is_unicast_link_local() => Some(own),
        _ => None,
    })
    .collect()
}

/// A pair whose host has no address yet but the link-local one, which has passed its test.
fn listening(seed: u64) -> Pair {
    let mut pair = Pair::configured(seed, bare);
    pair.run_for(SETTLED);
    pair
}
