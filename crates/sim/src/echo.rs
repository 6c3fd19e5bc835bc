//! [`Echoes`]: ICMP echo messages beside the load, and how long each took through a link.
//!
//! A request put on the link of the load measures one way of it. A request put on the link back is answered by the host of the load, so
//! that its reply measures that host's own discipline and ring; the way there is idle and counts as part of it.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use tautline_base::Instant;
use tautline_stack::PacketEvent;

use crate::link::{LinkEvent, LinkWhat};
use crate::record::Record;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const ICMP: u8 = 1;
/// Data of a `ping`.
const DATA: usize = 56;

/// An echo request between two hosts.
#[derive(Clone, Copy, Debug)]
pub struct EchoRequest {
    /// Hardware addresses: whose, to whom.
    pub macs: [[u8; 6]; 2],
    /// Addresses: whose, to whom.
    pub addresses: [Ipv4Addr; 2],
    /// TOS byte.
    pub tos: u8,
}

impl EchoRequest {
    /// The frame of request number `number`.
    pub fn frame(&self, number: u16) -> Vec<u8> {
        let mut icmp = vec![8, 0, 0, 0, 0x74, 0x6c];
        icmp.extend(number.to_be_bytes());
        icmp.resize(8 + DATA, 0);
        let sum = checksum(&icmp);
        icmp[2..4].copy_from_slice(&sum);
        let total = ((IPV4 + icmp.len()) as u16).to_be_bytes();
        let mut header = vec![0x45, self.tos, total[0], total[1], 0, 0, 0x40, 0, 64, ICMP, 0, 0];
        header.extend(self.addresses.iter().flat_map(Ipv4Addr::octets));
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum);
        let [source, destination] = self.macs;
        [&destination[..], &source, &[0x08, 0x00], &header, &icmp].concat()
    }
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// The number of an echo request or reply.
fn number(frame: &[u8]) -> Option<u16> {
    let icmp = frame.get(12..ETHERNET) == Some(&[0x08, 0x00]) && frame.get(ETHERNET + 9) == Some(&ICMP);
    let number = frame.get(ETHERNET + IPV4 + 6..ETHERNET + IPV4 + 8).filter(|_| icmp)?;
    Some(u16::from_be_bytes([number[0], number[1]]))
}

/// How long each echo message took from when its request was put anywhere until it arrived over link 0.
#[derive(Clone, Debug, Default)]
pub struct Echoes {
    sent: HashMap<u16, Instant>,
    delays: Vec<Duration>,
}

impl Echoes {
    /// One delay for each message that has arrived, in that order.
    pub fn delays(&self) -> &[Duration] {
        &self.delays
    }
}

impl Record for Echoes {
    fn on_host(&mut self, _host: usize, _event: &PacketEvent, _frame: &[u8]) {}

    fn on_link(&mut self, link: usize, event: &LinkEvent, frame: &[u8]) {
        match event.what {
            LinkWhat::Entered => {
                if let Some(number) = number(frame) {
                    self.sent.entry(number).or_insert(event.at);
                }
            }
            LinkWhat::Arrived if link == 0 => {
                let sent = number(frame).and_then(|number| self.sent.get(&number));
                self.delays.extend(sent.map(|sent| event.at - *sent));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_right_checksums_and_its_number_is_found_again() {
        let addresses = [Ipv4Addr::new(10, 7, 0, 2), Ipv4Addr::new(10, 7, 0, 1)];
        let request = EchoRequest { macs: [[2; 6], [4; 6]], addresses, tos: 0x90 };
        let frame = request.frame(513);
        assert_eq!((frame.len(), number(&frame)), (98, Some(513)));
        assert_eq!((&frame[..6], frame[15]), (&[4; 6][..], 0x90));
        assert_eq!([checksum(&frame[14..34]), checksum(&frame[34..])], [[0, 0]; 2], "a right sum over all is zero");
    }

    #[test]
    fn the_first_entry_and_the_arrival_over_link_0_count() {
        let addresses = [Ipv4Addr::new(10, 7, 0, 2), Ipv4Addr::new(10, 7, 0, 1)];
        let frame = EchoRequest { macs: [[2; 6], [4; 6]], addresses, tos: 0 }.frame(7);
        let mut echoes = Echoes::default();
        let tell = |echoes: &mut Echoes, link, micros, what| {
            echoes.on_link(link, &LinkEvent { at: Instant::from_micros(micros), what }, &frame);
        };
        tell(&mut echoes, 1, 10, LinkWhat::Entered);
        tell(&mut echoes, 1, 20, LinkWhat::Arrived);
        tell(&mut echoes, 0, 30, LinkWhat::Entered);
        tell(&mut echoes, 0, 45, LinkWhat::Arrived);
        assert_eq!(echoes.delays(), [Duration::from_micros(35)]);
    }
}
