//! [`FlentTest`]: the `[flent]` table of a scenario.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which of Flent's tests the flows of a row are, as a scenario file states it under `[flent]`.
///
/// Flows are named as in the scenario file; those of one name with `count` are taken in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlentTest {
    /// Flent's name of the test: `tcp_4up`, `tcp_nup`, `rrul_be`.
    pub test: String,
    /// The flow whose instances are uploads. Default: all TCP flows but those whose name begins
    /// with `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// The flow whose instances are downloads. Default: all TCP flows whose name begins with
    /// `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download: Option<String>,
    /// The flow whose instances are pings, ICMP first. By default all pings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping: Option<String>,
    /// Ports whose queue statistics the file has. By default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Flow of each of Flent's series, where order does not determine it: `"TCP upload BBR BE" =
    /// "bbr"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, String>,
}
