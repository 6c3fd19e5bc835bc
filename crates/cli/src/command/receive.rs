//! Receives one TCP stream, from our sender or any other, and prints its SHA-256.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::Parser;
use tautline_base::{Device, Frame};

use crate::args::{Size, StackArgs, TransferArgs};
use crate::failure::Failure;
use crate::open::{Job, Opened, with_device};
use crate::receive::Receiving;
use crate::report;
use crate::session::{Outcome, Session};
use crate::sink::Sink;

/// Receives one TCP stream and prints its SHA-256.
#[derive(Parser, Debug)]
#[command(version, after_help = report::HELP)]
pub struct ReceiveArgs {
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

impl ReceiveArgs {
    /// Receives to the end.
    ///
    /// # Errors
    /// If an option cannot work, the device fails or the transfer ends early.
    pub fn run(self) -> Result<(), Failure> {
        let stack = self.stack.clone();
        with_device(&stack, self)
    }

    fn sink(&self) -> Result<Sink, Failure> {
        let file = self
            .out
            .as_ref()
            .map(|path| File::create(path).map_err(Failure::file(path)))
            .transpose()?;
        Ok(Sink::new(!self.transfer.no_digest, file, self.keep.0))
    }
}

impl Job for ReceiveArgs {
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
