//! A kernel that writes any descriptor to the receive and completion rings of an AF_XDP socket: no
//! chunk ever has two owners, and every packet put comes back exactly once.

use arbitrary::Arbitrary;
use tautline_base::{HeapFrame, Packet};
use tautline_xdp_io::ownership::{BadCompleted, BadReceived, Layout, Ownership};

/// Chunks of the UMEM.
const CHUNKS: usize = 8;
const LAYOUT: Layout = Layout {
    chunk: 4096,
    frame_at: 256,
    frame_len: 3840,
};

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// The caller lends the chunk to the fill ring.
    Lend(u8),
    /// The caller puts a packet of the chunk into the transmit ring.
    Put(u8, u16),
    /// The kernel reports a reception.
    Received(Address, u32),
    /// The kernel reports a completion.
    Completed(Address),
    Reset,
}

/// An address in a descriptor.
#[derive(Arbitrary, Debug)]
enum Address {
    Chunk(u8, u16),
    Any(u64),
}

impl Address {
    fn value(&self) -> u64 {
        match *self {
            Self::Chunk(chunk, offset) => {
                u64::from(chunk % 16) * LAYOUT.chunk + u64::from(offset % 5000)
            }
            Self::Any(address) => address,
        }
    }
}

/// Where the frame of a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Caller,
    Fill,
    Transmit,
}

/// Runs one case: the table against a model.
pub fn run(input: Input) {
    let mut table: Ownership<HeapFrame> = Ownership::new(LAYOUT, CHUNKS);
    let mut model = [Holder::Caller; CHUNKS];
    let mut late = [false; CHUNKS];
    for step in input.steps.iter().take(500) {
        match step {
            Step::Lend(chunk) => {
                let chunk = usize::from(*chunk) % CHUNKS;
                if model[chunk] == Holder::Caller && !late[chunk] {
                    table.lend(chunk, HeapFrame::new());
                    model[chunk] = Holder::Fill;
                }
            }
            Step::Put(chunk, len) => {
                let chunk = usize::from(*chunk) % CHUNKS;
                if model[chunk] == Holder::Caller && !late[chunk] {
                    let packet = Packet::new(HeapFrame::new(), u32::from(*len) % 1500);
                    table.put(chunk, packet);
                    model[chunk] = Holder::Transmit;
                }
            }
            Step::Received(address, len) => received(&mut table, &mut model, address.value(), *len),
            Step::Completed(address) => {
                completed(&mut table, &mut model, &mut late, address.value());
            }
            Step::Reset => {
                let mut lost = Vec::new();
                table.abandon(&mut lost);
                let in_flight = model.iter_mut().zip(&mut late);
                let in_flight = in_flight.filter(|(holder, _)| **holder == Holder::Transmit);
                let count = in_flight
                    .map(|(holder, late)| (*holder, *late) = (Holder::Caller, true))
                    .count();
                assert_eq!(lost.len(), count, "packets lost to a reset");
            }
        }
        let count = |wanted| model.iter().filter(|holder| **holder == wanted).count();
        assert_eq!(table.in_flight(), count(Holder::Transmit));
        assert_eq!(table.late(), late.iter().filter(|late| **late).count());
    }
}

/// The chunk of `address`, if it is in the UMEM.
fn chunk_of(address: u64) -> Option<usize> {
    usize::try_from(address / LAYOUT.chunk)
        .ok()
        .filter(|chunk| *chunk < CHUNKS)
}

fn received(
    table: &mut Ownership<HeapFrame>,
    model: &mut [Holder; CHUNKS],
    address: u64,
    len: u32,
) {
    let lent = chunk_of(address).filter(|chunk| model[*chunk] == Holder::Fill);
    match (table.received(address, len), lent) {
        (Ok((_, start)), Some(chunk)) => {
            model[chunk] = Holder::Caller;
            assert!(u64::from(start) + u64::from(len) <= LAYOUT.frame_len);
        }
        (Err(BadReceived::OutsideFrame(_)), Some(chunk)) => model[chunk] = Holder::Caller,
        (Err(BadReceived::NotLent), None) => {}
        (result, lent) => panic!("{result:?} for {address:#x}, lent {lent:?}"),
    }
}

fn completed(
    table: &mut Ownership<HeapFrame>,
    model: &mut [Holder; CHUNKS],
    late: &mut [bool; CHUNKS],
    address: u64,
) {
    let chunk = chunk_of(address);
    match table.completed(address) {
        Ok(_) => {
            let chunk = chunk.expect("a chunk of the UMEM");
            assert_eq!(model[chunk], Holder::Transmit, "a completion of nothing");
            model[chunk] = Holder::Caller;
        }
        Err(BadCompleted::Late) => {
            let chunk = chunk.expect("a chunk of the UMEM");
            assert!(std::mem::take(&mut late[chunk]), "late without a reset");
        }
        Err(BadCompleted::NotInFlight) => assert!(
            chunk.is_none_or(|chunk| model[chunk] != Holder::Transmit && !late[chunk]),
            "a true completion was refused"
        ),
    }
}
