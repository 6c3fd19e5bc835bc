//! [`Statistics`]: the counters of a device, and those of the kernel for its socket.

/// Counters of one device since it was opened. The packets transmitted that are neither completed nor
/// dropped are in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets put into the transmit ring.
    pub transmitted: u64,
    /// Packets completed by the kernel.
    pub completed: u64,
    /// Packets that a reset returned without the kernel having completed them.
    pub dropped: u64,
    /// Packets received.
    pub received: u64,
    /// Packets too short to be an Ethernet frame, completed without being sent.
    pub runts: u64,
    /// Received descriptors outside the UMEM, outside their chunk, or of a chunk that the kernel
    /// did not hold.
    pub bad_received: u64,
    /// Completions of addresses outside the UMEM or not in flight.
    pub bad_completed: u64,
    /// Completions of packets that a reset had returned already.
    pub late_completed: u64,
    /// Recycled frames of another UMEM.
    pub foreign_frames: u64,
    /// System calls that woke the kernel's sender.
    pub wakes: u64,
    /// Doorbells and reaps that left packets in the ring for the next one.
    pub unfinished: u64,
}

/// Counters of the device together with those of the kernel.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// The counters of the device.
    pub device: Counters,
    /// The kernel's counters of the socket (`XDP_STATISTICS`); `None` if it reports none.
    pub kernel: Option<Kernel>,
}

/// The kernel's `XDP_STATISTICS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Received packets dropped for reasons other than those below, such as exceeding a frame.
    pub receive_dropped: u64,
    /// Received packets dropped because the receive ring was full.
    pub receive_ring_full: u64,
    /// Times the fill ring was empty when a frame was needed. With copies each drops a packet; in zero
    /// copy the driver tries again.
    pub fill_ring_empty: u64,
    /// Descriptors in the fill ring that the kernel refused.
    pub fill_invalid: u64,
    /// Descriptors in the transmit ring that the kernel refused. Never above zero unless there is a
    /// bug.
    pub transmit_invalid: u64,
    /// Times the kernel found the transmit ring empty.
    pub transmit_ring_empty: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.transmitted += other.transmitted;
        self.completed += other.completed;
        self.dropped += other.dropped;
        self.received += other.received;
        self.runts += other.runts;
        self.bad_received += other.bad_received;
        self.bad_completed += other.bad_completed;
        self.late_completed += other.late_completed;
        self.foreign_frames += other.foreign_frames;
        self.wakes += other.wakes;
        self.unfinished += other.unfinished;
    }
}

impl std::ops::AddAssign for Kernel {
    fn add_assign(&mut self, other: Self) {
        self.receive_dropped += other.receive_dropped;
        self.receive_ring_full += other.receive_ring_full;
        self.fill_ring_empty += other.fill_ring_empty;
        self.fill_invalid += other.fill_invalid;
        self.transmit_invalid += other.transmit_invalid;
        self.transmit_ring_empty += other.transmit_ring_empty;
    }
}
