//! The options of `tautline link`, and the presets.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tautline_base::HeapFrame;
use tautline_sim::Trace;
use tautline_tc::build;

use super::scenario::Scenario;
use crate::args::Times;
use crate::check::Unusable;
use crate::failure::Failure;
use crate::path::PathConfig;

const EXAMPLES: &str = "\
Examples:
  tautline link --down 'tbf rate 20mbit burst 5kb latency 1s; fq_codel' --delay 20ms --serve 'iperf3 -s -1' -- iperf3 -R -c 10.77.0.2
  tautline link --preset lte --serve 'python3 -m http.server 80' -- curl -o page http://10.77.0.2/
  tautline link --preset dsl --internet -- curl -O https://example.org/
  tautline link --scenario 'drop-rate --delay=15ms --bandwidth=10Mbps --queue=25 --rate_to_client=5 --burst_to_client=3' -- ./client
  tautline link --trace Verizon-LTE-short.down --delay 20ms -- tautline link --loss 1% -- ping -c 3 10.77.0.2
COMMAND is 10.77.0.1 and fd77::1; the far end, where --serve runs, is 10.77.0.2 (also $TAUTLINE_SERVER) and fd77::2. No other \
network is reachable without --internet. With it COMMAND is 10.77.0.15 and fd00:a4d:0:f::f and reaches what this machine reaches, \
and the machine's own 127.0.0.1 and ::1 as 10.77.0.2 and fd00:a4d::2; its TCP connections end at the far end, which sends with tautline's TCP, and echo requests are \
answered there. The program also answers to mahimahi's names mm-delay, mm-loss and mm-link, and to comcast, by symbolic links. COMMAND appears to run as root, with the rights of the user who started it.
Exit status: that of COMMAND; 125 if the link fails.";

/// Bytes of 20 full packets.
const LEAST_QUEUE: u32 = 20 * 1514;

/// Runs a program behind an emulated link, without root
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::command) struct LinkArgs {
    /// Qdisc toward COMMAND, in tc's words
    #[arg(long, value_name = "QDISC")]
    down: Option<String>,
    /// Qdisc from COMMAND, in tc's words
    #[arg(long, value_name = "QDISC")]
    up: Option<String>,
    /// One-way delay in each direction, in addition to the queue's
    #[arg(long)]
    delay: Option<Times>,
    /// Loss probability in each direction, after the queue, e.g. 1%
    #[arg(long, default_value = "0%")]
    loss: Percent,
    /// The same, from COMMAND only
    #[arg(long, value_name = "LOSS")]
    up_loss: Option<Percent>,
    /// The same, toward COMMAND only
    #[arg(long, value_name = "LOSS")]
    down_loss: Option<Percent>,
    /// Delivery opportunities in each direction, in mahimahi's format: the milliseconds at which 1500 bytes leave
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The same, toward COMMAND only
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    down_trace: Option<PathBuf>,
    /// The same, from COMMAND only
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    up_trace: Option<PathBuf>,
    /// Rates and delay of an access technology; other options override them
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// A scenario of the QUIC network simulator: simple-p2p, drop-rate, corrupt-rate or blackhole
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["down", "up", "delay", "loss", "up_loss", "down_loss", "trace", "down_trace", "up_trace", "preset"])]
    scenario: Option<Scenario>,
    /// A shell command that runs at the far end for as long as COMMAND
    #[arg(long, value_name = "COMMAND")]
    pub(super) serve: Option<String>,
    /// Reach the network at the far end, through ordinary sockets of this user
    #[arg(long, conflicts_with = "serve")]
    pub(super) internet: bool,
    /// Carry packets of up to 64 KiB as one, for links of hundreds of Mbit/s; a loss, a mark or a place in the queue is
    /// then that of a whole packet
    #[arg(long)]
    pub(super) offload: bool,
    /// Write every packet of both directions to a file for Wireshark, where it leaves or is dropped
    #[arg(long, value_name = "FILE")]
    pub(super) pcapng: Option<PathBuf>,
    /// Log the packets of both directions in mahimahi's format, to FILE.up and FILE.down; the delay of a
    /// packet includes that of the path
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Log the packets from COMMAND
    #[arg(long, value_name = "FILE", conflicts_with = "log")]
    up_log: Option<PathBuf>,
    /// Log the packets toward COMMAND
    #[arg(long, value_name = "FILE", conflicts_with = "log")]
    down_log: Option<PathBuf>,
    /// Print the summary as one JSON object per line
    #[arg(long)]
    pub(super) json: bool,
    /// Internal: the process already runs in its own namespaces; descriptor of the outer one
    #[arg(long, hide = true)]
    pub(super) inside: Option<i32>,
    /// Internal: the gateway of --internet
    #[arg(long, hide = true)]
    pub(super) outside: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    pub(super) command: Vec<OsString>,
}

impl LinkArgs {
    /// The paths up and down.
    ///
    /// # Errors
    /// If a trace or a qdisc cannot be parsed.
    pub(super) fn paths(&self) -> Result<(PathConfig, PathConfig), Failure> {
        if let Some(Scenario { up, down }) = &self.scenario {
            return Ok((up.clone(), down.clone()));
        }
        let figures = self.preset.map(Preset::figures);
        let delay = self
            .delay
            .map(|delay| delay.0)
            .or_else(|| figures.map(|figures| figures.rtt / 2))
            .unwrap_or_default();
        let path = |option,
                    words: &Option<String>,
                    trace: &Option<PathBuf>,
                    loss: Option<Percent>,
                    kbit: Option<u32>| {
            let queue = words.clone().unwrap_or_else(|| shaped(kbit));
            build::<tautline_base::Packet<HeapFrame>>(&queue)
                .map_err(|error| Unusable::new(option, &queue, error.to_string()))?;
            Ok::<_, Failure>(PathConfig {
                queue,
                trace: trace
                    .as_ref()
                    .or(self.trace.as_ref())
                    .map(|file| read(file))
                    .transpose()?,
                delay,
                loss: loss.unwrap_or(self.loss).0,
                ..PathConfig::default()
            })
        };
        let (up, down) = (figures.map(|of| of.up_kbit), figures.map(|of| of.down_kbit));
        Ok((
            path("up", &self.up, &self.up_trace, self.up_loss, up)?,
            path("down", &self.down, &self.down_trace, self.down_loss, down)?,
        ))
    }
}

impl LinkArgs {
    /// The files of the logs, up and down.
    pub(super) fn logs(&self) -> [Option<PathBuf>; 2] {
        [(&self.up_log, ".up"), (&self.down_log, ".down")].map(|(own, end)| {
            let shared = self.log.as_ref().map(|file| {
                let mut file = file.clone().into_os_string();
                file.push(end);
                file.into()
            });
            own.clone().or(shared)
        })
    }
}

/// A FIFO; if there is a rate, behind a shaper with a burst of two packets. It then holds 100 ms of
/// packets, at least [`LEAST_QUEUE`].
fn shaped(kbit: Option<u32>) -> String {
    kbit.map_or_else(
        || "pfifo limit 1000".to_owned(),
        |kbit| {
            let least = LEAST_QUEUE * 8 / kbit;
            format!(
                "tbf rate {kbit}kbit burst 3100 latency {}ms",
                least.max(100)
            )
        },
    )
}

fn read(file: &Path) -> Result<Trace, Failure> {
    let text = std::fs::read_to_string(file).map_err(Failure::file(file))?;
    let trace = text.parse::<Trace>();
    trace.map_err(|error| Unusable::new("trace", file.display(), error.to_string()).into())
}

/// A share of packets: `1%` or `0.1%`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Percent(f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text
            .strip_suffix('%')
            .and_then(|digits| digits.parse().ok());
        number
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(Self)
            .ok_or_else(|| "write a share of packets with its unit, e.g. 1%".to_owned())
    }
}

/// Kinds of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// 1.5 Mbit/s down, 384 kbit/s up, RTT 50 ms (WebPageTest, "DSL")
    Dsl,
    /// 5 Mbit/s down, 1 Mbit/s up, RTT 28 ms (WebPageTest, "Cable")
    Cable,
    /// 12 Mbit/s each way, RTT 70 ms (WebPageTest, "LTE")
    Lte,
    /// 178 Mbit/s down, 17 Mbit/s up, RTT 50 ms: medians of Michel et al., "A First Look at Starlink
    /// Performance", IMC 2022
    Starlink,
    /// 65 Mbit/s each way, RTT 2 ms: one stream of IEEE 802.11n at MCS 7 and 20 MHz
    Wifi,
    /// 100 Mbit/s down, 10 Mbit/s up, RTT 600 ms: the geostationary subscription in the same paper
    Satellite,
}

/// The figures of a preset.
#[derive(Clone, Copy)]
struct Figures {
    down_kbit: u32,
    up_kbit: u32,
    rtt: Duration,
}

impl Preset {
    fn figures(self) -> Figures {
        let (down_kbit, up_kbit, rtt) = match self {
            Self::Dsl => (1_500, 384, 50),
            Self::Cable => (5_000, 1_000, 28),
            Self::Lte => (12_000, 12_000, 70),
            Self::Starlink => (178_000, 17_000, 50),
            Self::Wifi => (65_000, 65_000, 2),
            Self::Satellite => (100_000, 10_000, 600),
        };
        Figures {
            down_kbit,
            up_kbit,
            rtt: Duration::from_millis(rtt),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tautline_base::{Drops, Instant, Qdisc};

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        link: LinkArgs,
    }

    fn paths(words: &str) -> Result<(PathConfig, PathConfig), String> {
        let words = format!("link {words} -- true");
        let parsed = Program::try_parse_from(words.split_whitespace());
        let program = parsed.map_err(|error| error.to_string())?;
        program.link.paths().map_err(|error| error.to_string())
    }

    #[test]
    fn every_preset_builds_and_options_change_it() {
        for preset in Preset::value_variants() {
            let name = preset.to_possible_value().expect("shown");
            let (up, down) = paths(&format!("--preset {}", name.get_name())).expect("fits");
            for path in [up, down] {
                assert_eq!(path.delay * 2, preset.figures().rtt);
                assert!(path.build::<tautline_base::Packet<HeapFrame>>().is_ok());
            }
        }
        let (up, down) = paths("--preset lte --delay 3ms --up pfifo --loss 1%").expect("fits");
        assert_eq!(
            (up.queue.as_str(), up.delay),
            ("pfifo", Duration::from_millis(3))
        );
        assert_eq!((down.loss, up.loss), (1.0, 1.0));
        assert!(down.queue.contains("12000kbit"));
        let (up, down) = paths("--loss 1% --up-loss 5%").expect("fits");
        assert_eq!((down.loss, up.loss), (1.0, 5.0));
    }

    #[test]
    fn logs_are_named_together_or_each() {
        let logs = |words: &str| {
            let words = format!("link {words} -- true");
            let parsed = Program::try_parse_from(words.split_whitespace()).expect("fits");
            let logs = parsed.link.logs();
            logs.map(|file| file.map(|file| file.display().to_string()))
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(logs(""), [None, None]);
        assert_eq!(logs("--log a/b"), [some("a/b.up"), some("a/b.down")]);
        assert_eq!(logs("--down-log x"), [None, some("x")]);
    }

    #[test]
    fn the_queue_of_a_preset_holds_100_ms_of_packets_or_20_packets() {
        for preset in Preset::value_variants() {
            let kbit = preset.figures().down_kbit;
            let mut queue = build::<tautline_base::Packet<()>>(&shaped(Some(kbit))).expect("fits");
            let mut drops = Drops::new();
            for _ in 0..10_000 {
                let packet = tautline_base::Packet::new((), 1514);
                queue.enqueue(packet, Instant::ZERO, &mut drops);
            }
            let most = f64::from(kbit / 8 * 100).max(20.0 * 1514.0);
            let held = queue.backlog().bytes.get() as f64 / most;
            assert!((0.95..1.15).contains(&held), "{preset:?}: {held}");
        }
    }

    #[test]
    fn values_that_cannot_work_are_named() {
        for (words, part) in [
            ("--loss 1", "1%"),
            ("--loss 101%", "1%"),
            ("--up fifoo", "--up fifoo"),
            ("--trace /no/such", "/no/such"),
            ("--trace /dev/null", "empty"),
        ] {
            let error = paths(words).expect_err(words);
            assert!(error.contains(part), "{words}: {error}");
        }
    }
}
