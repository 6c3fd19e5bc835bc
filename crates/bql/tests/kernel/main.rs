//! [`Dql`] beside the kernel's own arithmetic: the limit after every step of random sequences.
//!
//! `limits.txt` holds what Linux 6.12's `lib/dynamic_queue_limits.c` answered to sequences that
//! [`sequence`] makes again from their seeds: numbers, no code. To ask a kernel anew, compile that
//! file with a main program that reads one command a line, `I HOLD MIN MAX STALL_THRS` (initialize,
//! jiffies from 1000), `Q BYTES`, `C BYTES`, `T JIFFIES`, `R` (reset), and prints `LIMIT AVAILABLE
//! INFLIGHT STALL_CNT STALL_MAX` after each; then give its path:
//!
//! ```text
//! DQL_ORACLE=path/to/program cargo test --release -p tautline-bql --test kernel
//! ```
//!
//! which compares 100 000 sequences, and with `DQL_RECORD=1` writes the numbers.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use tautline_base::{Bytes, Instant, SplitMix64};
use tautline_bql::{Dql, Limit, dql};

/// One jiffy of the compared kernel.
const JIFFY: Duration = Duration::from_millis(4);
const RECORDED: u64 = 200;
const STEPS: usize = 300;

/// One sequence of events, as commands, and the answers of our limit to each.
fn sequence(seed: u64) -> (String, Vec<[u64; 3]>) {
    let mut rng = SplitMix64::new(seed);
    let mut below = |bound: u64| rng.next_u64() % bound;
    let (hold, min) = (
        [0, 3, 25, 250][below(4) as usize],
        [0, 0, 1514, 20_000][below(4) as usize],
    );
    let max = [1_879_048_192, 1_879_048_192, 40_000, min.max(3000)][below(4) as usize];
    let stall = [0, 4, 17, 128][below(4) as usize];
    let obeys = below(5) != 0;
    let largest = [1514, 1514, 65_536, 268_435_455][below(4) as usize];
    let config = dql::Config {
        limit_min: Bytes::new(min),
        limit_max: Bytes::new(max),
        hold_time: JIFFY * hold,
        stall_threshold: (stall > 0).then(|| JIFFY * stall),
    };
    let mut dql = Dql::new(config).expect("valid");
    let mut now = Instant::ZERO + JIFFY * 1000;
    let mut commands = format!("I {hold} {min} {max} {stall}\n");
    let mut answers = vec![answer(&dql)];
    // The kernel watches slack from its initialization on, ours from the first object: begin with
    // one.
    let mut first = true;
    while answers.len() < STEPS {
        let in_flight = dql.in_flight().get();
        let what = if std::mem::take(&mut first) {
            0
        } else {
            below(100)
        };
        match what {
            0..45 => {
                if obeys && !dql.available(now) || in_flight > 1 << 30 {
                    continue;
                }
                let size = if below(2) == 0 {
                    largest
                } else {
                    below(largest) + 1
                };
                dql.queued(Bytes::new(size), now);
                writeln!(commands, "Q {size}")
            }
            45..85 => {
                let amount = if below(2) == 0 {
                    in_flight
                } else {
                    below(in_flight + 1)
                };
                dql.completed(Bytes::new(amount), now);
                writeln!(commands, "C {amount}")
            }
            85..99 => {
                let jiffies = [1, 1, 2, 7, 30, 300][below(6) as usize];
                now += JIFFY * jiffies;
                writeln!(commands, "T {jiffies}")
            }
            _ => {
                first = true;
                dql.reset();
                writeln!(commands, "R")
            }
        }
        .expect("a string takes everything");
        answers.push(answer(&dql));
    }
    (commands, answers)
}

fn answer(dql: &Dql) -> [u64; 3] {
    let snapshot = dql.snapshot();
    [
        snapshot.limit.get(),
        snapshot.stall_cnt,
        (snapshot.stall_max.as_nanos() / JIFFY.as_nanos()) as u64,
    ]
}

/// The recorded answers to the sequence of `seed`: one line each, a new answer where it changes,
/// `STEP:LIMIT,COUNT,LONGEST`.
fn changes(answers: &[[u64; 3]]) -> String {
    let mut line = String::new();
    let mut last = None;
    for (step, [limit, count, longest]) in answers.iter().enumerate() {
        if last.replace([limit, count, longest]) != Some([limit, count, longest]) {
            write!(line, "{step}:{limit},{count},{longest} ").expect("a string takes everything");
        }
    }
    line.trim_end().into()
}

#[test]
fn our_limit_is_the_recorded_kernels_at_every_step() {
    let recorded: Vec<&str> = include_str!("limits.txt").lines().collect();
    assert_eq!(recorded.len() as u64, RECORDED);
    for (seed, line) in (0..).zip(recorded) {
        assert_eq!(changes(&sequence(seed).1), line, "seed {seed}");
    }
}

#[test]
fn our_limit_is_the_kernels_at_every_step() {
    let Ok(oracle) = std::env::var("DQL_ORACLE") else {
        println!("skipped: DQL_ORACLE names no program with the kernel's arithmetic");
        return;
    };
    let mut record = String::new();
    for first in (0..100_000).step_by(1000) {
        let ours: Vec<_> = (first..first + 1000).map(sequence).collect();
        let commands: String = ours.iter().map(|(commands, _)| commands.as_str()).collect();
        let mut child = Command::new(&oracle)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("piped");
        let feeder = std::thread::spawn(move || stdin.write_all(commands.as_bytes()));
        let output = child.wait_with_output().expect("the program ends");
        feeder.join().expect("no panic").expect("the program reads");
        let text = String::from_utf8(output.stdout).expect("numbers");
        let mut kernels = text.lines().map(|line| {
            let fields: Vec<i64> = line
                .split(' ')
                .map(|field| field.parse().expect("a number"))
                .collect();
            [fields[0] as u64, fields[3] as u64, fields[4] as u64]
        });
        for (seed, (_, answers)) in (first..).zip(&ours) {
            let kernel: Vec<[u64; 3]> = kernels.by_ref().take(answers.len()).collect();
            let differs = kernel
                .iter()
                .zip(answers)
                .position(|(kernel, ours)| kernel != ours);
            if let Some(step) =
                differs.or_else(|| (kernel.len() != answers.len()).then_some(kernel.len()))
            {
                let (kernel, ours) = (kernel.get(step), answers[step]);
                panic!(
                    "seed {seed}, step {step}: {kernel:?}, ours {ours:?} after\n{}",
                    sequence(seed).0
                );
            }
            if seed < RECORDED {
                writeln!(record, "{}", changes(&kernel)).expect("a string takes everything");
            }
        }
    }
    if std::env::var_os("DQL_RECORD").is_some() {
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/limits.txt"),
            record,
        )
        .expect("written");
    }
}
