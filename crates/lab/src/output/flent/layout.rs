//! [`Layout`]: which series each of Flent's tests has; their names are those of its definitions
//! (`flent/tests/*.conf` of Flent 2.3.0).

/// The series of one test.
pub(super) struct Layout {
    uploads: Flows,
    downloads: Flows,
    pings: &'static [&'static str],
}

/// The flows of one direction.
#[derive(Clone, Copy)]
pub(super) enum Flows {
    /// Flows of these names.
    Named(&'static [&'static str]),
    /// A fixed number of flows, each named by this word and its number.
    Numbered(&'static str, usize),
    /// As many as there are; a parameter of the test gives their number.
    Any(&'static str),
}

impl Flows {
    const NONE: Self = Self::Named(&[]);

    /// The names of `has` flows; `None` if the test has another number of them.
    pub(super) fn names(self, has: usize) -> Option<Vec<String>> {
        let numbered = |name| (1..=has).map(|i| format!("{name}::{i}")).collect();
        match self {
            Self::Named(names) => {
                (names.len() == has).then(|| names.iter().map(|name| (*name).to_owned()).collect())
            }
            Self::Numbered(name, count) => (count == has).then(|| numbered(name)),
            Self::Any(name) => Some(numbered(name)),
        }
    }

    /// Required number.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Named(names) => names.len(),
            Self::Numbered(_, count) => count,
            Self::Any(_) => 0,
        }
    }

    /// Whether their number is a parameter.
    pub(super) fn is_any(self) -> bool {
        matches!(self, Self::Any(_))
    }
}

const UP: &str = "TCP upload";
const DOWN: &str = "TCP download";
const ICMP: &[&str] = &["Ping (ms) ICMP"];
const BOTH_UP: Flows = Flows::Named(&[
    "TCP upload Cubic BE",
    "TCP upload BBR BE",
    "TCP upload Cubic CS1",
    "TCP upload BBR CS1",
]);
const BOTH_DOWN: Flows = Flows::Named(&[
    "TCP download Cubic BE",
    "TCP download BBR BE",
    "TCP download Cubic CS1",
    "TCP download BBR CS1",
]);

/// Flent's name, uploads, downloads, pings. `qdisc-stats`, which has none of them, is not here.
const TESTS: &[(&str, Flows, Flows, &[&str])] = &[
    ("tcp_1up", Flows::Named(&[UP]), Flows::NONE, ICMP),
    ("tcp_upload", Flows::Named(&[UP]), Flows::NONE, ICMP),
    ("tcp_2up", Flows::Numbered(UP, 2), Flows::NONE, ICMP),
    ("tcp_4up", Flows::Numbered(UP, 4), Flows::NONE, ICMP),
    ("tcp_6up", Flows::Numbered(UP, 6), Flows::NONE, ICMP),
    ("tcp_8up", Flows::Numbered(UP, 8), Flows::NONE, ICMP),
    ("tcp_12up", Flows::Numbered(UP, 12), Flows::NONE, ICMP),
    ("tcp_50up", Flows::Numbered(UP, 50), Flows::NONE, ICMP),
    ("tcp_nup", Flows::Any(UP), Flows::NONE, ICMP),
    ("tcp_1down", Flows::NONE, Flows::Named(&[DOWN]), ICMP),
    ("tcp_download", Flows::NONE, Flows::Named(&[DOWN]), ICMP),
    ("tcp_2down", Flows::NONE, Flows::Numbered(DOWN, 2), ICMP),
    ("tcp_4down", Flows::NONE, Flows::Numbered(DOWN, 4), ICMP),
    ("tcp_6down", Flows::NONE, Flows::Numbered(DOWN, 6), ICMP),
    ("tcp_8down", Flows::NONE, Flows::Numbered(DOWN, 8), ICMP),
    ("tcp_12down", Flows::NONE, Flows::Numbered(DOWN, 12), ICMP),
    ("tcp_ndown", Flows::NONE, Flows::Any(DOWN), ICMP),
    (
        "tcp_bidirectional",
        Flows::Named(&[UP]),
        Flows::Named(&[DOWN]),
        ICMP,
    ),
    (
        "rrul_be",
        Flows::Named(&[
            "TCP upload BE",
            "TCP upload BE2",
            "TCP upload BE3",
            "TCP upload BE4",
        ]),
        Flows::Named(&[
            "TCP download BE",
            "TCP download BE2",
            "TCP download BE3",
            "TCP download BE4",
        ]),
        &[
            "Ping (ms) ICMP",
            "Ping (ms) UDP BE1",
            "Ping (ms) UDP BE2",
            "Ping (ms) UDP BE3",
        ],
    ),
    (
        "rrul",
        Flows::Named(&[
            "TCP upload BE",
            "TCP upload BK",
            "TCP upload CS5",
            "TCP upload EF",
        ]),
        Flows::Named(&[
            "TCP download BE",
            "TCP download BK",
            "TCP download CS5",
            "TCP download EF",
        ]),
        &[
            "Ping (ms) ICMP",
            "Ping (ms) UDP BE",
            "Ping (ms) UDP BK",
            "Ping (ms) UDP EF",
        ],
    ),
    (
        "cubic_bbr",
        BOTH_UP,
        BOTH_DOWN,
        &[
            "Ping (ms) ICMP",
            "Ping (ms) UDP BE",
            "Ping (ms) UDP CS1",
            "Ping (ms) UDP CS6",
        ],
    ),
    (
        "tcp_4up_squarewave",
        Flows::Named(&["TCP bbr 1", "TCP cubic 2", "TCP cubic 3", "TCP bbr 4"]),
        Flows::NONE,
        &[],
    ),
];

impl Layout {
    /// The layout of a test.
    pub(super) fn of(test: &str) -> Option<Self> {
        let (_, uploads, downloads, pings) = TESTS.iter().find(|(name, ..)| *name == test)?;
        Some(Self {
            uploads: *uploads,
            downloads: *downloads,
            pings,
        })
    }

    /// All tests, for messages.
    pub(super) fn known() -> String {
        TESTS
            .iter()
            .map(|(name, ..)| *name)
            .chain(["qdisc-stats"])
            .collect::<Vec<_>>()
            .join(", ")
    }

    pub(super) fn uploads(&self) -> Flows {
        self.uploads
    }

    pub(super) fn downloads(&self) -> Flows {
        self.downloads
    }

    pub(super) fn pings(&self) -> Vec<&'static str> {
        self.pings.to_vec()
    }
}
