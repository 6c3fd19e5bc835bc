//! The commands of `tautline`.
//!
//! | module | commands |
//! |---|---|
//! | [`send`], [`receive`] | a transfer over this stack |
//! | [`middlebox`] | a qdisc in each direction between two interfaces |
//! | [`link`] | a program behind an emulated link |
//! | `iperf3` | measurements by iperf3's protocol |
//! | `netperf`, `netserver` | measurements with netperf's command line |
//! | [`gateway`] | a network for sandboxes, without root |
//! | `ctl`, `top` | a running middlebox |
//! | `extcap` | packets of middleboxes and links in Wireshark |
//! | `doctor` | capabilities of the machine |
//! | `toxiproxy` | TCP proxies with toxiproxy's HTTP API |
//! | [`tun2socks`] | traffic of a TUN interface through a SOCKS 5 proxy |
//! | `paperwork` | `completions` and `man`, from the options themselves |
//! | `rendezvous` | what `gateway` and `link` hand out of a namespace |

mod ctl;
mod doctor;
mod extcap;
pub mod gateway;
mod iperf3;
pub mod link;
pub mod middlebox;
mod netperf;
mod paperwork;
pub mod receive;
mod rendezvous;
pub mod send;
mod top;
mod toxiproxy;
pub mod tun2socks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::exit_code;

/// Transfers, queues, emulated links and experiments on a userspace TCP stack.
#[derive(Parser, Debug)]
#[command(name = "tautline", version = env!("TAUTLINE_VERSION"))]
pub struct Tautline {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Send(Box<send::SendArgs>),
    Receive(Box<receive::ReceiveArgs>),
    Middlebox(middlebox::MiddleboxArgs),
    Ctl(ctl::Ctl),
    Top(top::Top),
    Link(Box<link::LinkArgs>),
    Iperf3(Box<iperf3::Iperf3>),
    Netperf(Box<netperf::Netperf>),
    Netserver(Box<netperf::server::Netserver>),
    Toxiproxy(toxiproxy::Toxiproxy),
    Tun2socks(tun2socks::Tun2SocksArgs),
    Gateway(gateway::GatewayArgs),
    #[cfg(feature = "lab")]
    Lab(tautline_lab::Cli),
    Doctor(doctor::Doctor),
    Extcap(extcap::Extcap),
    Completions(paperwork::Completions),
    Man(paperwork::Man),
}

impl Tautline {
    /// Runs the command; a failure is one line on standard error.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Send(send) => exit_code("send", send.run()),
            Command::Receive(receive) => exit_code("receive", receive.run()),
            Command::Middlebox(middlebox) => exit_code("middlebox", middlebox.run()),
            Command::Ctl(ctl) => exit_code("ctl", ctl.run()),
            Command::Top(top) => exit_code("top", top.run()),
            Command::Link(link) => link.run(),
            Command::Iperf3(iperf3) => exit_code("iperf3", iperf3.run()),
            Command::Netperf(netperf) => exit_code("netperf", netperf.run()),
            Command::Netserver(netserver) => exit_code("netserver", netserver.run()),
            Command::Toxiproxy(toxiproxy) => exit_code("toxiproxy", toxiproxy.run()),
            Command::Tun2socks(tun2socks) => exit_code("tun2socks", tun2socks.run()),
            Command::Gateway(gateway) => exit_code("gateway", gateway.run()),
            #[cfg(feature = "lab")]
            Command::Lab(lab) => lab.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Extcap(extcap) => exit_code("extcap", extcap.run()),
            Command::Completions(completions) => exit_code("completions", completions.print()),
            Command::Man(man) => exit_code("man", man.write()),
        }
    }
}
