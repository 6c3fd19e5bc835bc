//! A queueing discipline alone, as a router or a VPN would use it: `cargo run --example
//! qdisc_alone`.
//!
//! A bulk flow and a sparse one share fq_codel in front of a link of 10 Mbit/s. The bulk flow
//! builds a queue, which CoDel cuts; the sparse flow does not wait behind it.

use tautline_base::{Instant, Item, Packet, Rate};
use tautline_qdisc::{Drops, Qdisc, Stats};
use tautline_tc::Inspect;

fn main() -> Result<(), tautline_tc::ParseError> {
    let mut queue = Stats::new(tautline_tc::build::<Packet<()>>("fq_codel target 5ms")?);
    let mut drops = Drops::new();
    let (mut now, mut longest) = (Instant::ZERO, [0; 2]);
    for round in 0..10_000u32 {
        // Flow 0 sends 1500 bytes every round, twice of that in every tenth; flow 1 sends 100 bytes
        // in every twentieth.
        for (flow, len, every) in [(0, 1500, 1), (0, 1500, 10), (1, 100, 20)] {
            if round % every == 0 {
                queue.enqueue(
                    Packet::new((), len).with_hashes(flow, 0, 0),
                    now,
                    &mut drops,
                );
            }
        }
        if let Some(packet) = queue.dequeue(now, &mut drops) {
            let waited = &mut longest[packet.flow_hash() as usize];
            *waited = (now - packet.enqueued()).as_micros().max(*waited);
            now += packet.len() / Rate::mbit(10);
        }
        drops.drain().for_each(drop);
    }
    println!(
        "longest wait: bulk flow {} us, sparse flow {} us",
        longest[0], longest[1]
    );
    for (name, value) in queue.report().counters {
        println!("{name:18} {value}");
    }
    Ok(())
}
