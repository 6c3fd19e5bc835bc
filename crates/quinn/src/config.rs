//! [`ControllerConfig`]: creates the controllers of quinn's connections.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as StdInstant;

use quinn::congestion::{Controller as QuicController, ControllerFactory};
use tautline_base::Bytes;
use tautline_cc::{Algorithm, Config, Ecn, Factory};

use crate::controller::Adapter;

/// Smallest maximum datagram size (RFC 9000 §14).
const LEAST_DATAGRAM: Bytes = Bytes::new(1200);

/// A controller of `tautline-cc` for each path of each connection, as quinn's own `CubicConfig` and
/// `BbrConfig` are. The crate's documentation has the limits of quinn's interface.
///
/// ```
/// use std::sync::Arc;
/// use tautline_quinn::{Algorithm, ControllerConfig};
///
/// let mut transport = quinn::TransportConfig::default();
/// transport.congestion_controller_factory(Arc::new(ControllerConfig::new(Algorithm::Bbr3)?));
/// # Ok::<(), tautline_quinn::NeedsMarks>(())
/// ```
#[derive(Debug)]
pub struct ControllerConfig {
    factory: Factory,
    built: AtomicU64,
}

impl ControllerConfig {
    /// Controllers of `algorithm`.
    ///
    /// # Errors
    /// [`NeedsMarks`] if the algorithm reacts to the share of marked bytes (DCTCP, Prague).
    pub fn new(algorithm: Algorithm) -> Result<Self, NeedsMarks> {
        Self::with_factory(algorithm.factory())
    }

    /// Controllers of `factory`, such as one of your own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_factory(factory: Factory) -> Result<Self, NeedsMarks> {
        let probe = factory.build(&Config::new(LEAST_DATAGRAM));
        match probe.ecn() {
            Ecn::Classic => Ok(Self {
                factory,
                built: AtomicU64::new(0),
            }),
            Ecn::Dctcp | Ecn::L4s => Err(NeedsMarks(probe.name())),
        }
    }
}

impl ControllerFactory for ControllerConfig {
    fn build(self: Arc<Self>, now: StdInstant, current_mtu: u16) -> Box<dyn QuicController> {
        let seed = self.built.fetch_add(1, Ordering::Relaxed);
        let config = Config {
            seed,
            ..Config::new(Bytes::new(current_mtu.into()))
        };
        Box::new(Adapter::new(self.factory.clone(), config, now))
    }
}

/// The controller of this name reacts to the share of marked bytes, and quinn reports only that
/// there were marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsMarks(pub &'static str);

impl fmt::Display for NeedsMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} needs the share of congestion marks, which quinn does not report: choose another \
             controller",
            self.0
        )
    }
}

impl Error for NeedsMarks {}
