//! TCP Small Queues keep the host's own qdisc short at the same throughput.

use crate::common::{long_wire, ms, run_watched};
use tautline_base::Rate;
use tautline_sim::transfer::SENDER;
use tautline_sim::{NicConfig, Outcome, Transfer};
use tautline_stack::{TcpConfig, TsqLimit};

/// The host's NIC is the bottleneck, its qdisc a deep FIFO. Returns the mean and the peak of its
/// backlog in packets.
fn backlog(tsq: TsqLimit) -> (Outcome, f64, usize) {
    let nic = NicConfig {
        rate: Rate::mbit(100),
        ..NicConfig::default()
    };
    let sender = TcpConfig {
        tsq,
        ..TcpConfig::default()
    };
    let qdisc = "pfifo limit 1000".parse().expect("valid");
    let transfer = Transfer {
        bytes: 8 << 20,
        links: long_wire(ms(20)),
        nic,
        qdisc,
        sender,
        ..Transfer::default()
    };
    let (mut samples, mut sum, mut peak) = (0u64, 0, 0);
    let outcome = run_watched(&transfer, |network| {
        let packets = network.endpoint(SENDER).host.port().backlog().packets;
        samples += 1;
        sum += packets;
        peak = peak.max(packets);
    });
    (outcome, sum as f64 / samples as f64, peak)
}

#[test]
fn the_backlog_collapses_and_the_throughput_stays() {
    let (with, mean, peak) = backlog(TsqLimit::default());
    let (without, mean_without, peak_without) = backlog(TsqLimit::Off);
    println!(
        "on: mean {mean:.1} peak {peak} {}; off: mean {mean_without:.1} peak {peak_without} {}",
        with.goodput, without.goodput
    );
    assert!(with.sender.tsq_throttles > 0 && without.sender.tsq_throttles == 0);
    assert!(
        peak_without > 20 * peak && mean_without > 20.0 * mean,
        "{mean}/{peak} against {mean_without}/{peak_without}"
    );
    assert!(
        with.goodput >= without.goodput.percent(98),
        "{} against {}",
        with.goodput,
        without.goodput
    );
    assert!(
        with.sender.srtt < without.sender.srtt / 2,
        "{:?} against {:?}",
        with.sender.srtt,
        without.sender.srtt
    );
}

#[test]
fn a_longer_limit_lets_more_through() {
    let peaks = [1, 4, 16].map(|ms| backlog(TsqLimit::millis(ms)).2);
    assert!(peaks.is_sorted_by(|a, b| a < b), "{peaks:?}");
}
