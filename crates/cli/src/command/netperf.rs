//! `tautline netperf`: the part of netperf's command line and output that Flent needs. Its server is
//! `tautline netserver`; the two speak a protocol of their own ([`session`]), so neither works with
//! the other's namesake.

mod client;
pub(super) mod server;
mod session;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use crate::args::{OptionalStack, seconds};
use crate::check::Unusable;
use crate::failure::Failure;
use crate::net::with_net;
use session::{PORT, Request, Test};

const EXAMPLES: &str = "\
Examples:
  tautline netserver
  tautline netperf -H 192.0.2.1 -l 10 -D 0.2 -- -k THROUGHPUT,LOCAL_CONG_CONTROL
  tautline netperf -H 192.0.2.1 -t UDP_RR -- -r 1,1
The server is `tautline netserver`, not netperf's own. Options of the test follow `--`: -H and -L (ends of the data), -K (congestion
controller), -m and -M (bytes of a write at the local and the remote end), -r (bytes of request and response), -e (seconds until a
datagram counts as lost), -k (names of results, which are printed as NAME=VALUE), -D (without Nagle's algorithm).
A link of this program named `netperf` is this command, as Flent needs it.";

/// Measures throughput or round trips, with netperf's command line and output.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Netperf {
    /// The server
    #[arg(short = 'H', value_name = "HOST", default_value = "localhost")]
    host: String,
    /// Port of the server
    #[arg(short, default_value_t = PORT)]
    port: u16,
    /// Local address, and a family that is ignored
    #[arg(short = 'L', value_name = "ADDRESS[,FAMILY]")]
    local: Option<String>,
    /// Kind of test
    #[arg(short = 't', value_enum, default_value_t = Test::Stream, ignore_case = true)]
    test: Test,
    /// Seconds, or with a minus the bytes or transactions
    #[arg(short, default_value_t = 10, allow_hyphen_values = true)]
    length: i64,
    /// Seconds between interim results; a minus is ignored
    #[arg(short = 'D', allow_hyphen_values = true, value_name = "SECONDS", value_parser = interim)]
    demo: Option<Duration>,
    /// Type of service at the local and the remote end
    #[arg(short = 'Y', value_name = "LOCAL[,REMOTE]")]
    tos: Option<String>,
    /// Unit of throughput
    #[arg(short, value_enum, default_value_t)]
    format: Unit,
    /// Print a heading: 0 or 1
    #[arg(short = 'P', default_value_t = 1)]
    print: u8,
    /// Accepted and ignored
    #[arg(short, default_value_t = 1)]
    verbosity: u8,
    /// Accepted and ignored: data does not compress
    #[arg(short = 'F', value_name = "FILE")]
    fill: Option<String>,
    /// IPv4 only
    #[arg(short = '4')]
    v4: bool,
    /// IPv6 only
    #[arg(short = '6', conflicts_with = "v4")]
    v6: bool,
    #[command(flatten)]
    over: OptionalStack,
    /// Options of the test
    #[arg(last = true)]
    of_test: Vec<String>,
}

/// Units of throughput.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Unit {
    /// 10^3 bit/s
    K,
    /// 10^6 bit/s
    #[default]
    M,
    /// 10^9 bit/s
    G,
    /// Transactions a second
    X,
}

/// Options of a test.
#[derive(Parser, Clone, Debug)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct OfTest {
    #[arg(short = 'H')]
    host: Option<String>,
    #[arg(short = 'L')]
    local: Option<String>,
    #[arg(short = 'K')]
    congestion: Option<String>,
    #[arg(short = 'm', default_value_t = 16 << 10, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    send_size: u32,
    #[arg(short = 'M', default_value_t = 16 << 10, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    remote_size: u32,
    #[arg(short = 'r', default_value = "1,1")]
    sizes: String,
    #[arg(short = 'e', default_value = "2", value_parser = seconds)]
    timeout: Duration,
    #[arg(short = 'k', value_delimiter = ',')]
    keys: Vec<String>,
    #[arg(short = 'D')]
    nodelay: bool,
    #[arg(short = '4')]
    v4: bool,
    #[arg(short = '6')]
    v6: bool,
}

fn interim(text: &str) -> Result<Duration, String> {
    let time = seconds(text.trim_start_matches('-')).map_err(|error| error.to_string())?;
    Ok(time.max(Duration::from_millis(10)))
}

/// Two numbers; the second is the first if it is absent.
fn pair(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match text.split_once(',') {
        Some((one, other)) => Some((number(one)?, number(other)?)),
        None => Some((number(text)?, number(text)?)),
    }
}

/// A test as the client knows it.
struct Plan {
    request: Request,
    /// Where the data goes.
    data: IpAddr,
    /// Local end of the data.
    local: Option<IpAddr>,
    control: SocketAddr,
    control_local: Option<IpAddr>,
    tos: u8,
    timeout: Duration,
    demo: Option<Duration>,
    unit: Unit,
    /// Time, or the bytes or transactions.
    time: Option<Duration>,
    amount: Option<u64>,
    keys: Vec<String>,
    print_heading: bool,
}

impl Netperf {
    pub(super) fn run(self) -> Result<(), Failure> {
        let stack = self.over.0.clone();
        let plan = self.plan()?;
        let peer = stack.is_some().then_some(plan.control);
        with_net(stack.as_ref(), peer, move |net| client::run(net, plan))
    }

    fn plan(self) -> Result<Plan, Failure> {
        let of_test = OfTest::try_parse_from(&self.of_test).map_err(|error| {
            Unusable::new("--", self.of_test.join(" "), crate::args::one_line(&error))
        })?;
        let numbers = |name, text: &str| {
            pair(text).ok_or_else(|| Unusable::new(name, text, "write one number or two"))
        };
        let (tos, remote_tos) = numbers("Y", self.tos.as_deref().unwrap_or("0"))?;
        let (request, response) = numbers("r", &of_test.sizes)?;
        let control = self.resolve(&self.host)?;
        let data = of_test.host.as_ref().map(|host| self.resolve(host));
        let data = data.transpose()?.unwrap_or(control).ip();
        let own = |text: &Option<String>| -> Result<Option<IpAddr>, Failure> {
            let text = text.as_deref().and_then(|text| text.split(',').next());
            let Some(text) = text else { return Ok(None) };
            Ok(Some(self.resolve(text)?.ip()))
        };
        let (control_local, local) = (own(&self.local)?, own(&of_test.local)?);
        Ok(Plan {
            request: Request {
                test: self.test,
                tos: remote_tos as u8,
                congestion: of_test.congestion,
                nodelay: of_test.nodelay,
                send_size: of_test.send_size,
                remote_size: of_test.remote_size,
                request: request.clamp(1, 60_000),
                response: response.clamp(1, 60_000),
            },
            data,
            local: local.or(control_local),
            control,
            control_local,
            tos: tos as u8,
            timeout: of_test.timeout.max(Duration::from_millis(1)),
            demo: self.demo,
            unit: self.format,
            time: (self.length >= 0).then(|| Duration::from_secs(self.length.unsigned_abs())),
            amount: (self.length < 0).then(|| self.length.unsigned_abs()),
            keys: of_test.keys,
            print_heading: self.print > 0,
        })
    }

    fn resolve(&self, host: &str) -> Result<SocketAddr, Failure> {
        let fits = |address: &SocketAddr| {
            (address.is_ipv4() || !self.v4) && (address.is_ipv6() || !self.v6)
        };
        let addresses = (host, self.port)
            .to_socket_addrs()
            .map_err(|error| Unusable::new("H", host, error.to_string()))?;
        let mut addresses = addresses.into_iter().filter(fits);
        addresses
            .next()
            .ok_or_else(|| Unusable::new("H", host, "it has no such address").into())
    }
}

/// Results by netperf's names.
type Results = BTreeMap<&'static str, String>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Tautline;

    #[test]
    fn flents_command_line_is_understood() {
        let line = "tautline netperf -P 0 -v 0 -D -0.20 -4 -Y 0x20,0 -H 127.0.0.1 -p 12865 -t TCP_MAERTS -l 60 -F /dev/urandom -f m \
                    -L 127.0.0.1,4 -- -m 1000 -M 1000 -L 127.0.0.2,4 -H 127.0.0.3 -k THROUGHPUT,PROTOCOL -K reno";
        let Tautline { command } =
            Tautline::try_parse_from(line.split_whitespace()).expect("options");
        let crate::command::Command::Netperf(netperf) = command else {
            panic!("another command");
        };
        let plan = netperf.plan().expect("a plan");
        assert_eq!(plan.demo, Some(Duration::from_millis(200)));
        assert_eq!((plan.tos, plan.request.tos), (0x20, 0));
        assert_eq!(plan.data.to_string(), "127.0.0.3");
        assert_eq!(plan.keys, ["THROUGHPUT", "PROTOCOL"]);
        assert_eq!(plan.request.congestion.as_deref(), Some("reno"));
    }
}
