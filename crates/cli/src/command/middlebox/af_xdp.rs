//! A middlebox over AF_XDP.

use tautline_base::Packet;
use tautline_rt::steer::covered;
use tautline_tc::build;
use tautline_xdp_io::{Apart, Config, Take, UmemFrame, XdpPair};

use super::{MiddleboxArgs, Open, run};
use crate::control::Control;
use crate::device::ProgramDevice;
use crate::failure::Failure;
use crate::threads::{divide, each_queue};

/// Forwards between two interfaces over AF_XDP, with `--queues` in a thread for each queue.
///
/// # Errors
/// If a qdisc is refused, an interface cannot be opened, or a device fails.
pub(super) fn with_af_xdp(args: &MiddleboxArgs, control: Control) -> Result<(), Failure> {
    let config = |interface: &str, own: &Option<String>| -> Result<Config, Failure> {
        let qdisc = build::<Packet<()>>(own.as_ref().unwrap_or(&args.qdisc))?;
        let config = Config {
            interface: interface.to_owned(),
            take: Take::Everything,
            transmit_frames: args.frames,
            ..Config::default()
        };
        Ok(config.holding(qdisc.report().packet_limit())?)
    };
    let words = [
        Some(&args.qdisc),
        args.to_right.as_ref(),
        args.to_left.as_ref(),
    ];
    if words
        .into_iter()
        .flatten()
        .any(|words| words.split_whitespace().any(|word| word == "duplicate"))
    {
        eprintln!("note: over AF_XDP `duplicate` doubles nothing, see --help");
    }
    let left = config(&args.left, &args.to_left)?;
    let right = config(&args.right, &args.to_right)?;
    let Some(count) = args.queues else {
        let XdpPair { left, right, apart } = XdpPair::open(left, right)?;
        note(apart);
        return run(args, boxed(left), boxed(right), control);
    };
    let (mut lefts, mut rights, mut apart) = (Vec::new(), Vec::new(), None);
    for pair in XdpPair::open_each(&left, &right, count)? {
        lefts.push(pair.left);
        rights.push(pair.right);
        apart = apart.or(pair.apart);
    }
    note(apart);
    // A pair that ends alone leaves its queues to another.
    let left = covered(lefts)?.into_iter().map(boxed);
    let right = covered(rights)?.into_iter().map(boxed);
    let ended = each_queue(left.zip(right).zip(0..).map(|((left, right), queue)| {
        let args = MiddleboxArgs {
            queue: Some(queue),
            ..args.clone()
        };
        move || run(&args, left, right, Control::default())
    }))?;
    divide(ended).1
}

fn boxed<D>((device, frames): (D, Vec<UmemFrame>)) -> Open<UmemFrame>
where
    D: ProgramDevice<Frame = UmemFrame> + 'static,
{
    (Box::new(device), frames)
}

fn note(apart: Option<Apart>) {
    if let Some(apart) = apart {
        eprintln!("note: {apart}");
    }
}
