//! Every packet of a run as pcapng, for Wireshark: an interface for each place that packets pass
//! (`client:ring`, `router>server:drop`), with sojourn and verdict as comments. See [`Capture`].

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use tautline_sim::topology::Topology;
use tautline_sim::{Capture, CaptureConfig};

use crate::cell::Backend;
use crate::plan::Point;
use crate::recording::Run;
#[cfg(target_os = "linux")]
use crate::run::veth;
use crate::run::{RunError, sim};

/// Bytes kept of each packet: all headers with all options. A packet passes up to ten places; ten
/// copies of its payload would tell no more.
pub(crate) const KEPT: u32 = 160;

/// Why there is no capture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The point could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Runs `point` with its backend and writes its packets to `file`, which is created only on
/// success.
///
/// # Errors
/// If the run fails, or writing does.
pub fn record(point: &Point, file: &Path) -> Result<Run, CaptureError> {
    match point.path {
        Backend::Sim => in_virtual_time(point, file),
        #[cfg(target_os = "linux")]
        Backend::Veth => veth::record(point, file),
        #[cfg(not(target_os = "linux"))]
        Backend::Veth => Err(RunError::NoNamespaces.into()),
    }
}

fn in_virtual_time(point: &Point, file: &Path) -> Result<Run, CaptureError> {
    let config = CaptureConfig {
        snaplen: KEPT,
        ..CaptureConfig::default()
    };
    let (part, out) = PartFile::create(file)?;
    let capture = Capture::new(BufWriter::new(out), config)?;
    let (run, capture) = sim::record(point, |topology| {
        let (hosts, links) = names(topology);
        capture.named(hosts, links)
    })?;
    capture.finish()?;
    part.complete()?;
    Ok(run)
}

/// A file that is being written, under another name until it is complete. Dropped before, it is
/// removed: a run that failed leaves nothing.
#[derive(Debug)]
pub(super) struct PartFile {
    file: PathBuf,
    part: PathBuf,
}

impl PartFile {
    /// Begins `file`, in a directory that need not exist yet.
    pub(super) fn create(file: &Path) -> io::Result<(Self, File)> {
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)?;
        }
        let part = file.with_extension("pcapng.part");
        let out = File::create(&part)?;
        let file = file.to_owned();
        Ok((Self { file, part }, out))
    }

    /// Gives it its name.
    pub(super) fn complete(self) -> io::Result<()> {
        fs::rename(&self.part, &self.file)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // After `complete` it is not there.
        let _not_there = fs::remove_file(&self.part);
    }
}

/// Names of hosts and links, in order of their numbers in the network.
fn names(topology: &Topology) -> (Vec<String>, Vec<String>) {
    let hosts = topology
        .hosts
        .iter()
        .map(|host| host.name.clone())
        .collect();
    let links = topology.cables.iter().flat_map(|cable| {
        let [a, b] = &cable.between;
        [format!("{a}>{b}"), format!("{b}>{a}")]
    });
    (hosts, links.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanOptions, plan};
    use crate::scenario::{Scenario, ScenarioDir};

    #[test]
    fn a_run_is_the_same_with_a_capture_of_it_and_interfaces_bear_names() {
        let scenario_dir =
            ScenarioDir::Directory(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flent"));
        let scenario = Scenario::load(&scenario_dir, "tcp-nup.toml").expect("a scenario");
        let point = plan(&scenario, PlanOptions::default())
            .expect("a plan")
            .remove(0);
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("new/1.pcapng");
        let captured = record(&point, &file).expect("captured");
        assert!(
            captured == sim::run(&point).expect("run"),
            "hearing changes nothing"
        );
        let bytes = fs::read(&file).expect("a capture");
        for name in [
            "client:ring",
            "router>server:wire",
            "router>server:drop",
            "server:received",
        ] {
            assert!(
                bytes
                    .windows(name.len())
                    .any(|window| window == name.as_bytes()),
                "{name}"
            );
        }
        assert!(!file.with_extension("pcapng.part").exists());
    }

    #[test]
    fn a_run_that_fails_leaves_no_file() {
        let scenario_dir =
            ScenarioDir::Directory(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flent"));
        let scenario = Scenario::load(&scenario_dir, "tcp-nup.toml").expect("a scenario");
        let mut point = plan(&scenario, PlanOptions::default())
            .expect("a plan")
            .remove(0);
        // A cable that leads nowhere is found when the network is built.
        let document = std::sync::Arc::make_mut(&mut point.document);
        document.link[0].between.0 = "nowhere".to_owned();
        let directory = tempfile::tempdir().expect("a directory");
        let failed = record(&point, &directory.path().join("1.pcapng"));
        assert!(matches!(failed, Err(CaptureError::Run(_))), "{failed:?}");
        let left = fs::read_dir(directory.path()).expect("read");
        assert_eq!(left.count(), 0);
    }
}
