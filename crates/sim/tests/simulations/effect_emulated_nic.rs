//! A NIC whose interrupts wait for more frames draws fewer acknowledgments; one that is emulated is
//! bound by packets, not bytes, so large packets pass it faster and received frames slow it down.

use std::time::Duration;

use crate::common::{MSS, ms, path, run};
use tautline_base::{Rate, Tso};
use tautline_sim::transfer::RECEIVER;
use tautline_sim::{NicConfig, Outcome, Transfer};

fn transfer(nic: NicConfig) -> Outcome {
    let outcome = run(&Transfer {
        bytes: 2000 * MSS,
        links: path(1000, ms(5)),
        nic,
        ..Transfer::default()
    });
    assert!(outcome.content_equal);
    assert_eq!(outcome.outstanding, 0);
    outcome
}

#[test]
fn segments_of_one_interrupt_are_acknowledged_once() {
    let acks = |rx_delay| {
        let nic = NicConfig {
            rx_delay,
            ..NicConfig::default()
        };
        transfer(nic).nics[RECEIVER].tx_frames
    };
    let (each, late) = (acks(Duration::ZERO), acks(Duration::from_micros(250)));
    println!("{each} ACKs; {late} with late interrupts");
    assert!(late * 2 < each, "{late} against {each}");
}

/// 1514 bytes take 12 µs at 1 Gbit/s, 100 µs more make 107 Mbit/s of payload at most.
#[test]
fn packets_and_not_bytes_bound_an_emulated_nic() {
    let goodput = |tso, rx_frame_time| {
        let nic = NicConfig {
            tso,
            tx_packet_time: Duration::from_micros(100),
            rx_frame_time,
            ..NicConfig::default()
        };
        transfer(nic).goodput
    };
    let frames = goodput(None, Duration::ZERO);
    let large = goodput(Some(Tso::MOST), Duration::ZERO);
    let receiving = goodput(None, Duration::from_micros(100));
    println!("{frames} by frames, {large} by large packets, {receiving} beside received frames");
    assert!(
        frames < Rate::mbit(107) && frames > Rate::mbit(90),
        "{frames}"
    );
    assert!(large > frames.percent(125), "{large}");
    // One ACK for two segments: half as much again.
    assert!(receiving < frames.percent(80), "{receiving}");
}
