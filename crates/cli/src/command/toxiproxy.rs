//! `tautline toxiproxy`: TCP proxies with toxics, which clients of toxiproxy control.

mod api;
mod chain;
mod proxy;
mod refusal;
mod toxic;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use tautline_rt::system_seed;

use super::tun2socks::signaled;
use crate::accept::accepted;
use crate::check::Unusable;
use crate::failure::Failure;
use crate::http::{HttpRequest, Reply, TurnedAway};
use api::Api;

/// Connections at one time; more are turned away.
const CONNECTIONS: usize = 64;

const EXAMPLES: &str = "\
Examples:
  tautline toxiproxy & curl -d '{\"name\":\"db\",\"listen\":\"127.0.0.1:6380\",\"upstream\":\"127.0.0.1:6379\"}' localhost:8474/proxies
  curl -d '{\"type\":\"latency\",\"attributes\":{\"latency\":100,\"jitter\":20}}' localhost:8474/proxies/db/toxics
  tautline link --loss 1% --serve redis-server -- sh -c 'tautline toxiproxy & run-tests'    # packets are lost, too: upstream 10.77.0.2
Toxics: latency, bandwidth, slow_close, timeout, reset_peer, slicer, limit_data and noop, with toxiproxy's attributes. They impair the \
data of a connection, not its packets; `tautline link` and `tautline middlebox` impair packets. Anyone who can reach the port controls \
the proxies, except pages in a browser.";

/// TCP proxies that delay, limit, cut and reset connections, with toxiproxy's HTTP API
#[derive(Parser, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Toxiproxy {
    /// Address of the HTTP API
    #[arg(long, default_value = "127.0.0.1:8474", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// JSON file with a list of proxies to begin with: name, listen, upstream, enabled
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Seed of jitter, slices and toxicity [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

impl Toxiproxy {
    /// Serves until a signal.
    ///
    /// # Errors
    /// If the address or the file cannot be used.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Runtime::new()?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => system_seed()?,
        };
        let mut api = Api::new(seed, runtime.handle().clone());
        if let Some(file) = &self.config {
            let text = std::fs::read(file).map_err(Failure::file(file))?;
            let refused = |why: String| Failure::from(Unusable::new("config", file.display(), why));
            let reply = api
                .populate(&text)
                .map_err(|why| refused(why.error.into()))?;
            if reply.status != "201 Created" {
                return Err(refused(reply.body));
            }
        }
        let listener = TcpListener::bind(self.listen).map_err(|error| {
            let problem = format!("{error}; name an address of this machine and a free port");
            Unusable::new("listen", self.listen, problem)
        })?;
        eprintln!("listening: http://{}; Ctrl-C ends", listener.local_addr()?);
        std::thread::spawn(move || serve(&listener, api));
        runtime.block_on(async {
            signaled()?.await;
            Ok(())
        })
    }
}

/// Serves every connection on a thread of its own.
fn serve(listener: &TcpListener, api: Api) {
    let api = Arc::new(Mutex::new(api));
    let mut turned_away = TurnedAway::default();
    for (mut stream, number) in accepted(listener.incoming()).zip(1_u64..) {
        if Arc::strong_count(&api) > CONNECTIONS {
            turned_away.add(stream);
            continue;
        }
        let api = Arc::clone(&api);
        std::thread::spawn(move || {
            let Ok(request) = HttpRequest::read(&mut stream) else {
                return;
            };
            let reply = request.map_or_else(Reply::unintelligible, |request| {
                let mut api = api.lock().unwrap_or_else(PoisonError::into_inner);
                api.answer(&request)
            });
            let header = format!("X-Toxiproxy-Request-Id: {number:016x}\r\n");
            // A client may hang up early.
            let _ = reply.write(&mut stream, &header);
        });
    }
}
