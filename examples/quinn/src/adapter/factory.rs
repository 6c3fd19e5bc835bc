//! [`AdapterFactory`]: creates the controllers of quinn's connections.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as StdInstant;

use quinn::congestion::{Controller as QuicController, ControllerFactory};
use tautline_base::Bytes;
use tautline_cc::{Algorithm, Config, Ecn, Factory};

use super::Adapter;

/// Makes an [`Adapter`] for each path of each connection.
#[derive(Debug)]
pub(crate) struct AdapterFactory {
    factory: Factory,
    built: AtomicU64,
}

impl AdapterFactory {
    /// A factory of `algorithm`'s controllers.
    ///
    /// # Errors
    /// [`NeedsMarks`] if the algorithm needs what quinn does not tell.
    pub(crate) fn new(algorithm: Algorithm) -> Result<Self, NeedsMarks> {
        let factory = algorithm.factory();
        match factory.build(&Config::new(Bytes::new(1200))).ecn() {
            Ecn::Classic => Ok(Self {
                factory,
                built: AtomicU64::new(0),
            }),
            Ecn::Dctcp | Ecn::L4s => Err(NeedsMarks(algorithm)),
        }
    }
}

impl ControllerFactory for AdapterFactory {
    fn build(self: Arc<Self>, now: StdInstant, current_mtu: u16) -> Box<dyn QuicController> {
        let seed = self.built.fetch_add(1, Ordering::Relaxed);
        let config = Config {
            seed,
            ..Config::new(Bytes::new(current_mtu.into()))
        };
        Box::new(Adapter::new(self.factory.clone(), config, now))
    }
}

/// The algorithm lives on the share of marked bytes, and quinn tells only that there were marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeedsMarks(pub(crate) Algorithm);

impl fmt::Display for NeedsMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} needs the share of congestion marks, which quinn does not tell",
            self.0
        )
    }
}

impl Error for NeedsMarks {}
