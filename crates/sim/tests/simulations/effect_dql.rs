//! Dynamic queue limits keep the device's ring short at the same throughput, and leave the waiting to the discipline.

use crate::common::{long_wire, ms, run};
use tautline_base::{Bytes, Rate};
use tautline_bql::dql;
use tautline_sim::{NicConfig, Outcome, Transfer};
use tautline_stack::{TcpConfig, TsqLimit};

fn with(dql: dql::Config) -> Outcome {
    let nic = NicConfig { rate: Rate::mbit(100), ..NicConfig::default() };
    let sender = TcpConfig { tsq: TsqLimit::Off, ..TcpConfig::default() };
    let qdisc = "pfifo limit 1000".parse().expect("valid");
    run(&Transfer { bytes: 8 << 20, links: long_wire(ms(20)), nic, qdisc, dql, sender, ..Transfer::default() })
}

#[test]
fn the_ring_empties_and_the_throughput_stays() {
    let unlimited = dql::Config { limit_min: Bytes::mib(64), ..dql::Config::default() };
    let (on, off) = (with(dql::Config::default()), with(unlimited));
    let peaks = (on.nics[0].tx_bytes_peak, off.nics[0].tx_bytes_peak);
    println!("ring peak on {} off {}, limit {}", peaks.0, peaks.1, on.dql[0].limit);
    assert_eq!(off.nics[0].tx_ring_peak, 256, "without a limit the ring fills");
    assert!(peaks.0 * 10 < peaks.1, "{} against {}", peaks.0, peaks.1);
    assert!(on.goodput >= off.goodput.percent(98), "{} against {}", on.goodput, off.goodput);
}
