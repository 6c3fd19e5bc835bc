//! The machine as a whole: kernel, privileges, limits, clock, namespaces.

use super::{Finding, Machine};

/// Bits of capabilities in `/proc/self/status` (`include/uapi/linux/capability.h`).
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const IPC_LOCK: u64 = 1 << 14;
const SYS_ADMIN: u64 = 1 << 21;
const BPF: u64 = 1 << 39;

/// UMEM of a device with default frame counts: 8192 frames of 4 KiB, in bytes.
const UMEM: u64 = 8192 * 4096;

/// Findings that concern no single interface.
pub(super) fn examine(machine: &Machine) -> Vec<Finding> {
    let release = machine.read("proc/sys/kernel/osrelease");
    let mut findings = vec![Finding::ok(
        "kernel",
        release
            .clone()
            .unwrap_or_else(|| "of unknown release".into()),
    )];
    let capabilities = capabilities(machine);
    findings.push(packet_sockets(capabilities));
    findings.push(tap(machine, capabilities));
    findings.extend(af_xdp(machine, capabilities));
    findings.push(namespaces(machine));
    findings.push(cgroup(machine));
    findings.push(clock(machine));
    findings.push(modules(machine, &release.unwrap_or_default()));
    findings.extend(defaults(machine));
    findings
}

/// Effective capabilities of this process.
fn capabilities(machine: &Machine) -> u64 {
    let status = machine.read("proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or_default()
}

fn packet_sockets(capabilities: u64) -> Finding {
    if capabilities & NET_RAW != 0 {
        Finding::ok("packet sockets", "allowed (--device packet)")
    } else {
        Finding::missing(
            "packet sockets",
            "not allowed without CAP_NET_RAW",
            "run as root, or `setcap cap_net_raw,cap_net_admin,cap_bpf+ep tautline`; `tautline link` needs neither",
        )
    }
}

fn tap(machine: &Machine, capabilities: u64) -> Finding {
    if !machine.has("dev/net/tun") {
        Finding::missing("tap", "no /dev/net/tun", "modprobe tun")
    } else if capabilities & NET_ADMIN == 0 {
        Finding::missing(
            "tap",
            "new interfaces need CAP_NET_ADMIN",
            "run as root, or let root make one: `ip tuntap add NAME mode tap user $USER`",
        )
    } else {
        Finding::ok("tap", "allowed (--device tap)")
    }
}

fn af_xdp(machine: &Machine, capabilities: u64) -> Vec<Finding> {
    let protocols = machine.read("proc/net/protocols").unwrap_or_default();
    let needed = NET_ADMIN | NET_RAW;
    let allowed = capabilities & needed == needed && capabilities & (BPF | SYS_ADMIN) != 0;
    let socket = if !protocols.lines().any(|line| line.starts_with("XDP ")) {
        Finding::missing(
            "af_xdp",
            "the kernel has no AF_XDP",
            "boot a kernel with CONFIG_XDP_SOCKETS; --device packet works without",
        )
    } else if cfg!(not(feature = "af-xdp")) {
        Finding::missing(
            "af_xdp",
            "this program was built without it",
            "`cargo install --path crates/cli --features af-xdp` (needs a C toolchain)",
        )
    } else if !allowed {
        Finding::missing(
            "af_xdp",
            "needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
            "run as root, or `setcap cap_net_raw,cap_net_admin,cap_bpf+ep tautline`",
        )
    } else {
        Finding::ok("af_xdp", "allowed; --bind tries it on an interface")
    };
    vec![socket, memlock(machine, capabilities)]
}

/// The UMEM counts against RLIMIT_MEMLOCK unless the process has CAP_IPC_LOCK
/// (`net/xdp/xdp_umem.c`, `xdp_umem_account_pages`).
fn memlock(machine: &Machine, capabilities: u64) -> Finding {
    let limits = machine.read("proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1));
    let bytes = hard.and_then(|hard| hard.parse::<u64>().ok());
    match bytes {
        _ if capabilities & IPC_LOCK != 0 => {
            Finding::ok("memlock", "no limit for this process (CAP_IPC_LOCK)")
        }
        Some(bytes) if bytes < UMEM => Finding::missing(
            "memlock",
            format!(
                "at most {} KiB may be locked, AF_XDP's frames need {} KiB",
                bytes >> 10,
                UMEM >> 10
            ),
            format!("`ulimit -l {}` as root, or grant CAP_IPC_LOCK", UMEM >> 10),
        ),
        _ => Finding::ok("memlock", "enough for AF_XDP's frames"),
    }
}

/// User namespaces are what `tautline link` needs in place of root.
fn namespaces(machine: &Machine) -> Finding {
    let is = |path: &str, value: &str| machine.read(path).as_deref() == Some(value);
    if !machine.has("proc/self/ns/user") || is("proc/sys/user/max_user_namespaces", "0") {
        Finding::missing(
            "user namespaces",
            "none can be made",
            "`sysctl user.max_user_namespaces=10000`; until then only root can use `tautline link`",
        )
    } else if is("proc/sys/kernel/unprivileged_userns_clone", "0") {
        Finding::missing(
            "user namespaces",
            "only root can make them",
            "`sysctl kernel.unprivileged_userns_clone=1`",
        )
    } else if is("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        Finding::note(
            "user namespaces",
            "AppArmor takes their privileges from programs without a profile",
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0` if `tautline link` fails",
        )
    } else {
        Finding::ok("user namespaces", "allowed (`tautline link` without root)")
    }
}

fn cgroup(machine: &Machine) -> Finding {
    match machine.read("sys/fs/cgroup/cgroup.controllers") {
        Some(controllers) => Finding::ok("cgroup", format!("version 2: {controllers}")),
        None => Finding::note(
            "cgroup",
            "version 1, or not mounted",
            "`mount -t cgroup2 none /sys/fs/cgroup` to give a middlebox a share of its own",
        ),
    }
}

/// Every packet costs several readings of the clock.
fn clock(machine: &Machine) -> Finding {
    let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    match machine.read(path) {
        Some(slow) if ["hpet", "acpi_pm", "jiffies", "refined-jiffies"].contains(&&*slow) => {
            Finding::note(
                "clock",
                format!("{slow}: each reading is a system call"),
                "boot with tsc=reliable if the processor's TSC is",
            )
        }
        Some(name) => Finding::ok("clock", name),
        None => Finding::note(
            "clock",
            "its source is unknown",
            format!("mount /sys: the source is in /{path}"),
        ),
    }
}

/// Modules that comparisons with the kernel use: its qdiscs and BBR.
fn modules(machine: &Machine, release: &str) -> Finding {
    const WANTED: [&str; 6] = [
        "sch_fq",
        "sch_fq_codel",
        "sch_cake",
        "sch_netem",
        "sch_tbf",
        "tcp_bbr",
    ];
    let indexes = ["builtin", "dep"]
        .map(|index| machine.read(&format!("lib/modules/{release}/modules.{index}")));
    let loaded = machine.read("proc/modules").unwrap_or_default();
    let control = machine
        .read("proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    let has = |name: &&str| {
        let file = format!("/{name}.ko");
        indexes.iter().flatten().any(|text| text.contains(&file))
            || loaded
                .lines()
                .any(|line| line.split(' ').next() == Some(*name))
            || name
                .strip_prefix("tcp_")
                .is_some_and(|name| control.split(' ').any(|has| has == name))
    };
    let (there, absent): (Vec<_>, Vec<_>) = WANTED.into_iter().partition(has);
    if absent.is_empty() {
        Finding::ok("kernel modules", there.join(" "))
    } else if indexes.iter().flatten().next().is_none() {
        Finding::note(
            "kernel modules",
            "no index of modules; what is compiled in cannot be seen",
            "install the modules of this kernel; `tc qdisc add` tells what works",
        )
    } else {
        Finding::note(
            "kernel modules",
            format!("no {}", absent.join(", ")),
            "ours need none of them: only comparisons with the kernel do",
        )
    }
}

fn defaults(machine: &Machine) -> Option<Finding> {
    let control = machine.read("proc/sys/net/ipv4/tcp_congestion_control")?;
    let qdisc = machine
        .read("proc/sys/net/core/default_qdisc")
        .map_or_else(String::new, |qdisc| format!(", default qdisc {qdisc}"));
    Some(Finding::ok("kernel's TCP", format!("{control}{qdisc}")))
}
