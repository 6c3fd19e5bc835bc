//! The table against a kernel that lies: every frame keeps exactly one owner.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const LAYOUT: Layout = Layout {
    chunk: 2048,
    frame_at: 320,
    frame_len: 1728,
};
/// Chunks of which each has a frame of its own.
const SINGLE: usize = 6;
/// Then come frames of three chunks.
const MOST_DESCRIPTORS: u8 = 3;
const CHUNKS: usize = SINGLE + 2 * MOST_DESCRIPTORS as usize;

#[derive(Debug, PartialEq, Eq)]
struct TestFrame(usize);

impl Frame for TestFrame {
    fn bytes(&self) -> &[u8] {
        &[0; 1728]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        unreachable!("the table never writes")
    }
}

fn table() -> Ownership<TestFrame> {
    Ownership::new(LAYOUT, CHUNKS)
}

fn at(index: usize) -> u64 {
    index as u64 * 2048 + 320
}

fn index(packet: &Packet<TestFrame>) -> usize {
    packet.frame().0
}

/// The packet that the completion of `address` returns.
fn returned(table: &mut Ownership<TestFrame>, address: u64) -> usize {
    let packet = table.completed(address).expect("in flight");
    index(&packet.expect("the last descriptor"))
}

#[test]
fn a_packet_comes_back_once() {
    let mut table = table();
    table.put(2, Packet::new(TestFrame(2), 60), 1);
    assert_eq!(table.in_flight(), 1);
    assert_eq!(returned(&mut table, at(2)), 2);
    assert_eq!(table.in_flight(), 0);
    assert_eq!(
        table.completed(at(2)).unwrap_err(),
        BadCompleted::NotInFlight,
        "duplicate"
    );
}

#[test]
fn a_packet_of_several_chunks_comes_back_with_its_last() {
    let mut table = table();
    table.put(1, Packet::new(TestFrame(1), 5000), 3);
    let complete = |table: &mut Ownership<TestFrame>, chunk| {
        table.completed(at(chunk)).expect("in flight").is_some()
    };
    assert!(!complete(&mut table, 3));
    assert_eq!(
        table.completed(at(3)).unwrap_err(),
        BadCompleted::NotInFlight
    );
    assert!(!complete(&mut table, 1));
    assert_eq!(table.in_flight(), 1);
    assert!(complete(&mut table, 2));
    assert_eq!(table.in_flight(), 0);
}

#[test]
fn pieces_fill_one_chunk_after_the_other() {
    let pieces = |len| LAYOUT.pieces(2, len).collect::<Vec<_>>();
    assert_eq!(pieces(0), [(at(2), 0)]);
    assert_eq!(pieces(1728), [(at(2), 1728)]);
    assert_eq!(pieces(1729), [(at(2), 1728), (at(3), 1)]);
    assert_eq!(
        pieces(2 * 1728 + 7),
        [(at(2), 1728), (at(3), 1728), (at(4), 7)]
    );
}

#[test]
fn completions_of_chunks_not_in_flight_are_refused() {
    let mut table = table();
    table.lend(1, TestFrame(1));
    for address in [at(0), at(1), at(CHUNKS), u64::MAX] {
        assert_eq!(
            table.completed(address).unwrap_err(),
            BadCompleted::NotInFlight
        );
    }
    assert_eq!(
        table.received(at(1), 60),
        Ok((TestFrame(1), 0)),
        "the lent chunk is still lent"
    );
}

#[test]
fn received_bytes_must_lie_within_a_lent_frame() {
    let mut table = table();
    let outside = |table: &mut Ownership<TestFrame>, address, len| {
        table.lend(3, TestFrame(3));
        assert_eq!(
            table.received(address, len),
            Err(BadReceived::OutsideFrame(TestFrame(3))),
            "{address} {len}"
        );
    };
    outside(&mut table, at(3), 1729);
    outside(&mut table, at(3) + 1, 1728);
    outside(&mut table, at(3) - 1, 10);
    outside(&mut table, at(3), u32::MAX);
    table.lend(3, TestFrame(3));
    assert_eq!(table.received(at(3) + 8, 1720), Ok((TestFrame(3), 8)));
    assert_eq!(
        table.received(at(3), 60),
        Err(BadReceived::NotLent),
        "duplicate"
    );
    assert_eq!(table.received(at(CHUNKS), 60), Err(BadReceived::NotLent));
}

#[test]
fn a_packet_in_flight_cannot_be_received_into() {
    let mut table = table();
    table.put(0, Packet::new(TestFrame(0), 60), 1);
    assert_eq!(table.received(at(0), 60), Err(BadReceived::NotLent));
    assert_eq!(returned(&mut table, at(0)), 0);
}

/// Two sockets on one UMEM: what one side of the kernel has, the other cannot return.
#[test]
fn a_frame_of_one_socket_does_not_come_back_on_the_other() {
    let (mut one, mut other) = (table(), table());
    one.lend(0, TestFrame(0));
    one.put(1, Packet::new(TestFrame(1), 60), 1);
    for index in [0, 1] {
        assert_eq!(other.received(at(index), 60), Err(BadReceived::NotLent));
        let completed = other.completed(at(index));
        assert_eq!(completed.unwrap_err(), BadCompleted::NotInFlight);
    }
    let (frame, _) = one.received(at(0), 60).expect("lent");
    other.put(0, Packet::new(frame, 60), 1);
    assert_eq!(one.received(at(0), 60), Err(BadReceived::NotLent));
    assert_eq!(
        (returned(&mut other, at(0)), returned(&mut one, at(1))),
        (0, 1)
    );
}

#[test]
fn after_a_reset_the_kernel_still_owes_one_completion_each() {
    let mut table = table();
    table.put(0, Packet::new(TestFrame(0), 60), 1);
    table.put(4, Packet::new(TestFrame(4), 60), 1);
    let mut lost = Vec::new();
    table.abandon(&mut lost);
    assert_eq!(lost.iter().map(index).collect::<Vec<_>>(), [0, 4]);
    assert_eq!((table.in_flight(), table.late()), (0, 2));
    assert_eq!(table.completed(at(4)).unwrap_err(), BadCompleted::Late);
    assert_eq!(
        table.completed(at(4)).unwrap_err(),
        BadCompleted::NotInFlight
    );
    assert_eq!(table.late(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Lend,
    Put { descriptors: u8 },
    Received { address: u64, len: u32 },
    Completed { address: u64 },
    Reset,
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (0..CHUNKS + 1).prop_map(at), 2 => 0..at(CHUNKS + 1), 1 => any::<u64>()]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Lend),
        (1..=MOST_DESCRIPTORS).prop_map(|descriptors| Step::Put { descriptors }),
        (address(), prop_oneof![Just(1514), any::<u32>()])
            .prop_map(|(address, len)| Step::Received { address, len }),
        address().prop_map(|address| Step::Completed { address }),
        Just(Step::Reset),
    ]
}

proptest! {
    /// With any descriptors of the kernel, on either of two sockets on one UMEM, the caller never gets a frame
    /// that it already holds, and no frame is lost.
    #[test]
    fn every_frame_has_one_owner(steps in prop::collection::vec((0..2usize, step()), 0..300)) {
        let mut tables = [table(), table()];
        let large = (SINGLE..CHUNKS).step_by(MOST_DESCRIPTORS.into());
        let mut ours: BTreeSet<usize> = (0..SINGLE).chain(large).collect();
        let frames = ours.len();
        let mut lent = 0;
        for (socket, step) in steps {
            let table = &mut tables[socket];
            match step {
                Step::Lend => {
                    let Some(index) = ours.pop_first() else { continue };
                    table.lend(index, TestFrame(index));
                    lent += 1;
                }
                Step::Put { descriptors } => {
                    // The chunks of a packet from before a reset stay with the kernel.
                    if table.late() > 0 { continue }
                    let taken = if descriptors == 1 { ours.pop_first() } else { ours.pop_last() };
                    let Some(index) = taken else { continue };
                    let descriptors = if index < SINGLE { 1 } else { descriptors };
                    table.put(index, Packet::new(TestFrame(index), 60), descriptors);
                }
                Step::Received { address, len } => {
                    if let Ok((frame, _)) | Err(BadReceived::OutsideFrame(frame)) = table.received(address, len) {
                        prop_assert!(ours.insert(frame.0));
                        lent -= 1;
                    }
                }
                Step::Completed { address } => {
                    if let Ok(Some(packet)) = table.completed(address) {
                        prop_assert!(ours.insert(index(&packet)));
                    }
                }
                Step::Reset => {
                    let mut lost = Vec::new();
                    table.abandon(&mut lost);
                    for packet in lost {
                        prop_assert!(ours.insert(index(&packet)));
                    }
                }
            }
            let in_flight: usize = tables.iter().map(Ownership::in_flight).sum();
            prop_assert_eq!(ours.len() + lent + in_flight, frames);
        }
    }
}
