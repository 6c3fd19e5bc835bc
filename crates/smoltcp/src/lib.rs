//! A queueing discipline beneath an unmodified [smoltcp] interface: [`QueuedDevice`].
//!
//! smoltcp hands every frame straight to its device. Under load the device's ring fills, and
//! whatever comes next (a ping, a keystroke) waits behind all of it. Wrapped, the device gets its
//! frames from a discipline instead: fq_codel lets sparse flows pass and keeps the queue short,
//! CAKE or TBF hold a rate below the bottleneck's so that the queue stands here and nowhere else.
//!
//! ```
//! # use smoltcp::phy::{Loopback, Medium};
//! # let device = Loopback::new(Medium::Ethernet);
//! # let now = smoltcp::time::Instant::from_millis(0);
//! use tautline_qdisc::{FqCodel, fq_codel};
//! use tautline_smoltcp::{Config, QueuedDevice};
//!
//! let queue = FqCodel::new(fq_codel::Config::default())?;
//! let mut device = QueuedDevice::new(device, queue, Config { seed: 0x5eed, ..Config::default() });
//! // In the loop, where `interface.poll(now, &mut device, &mut sockets)` stands:
//! let wake = device.poll(now);
//! // Sleep until the earlier of `interface.poll_delay` and `wake`; or until a frame comes.
//! # assert!(wake.is_none());
//! # Ok::<(), tautline_qdisc::ConfigError>(())
//! ```
//!
//! # What can be known of the device
//!
//! smoltcp's devices do not tell when a frame has left. So there are three ways to keep the queue
//! in the discipline, not in the ring:
//!
//! * *ring space*: a device whose [`transmit`](smoltcp::phy::Device::transmit) gives `None` when
//!   its ring is full needs nothing more; the ring is the limit, so make it short;
//! * *a rate*: a shaper as the discipline (`tbf rate 18mbit …`, `cake bandwidth 18mbit`), slightly
//!   below what the link carries; the ring then stays empty;
//! * *completions*: if the driver does know (an interrupt, a DMA descriptor), give
//!   [`Config::limit`](QueuedDevice::with_limit) a [`Dql`](tautline_bql::Dql) and tell each batch
//!   to [`completed`](QueuedDevice::completed).
//!
//! Nothing drains a queue between the polls of an interface: call [`poll`](QueuedDevice::poll)
//! after each, and when it asked to be called.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod device;

pub use device::{Config, QueuedDevice, RxToken, TxToken};
