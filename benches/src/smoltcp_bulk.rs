//! The same bulk flow through smoltcp 0.14: both ends in one thread, 1514-byte frames, checksums
//! on, no queueing of any kind.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};

const BUFFER: usize = 1 << 20;
const PORT: u16 = 5001;

type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of a wire made of two queues; emptied frames return to `spare`.
struct Wire {
    incoming: Queue,
    outgoing: Queue,
    spare: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Device for Wire {
    type RxToken<'a> = Incoming<'a>;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let frame = self.incoming.borrow_mut().pop_front()?;
        Some((Incoming(frame, self), Outgoing(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing<'_>> {
        (self.outgoing.borrow().len() < 256).then_some(Outgoing(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

struct Incoming<'a>(Vec<u8>, &'a Wire);

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(&self.0);
        self.1.spare.borrow_mut().push(self.0);
        result
    }
}

struct Outgoing<'a>(&'a Wire);

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = self.0.spare.borrow_mut().pop().unwrap_or_default();
        frame.resize(len, 0);
        let result = f(&mut frame);
        self.0.outgoing.borrow_mut().push_back(frame);
        result
    }
}

/// One interface with one TCP socket.
struct End {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

/// Two smoltcp interfaces, connected.
pub struct SmoltcpBulk {
    ends: [End; 2],
    now: i64,
    chunk: Vec<u8>,
}

impl SmoltcpBulk {
    /// Two interfaces with an established connection.
    pub fn new() -> Self {
        let queues: [Queue; 2] = Default::default();
        let spare = Rc::default();
        let wire = |side: usize| Wire {
            incoming: queues[side].clone(),
            outgoing: queues[1 - side].clone(),
            spare: Rc::clone(&spare),
        };
        let mut ends = [end(0, wire(0)), end(1, wire(1))];
        let [client, server] = &mut ends;
        server
            .sockets
            .get_mut::<tcp::Socket<'_>>(server.handle)
            .listen(PORT)
            .expect("a fresh socket listens");
        let socket = client.sockets.get_mut::<tcp::Socket<'_>>(client.handle);
        socket
            .connect(
                client.interface.context(),
                (Ipv4Address::new(10, 7, 0, 2), PORT),
                40_000,
            )
            .expect("a fresh socket connects");
        let mut bulk = Self {
            ends,
            now: 0,
            chunk: vec![0x5a; 64 << 10],
        };
        bulk.transfer(32 << 20);
        bulk
    }

    /// Moves `bytes` bytes from one application to the other.
    pub fn transfer(&mut self, bytes: u64) {
        let (mut sent, mut received) = (0, 0);
        let mut buffer = [0; 64 << 10];
        while received < bytes {
            self.now += 50;
            let now = Instant::from_micros(self.now);
            let [client, server] = &mut self.ends;
            let socket = client.sockets.get_mut::<tcp::Socket<'_>>(client.handle);
            let want = self.chunk.len().min((bytes - sent) as usize);
            if socket.can_send() {
                sent += socket.send_slice(&self.chunk[..want]).expect("open") as u64;
            }
            client
                .interface
                .poll(now, &mut client.wire, &mut client.sockets);
            server
                .interface
                .poll(now, &mut server.wire, &mut server.sockets);
            let socket = server.sockets.get_mut::<tcp::Socket<'_>>(server.handle);
            while socket.can_recv() {
                received += socket.recv_slice(&mut buffer).expect("open") as u64;
            }
        }
    }
}

impl Default for SmoltcpBulk {
    fn default() -> Self {
        Self::new()
    }
}

fn end(side: u8, mut wire: Wire) -> End {
    let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1 + side]).into());
    let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
    interface.update_ip_addrs(|addresses| {
        let address = Ipv4Address::new(10, 7, 0, 1 + side);
        addresses
            .push(IpCidr::new(address.into(), 24))
            .expect("room for one address");
    });
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    let mut sockets = SocketSet::new(Vec::new());
    let handle = sockets.add(tcp::Socket::new(buffer(), buffer()));
    End {
        wire,
        interface,
        sockets,
        handle,
    }
}
