//! `tautline extcap`: running middleboxes and links as interfaces of Wireshark, by its extcap
//! interface (extcap(4)).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::check::Unusable;
use crate::control::registry::{Running, running};
use crate::control::{Points, State, Wanted, capture};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Installed as a link of this program that is named `tautline-extcap`:
  mkdir -p ~/.local/lib/wireshark/extcap
  ln -s $(command -v tautline) ~/.local/lib/wireshark/extcap/tautline-extcap
Wireshark before 4.2 looks in ~/.config/wireshark/extcap, and any version in $WIRESHARK_EXTCAP_DIR unless it runs as root. Then:
  tshark -i tautline-eth0-eth1
Interfaces are `tautline middlebox --control PATH`, named after its two interfaces, and `tautline link`, of the user that runs Wireshark. \
Both find each other in $XDG_RUNTIME_DIR/tautline, or /run/tautline without that variable.
Each packet's comment has its time in the queue and its end: sojourn=4.200000ms verdict=CE, verdict=drop reason=target. If \
Wireshark reads too slowly, packets are missing from the capture and counted in frame.drop_count; they are never delayed.";

/// Value of Wireshark's `LINKTYPE_ETHERNET`.
const ETHERNET: u8 = 1;

/// Shows middleboxes and links as interfaces in Wireshark, which calls this program by itself.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Extcap {
    #[command(flatten)]
    action: Action,
    /// Version of Wireshark
    #[arg(long, value_name = "VERSION", num_args = 0..=1)]
    extcap_version: Option<Option<String>>,
    /// The interface that the other options are about
    #[arg(long, value_name = "NAME")]
    extcap_interface: Option<String>,
    /// Capture filter; not supported
    #[arg(long, value_name = "FILTER", num_args = 0..=1)]
    extcap_capture_filter: Option<Option<String>>,
    /// The pipe or file to write to
    #[arg(long, value_name = "PATH", required_if_eq("capture", "true"))]
    fifo: Option<PathBuf>,
    /// Packets to capture
    #[arg(long, value_enum, default_value_t)]
    points: Points,
    /// Bytes kept of each packet
    #[arg(long, default_value_t = Wanted::default().snaplen, value_parser = clap::value_parser!(u32).range(14..=262_144))]
    snaplen: u32,
}

/// Wireshark's request.
#[derive(Args, Debug)]
#[group(multiple = false)]
struct Action {
    /// List the interfaces
    #[arg(long)]
    extcap_interfaces: bool,
    /// List the link types of an interface
    #[arg(long, requires = "extcap_interface")]
    extcap_dlts: bool,
    /// List the options of an interface
    #[arg(long, requires = "extcap_interface")]
    extcap_config: bool,
    /// Capture
    #[arg(long, requires = "extcap_interface")]
    capture: bool,
}

impl Extcap {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let Action {
            extcap_interfaces,
            extcap_dlts,
            extcap_config,
            capture,
        } = self.action;
        let filter = self.extcap_capture_filter.iter().flatten();
        let has_filter = filter.filter(|words| !words.is_empty()).count() > 0;
        if capture {
            if has_filter {
                let problem = "capture filters are not supported; filter what is shown instead";
                return Err(Unusable::new("extcap-capture-filter", "", problem).into());
            }
            return self.capture();
        }
        let mut text = String::new();
        if extcap_interfaces {
            text = interfaces(&running());
        } else if extcap_dlts {
            text = format!("dlt {{number={ETHERNET}}}{{name=EN10MB}}{{display=Ethernet}}\n");
        } else if extcap_config {
            text = options();
        } else if has_filter {
            // Wireshark takes any output for an error in the filter.
            text.push_str("capture filters are not supported\n");
        }
        Ok(io::stdout().write_all(text.as_bytes())?)
    }

    fn capture(&self) -> Result<(), Failure> {
        let name = self.extcap_interface.as_deref().unwrap_or_default();
        let all = running();
        let found = all
            .iter()
            .flat_map(bridges)
            .find(|bridge| bridge.value() == name);
        let Some(Bridge { running, pair, .. }) = found else {
            let problem = "no running middlebox or link of this user has that name";
            return Err(Unusable::new("extcap-interface", name, problem).into());
        };
        let wanted = Wanted {
            pair: Some(pair.to_owned()).filter(|pair| !pair.is_empty()),
            points: self.points,
            snaplen: self.snaplen,
        };
        let path = self.fifo.as_deref().unwrap_or_else(|| Path::new("-"));
        let fifo = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path);
        capture(
            &running.socket,
            &wanted,
            &mut fifo.map_err(Failure::file(path))?,
        )
    }
}

/// A pair of interfaces, or a link.
struct Bridge<'a> {
    running: &'a Running,
    /// Empty if the process has one pair only.
    pair: &'a str,
    ports: &'a [State],
}

/// The pairs of a process; one without ports if it shows none.
fn bridges(running: &Running) -> impl Iterator<Item = Bridge<'_>> {
    let pairs = running.ports.chunk_by(|one, next| one.pair == next.pair);
    let pairs = pairs.chain(running.ports.is_empty().then_some(&[][..]));
    pairs.map(move |ports| Bridge {
        running,
        pair: ports.first().map_or("", |port| &port.pair),
        ports,
    })
}

impl Bridge<'_> {
    /// The name that Wireshark uses.
    fn value(&self) -> String {
        let name = &self.running.name;
        plain(&match self.pair {
            "" => format!("tautline-{name}"),
            pair => format!("tautline-{name}-{pair}"),
        })
    }
}

fn interfaces(all: &[Running]) -> String {
    let (version, help) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_REPOSITORY"));
    let mut text = format!("extcap {{version={version}}}{{help={help}}}\n");
    for bridge in all.iter().flat_map(bridges) {
        let display = match bridge.ports {
            [right, left] if bridge.running.name.starts_with("link-") => {
                format!("tautline link: up {}, down {}", right.kind, left.kind)
            }
            [right, left] => {
                format!(
                    "tautline middlebox {} <-> {}",
                    left.interface, right.interface
                )
            }
            _ => "tautline".to_owned(),
        };
        let (value, display) = (bridge.value(), plain(&display));
        text.push_str(&format!(
            "interface {{value={value}}}{{display={display}}}\n"
        ));
    }
    text
}

/// Text without the characters of the grammar.
fn plain(text: &str) -> String {
    text.replace(['{', '}', '\n'], "_")
}

/// The options of a capture, which Wireshark offers in a dialog.
fn options() -> String {
    let mut text = String::from(
        "arg {number=0}{call=--points}{display=Packets}{type=selector}\
         {tooltip=Where packets are captured}\n",
    );
    for points in Points::value_variants() {
        let Some(known) = points.to_possible_value() else {
            continue;
        };
        let (name, help) = (known.get_name(), known.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let default = *points == Points::default();
        text.push_str(&format!(
            "value {{arg=0}}{{value={name}}}{{display={help}}}{{default={default}}}\n"
        ));
    }
    let snaplen = Wanted::default().snaplen;
    text.push_str(&format!(
        "arg {{number=1}}{{call=--snaplen}}{{display=Bytes kept of each packet}}{{type=unsigned}}\
         {{range=14,262144}}{{default={snaplen}}}\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_a_middlebox_is_an_interface() {
        let port = |pair: &str, interface: &str| State {
            pair: pair.to_owned(),
            interface: interface.to_owned(),
            ..State::default()
        };
        let running = Running {
            name: "box".to_owned(),
            socket: PathBuf::new(),
            ports: vec![
                port("lan", "b"),
                port("lan", "a"),
                port("wan", "d"),
                port("wan", "c"),
            ],
        };
        let text = interfaces(&[running]);
        for line in [
            "interface {value=tautline-box-lan}{display=tautline middlebox a <-> b}",
            "interface {value=tautline-box-wan}{display=tautline middlebox c <-> d}",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }

    #[test]
    fn sentences_of_the_grammar_keep_their_shape() {
        let running = Running {
            name: "a{b}-c".to_owned(),
            socket: PathBuf::new(),
            ports: Vec::new(),
        };
        let text = interfaces(&[running]);
        assert!(
            text.contains("interface {value=tautline-a_b_-c}{display=tautline}\n"),
            "{text}"
        );
        for line in options().lines().chain(text.lines()) {
            let (open, close) = (line.matches('{').count(), line.matches('}').count());
            assert!(open == close && open >= 2 && line.ends_with('}'), "{line}");
        }
    }
}
