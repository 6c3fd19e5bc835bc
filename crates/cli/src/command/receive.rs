//! Receives one TCP stream, from our sender or any other, and prints its SHA-256; with `--queues`, one
//! stream for each queue.

#[cfg(feature = "af-xdp")]
mod streams;

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::task::Waker;

use clap::Parser;
use tautline_base::Frame;

use crate::args::{Size, StackArgs, TransferArgs};
use crate::failure::Failure;
use crate::open::{Job, Opened, with_device};
use crate::receive::{ReceiveConfig, Receiving};
use crate::report;
use crate::session::Session;
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
    /// File to write the stream to; - is standard output, and the report goes to standard error
    #[arg(long)]
    out: Option<PathBuf>,
    /// Data up to this amount is hashed, and written, after the transfer, so that the work does not
    /// slow it
    #[arg(long, default_value = "512M")]
    keep: Size,
    /// With --queues: number of streams to receive, each at the queue that RSS selects. Default: as many as
    /// queues
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), requires = "queues")]
    pub streams: Option<u32>,
}

impl ReceiveArgs {
    /// Receives to the end.
    ///
    /// # Errors
    /// If an option cannot work, the device fails or the transfer ends early.
    pub fn run(mut self) -> Result<(), Failure> {
        self.stack.obtain_lease()?;
        let stack = self.stack.clone();
        #[cfg(feature = "af-xdp")]
        if let Some(count) = stack.queues {
            return self.run_queues(count);
        }
        with_device(&stack, self)
    }

    /// Receives as many streams as there are queues, at the hosts to which RSS assigns them.
    #[cfg(feature = "af-xdp")]
    fn run_queues(self, count: u32) -> Result<(), Failure> {
        use std::sync::Mutex;
        use std::sync::mpsc::channel;

        use crate::check::Unusable;
        use crate::queues::with_queues;
        use crate::threads::divide;
        use streams::{Part, receive_streams, serve_queue};

        let expected = self.streams.unwrap_or(count);
        if self.out.is_some() {
            return Err(Unusable::new("queues", count, "it needs to do without --out").into());
        }
        // A host that does not get as far drops its sender, so that nobody waits for it.
        let (ready, hosts): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let ready: Vec<_> = ready.into_iter().map(|one| Mutex::new(Some(one))).collect();
        std::thread::scope(|scope| {
            let streams = scope.spawn(|| receive_streams(&self, hosts, expected));
            let queues = with_queues(&self.stack, count, |queue, opened| {
                let mut ready = ready[queue as usize]
                    .lock()
                    .map_err(|_| Failure::Panicked)?;
                serve_queue(&self.stack, queue, opened, ready.take())
            });
            drop(ready);
            let streams = streams.join().map_err(|_| Failure::Panicked)?;
            let ((mut parts, failed), streams) = (divide(queues?), streams?);
            let cut_short = streams.iter().filter(|part| part.is_cut_short()).count();
            parts.extend(streams);
            Part::publish(&parts, &self.transfer)?;
            failed?;
            match cut_short {
                0 => Ok(()),
                cut_short => Err(Failure::CutShort(cut_short)),
            }
        })
    }

    fn sink(&self) -> Result<Sink, Failure> {
        let file = self
            .out
            .as_ref()
            .map(|path| {
                let is_standard_output = path.as_os_str() == "-";
                let file = if is_standard_output {
                    report::take_standard_output()
                } else {
                    File::create(path)
                };
                file.map_err(Failure::file(path))
            })
            .transpose()?;
        Ok(Sink::new(!self.transfer.no_digest, file, self.keep.0))
    }
}

impl Job for ReceiveArgs {
    fn run<F: Frame + Send + 'static>(self, opened: Opened<F>) -> Result<(), Failure> {
        let mut config = ReceiveConfig {
            port: self.listen,
            tcp: self.stack.tcp.config(),
            sink: self.sink()?,
            json: self.transfer.json,
            max_silence: self.transfer.silence,
        };
        let mut session = Session::new(opened, &self.stack)?;
        config
            .sink
            .start(Waker::from(session.event_loop.event_fd()))?;
        session.serve_http(self.transfer.http, &self.stack.iface)?;
        let mut receiving = Receiving::start(&mut session.host, config)?;
        let ends: Vec<_> = self
            .stack
            .own()
            .map(|own| SocketAddr::new(own.address(), self.listen).to_string())
            .collect();
        session.announce(&format!("listening on {}", ends.join(" and ")));
        session.run(&mut receiving, Receiving::socket)?;
        let outcome = receiving
            .finish()
            .map_err(|failure| session.explain(failure))?;
        session.summary(outcome).publish(&self.transfer)
    }
}
