//! Our disciplines beside Linux 6.1, packet by packet.
//!
//! `scripts/validate-linux` has the kernel replay the traces made here, in simulated time, and prints the tables of
//! `docs/VALIDATION.md`. A small part of what the kernel did is recorded in `data/`, so that this test needs no kernel.

mod acks;
mod cells;
mod compare;
mod frame;
mod record;
mod replay;
mod trace;

use std::path::PathBuf;
use std::{env, fs};

use cells::{Input, SETUPS, Setup};
use compare::Verdict;
use frame::Frame;
use tautline_base::Item;
use tautline_qdisc::{DynQdisc, ParseError, Tree};

fn folder() -> PathBuf {
    PathBuf::from(env::var("TAUTLINE_RECORDINGS").expect("TAUTLINE_RECORDINGS names a folder; run scripts/validate-linux"))
}

/// Writes the job of every cell.
#[test]
#[ignore = "part of scripts/validate-linux"]
fn jobs() {
    let folder = folder();
    for setup in SETUPS {
        for &input in setup.inputs {
            let path = folder.join(setup.cell(input) + ".job");
            let job = setup.job(input);
            // Unchanged jobs keep their recordings.
            if fs::read_to_string(&path).ok().as_deref() != Some(&job) {
                fs::write(&path, job).expect("the folder is writable");
            }
        }
    }
}

/// Our side of a setup, as Linux or by default.
fn ours(setup: &Setup, linux: bool) -> Result<Box<dyn DynQdisc<Frame>>, ParseError> {
    setup.ours(linux).parse::<Tree>()?.build()
}

fn exact(setup: &Setup, input: Input, linux: bool) -> Option<Verdict> {
    let text = fs::read_to_string(folder().join(setup.cell(input) + ".out")).ok()?;
    let record = record::Record::parse(&text).expect("the driver writes what we read");
    let trace = input.trace(setup.millis());
    let tos: Vec<u8> = trace.iter().map(|arrival| arrival.frame.tos()).collect();
    let late = env::var("LATE").ok().and_then(|late| late.parse().ok()).unwrap_or(256);
    let ours = replay::replay(ours(setup, linux).ok()?, &trace, &record.arrivals, record.start, late);
    if env::var("SHOW").is_ok() {
        for (a, b) in record.departures.iter().zip(&ours).take(10000) {
            println!("{a:?} {b:?} {}", if (a.id, a.tos) == (b.id, b.tos) { "" } else { "<---" });
        }
    }
    Some(Verdict::new(&tos, &record.departures, &ours))
}

/// Compares.
#[test]
#[ignore = "part of scripts/validate-linux"]
fn tables() {
    let only = env::var("ONLY").unwrap_or_default();
    for setup in SETUPS {
        if setup.name.starts_with(only.split('.').next().unwrap_or_default())
            && let Err(error) = ours(setup, true)
        {
            println!("{}: {error}", setup.name);
            continue;
        }
        for &input in setup.inputs {
            if !setup.cell(input).starts_with(&only) {
                continue;
            }
            for linux in [true, false] {
                if let Some(v) = exact(setup, input, linux) {
                    println!(
                        "{} {linux} n {} fate {:.4} order {:.4} time {:.4} apart {:?} lost {:?} marked {:?} {}",
                        setup.cell(input),
                        v.packets,
                        v.fate,
                        v.order,
                        v.on_time,
                        v.apart,
                        v.lost,
                        v.marked,
                        v.holds()
                    );
                }
            }
        }
    }
}

#[test]
#[ignore = "debugging"]
fn debug() {
    let setup = SETUPS.iter().find(|setup| setup.name == "fq-quantum").unwrap();
    println!("{}", setup.ours(true));
    let mut q =
        tautline_qdisc::build::<Frame>("fq linux quantum 900 initial_quantum 900 maxrate 4mbit orphan_mask 65535 hz 100")
            .unwrap();
    let trace = Input::Udp(trace::Traffic::Overload).trace(4000);
    let mut d = tautline_qdisc::Drops::new();
    use tautline_qdisc::Qdisc;
    let at = |us: u64| tautline_base::Instant::from_nanos(43083712128 + us * 1000);
    for (id, us) in [(1, 1360), (4, 3267), (6, 5866)] {
        q.enqueue(trace[id].frame.clone(), at(us), &mut d);
        println!("{:?}", q.dequeue(at(us), &mut d).map(|f| f.id));
        println!("{:?}", q.dequeue(at(us), &mut d).map(|f| f.id));
    }
    for (id, us) in [(10, 8447), (11, 8453)] {
        q.enqueue(trace[id].frame.clone(), at(us), &mut d);
    }
    for us in [9077, 9078, 10000, 10068] {
        println!("{:?}", q.dequeue(at(us), &mut d).map(|f| f.id));
    }
    println!("{:?}", q.report());
}
