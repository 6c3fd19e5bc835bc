//! `--ip dhcp`: an address from a DHCP server, obtained before the device is opened and renewed
//! while it is used. Before it is used, the link is asked whether another host has it (RFC 2131 §2.2),
//! and told who has it now.
//!
//! The first lease comes through a packet socket, for a host without an address receives nothing:
//! answers are broadcast, which XDP programs of ours leave to the kernel. Renewals are datagrams of
//! the host itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use tautline_base::{Device, Frame, HeapFrame, Instant, Packet, SocketId};
use tautline_rt::packet_device::{Config, PacketDevice, Take};
use tautline_rt::wait::Waiter;
use tautline_rt::{Clock, EventFd, Next, system_seed};
use tautline_stack::dhcp::{
    ANNOUNCE_INTERVAL, Action, CLIENT_PORT, Client, Lease, Lost, MOST_LEN, Message, SERVER_PORT,
    message_in,
};
use tautline_stack::{Event, UdpConfig, UdpRecv, announce};

use crate::args::{OwnAddress, StackArgs};
use crate::failure::Failure;
use crate::held_lease::HeldLease;
use crate::session::SessionHost;

/// Longest wait for the first lease: four messages, or an address that another host has, a pause and
/// another address.
const LEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// Probes for another host with the address, a second each (RFC 5227 §1.1, `PROBE_NUM`).
const PROBES: u8 = 3;

impl StackArgs {
    /// Whether the options ask for a lease that was not obtained.
    pub(crate) fn lacks_lease(&self) -> bool {
        self.held.is_none() && self.ip.contains(&OwnAddress::Dhcp)
    }

    /// Obtains a lease if `--ip dhcp` asks for one.
    ///
    /// # Errors
    /// If the options cannot work, or no server offers an address in time.
    pub fn obtain_lease(&mut self) -> Result<(), Failure> {
        if self.lacks_lease() {
            self.check()?;
            let held = obtain(&self.iface)?;
            let server = held.lease.server;
            eprintln!("{} from the DHCP server {server}", held.lease.cidr());
            self.held = Some(held);
        }
        Ok(())
    }
}

/// Asks the servers on the link of `interface`.
fn obtain(interface: &str) -> Result<HeldLease, Failure> {
    let device = PacketDevice::open(&Config {
        take: heard(None),
        ..Config::new(interface)
    })?;
    let (clock, waiter, event_fd) = (Clock::start(), Waiter::new(), EventFd::new()?);
    let (mac, end) = (device.mac(), clock.now() + LEASE_TIMEOUT);
    let client = Client::new(mac, system_seed()?, clock.now()).probing(PROBES);
    let mut search = Search {
        client,
        device,
        mac,
    };
    let mut probed = None;
    loop {
        let now = clock.now();
        if let Some(lease) = search.advance(now) {
            return Ok(HeldLease {
                lease,
                clock,
                since: search.client.since().unwrap_or(now),
                announced: now,
                mac,
            });
        }
        if probed != search.client.probed() {
            probed = search.client.probed();
            search.device.take(&heard(probed))?;
        }
        if now >= end {
            return Err(Failure::NoLease {
                interface: interface.to_owned(),
                timeout: LEASE_TIMEOUT,
            });
        }
        let until = search.client.deadline().map_or(end, |at| at.min(end));
        let device = &search.device;
        let ready = waiter.wait(&[device.as_fd()], event_fd.as_fd(), Some(until - now))?;
        if ready.failed {
            let why = device.failure().map(|failure| failure.to_string());
            return Err(Failure::Device(why.unwrap_or_default()));
        }
        search.receive(clock.now());
    }
}

/// Packets for a client: broadcast answers of servers, ARP replies to its probes, whose sender has no
/// address yet, and probes of others for the address `probed`.
fn heard(probed: Option<Ipv4Addr>) -> Take {
    let replies = [Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED];
    Take::Addresses(replies.into_iter().chain(probed).map(Into::into).collect())
}

/// A client, and the device with the hardware address `mac` by which it speaks.
struct Search<D> {
    client: Client,
    device: D,
    mac: [u8; 6],
}

impl<D: Device<Frame = HeapFrame>> Search<D> {
    /// Sends what is due. Returns the lease once the client has one.
    fn advance(&mut self, now: Instant) -> Option<Lease> {
        while let Some(action) = self.client.poll(now) {
            match action {
                Action::Send(message) => self.send(&message.to_frame(self.mac), now),
                Action::Bound(lease) => {
                    if let Some(announcement) = self.client.announcement() {
                        self.send(&announcement, now);
                    }
                    return Some(lease);
                }
                // No lease was granted yet that could be lost.
                Action::Lost(_) => {}
            }
        }
        if let Some(probe) = self.client.probe() {
            self.send(&probe, now);
        }
        None
    }

    /// Sends `frame`. A message that the kernel does not take now is repeated by the client's timer.
    fn send(&mut self, frame: &[u8], now: Instant) {
        let device = &mut self.device;
        if device.room() > 0 {
            let mut packet = HeapFrame::with_len(frame.len());
            packet.bytes_mut()[..frame.len()].copy_from_slice(frame);
            device.put(Packet::new(packet, frame.len() as u32), now);
            device.doorbell(now);
            device.reap(now, &mut Vec::new());
        }
    }

    /// Takes what has arrived.
    fn receive(&mut self, now: Instant) {
        while let Some(received) = self.device.receive(now) {
            match message_in(received.bytes(), received.offload) {
                Some(message) => self.client.receive(message, now),
                None => self.client.hear(received.bytes(), now),
            }
            self.device.recycle(received.frame);
        }
    }
}

/// Renews the lease of a running host.
pub(crate) struct Renewal {
    client: Client,
    address: Ipv4Addr,
    socket: Option<SocketId>,
    lost: Option<Lost>,
    /// When the host announces its address, once.
    announce_at: Option<Instant>,
}

impl Renewal {
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn new(held: &HeldLease) -> Result<Self, Failure> {
        let lease = held.lease.clone();
        Ok(Self {
            address: lease.address,
            client: Client::resume(held.mac, system_seed()?, lease, held.since),
            socket: None,
            lost: None,
            announce_at: Some(held.announced + ANNOUNCE_INTERVAL),
        })
    }

    /// The failure of a program whose lease has ended.
    pub(crate) fn lost(&self) -> Option<Failure> {
        let address = self.address;
        self.lost.map(|why| Failure::LeaseLost { address, why })
    }

    /// Whether `event` is about the client's socket.
    pub(crate) fn is_for(&self, event: &Event) -> bool {
        let (Event::Readable(socket) | Event::Writable(socket)) = event else {
            return false;
        };
        self.socket == Some(*socket)
    }

    /// Reads the answers of servers.
    pub(crate) fn receive<F: Frame>(&mut self, host: &mut SessionHost<F>, now: Instant) {
        let Some(socket) = self.socket else {
            return;
        };
        let mut buffer = [0; MOST_LEN];
        loop {
            match host.udp().recv_from(socket, &mut buffer) {
                Ok(UdpRecv::Datagram(datagram)) if datagram.from.port() == SERVER_PORT => {
                    self.client.receive(&buffer[..datagram.len], now);
                }
                // An unreachable server is asked again later.
                Ok(UdpRecv::Datagram(_) | UdpRecv::Failed(_)) => {}
                Ok(UdpRecv::Empty) | Err(_) => break,
            }
        }
    }

    /// Sends what is due. The program, which waits for `next`, ends with the lease.
    pub(crate) fn turn<F: Frame>(
        &mut self,
        host: &mut SessionHost<F>,
        next: Next,
        now: Instant,
    ) -> Next {
        while let Some(action) = self.client.poll(now) {
            match action {
                Action::Send(message) => self.send(host, &message),
                Action::Bound(_) => {}
                Action::Lost(why) => {
                    self.lost = Some(why);
                    return Next::Done;
                }
            }
        }
        if self.announce_at.take_if(|at| *at <= now).is_some() {
            announce(host, self.address, now);
        }
        let deadline = self.client.deadline();
        match (next, deadline.into_iter().chain(self.announce_at).min()) {
            (Next::Event, Some(at)) => Next::At(at),
            (Next::At(deadline), Some(at)) => Next::At(deadline.min(at)),
            (next, _) => next,
        }
    }

    /// A message that cannot be sent now is repeated by the client's timer.
    fn send<F: Frame>(&mut self, host: &mut SessionHost<F>, message: &Message) {
        let config = UdpConfig {
            broadcast: true,
            ..UdpConfig::default()
        };
        let here = SocketAddr::from((Ipv4Addr::UNSPECIFIED, CLIENT_PORT));
        let mut udp = host.udp();
        let socket = match self.socket {
            Some(socket) => socket,
            None => match udp.bind(here, config) {
                Ok(socket) => *self.socket.insert(socket),
                Err(_) => return,
            },
        };
        let to = SocketAddr::from((message.to, SERVER_PORT));
        let _ = udp.send_to(socket, &message.payload, Some(to));
    }
}

#[cfg(test)]
mod tests {
    use tautline_base::Pool;
    use tautline_bql::{Limit, Port, Ring, Unlimited};
    use tautline_qdisc::Stats;
    use tautline_rt::{Cable, cable};
    use tautline_stack::{Cidr, Host, HostConfig, NoTrace};
    use tautline_tc::Tree;
    use tautline_testkit::frame::{ARP, arp, ethernet};
    use tautline_testkit::{Ip, MemoryDevice};

    use super::*;
    use crate::device::{BoxedDevice, Condition, ProgramDevice};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
    const DISCOVER: u8 = 1;
    const OFFER: u8 = 2;
    const REQUEST: u8 = 3;
    const DECLINE: u8 = 4;
    const ACK: u8 = 5;
    /// Offset of a DHCP message in its frame, and of its options (RFC 2131 §2).
    const MESSAGE: usize = 14 + 20 + 8;
    const OPTIONS: usize = 240;

    fn search() -> Search<MemoryDevice> {
        Search {
            client: Client::new(MAC, 1, Instant::ZERO).probing(PROBES),
            device: MemoryDevice::default(),
            mac: MAC,
        }
    }

    /// The frames that the client sends at `now`: the types of its messages, and `None` for ARP.
    fn sent(search: &mut Search<MemoryDevice>, now: Instant) -> (Option<Lease>, Vec<Option<u8>>) {
        let lease = search.advance(now);
        let kind =
            |frame: &Vec<u8>| (frame[12..14] == [8, 0]).then(|| frame[MESSAGE + OPTIONS + 2]);
        let kinds = search.device.sent.iter().map(kind).collect();
        (lease, kinds)
    }

    /// The server's answer of type `kind` to the latest message: `address` for ten minutes.
    fn answer(search: &mut Search<MemoryDevice>, kind: u8, address: Ipv4Addr) {
        let asked = search.device.sent.pop_back().expect("a message");
        search.device.sent.clear();
        let mut message = asked[MESSAGE..][..OPTIONS].to_vec();
        message[0] = 2;
        message[16..20].copy_from_slice(&address.octets());
        message.extend([53, 1, kind, 54, 4]);
        message.extend(SERVER.octets());
        message.extend([51, 4, 0, 0, 2, 88, 1, 4, 255, 255, 255, 0, 255]);
        let len = (8 + message.len()) as u16;
        let udp = [&[0, 67, 0, 68][..], &len.to_be_bytes(), &[0; 2], &message].concat();
        let ip = Ip::new(SERVER, Ipv4Addr::BROADCAST, 17);
        let frame = ip.frame([0xff; 6], OTHER, &udp);
        search.device.arrived.push_back(frame);
        search.receive(Instant::ZERO);
    }

    /// Up to the first probe for `address`.
    fn granted(search: &mut Search<MemoryDevice>, address: Ipv4Addr, now: Instant) {
        assert_eq!(sent(search, now).1, [Some(DISCOVER)]);
        answer(search, OFFER, address);
        assert_eq!(sent(search, now).1, [Some(REQUEST)]);
        answer(search, ACK, address);
        assert_eq!(sent(search, now), (None, vec![None]));
        assert_eq!(search.client.probed(), Some(address));
        search.device.sent.clear();
    }

    #[test]
    fn an_address_that_nobody_has_is_used_after_three_probes() {
        let (mut search, address) = (search(), Ipv4Addr::new(10, 7, 0, 5));
        granted(&mut search, address, Instant::ZERO);
        for second in 1..3 {
            assert_eq!(
                sent(&mut search, Instant::from_secs(second)),
                (None, vec![None])
            );
            search.device.sent.clear();
        }
        let (lease, _) = sent(&mut search, Instant::from_secs(3));
        assert_eq!(lease.map(|lease| lease.address), Some(address));
        let message = arp(1, (MAC, address), ([0; 6], address));
        let announcement = ethernet([0xff; 6], MAC, ARP, &message);
        assert_eq!(search.device.sent, [announcement]);
    }

    #[test]
    fn an_address_that_another_host_has_is_declined_and_another_one_asked_for() {
        let [taken, free] = [5, 6].map(|last| Ipv4Addr::new(10, 7, 0, last));
        let reply = arp(2, (OTHER, taken), (MAC, Ipv4Addr::UNSPECIFIED));
        let probe = arp(1, (OTHER, Ipv4Addr::UNSPECIFIED), ([0; 6], taken));
        for contradiction in [reply, probe] {
            let mut search = search();
            granted(&mut search, taken, Instant::ZERO);
            let frame = ethernet(MAC, OTHER, ARP, &contradiction);
            search.device.arrived.push_back(frame);
            search.receive(Instant::ZERO);
            assert_eq!(
                sent(&mut search, Instant::ZERO),
                (None, vec![Some(DECLINE)])
            );
            search.device.sent.clear();
            assert_eq!(sent(&mut search, Instant::from_secs(9)), (None, vec![]));
            granted(&mut search, free, Instant::from_secs(10));
        }
    }

    impl ProgramDevice for Cable {
        fn failure(&mut self) -> Option<String> {
            None
        }

        fn condition(&self) -> Condition {
            Condition::default()
        }
    }

    /// RFC 5227 §2.3: `ANNOUNCE_NUM` is 2, and the second does not delay the program.
    #[test]
    fn a_new_address_is_announced_again_two_seconds_later() {
        let address = Ipv4Addr::new(10, 7, 0, 5);
        let [device, mut link] = cable().expect("descriptors");
        let qdisc: Tree = "pfifo".parse().expect("words of tc");
        let qdisc = Stats::new(qdisc.build().expect("defaults"));
        let limit: Box<dyn Limit> = Box::new(Unlimited::default());
        let device: BoxedDevice<HeapFrame> = Box::new(device);
        let config = HostConfig::new(MAC, 1).address(Cidr::new(address, 24));
        let port = Port::new(qdisc, Ring::new(device, limit));
        let mut host = Host::new(config, port, Pool::heap(8, None), NoTrace);
        let mut search = search();
        granted(&mut search, address, Instant::ZERO);
        let leases = (1..=3).map(|second| sent(&mut search, Instant::from_secs(second)).0);
        let held = HeldLease {
            lease: leases.last().flatten().expect("three probes"),
            clock: Clock::start(),
            since: Instant::ZERO,
            announced: Instant::from_secs(3),
            mac: MAC,
        };
        let mut renewal = Renewal::new(&held).expect("random numbers");
        let mut turn = |second| {
            let now = Instant::from_secs(second);
            let next = renewal.turn(&mut host, Next::Event, now);
            let _wake = host.poll(now);
            let received = link.receive(now);
            (next, received.map(|received| received.bytes().to_vec()))
        };
        let (next, nothing) = turn(3);
        assert_eq!((next, nothing), (Next::At(Instant::from_secs(5)), None));
        let message = arp(1, (MAC, address), ([0; 6], address));
        let announcement = ethernet([0xff; 6], MAC, ARP, &message);
        let renewal = Next::At(Instant::from_secs(300));
        assert_eq!(turn(5), (renewal, Some(announcement)));
        assert_eq!(turn(9), (renewal, None));
    }

    /// The filter of the socket lets both contradictions through.
    #[test]
    fn replies_to_probes_and_probes_of_others_are_heard() {
        let address = Ipv4Addr::new(10, 7, 0, 5);
        let addresses = [Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED, address].map(Into::into);
        assert_eq!(heard(Some(address)), Take::Addresses(addresses.to_vec()));
    }
}
