//! So many mebibytes through both ends of a connection, to count instructions of by callgrind
//! (`scripts/bench-bulk`): `bulk_bytes MEBIBYTES [tso | software] [follow] [zero-copy]`, or `bulk_bytes MEBIBYTES
//! smoltcp`. The difference of two runs, per byte, is what a byte costs. `tso`: devices carry
//! packets of several segments; `software`: they carry frames of the MTU, cut and merged in software;
//! `follow`: the send buffer follows the window; `zero-copy`: buffers are owned and lent; `smoltcp`: both ends are smoltcp's.
#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

use tautline_base::Tso;
use tautline_benches::SmoltcpBulk;
use tautline_benches::bulk::{Bulk, Joined};
use tautline_stack::TcpConfig;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(mebibytes) = arguments
        .first()
        .and_then(|number| number.parse::<u64>().ok())
    else {
        eprintln!(
            "usage: bulk_bytes MEBIBYTES [tso | software] [follow] [zero-copy] | MEBIBYTES smoltcp"
        );
        return ExitCode::from(2);
    };
    let asked = |word: &str| arguments.iter().any(|argument| argument == word);
    if asked("smoltcp") {
        SmoltcpBulk::new().transfer(mebibytes << 20);
        return ExitCode::SUCCESS;
    }
    let send_start = asked("follow").then_some(TcpConfig::LINUX_SEND_START);
    let config = TcpConfig {
        send_start,
        ..TcpConfig::default()
    };
    let zero_copy = asked("zero-copy");
    if asked("software") {
        run(Bulk::with_software_offload(config), mebibytes, zero_copy);
    } else {
        let tso = asked("tso").then_some(Tso::MOST);
        run(Bulk::with_tso(config, tso), mebibytes, zero_copy);
    }
    ExitCode::SUCCESS
}

fn run<D: Joined>(mut bulk: Bulk<D>, mebibytes: u64, zero_copy: bool) {
    bulk.zero_copy = zero_copy;
    let before = bulk.sender().stats().births;
    let took = bulk.transfer(mebibytes << 20);
    println!(
        "{took:?} of virtual time, {} births",
        bulk.sender().stats().births - before
    );
}
