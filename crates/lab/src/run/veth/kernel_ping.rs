//! [`KernelPing`]: `ping` of the system from one namespace to the kernel in another, through our
//! routers.

use std::process::{Child, Stdio};
use std::time::Duration;

use super::namespaces::Namespaces;
use crate::run::sampler::Sampler;
use crate::summary::percentile;

/// Interval between requests: Flent's, and the shortest that `ping` permits without root.
const EVERY: &str = "0.2";

/// A `ping` at work.
pub(super) struct KernelPing(Child);

impl KernelPing {
    /// Pings from the namespace of `from` to that of `to`, for `time`.
    pub(super) fn start(
        namespaces: &Namespaces,
        from: &str,
        to: &str,
        time: Duration,
    ) -> Result<Self, String> {
        let target = namespaces.kernel(to).ok_or("a host without an address")?;
        let mut command = namespaces.command(from, "ping");
        command.args([
            "-n",
            "-i",
            EVERY,
            "-w",
            &time.as_secs().max(1).to_string(),
            &target.to_string(),
        ]);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        child
            .map(Self)
            .map_err(|error| format!("`ping` cannot be run ({error}): install iputils-ping"))
    }

    /// Waits for its end and counts its round trips: `kernel_ping_count`, and in microseconds
    /// `kernel_ping_p50_us`, `kernel_ping_p90_us`.
    pub(super) fn finish(self, sampler: &mut Sampler) -> Result<(), String> {
        let output = self
            .0
            .wait_with_output()
            .map_err(|error| format!("`ping` failed: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut times: Vec<f64> = text.lines().filter_map(round_trip).collect();
        times.sort_by(f64::total_cmp);
        sampler.count("kernel_ping_count", times.len() as u64);
        for (name, share) in [("kernel_ping_p50_us", 0.5), ("kernel_ping_p90_us", 0.9)] {
            if let Some(time) = percentile(&times, share) {
                sampler.count(name, (time * 1000.0) as u64);
            }
        }
        Ok(())
    }
}

/// The milliseconds in a line of `ping` about a reply.
fn round_trip(line: &str) -> Option<f64> {
    line.split_once("time=")?.1.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::round_trip;

    #[test]
    fn a_reply_has_a_time_and_nothing_else_has() {
        assert_eq!(
            round_trip("64 bytes from 10.7.1.2: icmp_seq=1 ttl=64 time=0.123 ms"),
            Some(0.123)
        );
        assert_eq!(
            round_trip("64 bytes from 10.7.1.2: icmp_seq=1 ttl=64 time=115 ms"),
            Some(115.0)
        );
        assert_eq!(
            round_trip("PING 10.7.1.2 (10.7.1.2) 56(84) bytes of data."),
            None
        );
        assert_eq!(
            round_trip("rtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms"),
            None
        );
    }
}
