//! Loss recovery on a grid of paths, compared with a record, cell by cell: a change of behavior
//! that no single test names shows here. `RECOVERY_GRID=new cargo test -p tautline-sim
//! --test simulations recovery_grid -- --nocapture` prints a new record.

use std::fmt;

use crate::common::{impaired, ms, percent, run};
use tautline_base::{Bytes, Rate};
use tautline_sim::{Impairments, LinkConfig, Outcome, Transfer};
use tautline_stack::TcpConfig;

const RECORD: &str = include_str!("recovery_grid.txt");
/// Transferred in each cell.
const BYTES: u64 = 400_000;
const MBIT: u64 = 50;

/// One path and one receiver: loss and reordering each way in percent, RTT in milliseconds, receive
/// buffer in KiB.
#[derive(Clone, Copy)]
struct Cell {
    loss: u32,
    reorder: u32,
    rtt: u64,
    buffer: u64,
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        let paths = [0, 1, 5]
            .into_iter()
            .flat_map(|loss| [0, 5].map(|reorder| (loss, reorder)));
        let times = paths.flat_map(|(loss, reorder)| [1, 40, 200].map(|rtt| (loss, reorder, rtt)));
        times.flat_map(|(loss, reorder, rtt)| {
            [64, 4096].map(|buffer| Self {
                loss,
                reorder,
                rtt,
                buffer,
            })
        })
    }

    /// The digest of what arrives is compared with that of what was sent, and nothing is left
    /// behind.
    fn run(self) -> Outcome {
        let Self {
            loss,
            reorder,
            rtt,
            buffer,
        } = self;
        let impair = Impairments {
            loss: percent(loss.into()),
            reorder: percent(reorder.into()),
            reorder_delay: ms(rtt) / 4,
            ..Impairments::default()
        };
        // A queue that holds everything: nothing is lost but by impairment.
        let there = LinkConfig::bottleneck(Rate::mbit(MBIT), ms(rtt) / 2, ms(100));
        let links = [
            there,
            LinkConfig {
                delay: ms(rtt) / 2,
                ..LinkConfig::default()
            },
        ];
        let receiver = TcpConfig {
            receive_buffer: Bytes::kib(buffer),
            ..TcpConfig::default()
        };
        run(&impaired(
            Transfer {
                seed: 5,
                bytes: BYTES,
                links,
                receiver,
                ..Transfer::default()
            },
            impair,
        ))
    }
}

/// A cell's line of the record.
struct Row<'a>(Cell, &'a Outcome);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(
            Cell {
                loss,
                reorder,
                rtt,
                buffer,
            },
            Outcome {
                sender, duration, ..
            },
        ) = self;
        write!(
            f,
            "{loss:>4} {reorder:>7} {rtt:>3} {buffer:>6} | {:>5} {:>8}",
            duration.as_millis(),
            sender.retransmits
        )?;
        write!(
            f,
            " {:>8} {:>6} {:>10}",
            sender.timeouts, sender.tail_probes, sender.fast_recoveries
        )?;
        write!(f, " {:>8} {:>10}", sender.spurious, sender.duplicates)
    }
}

const HEADING: &str =
    "loss reorder rtt buffer |    ms retransm timeouts probes recoveries spurious duplicates";

#[test]
fn every_cell_recovers_as_it_was_recorded() {
    let outcomes: Vec<_> = Cell::all().map(|cell| (cell, cell.run())).collect();
    let lines: Vec<_> = outcomes
        .iter()
        .map(|(cell, outcome)| Row(*cell, outcome).to_string())
        .collect();
    if std::env::var_os("RECOVERY_GRID").is_some() {
        println!("{HEADING}\n{}", lines.join("\n"));
        return;
    }
    let mut record = RECORD.lines();
    assert_eq!(record.next(), Some(HEADING));
    let recorded: Vec<_> = record.collect();
    assert_eq!(recorded.len(), lines.len(), "cells");
    let differ: Vec<_> = recorded
        .iter()
        .zip(&lines)
        .filter(|(recorded, line)| *recorded != line)
        .collect();
    let report = differ
        .iter()
        .map(|(recorded, line)| format!("recorded {recorded}\nnow      {line}\n"));
    assert!(
        differ.is_empty(),
        "{} cells differ:\n         {HEADING}\n{}",
        differ.len(),
        report.collect::<String>()
    );
}

/// For any record: nothing is retransmitted on a path that loses and reorders nothing, timeouts are
/// the exception, and what reordering alone provokes is found to be needless.
#[test]
fn the_record_is_of_a_sound_sender() {
    for line in RECORD.lines().skip(1) {
        let figures: Vec<u64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [
            loss,
            reorder,
            _,
            _,
            _,
            retransmits,
            timeouts,
            _,
            recoveries,
            spurious,
            _,
        ] = figures[..]
        else {
            panic!("{line}")
        };
        if loss == 0 && reorder == 0 {
            assert_eq!(
                (retransmits, timeouts, recoveries, spurious),
                (0, 0, 0, 0),
                "{line}"
            );
        }
        assert!(timeouts <= loss, "{line}");
        assert!(
            loss > 0 || (recoveries == spurious && retransmits < 20),
            "{line}"
        );
        assert!(loss == 0 || retransmits > 0, "{line}");
    }
}
