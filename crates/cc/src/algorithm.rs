//! [`Algorithm`]: the controllers of this crate by name, and [`Factory`], for those of other crates
//! too.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

use crate::bbr::{self, Bbr};
use crate::bbr3::{self, Bbr3};
use crate::careful_resume::CarefulResume;
use crate::config::Config;
use crate::controller::Controller;
use crate::cubic::Cubic;
use crate::cubic_linux::CubicLinux;
use crate::dctcp::Dctcp;
use crate::prague::Prague;
use crate::reno::Reno;
use crate::search::Search;

/// A congestion-control algorithm of this crate, with its name in
/// `net.ipv4.tcp_congestion_control`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// NewReno (RFC 5681, RFC 6582).
    Reno,
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// CUBIC (RFC 9438) with SEARCH (draft-chung-ccwg-search-09).
    CubicSearch,
    /// CUBIC with HyStart as in Linux 6.1, for comparisons.
    CubicLinux,
    /// BBR version 1 with Linux's parameters.
    Bbr,
    /// BBR-n with the parameters of its paper: [`bbr::Params::bbrn_aqm`].
    BbrnAqm,
    /// BBR-n with the parameters of its repository in 2023: [`bbr::Params::bbrn_2023`].
    Bbrn2023,
    /// BBR-n with the parameters of its first patch, whose STARTUP may never end:
    /// [`bbr::Params::bbrn_first`].
    BbrnFirst,
    /// BBRv3 (draft-ietf-ccwg-bbr).
    Bbr3,
    /// BBRv3 with the parameters of Google's Linux branch.
    Bbr3Linux,
    /// DCTCP (RFC 8257).
    Dctcp,
    /// Prague, for L4S (RFC 9330).
    Prague,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 12] = [
        Self::Reno,
        Self::Cubic,
        Self::CubicSearch,
        Self::CubicLinux,
        Self::Bbr,
        Self::BbrnAqm,
        Self::Bbrn2023,
        Self::BbrnFirst,
        Self::Bbr3,
        Self::Bbr3Linux,
        Self::Dctcp,
        Self::Prague,
    ];

    /// The name that [`FromStr`] accepts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::CubicSearch => "cubic-search",
            Self::CubicLinux => "cubic-linux",
            Self::Bbr => "bbr",
            Self::BbrnAqm => "bbrn-aqm",
            Self::Bbrn2023 => "bbrn-2023",
            Self::BbrnFirst => "bbrn-first",
            Self::Bbr3 => "bbr3",
            Self::Bbr3Linux => "bbr3-linux",
            Self::Dctcp => "dctcp",
            Self::Prague => "prague",
        }
    }

    /// A controller for one connection.
    pub fn build(self, config: &Config) -> Box<dyn Controller> {
        let controller = self.build_plain(config);
        let beta = match self {
            Self::Reno => 5,
            Self::Cubic | Self::CubicSearch | Self::CubicLinux => 7,
            _ => return controller,
        };
        match config.resume {
            Some(saved) => Box::new(CarefulResume::new(controller, saved, beta, config)),
            None => controller,
        }
    }

    fn build_plain(self, config: &Config) -> Box<dyn Controller> {
        match self {
            Self::Reno => Box::new(Reno::new(config)),
            Self::Cubic => Box::new(Cubic::new(config)),
            Self::CubicSearch => Box::new(Cubic::with_slow_start(config, Search::new())),
            Self::CubicLinux => Box::new(CubicLinux::new(config)),
            Self::Bbr => Box::new(Bbr::new(config)),
            Self::BbrnAqm => Box::new(Bbr::build(bbr::Params::bbrn_aqm(), config)),
            Self::Bbrn2023 => Box::new(Bbr::build(bbr::Params::bbrn_2023(), config)),
            Self::BbrnFirst => Box::new(Bbr::build(bbr::Params::bbrn_first(), config)),
            Self::Bbr3 => Box::new(Bbr3::new(config)),
            Self::Bbr3Linux => Box::new(bbr3::build(config, bbr3::Config::linux_v3())),
            Self::Dctcp => Box::new(Dctcp::new(config)),
            Self::Prague => Box::new(Prague::new(config)),
        }
    }

    /// A factory of such controllers.
    pub fn factory(self) -> Factory {
        Factory::new(move |config| self.build(config))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name);
        known.ok_or_else(|| UnknownAlgorithm { name: name.into() })
    }
}

/// No algorithm has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm {
    /// The requested name.
    pub name: String,
}

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown congestion control \"{}\"; known:", self.name)?;
        Algorithm::ALL
            .iter()
            .try_for_each(|known| write!(f, " {known}"))
    }
}

impl core::error::Error for UnknownAlgorithm {}

/// Makes a controller for each new connection: one of [`Algorithm`], or any other implementation of
/// [`Controller`].
#[derive(Clone)]
pub struct Factory(
    #[expect(clippy::type_complexity, reason = "spelled out only here")]
    Arc<dyn Fn(&Config) -> Box<dyn Controller> + Send + Sync>,
);

impl Factory {
    /// A factory that calls `build` once per connection.
    pub fn new(build: impl Fn(&Config) -> Box<dyn Controller> + Send + Sync + 'static) -> Self {
        Self(Arc::new(build))
    }

    /// A controller for one connection.
    pub fn build(&self, config: &Config) -> Box<dyn Controller> {
        (self.0)(config)
    }
}

impl Default for Factory {
    fn default() -> Self {
        Algorithm::default().factory()
    }
}

impl From<Algorithm> for Factory {
    fn from(algorithm: Algorithm) -> Self {
        algorithm.factory()
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use tautline_base::Bytes;

    #[test]
    fn names_parse_to_what_they_print() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            let config = Config::new(Bytes::new(1448));
            assert_eq!(
                Factory::from(algorithm).build(&config).name(),
                algorithm.name()
            );
        }
    }

    #[test]
    fn a_name_fills_its_column() {
        assert_eq!(alloc::format!("{:8}|", Algorithm::Bbr), "bbr     |");
    }

    #[test]
    fn a_factory_has_a_debug_form() {
        assert_eq!(alloc::format!("{:?}", Factory::default()), "Factory");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "vegas".parse::<Algorithm>().unwrap_err();
        let known = Algorithm::ALL.map(Algorithm::name).join(" ");
        assert_eq!(
            error.to_string(),
            alloc::format!("unknown congestion control \"vegas\"; known: {known}")
        );
    }
}
