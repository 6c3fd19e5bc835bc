//! [`Memory`]: what a device is bound on; [`register_umem`] registers it for one device or for two.

use std::error::Error;
use std::sync::Arc;

use rustix::io::Errno;
use xsk_rs::umem::UmemCreateError;

use crate::config::Config;
use crate::error::OpenError;
use crate::interface::Carriage;
use crate::memlock;
use crate::umem::{Frames, Sizes, Umem, chunks_for};

/// Most entries of a ring.
const LARGEST_RING: u32 = 1 << 20;

/// Frames for received packets that span chunks, more than a caller holds at once.
const ASSEMBLY_FRAMES: u32 = 64;

/// A UMEM and the frames of it that are one device's.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) umem: Arc<Umem>,
    pub(crate) frames: Frames,
    /// The device is the first to bind. libxdp closes the descriptor of its socket with the UMEM.
    pub(crate) is_first: bool,
}

/// Registers a UMEM with the frames of all `configs`; the first is to bind first. Its rings are as
/// large as the largest of them needs.
pub(crate) fn register_umem<const N: usize>(
    configs: [&Config; N],
    carriage: Carriage,
) -> Result<[Memory; N], OpenError> {
    let chunks = chunks_for(carriage.held) as u32;
    let sizes = configs.map(|config| Sizes {
        transmit: config.transmit_frames,
        receive: config.receive_frames.saturating_mul(chunks),
        assembly: if carriage.spans_chunks {
            ASSEMBLY_FRAMES
        } else {
            0
        },
        chunks,
    });
    let total = sizes.into_iter().reduce(Sizes::and);
    let total = total.expect("a UMEM is registered for a device");
    memlock::raise(total.bytes());
    let largest = |frames: fn(&Config) -> u32| {
        let rings = configs.map(|config| ring_for(frames(config), chunks));
        rings.into_iter().max().unwrap_or(1)
    };
    let fill = largest(|config| config.receive_frames);
    let completion = largest(|config| config.transmit_frames);
    let (umem, mut frames) =
        Umem::new(total, fill, completion).map_err(|error| umem_error(&error, total.bytes()))?;
    let umem = Arc::new(umem);
    let mut is_first = true;
    Ok(sizes.map(|sizes| Memory {
        umem: Arc::clone(&umem),
        frames: frames.take(sizes),
        is_first: std::mem::take(&mut is_first),
    }))
}

/// Entries of a ring that holds `packets` packets of `chunks` chunks, or as many as a ring may hold.
pub(crate) fn ring_for(packets: u32, chunks: u32) -> u32 {
    packets
        .saturating_mul(chunks)
        .min(LARGEST_RING)
        .next_power_of_two()
}

fn umem_error(error: &UmemCreateError, needed: u64) -> OpenError {
    const DOING: &str = "register packet memory with the kernel";
    let cause = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>());
    match cause.and_then(Errno::from_io_error).unwrap_or(Errno::IO) {
        Errno::PERM | Errno::ACCESS => OpenError::NoPermission {
            doing: "open an AF_XDP socket",
            capability: "CAP_NET_RAW",
        },
        Errno::AFNOSUPPORT => OpenError::NoAfXdp,
        Errno::NOBUFS => OpenError::MemoryLock {
            needed,
            limit: memlock::limit(),
        },
        error => OpenError::os(DOING, error),
    }
}
