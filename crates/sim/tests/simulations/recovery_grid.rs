//! Loss recovery on a grid of paths, compared with a record, cell by cell: a change of behavior
//! that no single test names shows here. `RECOVERY_GRID=new cargo test -p tautline-sim
//! --test simulations recovery_grid -- --nocapture` prints a new record. Packets of several segments
//! run over the same paths; only what holds for both forms is compared.

use std::fmt;

use crate::common::{impaired, ms, percent, run};
use tautline_base::{Bytes, Rate, Tso};
use tautline_sim::transfer::SENDER;
use tautline_sim::{Impairments, LinkConfig, NicConfig, Outcome, Transfer};
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

    /// Each segment is a packet of its own.
    fn run(self) -> Outcome {
        self.run_over(NicConfig::default())
    }

    /// The digest of what arrives is compared with that of what was sent, and nothing is left
    /// behind.
    fn run_over(self, nic: NicConfig) -> Outcome {
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
                nic,
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

/// The counters of a cell's line that have bounds.
struct Counts {
    loss: u64,
    reorder: u64,
    retransmits: u64,
    timeouts: u64,
    recoveries: u64,
    spurious: u64,
}

impl Counts {
    fn of(cell: Cell, outcome: &Outcome) -> Self {
        let sender = &outcome.sender;
        Self {
            loss: cell.loss.into(),
            reorder: cell.reorder.into(),
            retransmits: sender.retransmits,
            timeouts: sender.timeouts,
            recoveries: sender.fast_recoveries,
            spurious: sender.spurious,
        }
    }

    /// Nothing is retransmitted on a path that loses and reorders nothing, timeouts are the exception,
    /// and the sender detects that what reordering alone provokes is needless.
    fn assert_sound(&self, line: &str) {
        if self.loss == 0 && self.reorder == 0 {
            let events = [
                self.retransmits,
                self.timeouts,
                self.recoveries,
                self.spurious,
            ];
            assert_eq!(events, [0; 4], "{line}");
        }
        assert!(self.timeouts <= self.loss, "{line}");
        assert!(
            self.loss > 0 || (self.recoveries == self.spurious && self.retransmits < 20),
            "{line}"
        );
        assert!(self.loss == 0 || self.retransmits > 0, "{line}");
    }
}

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
        let counts = Counts {
            loss,
            reorder,
            retransmits,
            timeouts,
            recoveries,
            spurious,
        };
        counts.assert_sound(line);
    }
}

/// Packets of several segments, which the NIC cuts: the sender is as sound, retransmits the lost segments and
/// not the packets that they left in, and takes as long as with single segments but for one timeout.
#[test]
fn packets_of_several_segments_recover_alike() {
    for cell in Cell::all() {
        let large_packets = NicConfig {
            tso: Some(Tso::MOST),
            ..NicConfig::default()
        };
        let (single, large) = (cell.run(), cell.run_over(large_packets));
        let line = format!("\n{}\n{}", Row(cell, &single), Row(cell, &large));
        Counts::of(cell, &large).assert_sound(&line);
        assert!(
            large.hosts[SENDER].births < large.nics[SENDER].tx_frames * 4 / 5,
            "packets have several segments: {line}"
        );
        // Tail loss probes, and retransmissions that reordering provokes.
        let lost = large.links[SENDER].lost;
        assert!(large.sender.retransmits <= lost + 4, "{lost} lost: {line}");
        let spare = if cell.loss > 0 { ms(500) } else { ms(0) };
        assert!(large.duration <= single.duration * 5 / 4 + spare, "{line}");
    }
}
