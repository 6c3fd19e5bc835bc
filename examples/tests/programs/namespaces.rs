//! Two network namespaces joined by a veth pair, each end for one of our programs.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The pair, removed when dropped. The interface is `v` in both namespaces.
pub(crate) struct Pair {
    pub(crate) namespaces: [String; 2],
}

/// Runs `ip` with these words.
#[track_caller]
pub(crate) fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.expect("iproute2 is installed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ip {words}: {said}");
}

impl Pair {
    /// `None`, with the reason on standard error, where namespaces or AF_XDP cannot be had.
    pub(crate) fn new() -> Option<Self> {
        Self::with_queues(1)
    }

    /// The same, with so many queues at both ends.
    pub(crate) fn with_queues(queues: u32) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
        let root = std::fs::metadata("/proc/self")
            .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        if !root || !protocols.lines().any(|line| line.starts_with("XDP ")) {
            eprintln!("skipped: it needs root and AF_XDP");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespaces = ["a", "b"].map(|end| {
            let name = format!("tl-programs-{}-{number}-{end}", std::process::id());
            ip(&format!("netns add {name}"));
            name
        });
        let pair = Self { namespaces };
        let [a, b] = &pair.namespaces;
        ip(&format!(
            "link add v netns {a} numtxqueues {queues} numrxqueues {queues} type veth \
             peer name v netns {b} numtxqueues {queues} numrxqueues {queues}"
        ));
        for end in [a, b] {
            ip(&format!("-n {end} link set v up"));
        }
        Some(pair)
    }

    /// Starts `program` with `words`, in which `~` stands for a space, in namespace `end`, and waits until it has said `ready` if that is not
    /// empty.
    pub(crate) fn start(&self, end: usize, program: &str, words: &str, ready: &str) -> Running {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespaces[end], program])
            .args(words.split_whitespace().map(|word| word.replace('~', " ")))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut said = String::new();
        let stderr = child.stderr.as_mut().expect("a pipe");
        let mut byte = [0];
        while !said.contains(ready) && stderr.read(&mut byte).expect("a pipe") > 0 {
            said.push(char::from(byte[0]));
        }
        assert!(said.contains(ready), "{program}: {said}");
        Running { child, said }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            ip(&format!("netns del {namespace}"));
        }
    }
}

/// A program that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    said: String,
}

impl Running {
    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args([name, &id]).status();
        assert!(killed.is_ok_and(|status| status.success()));
    }

    /// Its standard output, once it has ended in order within `time`.
    #[track_caller]
    pub(crate) fn output_within(mut self, time: Duration) -> String {
        let mut output = String::new();
        let stdout = self.child.stdout.take();
        let (good, said) = self.end_within(time);
        assert!(good, "{said}");
        let read = stdout.expect("a pipe").read_to_string(&mut output);
        read.expect("text");
        output
    }

    /// Whether it was successful and what it said on standard error, if it ends within `time`.
    #[track_caller]
    pub(crate) fn end_within(mut self, time: Duration) -> (bool, String) {
        let pause = Duration::from_millis(20);
        let mut waits = time.as_millis() / pause.as_millis();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break status;
            }
            assert!(waits > 0, "still running after {time:?}: {}", self.said);
            waits -= 1;
            std::thread::park_timeout(pause);
        };
        let mut rest = String::new();
        let stderr = self.child.stderr.as_mut().expect("a pipe");
        stderr.read_to_string(&mut rest).expect("text");
        (status.success(), std::mem::take(&mut self.said) + &rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ = self.child.wait();
    }
}
