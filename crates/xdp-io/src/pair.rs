//! [`XdpPair`]: two interfaces on one UMEM, for a program that forwards between them.
//!
//! The second socket binds to the UMEM of the first (`XDP_SHARED_UMEM`) and has a fill and a completion
//! ring of its own, as the kernel requires of another interface or queue (Linux 5.10, `xsk_bind` in
//! `net/xdp/xsk.c`). Its mode is that of the first: zero copy or copy, packets of several buffers, and, since
//! Linux 6.0, the wake flag (`xp_assign_dev_shared` in `net/xdp/xsk_buff_pool.c`).
//!
//! Each device [accepts](tautline_base::Device::accepts) the frames of the other: it may send them, and
//! recycle them into its fill ring. Each side has frames for receiving and for sending as if the UMEM were
//! its own. A forwarder that gives a device a free frame of the other side for each received frame that it
//! keeps leaves these numbers as they are, so an interface that stalls holds its own share and no more.
//!
//! A device that is opened anew after a stall has a UMEM of its own from then on. The frames of the old
//! one stay valid for the other side.

use std::fmt;
use std::sync::Arc;

use crate::attach::Attachment;
use crate::config::{Bind, Config, CopyReason};
use crate::device::{XdpDevice, bind_patiently};
use crate::error::OpenError;
use crate::interface::{Carriage, queues_or_one};
use crate::memory::register_umem;
use crate::queues::{XdpQueues, attach_each, open_queues};
use crate::umem::{UmemFrame, chunks_for};

/// Two devices that forward to each other, each with its frames for sending.
#[derive(Debug)]
pub struct XdpPair {
    /// One side.
    pub left: (XdpQueues, Vec<UmemFrame>),
    /// The other side.
    pub right: (XdpQueues, Vec<UmemFrame>),
    /// Why each has a UMEM of its own; `None` if they share one.
    pub apart: Option<Apart>,
}

/// Why two devices do not share a UMEM. Displayed as one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum Apart {
    /// A thread serves several queues of an interface.
    Queues {
        /// Name of the interface.
        interface: String,
        /// Number of its queues.
        count: u32,
    },
    /// Their MTUs need frames of different lengths.
    Mtu {
        /// MTUs of both in bytes.
        mtus: [usize; 2],
    },
    /// One has zero copy, the other copies.
    Modes,
    /// The kernel or a driver refused the UMEM or a socket on it.
    Refused(OpenError),
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("packets are copied from the memory of one side to that of the other: ")?;
        match self {
            Self::Queues { interface, count } => {
                write!(f, "one thread serves the {count} queues of `{interface}`")
            }
            Self::Mtu { mtus: [one, other] } => {
                write!(
                    f,
                    "MTUs of {one} and {other} need frames of different lengths"
                )
            }
            Self::Modes => f.write_str("one interface has zero copy and the other has not"),
            Self::Refused(error) => write!(f, "one memory for both was refused ({error})"),
        }
    }
}

impl XdpPair {
    /// Attaches the XDP program to both interfaces and opens all their queues, as [`XdpQueues::open`]
    /// does, on one UMEM if that is possible.
    ///
    /// # Errors
    /// Those of [`XdpQueues::open`].
    pub fn open(left: Config, right: Config) -> Result<Self, OpenError> {
        let attached = |config: Config| -> Result<Side, OpenError> {
            config.check()?;
            Ok(Side {
                attachment: Arc::new(Attachment::carrying(&config, 0)?),
                config,
                only: None,
            })
        };
        Self::of([attached(left)?, attached(right)?])
    }

    /// Attaches the XDP program to both interfaces and opens their first `count` queues, as
    /// [`XdpQueues::open_each`] does: queue N of one interface and queue N of the other are a pair.
    ///
    /// # Errors
    /// Those of [`XdpQueues::open_each`].
    pub fn open_each(left: &Config, right: &Config, count: u32) -> Result<Vec<Self>, OpenError> {
        let attachments = [attach_each(left, count)?, attach_each(right, count)?];
        let pair = |queue| {
            let [of_left, of_right] = attachments.clone();
            let side = |config: &Config, attachment| Side {
                config: config.clone(),
                only: Some(queue),
                attachment,
            };
            Self::of([side(left, of_left), side(right, of_right)])
        };
        (0..count).map(pair).collect()
    }

    fn of(sides: [Side; 2]) -> Result<Self, OpenError> {
        let ([one, other], apart) = match together(&sides) {
            Ok(devices) => (devices.map(Some), None),
            Err(apart) => ([None, None], Some(apart)),
        };
        let [left, right] = sides;
        Ok(Self {
            left: left.device(one)?,
            right: right.device(other)?,
            apart,
        })
    }
}

/// A side of which no socket is open yet.
#[derive(Debug)]
struct Side {
    config: Config,
    /// The only queue that is served; then other devices use the attachment, too.
    only: Option<u32>,
    attachment: Arc<Attachment>,
}

impl Side {
    /// The device of the `opened` queue, or of queues that are opened now.
    fn device(
        self,
        opened: Option<(XdpDevice, Vec<UmemFrame>)>,
    ) -> Result<(XdpQueues, Vec<UmemFrame>), OpenError> {
        let Self {
            config,
            only,
            attachment,
        } = self;
        let (queues, frames, count) = match opened {
            Some((device, frames)) => (vec![device], frames, 1),
            None => open_queues(&config, only, Some(&attachment), 0)?,
        };
        let shared = only.is_some().then_some(attachment);
        let device = XdpQueues::of(config, only, shared, (queues, count))?;
        Ok((device, frames))
    }

    /// The configuration of its only queue.
    fn queue(&self) -> Result<Config, Apart> {
        let count = queues_or_one(&self.config.interface);
        let queue = match self.only {
            Some(queue) => queue,
            None if count == 1 => 0,
            None => {
                return Err(Apart::Queues {
                    interface: self.config.interface.clone(),
                    count,
                });
            }
        };
        Ok(Config {
            queue,
            ..self.config.clone()
        })
    }
}

/// A device for the one queue of each side, both on one UMEM.
fn together(sides: &[Side; 2]) -> Result<[(XdpDevice, Vec<UmemFrame>); 2], Apart> {
    let [left, right] = sides;
    let (one, other) = (left.queue()?, right.queue()?);
    let carriage = |side: &Side| side.attachment.carriage(&side.config, 0);
    let carriages = (
        carriage(left).map_err(Apart::Refused)?,
        carriage(right).map_err(Apart::Refused)?,
    );
    if chunks_for(carriages.0.held) != chunks_for(carriages.1.held) {
        return Err(Apart::Mtu {
            mtus: [carriages.0.mtu, carriages.1.mtu],
        });
    }
    if carriages.0.spans_chunks != carriages.1.spans_chunks {
        return Err(Apart::Modes);
    }
    let memory = register_umem([&one, &other], carriages.0);
    let [first, second] = memory.map_err(Apart::Refused)?;
    let bind = |side: &Side, config, carriage, memory| {
        let attachment = Arc::clone(&side.attachment);
        XdpDevice::bind(attachment, config, carriage, memory).map_err(Apart::Refused)
    };
    let one = bind(left, one, carriages.0, first)?;
    let is_zero_copy = one.0.mode().zero_copy;
    if is_zero_copy != would_be_zero_copy(right, &other, carriages.1, is_zero_copy) {
        return Err(Apart::Modes);
    }
    Ok([one, bind(right, other, carriages.1, second)?])
}

/// True if the queue of `config` has zero copy on a UMEM of its own. Where the first side has it,
/// `is_expected`, the bind of the second is to tell; otherwise a socket is bound for a moment.
fn would_be_zero_copy(side: &Side, config: &Config, carriage: Carriage, is_expected: bool) -> bool {
    let native = side.attachment.native();
    let is_possible = CopyReason::before_bind(config.bind, native, carriage.mtu).is_none();
    if !is_possible || is_expected || config.bind == Bind::ZeroCopy {
        return is_possible;
    }
    let config = Config {
        transmit_frames: 1,
        receive_frames: 1,
        bind: Bind::ZeroCopy,
        ..config.clone()
    };
    register_umem([&config], carriage)
        .is_ok_and(|[memory]| bind_patiently(&memory.umem, &config, carriage, native, None).is_ok())
}
