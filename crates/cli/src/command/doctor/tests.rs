use std::fs;

use tempfile::TempDir;

use super::*;

/// A machine with these files.
fn machine(files: &[(&str, &str)]) -> (TempDir, Machine) {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let root = directory.path().to_owned();
    (directory, Machine { root })
}

#[track_caller]
fn level(findings: &[Finding], subject: &str) -> Level {
    let found = findings.iter().find(|finding| finding.subject == subject);
    found.expect("a finding").level
}

#[test]
fn a_user_without_privileges_hears_what_is_missing_and_how_to_get_it() {
    let (_directory, machine) = machine(&[
        ("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n"),
        (
            "proc/self/limits",
            "Max locked memory         65536                65536                bytes\n",
        ),
        ("proc/self/ns/user", ""),
        ("proc/net/protocols", "protocol  size\nXDP       1024\n"),
        ("dev/net/tun", ""),
    ]);
    let findings = system::examine(&machine);
    for subject in ["packet sockets", "tap", "af_xdp", "memlock"] {
        assert_eq!(level(&findings, subject), Level::Missing, "{subject}");
    }
    assert_eq!(level(&findings, "user namespaces"), Level::Ok);
    for finding in findings.iter().filter(|found| found.level != Level::Ok) {
        assert!(finding.remedy.is_some(), "{finding:?}");
    }
}

#[test]
fn root_may_do_everything_the_kernel_can() {
    let (_directory, machine) = machine(&[
        ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
        ("proc/self/ns/user", ""),
        ("proc/sys/kernel/unprivileged_userns_clone", "0\n"),
        ("dev/net/tun", ""),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet\n",
        ),
    ]);
    let findings = system::examine(&machine);
    for subject in ["packet sockets", "tap", "memlock"] {
        assert_eq!(level(&findings, subject), Level::Ok, "{subject}");
    }
    assert_eq!(level(&findings, "clock"), Level::Note);
    // Neither the kernel's protocols nor its namespaces are there.
    for subject in ["af_xdp", "user namespaces"] {
        assert_eq!(level(&findings, subject), Level::Missing, "{subject}");
    }
}

/// The machine with these findings, `Ok` or `Missing`.
fn system(levels: [(&str, bool); 4]) -> Vec<Finding> {
    levels
        .map(|(subject, works)| match works {
            true => Finding::ok(subject, "allowed"),
            false => Finding::missing(subject, "not allowed", "run as root"),
        })
        .into()
}

/// A default installation without AF_XDP, or without root, works.
#[test]
fn the_status_tells_of_what_was_asked_for() {
    let of = |[packet, tap, xdp, namespaces]: [bool; 4]| {
        system([
            ("packet sockets", packet),
            ("tap", tap),
            ("af_xdp", xdp),
            ("user namespaces", namespaces),
        ])
    };
    let user = of([false, false, false, true]);
    let root = of([true, true, false, false]);
    let nothing = of([false; 4]);
    let there = [Finding::ok("interface x0", "MTU 1500")];
    let absent = [Finding::missing(
        "interface x1",
        "does not exist",
        "`ip link`",
    )];
    for interfaces in [&there, &absent] {
        assert!(can_work(&user, interfaces, false) && can_work(&root, interfaces, false));
        assert!(!can_work(&nothing, interfaces, false));
    }
    assert!(can_work(&root, &there, true));
    assert!(!can_work(&root, &absent, true));
    assert!(!can_work(&user, &there, true), "no socket for it");
}

#[test]
fn an_interface_with_vlans_names_theirs() {
    let (_directory, machine) = machine(&[
        ("sys/class/net/x0/mtu", "1500\n"),
        ("sys/class/net/x0/upper_x0.5", ""),
        ("sys/class/net/x0/upper_bond0", ""),
        (
            "sys/class/net/x0.5/uevent",
            "DEVTYPE=vlan\nINTERFACE=x0.5\n",
        ),
        ("sys/class/net/bond0/uevent", "DEVTYPE=bond\n"),
    ]);
    let findings = interface::examine(&machine, "x0");
    let note = findings.iter().find(|found| found.fact.contains("VLAN"));
    let remedy = note.and_then(|note| note.remedy.as_deref());
    assert_eq!(remedy, Some("for one of them --iface x0.5"));
}

#[test]
fn an_interface_is_described_or_said_to_be_absent() {
    let (_directory, machine) = machine(&[
        ("sys/class/net/x0/mtu", "1500\n"),
        ("sys/class/net/x0/queues/rx-0/x", ""),
        ("sys/class/net/x0/queues/rx-1/x", ""),
        ("sys/class/net/lo/mtu", "65536\n"),
        ("sys/class/net/bonding_masters", "\n"),
    ]);
    assert_eq!(machine.interfaces(), ["x0"]);
    let findings = interface::examine(&machine, "x0");
    assert!(findings[0].fact.contains("MTU 1500, 2 receive"));
    assert_eq!(findings[1].level, Level::Note);
    let absent = interface::examine(&machine, "x1");
    assert_eq!((absent.len(), absent[0].level), (1, Level::Missing));
}
