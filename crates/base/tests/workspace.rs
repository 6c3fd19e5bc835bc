//! Rules of the workspace that no compiler checks: which crate sees which, features, licenses,
//! documentation, unsafe code.
//!
//! The facts come from `cargo metadata`; the rules are those of `ARCHITECTURE.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// The crates of this workspace that each crate depends on: the column "sees" of ARCHITECTURE.md.
static ARROWS: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    let text = fs::read_to_string(METADATA.root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let table = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate | holds | sees |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let quoted = |cell: &str| {
        let words = cell.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (quoted(cells[1]).remove(0), quoted(cells[3]))
    })
    .collect()
});
/// Packages with binaries, which may link AF_XDP.
const MAY_LINK_XDP: [&str; 3] = ["cli", "fuzz", "lab"];
/// All that the crates which build without `std` depend on, at any depth.
const NO_STD: [(&str, &[&str]); 5] = [
    ("base", &["bytes", "siphasher"]),
    ("cc", &["base", "bytes", "libm", "siphasher"]),
    (
        "qdisc",
        &[
            "base",
            "bytes",
            "libm",
            "rand_core",
            "rand_pcg",
            "siphasher",
        ],
    ),
    (
        "tc",
        &[
            "base",
            "bytes",
            "libm",
            "qdisc",
            "rand_core",
            "rand_pcg",
            "serde_core",
            "siphasher",
        ],
    ),
    ("bql", &["base", "bytes", "siphasher"]),
];
/// A target without `std`: `rustup target add x86_64-unknown-none`.
const BARE_TARGET: &str = "x86_64-unknown-none";
/// Licenses that a program under MIT or Apache-2.0 may include without further duties than naming
/// their holders.
const LICENSES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

static METADATA: LazyLock<Metadata> = LazyLock::new(Metadata::read);

/// The output of `cargo metadata` for this workspace and its dependencies.
struct Metadata {
    root: PathBuf,
    packages: BTreeMap<String, Value>,
    members: Vec<String>,
    /// Package id to the ids of its normal dependencies, default features on.
    normal: BTreeMap<String, Vec<String>>,
}

impl Metadata {
    fn read() -> Self {
        // For the one platform that AF_XDP and TAP exist on; others would only add crates that are
        // never built here.
        let args = [
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ];
        let output = cargo().args(args).output().expect("cargo runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let json: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
        let packages = list(&json["packages"])
            .map(|package| (text(&package["id"]), package.clone()))
            .collect();
        let normal = list(&json["resolve"]["nodes"])
            .map(|node| {
                let normal = list(&node["deps"])
                    .filter(|dep| list(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null()));
                (
                    text(&node["id"]),
                    normal.map(|dep| text(&dep["pkg"])).collect(),
                )
            })
            .collect();
        let members = list(&json["workspace_members"]).map(text).collect();
        Self {
            root: text(&json["workspace_root"]).into(),
            packages,
            members,
            normal,
        }
    }

    /// The members: short name and package.
    fn members(&self) -> impl Iterator<Item = (String, &Value)> {
        self.members
            .iter()
            .map(|id| (self.name(id), &self.packages[id]))
    }

    /// A package's name, ours without the common prefix.
    fn name(&self, id: &str) -> String {
        let name = text(&self.packages[id]["name"]);
        name.strip_prefix("tautline-").unwrap_or(&name).to_owned()
    }

    /// Names of everything `crate_name` depends on, at any depth.
    fn tree(&self, crate_name: &str) -> Vec<String> {
        let root = self
            .members
            .iter()
            .find(|id| self.name(id) == crate_name)
            .expect("a member of that name");
        let (mut seen, mut open) = (Vec::new(), self.normal[root].clone());
        while let Some(id) = open.pop() {
            let name = self.name(&id);
            if !seen.contains(&name) {
                seen.push(name);
                open.extend(self.normal[&id].iter().cloned());
            }
        }
        seen.sort();
        seen
    }
}

fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

/// Short names of the members that `package` declares as normal dependencies.
fn declared(package: &Value) -> Vec<String> {
    list(&package["dependencies"])
        .filter(|dependency| dependency["kind"].is_null())
        .filter_map(|dependency| {
            text(&dependency["name"])
                .strip_prefix("tautline-")
                .map(str::to_owned)
        })
        .collect()
}

#[test]
fn every_crate_sees_only_what_the_architecture_says() {
    for (name, package) in METADATA.members() {
        if !text(&package["manifest_path"]).contains("/crates/") {
            continue;
        }
        let allowed = ARROWS
            .get(&name)
            .unwrap_or_else(|| panic!("ARCHITECTURE.md lacks {name}"));
        let mut seen = declared(package);
        seen.sort();
        assert_eq!(
            seen, *allowed,
            "{name}: its dependencies, and ARCHITECTURE.md"
        );
    }
}

#[test]
fn every_crate_of_the_architecture_exists() {
    let members: Vec<_> = METADATA.members().map(|(name, _)| name).collect();
    for name in ARROWS.keys() {
        assert!(members.contains(name), "{name}");
    }
}

#[test]
fn only_packages_with_binaries_link_af_xdp() {
    for (name, package) in METADATA.members() {
        let links = declared(package).iter().any(|seen| seen == "xdp-io");
        assert!(
            !links || MAY_LINK_XDP.contains(&name.as_str()),
            "{name} must not link xdp-io"
        );
    }
}

/// Elsewhere experiments run in virtual time, which needs no event loop and no device.
#[test]
fn the_lab_depends_on_the_real_time_runtime_on_linux_only() {
    let (_, lab) = METADATA
        .members()
        .find(|(name, _)| name == "lab")
        .expect("a member");
    let dependencies = list(&lab["dependencies"]).filter(|dependency| dependency["kind"].is_null());
    let real_time: Vec<_> = dependencies
        .filter(|dependency| {
            ["tautline-rt", "tautline-xdp-io", "rustix"]
                .contains(&text(&dependency["name"]).as_str())
        })
        .collect();
    assert_eq!(real_time.len(), 3, "rt, AF_XDP and namespaces");
    for dependency in real_time {
        assert_eq!(
            dependency["target"], "cfg(target_os = \"linux\")",
            "{}",
            dependency["name"]
        );
    }
}

#[test]
fn no_feature_changes_behavior() {
    for (name, package) in METADATA.members() {
        let features: Vec<_> = package["features"]
            .as_object()
            .expect("a map")
            .keys()
            .map(String::as_str)
            .collect();
        let available: &[&str] = match name.as_str() {
            "cli" => &["af-xdp", "default", "lab"],
            "examples" => &["af-xdp", "default"],
            _ if MAY_LINK_XDP.contains(&name.as_str()) => &["af-xdp", "default"],
            // Randomness for hash keys.
            "base" | "qdisc" | "smoltcp" | "tc" => &["std", "default"],
            // `AsFd` of the device below.
            "offload" => &["std"],
            // quinn's socket over a stack, beside the controllers.
            "quinn" => &["default", "socket"],
            // The facade re-exports a crate for each.
            "tautline" => &[
                "bql", "cc", "default", "qdisc", "rt", "sim", "smoltcp", "stack", "std", "tc",
            ],
            _ => &[],
        };
        assert!(
            features.iter().all(|feature| available.contains(feature)),
            "{name} has features {features:?}"
        );
    }
}

#[test]
fn the_crates_without_std_depend_on_nothing_that_needs_it() {
    for (name, expected) in NO_STD {
        assert_eq!(METADATA.tree(name), expected, "{name}");
        let root = fs::read_to_string(METADATA.root.join("crates").join(name).join("src/lib.rs"))
            .expect("a library");
        assert!(root.lines().any(|line| line == "#![no_std]"), "{name}");
    }
}

/// Where the bare target is installed, the crates are compiled for it; elsewhere the test above is
/// all there is.
#[test]
fn the_crates_without_std_compile_where_there_is_none() {
    let rustc = Command::new("rustc")
        .args(["--print=target-libdir", "--target", BARE_TARGET])
        .output()
        .expect("rustc runs");
    if !Path::new(String::from_utf8_lossy(&rustc.stdout).trim()).exists() {
        eprintln!("not checked: {BARE_TARGET} is not installed; `rustup target add {BARE_TARGET}`");
        return;
    }
    let packages = NO_STD
        .iter()
        .flat_map(|(name, _)| ["-p".to_owned(), format!("tautline-{name}")]);
    let output = cargo()
        .args([
            "check",
            "--locked",
            "--quiet",
            "--no-default-features",
            "--target",
            BARE_TARGET,
            "--target-dir",
            env!("CARGO_TARGET_TMPDIR"),
        ])
        .args(packages)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_module_says_what_it_is_for() {
    for directory in ["crates", "examples", "benches"] {
        for file in sources(&METADATA.root.join(directory)) {
            let source = fs::read_to_string(&file).expect("a source file");
            assert!(
                source.starts_with("//! ") || exempt(&file),
                "{} does not begin with `//!`",
                file.display()
            );
        }
    }
}

/// Unit tests in a file of their own, and the roots of test programs, say it by their name.
fn exempt(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name == "tests.rs" || name == "main.rs")
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| match path {
            _ if path.is_dir() && path.file_name().is_some_and(|name| name != "target") => {
                sources(&path)
            }
            _ if path.extension().is_some_and(|extension| extension == "rs") => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn only_kernel_sockets_and_the_checksum_may_hold_unsafe_code() {
    for (name, package) in METADATA
        .members()
        .filter(|(name, _)| !["xdp-io", "packet-io"].contains(&name.as_str()))
    {
        let ships =
            |target: &&Value| list(&target["kind"]).any(|kind| kind == "lib" || kind == "bin");
        for target in list(&package["targets"]).filter(ships) {
            let source = fs::read_to_string(text(&target["src_path"])).expect("a source file");
            // In base one module lifts the lint.
            let level = if name == "base" { "deny" } else { "forbid" };
            let lint = format!("#![{level}(unsafe_code)]");
            assert!(
                source.lines().any(|line| line == lint),
                "{name}: {}",
                target["name"]
            );
        }
    }
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lifts = |file: &PathBuf| {
        let source = fs::read_to_string(file).expect("a source file");
        // The attribute, not the lint level in the root.
        file.file_name().is_none_or(|name| name != "lib.rs") && source.contains("unsafe_code")
    };
    let lifting: Vec<_> = sources(&base).into_iter().filter(lifts).collect();
    assert_eq!(lifting, [base.join("checksum/avx2.rs")]);
}

/// Both licenses ask that their text goes with every copy, and a package has only its own directory.
#[test]
fn every_published_package_has_its_licenses_and_a_readme() {
    for (name, package) in METADATA.members() {
        if package["publish"]
            .as_array()
            .is_some_and(|registries| registries.is_empty())
        {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let directory = manifest.parent().expect("a manifest is in a directory");
        for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let of = |directory: &Path| fs::read(directory.join(license)).unwrap_or_default();
            assert_eq!(of(directory), of(&METADATA.root), "{name}: {license}");
        }
        assert!(directory.join("README.md").exists(), "{name}: README.md");
    }
}

#[test]
fn every_dependency_comes_under_a_permissive_license() {
    for package in METADATA.packages.values() {
        let name = text(&package["name"]);
        let license = package["license"]
            .as_str()
            .unwrap_or_else(|| panic!("{name} names no license"));
        assert!(permits(license), "{name} comes under {license:?}");
    }
}

/// Whether an SPDX expression, or the older notation with a slash, offers terms we accept. `AND`
/// binds tighter than `OR`; of parentheses only those around alternatives occur.
fn permits(expression: &str) -> bool {
    let conjunction = |all: &str| {
        all.split(" AND ").all(|term| {
            let term = term.trim_matches(|c| c == '(' || c == ')' || c == ' ');
            term.split(" OR ")
                .any(|license| LICENSES.contains(&license))
        })
    };
    let expression = expression.replace(" / ", " OR ").replace('/', " OR ");
    if expression.contains('(') {
        conjunction(&expression)
    } else {
        expression.split(" OR ").any(conjunction)
    }
}

#[test]
fn license_expressions_are_understood() {
    for accepted in [
        "MIT",
        "MIT/Apache-2.0",
        "LGPL-2.1 OR BSD-2-Clause",
        "(MIT OR GPL-2.0) AND Unicode-3.0",
        "MIT AND ISC",
    ] {
        assert!(permits(accepted), "{accepted}");
    }
    for refused in [
        "GPL-2.0",
        "GPL-3.0-or-later",
        "MIT AND GPL-2.0",
        "(MIT OR ISC) AND GPL-2.0",
        "LGPL-2.1",
        "",
    ] {
        assert!(!permits(refused), "{refused}");
    }
}
