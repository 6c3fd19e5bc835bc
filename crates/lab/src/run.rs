//! Runs a [`Point`] with its backend: [`sim`] in virtual time on any system, `veth` over the network
//! namespaces of Linux. Only `veth` depends on `rt`, which is linked on Linux only.

pub(crate) mod capture;
mod sampler;
pub(crate) mod sim;
mod tcp;
mod topology;
mod traffic;
#[cfg(target_os = "linux")]
pub(crate) mod veth;

use tautline_sim::topology::TopologyError;
use tautline_sim::{ConfigError, SimError};

use crate::cell::Backend;
use crate::plan::Point;
use crate::recording::Run;

/// Runs `point` with its backend.
///
/// # Errors
/// If a part refuses its parameters, the network cannot be emulated, or an application fails.
pub fn run(point: &Point) -> Result<Run, RunError> {
    match point.path {
        Backend::Sim => sim::run(point),
        #[cfg(target_os = "linux")]
        Backend::Veth => veth::run(point),
        #[cfg(not(target_os = "linux"))]
        Backend::Veth => Err(RunError::NoNamespaces),
    }
}

/// Why a point gave no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The document has no times: another command runs it.
    #[error("there is nothing to run")]
    Elsewhere,
    /// The network cannot be built.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// An application refused a parameter.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It got stuck.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// This machine's network is not, or cannot be, what is asked.
    #[error("on the wire: {0}")]
    Wire(String),
    /// This system has no network namespaces.
    #[cfg(not(target_os = "linux"))]
    #[error("`--path veth` needs Linux's network namespaces; `--path sim` runs in virtual time")]
    NoNamespaces,
    /// A signal ended it.
    #[error("interrupted")]
    Interrupted,
}
