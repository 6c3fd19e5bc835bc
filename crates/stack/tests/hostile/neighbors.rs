//! Forged neighbor discovery (RFC 4861 §7, RFC 3756).

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tautline_stack::{Event, SendError, TcpConfig, UdpConfig};
use tautline_testkit::Ip;

use crate::pair::{PORT, Pair, address_v6};
use crate::peer::HOST;

const PEER: usize = 1 - HOST;
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1 + PEER as u8];
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1 + HOST as u8];
const THIEF: [u8; 6] = [2, 0, 0, 0, 0, 66];
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Flags of an advertisement: it was asked for; it overrides.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A message of neighbor discovery.
#[derive(Clone)]
struct Message {
    to_mac: [u8; 6],
    from: Ipv6Addr,
    to: Ipv6Addr,
    hop_limit: u8,
    kind: u8,
    code: u8,
    flags: u8,
    target: Ipv6Addr,
    options: Vec<u8>,
}

impl Message {
    fn frame(&self) -> Vec<u8> {
        let icmp = [
            &[self.kind, self.code, 0, 0, self.flags, 0, 0, 0][..],
            &self.target.octets(),
            &self.options,
        ]
        .concat();
        let ip = Ip {
            hop_limit: self.hop_limit,
            ..Ip::new(self.from, self.to, 58)
        };
        ip.frame(self.to_mac, THIEF, &icmp)
    }
}

/// An advertisement that the peer's address is at the thief's.
fn theft(flags: u8) -> Message {
    Message {
        to_mac: HOST_MAC,
        from: address_v6(PEER),
        to: address_v6(HOST),
        hop_limit: 255,
        kind: ADVERTISEMENT,
        code: 0,
        flags,
        target: address_v6(PEER),
        options: [&[2, 1][..], &THIEF].concat(),
    }
}

/// A question for the host's address.
fn question() -> Message {
    let target = address_v6(HOST);
    Message {
        kind: SOLICITATION,
        flags: 0,
        target,
        options: [&[1, 1][..], &THIEF].concat(),
        ..theft(0)
    }
}

/// A pair with everything that side HOST sent.
fn watched() -> (Pair, Rc<RefCell<Vec<Vec<u8>>>>) {
    let mut pair = Pair::new(3);
    let sent: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let keep = sent.clone();
    pair.filter = Box::new(move |side, frame| {
        if side == HOST {
            keep.borrow_mut().push(frame.to_vec());
        }
        true
    });
    (pair, sent)
}

/// The host's answers.
fn answers(message: &Message) -> Vec<Vec<u8>> {
    let (mut pair, sent) = watched();
    pair.inject(HOST, &message.frame());
    pair.run_for(Duration::from_millis(1));
    sent.take()
}

/// RFC 4861 §7.2.5: an answer from the same hardware address shows that the neighbor is there, although
/// it overrides no other entry, as those of proxies do not (§7.2.8).
#[test]
fn an_answer_that_overrides_nothing_confirms_what_is_known() {
    let (mut pair, sent) = watched();
    pair.mangle = Box::new(|side, frame| {
        if side == PEER
            && frame[12..14] == [0x86, 0xdd]
            && frame[20] == 58
            && frame[54] == ADVERTISEMENT
        {
            frame[58] &= !OVERRIDE;
            // The checksum grows by what the message has lost.
            let sum = u16::from_be_bytes([frame[56], frame[57]]);
            let (sum, carries) = sum.overflowing_add(u16::from(OVERRIDE) << 8);
            frame[56..58].copy_from_slice(&(sum + u16::from(carries)).to_be_bytes());
        }
    });
    let local = SocketAddr::new(address_v6(HOST).into(), 9);
    let remote = SocketAddr::new(address_v6(PEER).into(), 9);
    let socket = pair.hosts[HOST].udp().bind(local, UdpConfig::default());
    let socket = socket.expect("the port is free");
    for _ in 0..200 {
        let taken = pair.hosts[HOST]
            .udp()
            .send_to(socket, b"data", Some(remote));
        assert!(!matches!(taken, Err(SendError::Full)));
        pair.run_for(Duration::from_secs(1));
    }
    let is_question = |frame: &Vec<u8>| frame[20] == 58 && frame[54] == SOLICITATION;
    let questions = sent.take().into_iter().filter(is_question).count();
    // After the first, one every 15 to 45 s, as long as an answer is trusted.
    assert!((5..=14).contains(&questions), "{questions} in 200 s");
}

#[test]
fn a_trusted_neighbor_is_not_stolen_by_an_unsolicited_answer() {
    for flags in [0, SOLICITED, OVERRIDE, SOLICITED | OVERRIDE] {
        let (mut pair, sent) = watched();
        pair.hosts[PEER]
            .listen(PORT, TcpConfig::default())
            .expect("the port is free");
        let remote = SocketAddr::new(address_v6(PEER).into(), PORT);
        let socket = pair.hosts[HOST]
            .connect(remote, TcpConfig::default(), pair.now)
            .expect("the address is good");
        pair.run_for(Duration::from_millis(50));
        assert!(pair.events[HOST].contains(&Event::Connected(socket)));
        sent.take();
        for _ in 0..10 {
            pair.inject(HOST, &theft(flags).frame());
            pair.hosts[HOST].send(socket, b"private").expect("open");
            pair.run_for(Duration::from_millis(30));
        }
        assert!(sent.borrow().len() > 10);
        assert!(
            sent.take().iter().all(|frame| frame[..6] != THIEF),
            "{flags:#x}"
        );
    }
}

#[test]
fn a_solicitation_is_answered_to_its_sender_and_the_answer_is_whole() {
    let [answer] = &answers(&question())[..] else {
        panic!("one answer")
    };
    assert_eq!((&answer[..6], &answer[6..12]), (&THIEF[..], &HOST_MAC[..]));
    assert_eq!(
        (answer[21], answer[54], answer[58]),
        (255, ADVERTISEMENT, SOLICITED | OVERRIDE)
    );
    assert_eq!(answer[62..78], address_v6(HOST).octets());
    assert_eq!(answer[78..86], [2, 1, 2, 0, 0, 0, 0, 1 + HOST as u8]);
}

#[test]
fn a_question_for_the_group_is_heard() {
    let group = "ff02::1:ff00:2".parse().expect("an address");
    let asked = Message {
        to: group,
        to_mac: [0x33, 0x33, 0xff, 0, 0, 2],
        ..question()
    };
    assert_eq!(answers(&asked).len(), 1);
}

/// RFC 4862 §5.4.3: somebody tests whether our address is free.
#[test]
fn who_would_take_our_address_is_told_before_all() {
    let group = "ff02::1:ff00:2".parse().expect("an address");
    let test = Message {
        from: Ipv6Addr::UNSPECIFIED,
        to: group,
        to_mac: [0x33, 0x33, 0xff, 0, 0, 2],
        options: Vec::new(),
        ..question()
    };
    let [answer] = &answers(&test)[..] else {
        panic!("one answer")
    };
    assert_eq!(answer[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(
        (&answer[38..54], answer[58]),
        (
            &"ff02::1".parse::<Ipv6Addr>().expect("an address").octets()[..],
            OVERRIDE
        )
    );
}

#[test]
fn what_breaks_the_rules_is_neither_answered_nor_believed() {
    let unlucky = [
        (
            "through a router",
            Message {
                hop_limit: 254,
                ..question()
            },
        ),
        (
            "another code",
            Message {
                code: 1,
                ..question()
            },
        ),
        (
            "a group as target",
            Message {
                target: "ff02::1".parse().expect("an address"),
                ..question()
            },
        ),
        (
            "somebody else's address",
            Message {
                target: address_v6(PEER),
                ..question()
            },
        ),
        (
            "an option of no length",
            Message {
                options: vec![1, 0, 2, 0, 0, 0, 0, 66],
                ..question()
            },
        ),
        (
            "an option cut short",
            Message {
                options: vec![1, 1, 2, 0],
                ..question()
            },
        ),
        (
            "a group as asker",
            Message {
                from: "ff02::1".parse().expect("an address"),
                ..question()
            },
        ),
        (
            "ourselves as asker",
            Message {
                from: address_v6(HOST),
                ..question()
            },
        ),
        (
            "an asker from elsewhere",
            Message {
                from: "2001:db8::1".parse().expect("an address"),
                ..question()
            },
        ),
        (
            "no asker, with an address",
            Message {
                from: Ipv6Addr::UNSPECIFIED,
                ..question()
            },
        ),
        (
            "IPv4 in disguise",
            Message {
                from: "::ffff:10.7.0.1".parse().expect("an address"),
                ..question()
            },
        ),
        (
            "another frame",
            Message {
                to_mac: [2, 0, 0, 0, 0, 77],
                ..question()
            },
        ),
        (
            "a router's advertisement",
            Message {
                kind: 134,
                ..question()
            },
        ),
        (
            "a redirect",
            Message {
                kind: 137,
                ..question()
            },
        ),
    ];
    for (name, message) in unlucky {
        assert_eq!(answers(&message), Vec::<Vec<u8>>::new(), "{name}");
    }
}

/// The host solicits addresses that nobody has; its table of solicitations is bounded, and a
/// neighbor that is present is still found.
#[test]
fn a_flood_of_neighbors_does_not_hide_the_real_one() {
    let (mut pair, _) = watched();
    for i in 0..5_000u16 {
        let from = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 9, 9, i);
        pair.inject(HOST, &Message { from, ..question() }.frame());
        if i % 64 == 0 {
            pair.run_for(Duration::from_micros(10));
        }
    }
    pair.hosts[PEER]
        .listen(PORT, TcpConfig::default())
        .expect("the port is free");
    let remote = SocketAddr::new(IpAddr::V6(address_v6(PEER)), PORT);
    let socket = pair.hosts[HOST]
        .connect(remote, TcpConfig::default(), pair.now)
        .expect("the address is good");
    pair.run_for(Duration::from_millis(100));
    assert!(
        pair.events[HOST].contains(&Event::Connected(socket)),
        "{:?}",
        pair.events[HOST]
    );
    assert_eq!(PEER_MAC, pair.hosts[PEER].config().mac);
}
