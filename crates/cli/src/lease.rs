//! `--ip dhcp`: an address from a DHCP server, obtained before the device is opened and renewed
//! while it is used.
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
    Action, CLIENT_PORT, Client, Lost, MOST_LEN, Message, SERVER_PORT, message_in,
};
use tautline_stack::{Event, UdpConfig, UdpRecv};

use crate::args::{OwnAddress, StackArgs};
use crate::failure::Failure;
use crate::held_lease::HeldLease;
use crate::session::SessionHost;

/// Longest wait for the first lease: four messages.
const LEASE_TIMEOUT: Duration = Duration::from_secs(30);

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
    let mut device = PacketDevice::open(&Config {
        take: Take::Addresses(vec![Ipv4Addr::BROADCAST.into()]),
        ..Config::new(interface)
    })?;
    let (clock, waiter, event_fd) = (Clock::start(), Waiter::new(), EventFd::new()?);
    let (mac, end) = (device.mac(), clock.now() + LEASE_TIMEOUT);
    let mut client = Client::new(mac, system_seed()?, clock.now());
    let mut done = Vec::new();
    loop {
        let now = clock.now();
        while let Some(action) = client.poll(now) {
            match action {
                Action::Send(message) => {
                    send(&mut device, &message.to_frame(mac), now);
                    device.reap(now, &mut done);
                    done.clear();
                }
                Action::Bound(lease) => {
                    return Ok(HeldLease {
                        lease,
                        clock,
                        since: client.since().unwrap_or(now),
                        mac,
                    });
                }
                // No lease was granted yet that could be lost.
                Action::Lost(_) => {}
            }
        }
        if now >= end {
            return Err(Failure::NoLease {
                interface: interface.to_owned(),
                timeout: LEASE_TIMEOUT,
            });
        }
        let until = client.deadline().map_or(end, |at| at.min(end));
        let ready = waiter.wait(&[device.as_fd()], event_fd.as_fd(), Some(until - now))?;
        if ready.failed {
            let why = device.failure().map(|failure| failure.to_string());
            return Err(Failure::Device(why.unwrap_or_default()));
        }
        while let Some(received) = device.receive(clock.now()) {
            if let Some(message) = message_in(received.bytes(), received.offload) {
                client.receive(message, clock.now());
            }
            device.recycle(received.frame);
        }
    }
}

/// Sends `frame`. One that the kernel does not take now is repeated by the client's timer.
fn send(device: &mut PacketDevice, frame: &[u8], now: Instant) {
    if device.room() > 0 {
        let mut packet = HeapFrame::with_len(frame.len());
        packet.bytes_mut()[..frame.len()].copy_from_slice(frame);
        device.put(Packet::new(packet, frame.len() as u32), now);
        device.doorbell(now);
    }
}

/// Renews the lease of a running host.
pub(crate) struct Renewal {
    client: Client,
    address: Ipv4Addr,
    socket: Option<SocketId>,
    lost: Option<Lost>,
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
        match (next, self.client.deadline()) {
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
