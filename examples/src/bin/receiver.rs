//! Receives one TCP stream, from our sender or any other, and prints its SHA-256.
#![forbid(unsafe_code)]

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tautline_base::{Device, Frame};
use tautline_examples::args::{Size, StackArgs, TransferArgs, parse};
use tautline_examples::failure::{Failure, exit_code};
use tautline_examples::open::{Job, Opened, with_device};
use tautline_examples::receive::Receiving;
use tautline_examples::report;
use tautline_examples::session::{Outcome, Session};
use tautline_examples::sink::Sink;

/// Receives one TCP stream and prints its SHA-256.
#[derive(Parser, Debug)]
#[command(version, after_help = report::HELP)]
struct Args {
    #[command(flatten)]
    stack: StackArgs,
    #[command(flatten)]
    transfer: TransferArgs,
    /// Port to listen on
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    listen: u16,
    /// File to write the stream to
    #[arg(long)]
    out: Option<PathBuf>,
    /// Data up to this amount is hashed, and written, after the transfer, so that the work does not
    /// slow it
    #[arg(long, default_value = "512M")]
    keep: Size,
}

impl Args {
    fn sink(&self) -> Result<Sink, Failure> {
        let file = self
            .out
            .as_ref()
            .map(|path| File::create(path).map_err(Failure::file(path)))
            .transpose()?;
        Ok(Sink::new(!self.transfer.no_digest, file, self.keep.0))
    }
}

impl Job for Args {
    fn run<D>(self, opened: Opened<D>) -> Result<(), Failure>
    where
        D: Device<Frame: Frame + Send + 'static> + AsFd,
    {
        let (sink, json) = (self.sink()?, self.transfer.json);
        let mut session = Session::new(opened, &self.stack)?;
        let config = self.stack.tcp.config();
        let mut receiving = Receiving::start(
            &mut session.host,
            self.listen,
            config,
            (sink, json),
            self.transfer.silence,
        )?;
        let ends: Vec<_> = self
            .stack
            .ip
            .iter()
            .map(|own| SocketAddr::new(own.address(), self.listen).to_string())
            .collect();
        session.announce(&format!("listening on {}", ends.join(" and ")));
        session.run(&mut receiving, Receiving::socket)?;
        let (bytes, time, info, sha256) = receiving
            .finish()
            .map_err(|failure| session.explain(failure))?;
        session
            .summary(Outcome {
                role: "receiver",
                bytes,
                time,
                info,
                sha256,
            })
            .publish(&self.transfer)
    }
}

fn main() -> ExitCode {
    let args: Args = parse();
    let stack = args.stack.clone();
    exit_code("receiver", with_device(&stack, args))
}
