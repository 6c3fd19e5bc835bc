//! A queueing discipline beneath an unmodified [smoltcp] interface: [`QueuedDevice`].
//!
//! smoltcp hands every frame straight to its device. Under load the ring of the device fills, and
//! the next frame (a ping, a keystroke) waits behind it. A wrapped device gets its frames from a
//! queueing discipline instead: fq_codel lets sparse flows pass and keeps the queue short; CAKE or
//! TBF shape to a rate below the bottleneck's, so the queue builds up here and nowhere else.
//!
//! ```
//! # use smoltcp::phy::{Loopback, Medium};
//! # let device = Loopback::new(Medium::Ethernet);
//! # let now = smoltcp::time::Instant::from_millis(0);
//! use tautline_qdisc::{FqCodel, fq_codel};
//! use tautline_smoltcp::{Config, QueuedDevice};
//!
//! let queue = FqCodel::new(fq_codel::Config::default())?;
//! let mut device = QueuedDevice::new(device, queue, Config::default());
//! // In the loop, after `interface.poll(now, &mut device, &mut sockets)`:
//! let wake = device.poll(now);
//! // Sleep until the earlier of `interface.poll_delay` and `wake`, or until a frame arrives.
//! # assert!(wake.is_none());
//! # Ok::<(), tautline_base::ConfigError>(())
//! ```
//!
//! # The limit of the ring
//!
//! smoltcp's devices do not report transmitted frames. There are three ways to keep the queue in the
//! qdisc and out of the ring:
//!
//! * *ring space*: a device whose [`transmit`](smoltcp::phy::Device::transmit) returns `None` while
//!   its ring is full needs nothing more; the ring is the limit, so make it short;
//! * *rate*: a shaper (`tbf rate 18mbit …`, `cake bandwidth 18mbit`) slightly below the rate of the
//!   link; the ring then stays empty;
//! * *completions*: if the driver reports them (by an interrupt or a DMA descriptor), pass a
//!   [`Dql`](tautline_bql::Dql) to [`with_limit`](QueuedDevice::with_limit) and report each batch
//!   to [`completed`](QueuedDevice::completed).
//!
//! Queues drain only in [`poll`](QueuedDevice::poll): call it after each poll of the interface and at
//! the wake that it returns.
//!
//! # Without `std`
//!
//! With `default-features = false` there is no default hash key: give
//! [`Config::new`] one from the random number generator of your hardware.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod device;

pub use device::{Config, QueuedDevice, RxToken, TxToken};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
