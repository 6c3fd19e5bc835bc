//! `tautline iperf3`: iperf3's protocol, command line and output, over the kernel's sockets or ours.
//!
//! The protocol has no specification; [`protocol`] says what iperf 3.12 sends.

mod client;
mod flow;
mod protocol;
mod report;
mod server;
mod test;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{ArgGroup, Args};

use crate::args::{OptionalStack, seconds};
use crate::check::Unusable;
use crate::failure::Failure;
use crate::net::{TcpOptions, with_net};
use protocol::Params;

const EXAMPLES: &str = "\
Examples:
  tautline iperf3 -s
  tautline iperf3 -c 192.0.2.1 -R -P 4 -J
  tautline iperf3 -c 10.7.0.12 --device packet --iface va --ip 10.7.0.1/24 --cc bbr --qdisc fq
The peer may be any iperf3. Without --iface the sockets are the kernel's. A link of this program named `iperf3` is this command.
-J has iperf3's fields, and end.latency_under_load: the RTT of the sending connections in ms, sampled every 100 ms.";

/// Measures throughput and latency with iperf3's protocol.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("role").required(true)))]
pub(super) struct Iperf3 {
    /// Listens for tests
    #[arg(short, long, group = "role")]
    server: bool,
    /// Tests with the server HOST
    #[arg(short, long, value_name = "HOST", group = "role")]
    client: Option<String>,
    /// Port of the server
    #[arg(short, long, default_value_t = 5201)]
    port: u16,
    /// Local address
    #[arg(short = 'B', value_name = "ADDRESS")]
    local: Option<IpAddr>,
    /// The server ends after one test
    #[arg(short = '1', long)]
    one_off: bool,
    /// Seconds between reports
    #[arg(short, long, default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Unit of rates: k, m, g or t for bits, K, M, G or T for bytes; by default the one that fits
    #[arg(short, long)]
    format: Option<char>,
    /// JSON instead of text
    #[arg(short = 'J', long)]
    json: bool,
    /// IPv4 only
    #[arg(short = '4', long)]
    version4: bool,
    /// IPv6 only
    #[arg(short = '6', long, conflicts_with = "version4")]
    version6: bool,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    over: OptionalStack,
}

/// Parameters of a test.
#[derive(Args, Debug)]
struct Load {
    /// UDP instead of TCP
    #[arg(short, long)]
    udp: bool,
    /// Rate of each stream in bit/s, with K, M or G for powers of 1000; 0 for no limit. UDP: 1M by default
    #[arg(short, long, alias = "bitrate", value_parser = decimal)]
    bandwidth: Option<u64>,
    /// Seconds to send
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time: u64,
    /// Bytes to send instead of a time, with K, M or G for powers of 1024
    #[arg(short = 'n', long, value_parser = binary)]
    bytes: Option<u64>,
    /// Blocks to send instead of a time
    #[arg(short = 'k', long, value_parser = binary, conflicts_with = "bytes")]
    blockcount: Option<u64>,
    /// Bytes of a block, with K, M or G for powers of 1024; UDP: of a datagram, by default what one packet
    /// carries
    #[arg(short, long, value_parser = binary)]
    length: Option<u64>,
    /// Streams at a time
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    parallel: u16,
    /// The server sends
    #[arg(short = 'R', long)]
    reverse: bool,
    /// Both send
    #[arg(long, conflicts_with = "reverse")]
    bidir: bool,
    /// Bytes of the send and of the receive buffer, with K, M or G for powers of 1024
    #[arg(short, long, value_parser = binary)]
    window: Option<u64>,
    /// Congestion controller at both ends
    #[arg(short = 'C', long)]
    congestion: Option<String>,
    /// Largest segment, in bytes of payload
    #[arg(short = 'M', long)]
    set_mss: Option<u16>,
    /// Without Nagle's algorithm
    #[arg(short = 'N', long)]
    no_delay: bool,
    /// Type of service
    #[arg(short = 'S', long, default_value = "0", value_parser = type_of_service)]
    tos: u8,
    /// Seconds at the start that do not count
    #[arg(short = 'O', long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60))]
    omit: u64,
    /// Datagrams are numbered with 64 bits
    #[arg(long)]
    udp_counters_64bit: bool,
}

/// A number with a suffix for powers of 1000.
fn decimal(text: &str) -> Result<u64, String> {
    suffixed(text, 1000)
}

/// A number with a suffix for powers of 1024.
fn binary(text: &str) -> Result<u64, String> {
    suffixed(text, 1024)
}

fn suffixed(text: &str, step: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" => Some(1),
        "m" => Some(2),
        "g" => Some(3),
        "t" => Some(4),
        _ => None,
    };
    let number = digits.parse::<f64>().ok().filter(|number| *number >= 0.0);
    power
        .zip(number)
        .map(|(power, number)| (number * step.pow(power) as f64) as u64)
        .ok_or_else(|| "write a number, with K, M or G".to_owned())
}

/// A byte in decimal, hexadecimal (`0x`) or octal (`0`).
fn type_of_service(text: &str) -> Result<u8, String> {
    let parsed = if let Some(digits) = text.strip_prefix("0x") {
        u8::from_str_radix(digits, 16)
    } else if text.starts_with('0') {
        u8::from_str_radix(text, 8)
    } else {
        text.parse()
    };
    parsed.map_err(|error| error.to_string())
}

impl Iperf3 {
    pub(super) fn run(self) -> Result<(), Failure> {
        let stack = self.over.0.clone();
        let Some(host) = self.client.clone() else {
            return with_net(stack.as_ref(), None, |net| server::serve(net, self));
        };
        let lengths = Params::lengths(self.load.udp);
        let chosen = self.length();
        if let Some(length) = chosen.filter(|length| !lengths.contains(length)) {
            let (least, most) = lengths.into_inner();
            let bounds = format!("it is from {least} to {most} bytes");
            return Err(Unusable::new("length", length, bounds).into());
        }
        let server = self.resolve(&host)?;
        let peer = stack.is_some().then_some(server);
        with_net(stack.as_ref(), peer, move |net| {
            client::run(net, self, host, server)
        })
    }

    /// The length that was asked for; 0 asks for the default.
    fn length(&self) -> Option<u64> {
        self.load.length.filter(|length| *length > 0)
    }

    fn resolve(&self, host: &str) -> Result<SocketAddr, Failure> {
        let fits = |address: &SocketAddr| {
            (address.is_ipv4() || !self.version4) && (address.is_ipv6() || !self.version6)
        };
        let addresses = (host, self.port)
            .to_socket_addrs()
            .map_err(|error| Unusable::new("client", host, error.to_string()))?;
        addresses
            .into_iter()
            .find(fits)
            .ok_or_else(|| Unusable::new("client", host, "it has no such address").into())
    }

    /// The parameters of the test, as the client sends them. `mss` is that of the control connection.
    fn params(&self, mss: u32) -> Params {
        let load = &self.load;
        // A datagram that fits into a packet.
        let len = match self.length() {
            Some(len) => len,
            None if load.udp => u64::from(mss).clamp(16, 65_507),
            None => 128 << 10,
        };
        let is_endless = load.bytes.is_none() && load.blockcount.is_none();
        Params {
            tcp: !load.udp,
            udp: load.udp,
            omit: load.omit,
            time: if is_endless { load.time } else { 0 },
            num: load.bytes.unwrap_or(0),
            blockcount: load.blockcount.unwrap_or(0),
            parallel: load.parallel,
            reverse: load.reverse,
            bidirectional: load.bidir,
            len,
            bandwidth: load
                .bandwidth
                .unwrap_or(if load.udp { 1_000_000 } else { 0 }),
            window: load.window,
            mss: load.set_mss,
            nodelay: load.no_delay,
            tos: load.tos,
            congestion: load.congestion.clone(),
            udp_counters_64bit: load.udp_counters_64bit,
        }
    }

    fn options(&self, params: &Params) -> TcpOptions {
        TcpOptions {
            bind: self.local,
            ..params.options()
        }
    }
}

/// An error with words of ours.
fn failed(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_iperf3s_suffixes() {
        assert_eq!(decimal("1.5M"), Ok(1_500_000));
        assert_eq!(binary("128K"), Ok(128 << 10));
        assert_eq!(decimal("0"), Ok(0));
        for bad in ["", "M", "-1", "1X", "NaN"] {
            assert!(decimal(bad).is_err(), "{bad}");
        }
        assert_eq!(type_of_service("0x10"), Ok(16));
        assert_eq!(type_of_service("020"), Ok(16));
        assert!(type_of_service("256").is_err());
    }
}
