//! Dynamic queue limits keep the device's ring short at the same throughput, and leave the waiting
//! to the qdisc.

use crate::common::{long_wire, ms, run};
use tautline_base::Rate;
use tautline_bql::LimitKind;
use tautline_sim::{NicConfig, Outcome, Transfer};
use tautline_stack::{TcpConfig, TsqLimit};

fn with(limit: LimitKind) -> Outcome {
    let nic = NicConfig {
        rate: Rate::mbit(100),
        ..NicConfig::default()
    };
    let sender = TcpConfig {
        tsq: TsqLimit::Off,
        ..TcpConfig::default()
    };
    let qdisc = "pfifo limit 1000".parse().expect("valid");
    run(&Transfer {
        bytes: 8 << 20,
        links: long_wire(ms(20)),
        nic,
        qdisc,
        ring_limit: limit.into(),
        sender,
        ..Transfer::default()
    })
}

#[test]
fn the_ring_empties_and_the_throughput_stays() {
    let (on, off) = (with(LimitKind::default()), with(LimitKind::Unlimited));
    let peaks = (on.nics[0].tx_bytes_peak, off.nics[0].tx_bytes_peak);
    println!(
        "ring peak on {} off {}, limit {}",
        peaks.0, peaks.1, on.ring_limits[0]
    );
    assert_eq!(
        off.nics[0].tx_ring_peak, 256,
        "without a limit the ring fills"
    );
    assert!(peaks.0 * 10 < peaks.1, "{} against {}", peaks.0, peaks.1);
    assert!(
        on.goodput >= off.goodput.percent(98),
        "{} against {}",
        on.goodput,
        off.goodput
    );
}
