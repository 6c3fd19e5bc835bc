//! A kernel that writes any descriptor to the receive and completion rings of an AF_XDP socket: no
//! chunk ever has two owners, and every packet put comes back exactly once.

use arbitrary::Arbitrary;
use tautline_base::{HeapFrame, Packet};
use tautline_xdp_io::ownership::{BadCompleted, BadReceived, Layout, Ownership};

use crate::steps::Steps;

/// Chunks of the UMEM: four of a frame each, then two frames of three chunks.
const CHUNKS: usize = SINGLE + 2 * LARGE;
const SINGLE: usize = 4;
const LARGE: usize = 3;
const LAYOUT: Layout = Layout {
    chunk: 4096,
    frame_at: 256,
    frame_len: 3840,
};

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input {
    steps: Steps<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// The caller lends the chunk to the fill ring.
    Lend(u8),
    /// The caller puts a packet into the transmit ring, whose frame begins at the chunk.
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

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Caller,
    Fill,
    /// In a descriptor of the packet whose frame begins at this chunk.
    Transmit(usize),
}

/// The chunks as they ought to be.
#[derive(Debug)]
struct Model {
    holders: [Holder; CHUNKS],
    late: [bool; CHUNKS],
    /// Packets whose last descriptor is not complete, by the first chunk of their frame.
    in_flight: [bool; CHUNKS],
}

impl Model {
    /// The caller has the frame that begins at `chunk`, and the kernel nothing of it.
    fn is_free(&self, chunk: usize) -> bool {
        let begins = chunk < SINGLE || (chunk - SINGLE).is_multiple_of(LARGE);
        begins
            && !self.in_flight[chunk]
            && (chunk..chunk + frame_chunks(chunk))
                .all(|chunk| self.holders[chunk] == Holder::Caller && !self.late[chunk])
    }
}

/// Chunks of the frame that begins at `chunk`.
fn frame_chunks(chunk: usize) -> usize {
    if chunk < SINGLE { 1 } else { LARGE }
}

/// Runs one case: the table against a model.
pub fn run(input: Input) {
    let mut table: Ownership<HeapFrame> = Ownership::new(LAYOUT, CHUNKS);
    let mut model = Model {
        holders: [Holder::Caller; CHUNKS],
        late: [false; CHUNKS],
        in_flight: [false; CHUNKS],
    };
    for step in input.steps.0.iter().take(500) {
        match step {
            Step::Lend(chunk) => {
                let chunk = usize::from(*chunk) % CHUNKS;
                if model.is_free(chunk) {
                    table.lend(chunk, HeapFrame::new());
                    model.holders[chunk] = Holder::Fill;
                }
            }
            Step::Put(chunk, len) => {
                let chunk = usize::from(*chunk) % CHUNKS;
                if model.is_free(chunk) {
                    put(&mut table, &mut model, chunk, u32::from(*len));
                }
            }
            Step::Received(address, len) => {
                received(&mut table, &mut model.holders, address.value(), *len);
            }
            Step::Completed(address) => completed(&mut table, &mut model, address.value()),
            Step::Reset => {
                let mut lost = Vec::new();
                table.abandon(&mut lost);
                for (holder, late) in model.holders.iter_mut().zip(&mut model.late) {
                    if let Holder::Transmit(_) = holder {
                        (*holder, *late) = (Holder::Caller, true);
                    }
                }
                let packets = model.in_flight.iter_mut().filter(|packet| **packet);
                let count = packets.map(|packet| *packet = false).count();
                assert_eq!(lost.len(), count, "packets lost to a reset");
            }
        }
        let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count();
        assert_eq!(table.in_flight(), count(&model.in_flight));
        assert_eq!(table.late(), count(&model.late));
    }
}

/// Puts a packet of at most `len` bytes in the descriptors that its length takes.
fn put(table: &mut Ownership<HeapFrame>, model: &mut Model, chunk: usize, len: u32) {
    let room = frame_chunks(chunk) as u64 * LAYOUT.frame_len;
    let len = len % (room as u32 + 1);
    let pieces: Vec<_> = LAYOUT.pieces(chunk, len).collect();
    assert_eq!(pieces.iter().map(|(_, len)| len).sum::<u32>(), len);
    for (piece, (address, len)) in (chunk..).zip(&pieces) {
        assert_eq!(chunk_of(*address), Some(piece));
        assert_eq!(address % LAYOUT.chunk, LAYOUT.frame_at);
        assert!(u64::from(*len) <= LAYOUT.frame_len, "in one chunk");
        model.holders[piece] = Holder::Transmit(chunk);
    }
    let packet = Packet::new(HeapFrame::with_len(room as usize), len);
    table.put(chunk, packet, pieces.len() as u8);
    model.in_flight[chunk] = true;
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

fn completed(table: &mut Ownership<HeapFrame>, model: &mut Model, address: u64) {
    let chunk = chunk_of(address);
    match table.completed(address) {
        Ok(packet) => {
            let chunk = chunk.expect("a chunk of the UMEM");
            let Holder::Transmit(first) = model.holders[chunk] else {
                panic!("a completion of nothing: {:?}", model.holders[chunk]);
            };
            model.holders[chunk] = Holder::Caller;
            let is_last = !model.holders.contains(&Holder::Transmit(first));
            assert_eq!(
                packet.is_some(),
                is_last,
                "returned with its last descriptor"
            );
            model.in_flight[first] = !is_last;
        }
        Err(BadCompleted::Late) => {
            let chunk = chunk.expect("a chunk of the UMEM");
            assert!(
                std::mem::take(&mut model.late[chunk]),
                "late without a reset"
            );
        }
        Err(BadCompleted::NotInFlight) => assert!(
            chunk.is_none_or(|chunk| {
                !matches!(model.holders[chunk], Holder::Transmit(_)) && !model.late[chunk]
            }),
            "a true completion was refused"
        ),
    }
}
