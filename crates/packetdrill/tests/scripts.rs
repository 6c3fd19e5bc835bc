//! Plays every script below `scripts`: each must pass, and none may need what is not supported.

use std::fs;
use std::path::{Path, PathBuf};

use tautline_packetdrill::{Rules, Script, run};

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of scripts") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(scripts(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Nothing may leave that a script does not say.
fn strict(ipv6: bool) -> Rules {
    Rules {
        complete: true,
        ipv6,
        ..Rules::default()
    }
}

fn play_all(rules: &Rules) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let scripts = scripts(&root);
    assert!(!scripts.is_empty());
    let failures: Vec<String> = scripts
        .iter()
        .filter_map(|path| {
            let text = fs::read_to_string(path).expect("text");
            let script = Script::parse(&text).expect("a script");
            let failure = run(&script, rules).err()?;
            Some(format!("{}: {failure}", path.display()))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_script_passes_over_ipv4() {
    play_all(&strict(false));
}

#[test]
fn every_script_passes_over_ipv6() {
    play_all(&strict(true));
}

/// The runner ignores PSH unless asked, as packetdrill does.
#[test]
fn data_with_fin_is_pushed() {
    let path = "scripts/defects/16_11_data_with_fin_is_pushed.pkt";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let script = Script::parse(&fs::read_to_string(path).expect("text")).expect("a script");
    let rules = Rules {
        compare_push: true,
        ..Rules::default()
    };
    run(&script, &rules).expect("FIN and PSH");
}

/// The sum of such a tolerance and a time would overflow.
#[test]
fn a_tolerance_beyond_any_time_is_not_supported() {
    for percent in ["1e300", "inf"] {
        let text = format!("--tolerance_percent={percent}\n+1 > . 1:1(0) ack 1\n");
        let script = Script::parse(&text).expect("a script");
        let failure = run(&script, &Rules::default()).expect_err("refused");
        assert!(
            failure.to_string().contains("tolerance_percent"),
            "{failure}"
        );
    }
}

#[test]
fn a_script_that_expects_something_else_fails() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
        +0 bind(3, ..., ...) = 0
        +0 listen(3, 1) = 0
        +0 < S 0:0(0) win 32792 <mss 1000>
        +0 > S. 0:0(0) ack 2 <...>";
    let script = Script::parse(text).expect("a script");
    let failure = run(&script, &Rules::default()).expect_err("the acknowledgment differs");
    assert!(
        failure
            .to_string()
            .contains("acknowledgment numbers differ"),
        "{failure}"
    );
}
