//! Tests of the capture: what is written is read back by pcap-file and, where it is installed, by
//! tshark.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use tautline_base::Instant;
use tautline_qdisc::DropReason;
use tautline_stack::{PacketEvent, What};

use super::{Capture, CaptureConfig};
use crate::link::{LinkEvent, LinkEventKind};
use crate::record::Record;

const FRAME: [u8; 60] = [7; 60];

fn host_event(at: u64, what: What) -> PacketEvent {
    PacketEvent {
        at: Instant::from_nanos(at),
        what,
        socket: None,
        seq: 1,
        len: FRAME.len() as u32,
        sojourn: Duration::ZERO,
    }
}

/// One packet marked and sent, one dropped; a frame crosses a link.
fn sample(config: CaptureConfig) -> Vec<u8> {
    let mut capture = Capture::new(Vec::new(), config).expect("memory");
    let (sent, dropped) = (FRAME, FRAME);
    for (at, what) in [
        (1, What::Born),
        (1, What::Queued),
        (4_200_001, What::Marked),
        (4_200_001, What::Ringed),
    ] {
        let sojourn = Duration::from_nanos(at - 1);
        let event = PacketEvent {
            sojourn,
            ..host_event(at, what)
        };
        capture.on_host(0, &event, &sent);
    }
    capture.on_host(0, &host_event(4_300_001, What::Completed), &sent);
    capture.on_host(0, &host_event(2, What::Queued), &dropped);
    let event = PacketEvent {
        sojourn: Duration::from_micros(1),
        ..host_event(1_002, What::Dropped(DropReason::Target))
    };
    capture.on_host(0, &event, &dropped);
    let (at, sojourn) = (
        Instant::from_nanos(5_000_000_123),
        Duration::from_micros(1500),
    );
    for what in [
        LinkEventKind::Entered,
        LinkEventKind::Marked,
        LinkEventKind::Serialized { sojourn },
        LinkEventKind::Arrived,
    ] {
        capture.on_link(1, &LinkEvent { at, kind: what }, &sent);
    }
    capture.finish().expect("memory")
}

/// (interface, time in ns, captured, original length, comment) of every packet.
fn read_back(file: &[u8]) -> Vec<(String, u128, usize, u32, String)> {
    let mut reader = PcapNgReader::new(file).expect("a pcapng file");
    let (mut names, mut packets) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.expect("a block") {
            Block::InterfaceDescription(interface) => {
                assert!(
                    interface
                        .options
                        .contains(&InterfaceDescriptionOption::IfTsResol(9))
                );
                names.extend(interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let comment = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(comment) => Some(comment.to_string()),
                    _ => None,
                });
                packets.push((
                    names[packet.interface_id as usize].clone(),
                    packet.timestamp.as_nanos(),
                    packet.data.len(),
                    packet.original_len,
                    comment.unwrap_or_default(),
                ));
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    packets
}

#[test]
fn every_tap_point_is_an_interface_and_verdicts_are_comments() {
    let packets = read_back(&sample(CaptureConfig::default()));
    let seen: Vec<_> = packets
        .iter()
        .map(|(name, at, _, _, comment)| (name.as_str(), *at, comment.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("host0:qdisc-in", 1, ""),
            ("host0:ring", 4_200_001, "sojourn=4.200000ms verdict=CE"),
            ("host0:completed", 4_300_001, "in_ring=0.100000ms"),
            ("host0:qdisc-in", 2, ""),
            (
                "host0:drop",
                1_002,
                "sojourn=0.001000ms verdict=drop reason=target"
            ),
            ("link1:in", 5_000_000_123, ""),
            ("link1:wire", 5_000_000_123, "sojourn=1.500000ms verdict=CE"),
            ("link1:out", 5_000_000_123, ""),
        ]
    );
    assert!(
        packets
            .iter()
            .all(|(_, _, kept, len, _)| (*kept, *len) == (60, 60))
    );
}

#[test]
fn snaplen_cuts_and_the_epoch_shifts() {
    let packets = read_back(&sample(CaptureConfig {
        snaplen: 20,
        epoch: Duration::from_secs(1_700_000_000),
    }));
    assert!(
        packets
            .iter()
            .all(|(_, _, kept, len, _)| (*kept, *len) == (20, 60))
    );
    assert_eq!(packets[0].1, 1_700_000_000_000_000_001);
}

/// A disk that fills up.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(data.len())
            .ok_or(io::ErrorKind::StorageFull)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_the_end() {
    let mut capture = Capture::new(Full(300), CaptureConfig::default()).expect("the header fits");
    for at in 0..10 {
        capture.on_host(0, &host_event(at, What::Received), &FRAME);
    }
    assert_eq!(
        capture.finish().map(drop).expect_err("it is full").kind(),
        io::ErrorKind::StorageFull
    );
}

/// Wireshark's own reader must agree about names, times and comments.
#[test]
fn tshark_reads_it() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let path = std::env::temp_dir().join(format!("tautline-capture-{}.pcapng", std::process::id()));
    std::fs::write(&path, sample(CaptureConfig::default())).expect("a temporary file");
    let fields = ["frame.interface_name", "frame.time_epoch", "frame.comment"];
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-E", "separator=|"])
        .args(fields.iter().flat_map(|field| ["-e", *field]))
        .output()
        .expect("tshark runs");
    let _ = std::fs::remove_file(&path);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.split_once('|'))
        .collect();
    let ring = lines
        .get("host0:ring")
        .unwrap_or_else(|| panic!("no host0:ring in {text}"));
    assert!(
        ring.contains("0.004200001") && ring.ends_with("sojourn=4.200000ms verdict=CE"),
        "{ring}"
    );
    assert!(lines["link1:wire"].starts_with("5.000000123"), "{text}");
    assert_eq!(text.lines().count(), 8);
}
