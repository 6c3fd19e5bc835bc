//! The client against servers of every kind, in virtual time.

use proptest::prelude::*;
use tautline_base::{Offload, SplitMix64};
use tautline_testkit::frame::{ARP, arp, ethernet};

use super::message::{CLIENT_IDENTIFIER, LEAST_LEN};
use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const HOUR: u32 = 3600;

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

/// A client's message as a server reads it.
#[derive(Debug, PartialEq, Eq)]
struct ReadMessage {
    kind: DhcpMessageType,
    transaction: u32,
    own: Ipv4Addr,
    wanted: Option<Ipv4Addr>,
    server: Option<Ipv4Addr>,
    broadcast: bool,
    seconds: u16,
    to: Ipv4Addr,
}

fn read(message: &Message) -> ReadMessage {
    let packet = DhcpPacket::new_checked(&message.payload[..]).expect("whole");
    let identifier = packet
        .options()
        .find(|option| option.kind == CLIENT_IDENTIFIER)
        .expect("every message has it");
    assert_eq!(identifier.data, [&b"\0tautline"[..], &MAC].concat());
    assert!(message.payload.len() >= LEAST_LEN);
    let request = DhcpRepr::parse(&packet).expect("DHCP");
    assert_eq!(request.client_ip, message.from);
    ReadMessage {
        kind: request.message_type,
        transaction: request.transaction_id,
        own: request.client_ip,
        wanted: request.requested_ip,
        server: request.server_identifier,
        broadcast: request.broadcast,
        seconds: request.secs,
        to: message.to,
    }
}

/// A server's answer, `change`d.
fn answer(
    transaction: u32,
    kind: DhcpMessageType,
    change: impl FnOnce(&mut DhcpRepr<'_>),
) -> Vec<u8> {
    let mut reply = DhcpRepr {
        message_type: kind,
        transaction_id: transaction,
        secs: 0,
        client_hardware_address: EthernetAddress(MAC),
        client_ip: Ipv4Addr::UNSPECIFIED,
        your_ip: OWN,
        server_ip: SERVER,
        router: Some(SERVER),
        subnet_mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
        relay_agent_ip: Ipv4Addr::UNSPECIFIED,
        broadcast: true,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(SERVER),
        parameter_request_list: None,
        dns_servers: Some([SERVER].into_iter().collect()),
        max_size: None,
        lease_duration: Some(HOUR),
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    change(&mut reply);
    let mut payload = vec![0; reply.buffer_len()];
    reply
        .emit(&mut DhcpPacket::new_unchecked(&mut payload[..]))
        .expect("room");
    payload
}

fn sent(client: &mut Client, now: Instant) -> Option<ReadMessage> {
    match client.poll(now) {
        Some(Action::Send(message)) => Some(read(&message)),
        None => None,
        other => panic!("{other:?}"),
    }
}

/// A client that got `OWN` at second 0 for `HOUR`.
fn bound() -> Client {
    let mut client = Client::new(MAC, 1, at(0));
    let discover = sent(&mut client, at(0)).expect("a message");
    client.receive(
        &answer(discover.transaction, DhcpMessageType::Offer, |_| {}),
        at(0),
    );
    let request = sent(&mut client, at(0)).expect("a message");
    client.receive(
        &answer(request.transaction, DhcpMessageType::Ack, |_| {}),
        at(0),
    );
    assert!(matches!(client.poll(at(0)), Some(Action::Bound(_))));
    client
}

/// RFC 2131 §4.4.1: only a request is answered, even if the transaction is guessed.
#[test]
fn an_offer_or_an_acknowledgment_before_its_request_is_ignored() {
    let clients = || Client::new(MAC, 1, at(0));
    let discover = sent(&mut clients(), at(0)).expect("a message");
    let mut client = clients();
    for kind in [DhcpMessageType::Offer, DhcpMessageType::Ack] {
        client.receive(&answer(discover.transaction, kind, |_| {}), at(0));
    }
    let first = sent(&mut client, at(0)).expect("a message");
    assert_eq!(first.kind, DhcpMessageType::Discover);
    for kind in [DhcpMessageType::Offer, DhcpMessageType::Ack] {
        client.receive(&answer(first.transaction, kind, |_| {}), at(0));
    }
    let second = sent(&mut client, at(0)).expect("a message");
    assert_eq!(second.kind, DhcpMessageType::Request);
}

/// RFC 2131 §3.1 step 3: relays decide by the field whether to forward a message.
#[test]
fn a_request_says_the_seconds_of_the_discovery_that_was_answered() {
    let mut client = Client::new(MAC, 1, at(0));
    assert_eq!(sent(&mut client, at(0)).map(|first| first.seconds), Some(0));
    let again = sent(&mut client, at(6)).expect("it is repeated");
    assert_eq!(again.seconds, 6);
    let offer = answer(again.transaction, DhcpMessageType::Offer, |_| {});
    client.receive(&offer, at(8));
    for now in [9, 16] {
        let request = sent(&mut client, at(now)).expect("it has an offer");
        assert_eq!(
            (request.kind, request.seconds),
            (DhcpMessageType::Request, 6)
        );
    }
}

/// RFC 2131 §4.4.1, table 5.
#[test]
fn four_messages_make_a_lease() {
    let mut client = Client::new(MAC, 1, at(0));
    let discover = sent(&mut client, at(0)).expect("a message");
    let (none, all) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
    assert_eq!(
        (discover.kind, discover.own, discover.wanted, discover.to),
        (DhcpMessageType::Discover, none, None, all)
    );
    assert!(discover.broadcast && client.poll(at(0)).is_none());
    client.receive(
        &answer(discover.transaction, DhcpMessageType::Offer, |_| {}),
        at(1),
    );
    let request = sent(&mut client, at(1)).expect("a message");
    let expected = ReadMessage {
        kind: DhcpMessageType::Request,
        transaction: discover.transaction,
        own: none,
        wanted: Some(OWN),
        server: Some(SERVER),
        broadcast: true,
        seconds: 0,
        to: all,
    };
    assert_eq!(request, expected);
    client.receive(
        &answer(request.transaction, DhcpMessageType::Ack, |_| {}),
        at(1),
    );
    let Some(Action::Bound(lease)) = client.poll(at(1)) else {
        panic!("no lease");
    };
    assert_eq!(
        (lease.cidr().to_string(), lease.router, lease.dns.as_slice()),
        ("192.0.2.50/24".to_owned(), Some(SERVER), &[SERVER][..])
    );
    assert_eq!(client.lease(), Some(&lease));
    assert_eq!(client.deadline(), Some(at(1 + 1800)));
    let mut resumed = Client::resume(MAC, 2, lease, at(1));
    let renewal = sent(&mut resumed, at(1 + 1800)).expect("a renewal");
    assert_eq!((renewal.own, renewal.to), (OWN, SERVER));
}

/// RFC 2131 §4.4.1: a lease counts from its request, however late the acknowledgment comes: the server
/// may give the address to another host when it is over.
#[test]
fn a_lease_begins_with_its_request() {
    let mut client = Client::new(MAC, 1, at(0));
    let discover = sent(&mut client, at(0)).expect("a message");
    let answer_to = |transaction, kind| answer(transaction, kind, |_| {});
    client.receive(
        &answer_to(discover.transaction, DhcpMessageType::Offer),
        at(3),
    );
    let request = sent(&mut client, at(10)).expect("a message");
    client.receive(
        &answer_to(request.transaction, DhcpMessageType::Ack),
        at(12),
    );
    assert!(matches!(client.poll(at(12)), Some(Action::Bound(_))));
    let half = 1800;
    assert_eq!(client.deadline(), Some(at(10 + half)));
    // Another client goes on with it from when it began.
    let (lease, since) = (client.lease().cloned(), client.since());
    let again = Client::resume(MAC, 2, lease.expect("bound"), since.expect("bound"));
    assert_eq!(again.deadline(), client.deadline());
    let renewal = sent(&mut client, at(2000)).expect("a renewal");
    assert_eq!(client.since(), Some(at(10)), "it is not renewed yet");
    client.receive(
        &answer_to(renewal.transaction, DhcpMessageType::Ack),
        at(2030),
    );
    assert_eq!(client.deadline(), Some(at(2000 + half)));
}

/// RFC 2131 §4.1: 4, 8, 16, 32, 64 s, each up to a second more or less; then an offer's request four
/// times.
#[test]
fn silence_doubles_the_delay_and_four_requests_are_enough() {
    let mut client = Client::new(MAC, 7, at(0));
    let mut now = at(0);
    let mut last = None;
    for expected in [4, 8, 16, 32, 64, 64] {
        last = sent(&mut client, now);
        assert_eq!(last.as_ref().expect("due").kind, DhcpMessageType::Discover);
        let next = client.deadline().expect("a deadline");
        let delay = (next - now).as_millis() as i64;
        assert!(
            (delay - expected * 1000).abs() <= 1000,
            "{delay} ms, not {expected} s"
        );
        now = next;
    }
    let transaction = last.expect("the last one").transaction;
    client.receive(&answer(transaction, DhcpMessageType::Offer, |_| {}), now);
    for _ in 0..MOST_REQUESTS {
        assert_eq!(
            sent(&mut client, now).expect("due").kind,
            DhcpMessageType::Request
        );
        now = client.deadline().expect("a deadline");
    }
    let again = sent(&mut client, now).expect("due");
    assert_eq!(again.kind, DhcpMessageType::Discover);
    assert_ne!(again.transaction, transaction);
}

/// RFC 2131 §4.4.5: to the server at T1, to all at T2, then silence is the end.
#[test]
fn a_lease_is_renewed_then_rebound_then_lost() {
    let mut client = bound();
    let hour = u64::from(HOUR);
    let mut asked = Vec::new();
    let lost = loop {
        let now = client.deadline().expect("a deadline");
        match client.poll(now) {
            Some(Action::Send(message)) => {
                let request = read(&message);
                assert_eq!((request.wanted, request.server), (None, None));
                assert_eq!((request.own, request.broadcast), (OWN, false));
                asked.push(((now - at(0)).as_secs(), request.to));
            }
            Some(Action::Lost(why)) => break (now, why),
            other => panic!("{other:?}"),
        }
    };
    let all = Ipv4Addr::BROADCAST;
    let expected = [
        (1800, SERVER),
        (2475, SERVER),
        (2812, SERVER),
        (2981, SERVER),
        (3065, SERVER),
        (3125, SERVER),
        (3150, all),
        (3375, all),
        (3487, all),
        (3547, all),
    ];
    assert_eq!(asked, expected);
    assert_eq!(lost, (at(hour), Lost::Expired));
    assert_eq!(client.lease(), None);
    let next = sent(&mut client, at(hour)).expect("it looks for another");
    assert_eq!(next.kind, DhcpMessageType::Discover);
}

#[test]
fn a_renewed_lease_runs_from_the_request_and_is_no_change() {
    let mut client = bound();
    let request = sent(&mut client, at(1800)).expect("a renewal");
    // Only the server that was asked may answer before T2.
    let other = answer(request.transaction, DhcpMessageType::Ack, |reply| {
        reply.server_identifier = Some(Ipv4Addr::new(192, 0, 2, 2));
    });
    client.receive(&other, at(1801));
    assert_eq!(client.deadline(), Some(at(1800 + 675)));
    client.receive(
        &answer(request.transaction, DhcpMessageType::Ack, |_| {}),
        at(1801),
    );
    assert_eq!(
        (client.poll(at(1801)), client.deadline()),
        (None, Some(at(1800 + 1800)))
    );
    // At T2 any server may.
    let request = (1800 + 1800..).find_map(|second| {
        let asked = sent(&mut client, at(second))?;
        asked.to.is_broadcast().then_some((asked, second))
    });
    let (request, second) = request.expect("rebinding");
    let other = answer(request.transaction, DhcpMessageType::Ack, |reply| {
        reply.server_identifier = Some(Ipv4Addr::new(192, 0, 2, 2));
    });
    client.receive(&other, at(second));
    let server = client.lease().map(|lease| lease.server);
    assert_eq!(server, Some(Ipv4Addr::new(192, 0, 2, 2)));
}

#[test]
fn a_refusal_ends_a_lease_and_delays_the_next_attempt() {
    let mut client = bound();
    let request = sent(&mut client, at(1800)).expect("a renewal");
    client.receive(
        &answer(request.transaction, DhcpMessageType::Nak, |_| {}),
        at(1800),
    );
    assert_eq!(client.poll(at(1800)), Some(Action::Lost(Lost::Refused)));
    let discover = sent(&mut client, at(1800)).expect("it looks for another");
    client.receive(
        &answer(discover.transaction, DhcpMessageType::Offer, |_| {}),
        at(1800),
    );
    let request = sent(&mut client, at(1800)).expect("a request");
    client.receive(
        &answer(request.transaction, DhcpMessageType::Nak, |_| {}),
        at(1800),
    );
    assert!(client.deadline() >= Some(at(1803)) && client.poll(at(1800)).is_none());
}

/// A probing client that has been granted `OWN` at second 0.
fn granted(probes: u8) -> Client {
    let mut client = Client::new(MAC, 1, at(0)).probing(probes);
    for kind in [DhcpMessageType::Offer, DhcpMessageType::Ack] {
        let asked = sent(&mut client, at(0)).expect("a message");
        client.receive(&answer(asked.transaction, kind, |_| {}), at(0));
    }
    client
}

/// RFC 2131 §4.4.1, RFC 5227 §2.1.1: each probe is an ARP request from no address, and has a second.
#[test]
fn an_address_is_used_once_no_host_has_answered_a_probe() {
    let mut client = granted(2);
    let message = arp(1, (MAC, Ipv4Addr::UNSPECIFIED), ([0; 6], OWN));
    let probe = ethernet([0xff; 6], MAC, ARP, &message);
    for second in 0..2 {
        assert_eq!(
            (client.poll(at(second)), client.announcement()),
            (None, None)
        );
        assert_eq!(
            (client.probe(), client.probe()),
            (Some(probe.clone()), None)
        );
        assert_eq!(
            (client.lease(), client.deadline()),
            (None, Some(at(second + 1)))
        );
    }
    assert!(matches!(client.poll(at(2)), Some(Action::Bound(lease)) if lease.address == OWN));
    assert_eq!((client.poll(at(2)), client.probe()), (None, None));
    let message = arp(1, (MAC, OWN), ([0; 6], OWN));
    let announcement = ethernet([0xff; 6], MAC, ARP, &message);
    assert_eq!(client.announcement(), Some(announcement));
    // It counts from its request all the same.
    assert_eq!(
        (client.since(), client.deadline()),
        (Some(at(0)), Some(at(1800)))
    );
    client.hear(
        &ethernet(MAC, [2; 6], ARP, &arp(2, ([2; 6], OWN), (MAC, OWN))),
        at(3),
    );
    assert!(client.lease().is_some(), "the test is over");
}

/// RFC 2131 §3.1 step 5, §4.4.4: the server learns that the address is taken, and the client begins again
/// ten seconds later.
#[test]
fn an_address_that_another_host_has_is_declined() {
    let other = [2, 0, 0, 0, 0, 66];
    let (none, stranger) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(192, 0, 2, 51));
    for (message, is_taken) in [
        (arp(2, (other, OWN), (MAC, none)), true),
        (arp(1, (other, OWN), ([0; 6], stranger)), true),
        // It probes, too.
        (arp(1, (other, none), ([0; 6], OWN)), true),
        (arp(1, (MAC, none), ([0; 6], OWN)), false),
        (arp(2, (MAC, OWN), (other, OWN)), false),
        (arp(1, (other, stranger), ([0; 6], OWN)), false),
        (arp(2, (other, stranger), (MAC, none)), false),
        (vec![0; 28], false),
    ] {
        let mut client = granted(1);
        assert_eq!(client.poll(at(0)), None);
        assert!(client.probe().is_some());
        client.hear(&ethernet(MAC, other, ARP, &message), at(0));
        if !is_taken {
            assert!(
                matches!(client.poll(at(1)), Some(Action::Bound(_))),
                "{message:?}"
            );
            continue;
        }
        let declined = sent(&mut client, at(0)).expect("a message");
        let expected = ReadMessage {
            kind: DhcpMessageType::Decline,
            transaction: declined.transaction,
            own: none,
            wanted: Some(OWN),
            server: Some(SERVER),
            broadcast: false,
            seconds: 0,
            to: Ipv4Addr::BROADCAST,
        };
        assert_eq!(declined, expected, "{message:?}");
        assert_eq!(
            (client.poll(at(9)), client.deadline()),
            (None, Some(at(10)))
        );
        let again = sent(&mut client, at(10)).expect("a message");
        assert_eq!(again.kind, DhcpMessageType::Discover);
    }
}

#[test]
fn a_lease_for_ever_is_never_renewed() {
    let mut client = Client::new(MAC, 1, at(0));
    for kind in [DhcpMessageType::Offer, DhcpMessageType::Ack] {
        let asked = sent(&mut client, at(0)).expect("a message");
        let reply = answer(asked.transaction, kind, |reply| {
            reply.lease_duration = Some(u32::MAX);
        });
        client.receive(&reply, at(0));
    }
    assert!(matches!(client.poll(at(0)), Some(Action::Bound(_))));
    assert_eq!((client.deadline(), client.poll(at(1 << 34))), (None, None));
}

/// An offer that no host can use has no effect.
#[test]
fn useless_offers_are_ignored() {
    type Change = fn(&mut DhcpRepr<'_>);
    let useless: [(&str, Change); 13] = [
        ("another transaction", |reply| reply.transaction_id ^= 1),
        ("another client", |reply| {
            reply.client_hardware_address.0[5] ^= 1
        }),
        ("no server", |reply| reply.server_identifier = None),
        ("a server that is all", |reply| {
            reply.server_identifier = Some(Ipv4Addr::BROADCAST)
        }),
        ("no address", |reply| reply.your_ip = Ipv4Addr::UNSPECIFIED),
        ("a loopback address", |reply| {
            reply.your_ip = Ipv4Addr::LOCALHOST
        }),
        ("a group", |reply| {
            reply.your_ip = Ipv4Addr::new(224, 0, 0, 1)
        }),
        ("the network", |reply| {
            reply.your_ip = Ipv4Addr::new(192, 0, 2, 0)
        }),
        ("its broadcast", |reply| {
            reply.your_ip = Ipv4Addr::new(192, 0, 2, 255)
        }),
        ("no mask", |reply| reply.subnet_mask = None),
        ("a mask with holes", |reply| {
            reply.subnet_mask = Some(Ipv4Addr::new(255, 0, 255, 0))
        }),
        ("no duration", |reply| reply.lease_duration = None),
        ("59 s", |reply| reply.lease_duration = Some(59)),
    ];
    for (what, change) in useless {
        let mut client = Client::new(MAC, 1, at(0));
        let asked = sent(&mut client, at(0)).expect("a message");
        client.receive(
            &answer(asked.transaction, DhcpMessageType::Offer, change),
            at(0),
        );
        assert_eq!(client.poll(at(0)), None, "{what}");
    }
    // A router elsewhere is left out, the lease stands; timers out of order are the RFC's.
    let mut client = Client::new(MAC, 1, at(0));
    for kind in [DhcpMessageType::Offer, DhcpMessageType::Ack] {
        let asked = sent(&mut client, at(0)).expect("a message");
        let reply = answer(asked.transaction, kind, |reply| {
            reply.router = Some(Ipv4Addr::new(198, 51, 100, 1));
        });
        client.receive(&reply, at(0));
    }
    assert_eq!(client.lease().and_then(|lease| lease.router), None);
}

#[test]
fn messages_travel_in_frames_before_there_is_an_address() {
    let mut client = Client::new(MAC, 1, at(0));
    let Some(Action::Send(message)) = client.poll(at(0)) else {
        panic!("no message");
    };
    let mut frame = message.to_frame(MAC);
    assert_eq!((&frame[..6], &frame[6..12]), (&[0xff; 6][..], &MAC[..]));
    assert_eq!(
        message_in(&frame, Offload::default()),
        None,
        "not for clients"
    );
    // Ports exchanged, the checksum stays right.
    frame[34..38].copy_from_slice(&[0, 67, 0, 68]);
    assert_eq!(
        message_in(&frame, Offload::default()),
        Some(&message.payload[..])
    );
    *frame.last_mut().expect("not empty") ^= 1;
    assert_eq!(
        message_in(&frame, Offload::default()),
        None,
        "a wrong checksum"
    );
    let unfinished = Offload {
        checksum_known: true,
        ..Offload::default()
    };
    assert!(message_in(&frame, unfinished).is_some());
}

proptest! {
    /// With any messages of servers at any time: no panic, at most a message for each second and answer, and a lease that
    /// ends in time.
    #[test]
    fn any_server(seed: u64, steps in 1..60usize) {
        let mut rng = SplitMix64::new(seed);
        let mut client = Client::new(MAC, seed, at(0)).probing((seed % 3) as u8);
        let (mut now, mut transaction, mut messages, mut answers) = (at(0), 0, 0_u64, 0_u64);
        for _ in 0..steps {
            for _ in 0..4 {
                match client.poll(now) {
                    Some(Action::Send(message)) => {
                        transaction = read(&message).transaction;
                        messages += 1;
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            prop_assert_eq!(client.poll(now), None);
            prop_assert!(client.deadline().is_none_or(|at| at > now));
            let kinds = [DhcpMessageType::Offer, DhcpMessageType::Ack, DhcpMessageType::Nak];
            let kind = kinds[(rng.next_u64() % 3) as usize];
            let mut reply = answer(transaction, kind, |reply| {
                if rng.next_u64().is_multiple_of(3) {
                    reply.lease_duration = Some(rng.next_u64() as u32 >> (rng.next_u64() % 32));
                }
                if rng.next_u64().is_multiple_of(3) {
                    reply.your_ip = Ipv4Addr::from_bits(rng.next_u64() as u32);
                }
            });
            for _ in 0..rng.next_u64() % 3 {
                let place = (rng.next_u64() % reply.len() as u64) as usize;
                reply[place] = rng.next_u64() as u8;
            }
            reply.truncate((rng.next_u64() % 4 * 100) as usize + reply.len() / 2);
            client.receive(&reply, now);
            answers += 1;
            now = now.max(client.deadline().unwrap_or(now).min(now + Duration::from_secs(rng.next_u64() % 4000)));
        }
        let seconds = (now - at(0)).as_secs();
        prop_assert!(messages <= 1 + answers + seconds, "{} messages in {} s", messages, seconds);
    }
}
