//! A SYN flood at the rate the device makes: from random addresses of 198.18.0.0/15 (RFC 2544), each
//! SYN with options as Linux sends them. For `scripts/check-flood`, in namespaces of its own.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tautline_base::{Device, Frame, Packet, SplitMix64};
use tautline_cli::args::{StackArgs, parse, seconds};
use tautline_cli::failure::{Failure, exit_code};
use tautline_cli::open::{Job, Opened, with_device};
use tautline_rt::{Clock, system_seed};
use tautline_testkit::{Ip, SYN, Segment, TCP};

/// Floods a listener with SYNs and prints how many left.
#[derive(Parser, Debug)]
struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// The listener
    #[arg(long)]
    to: SocketAddrV4,
    /// Its link address, e.g. 02:00:00:00:00:01
    #[arg(long, value_parser = link_address)]
    mac: [u8; 6],
    /// For how long
    #[arg(long, value_parser = seconds, default_value = "5")]
    seconds: Duration,
}

/// SYNs put before the device is notified.
const BURST: usize = 64;
/// MSS 1460, SACK permitted, window scale 7.
const OPTIONS: [u8; 12] = [2, 4, 5, 0xb4, 4, 2, 1, 1, 1, 3, 3, 7];

fn link_address(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| "write six bytes, e.g. 02:00:00:00:00:01".to_owned())
}

impl Args {
    fn syn(&self, from: [u8; 6], random: u64) -> Vec<u8> {
        let source = Ipv4Addr::from_bits(0xc612_0000 | (random as u32 & 0x1_ffff));
        let segment = Segment {
            source_port: (random >> 17) as u16 | 0x400,
            destination_port: self.to.port(),
            seq: (random >> 32) as u32,
            flags: SYN,
            window: 64_240,
            options: OPTIONS.to_vec(),
            ..Segment::default()
        };
        Ip::new(source, *self.to.ip(), TCP).frame(self.mac, from, &segment.to_bytes())
    }
}

impl Job for Args {
    fn run<F: Frame + Send + 'static>(self, opened: Opened<F>) -> Result<(), Failure> {
        let Opened {
            mut device,
            mut pool,
            mac,
            ..
        } = opened;
        let (clock, mut random) = (Clock::start(), SplitMix64::new(system_seed()?));
        let end = clock.now() + self.seconds;
        let (mut sent, mut done) = (0_u64, Vec::new());
        while clock.now() < end {
            let now = clock.now();
            for _ in 0..BURST.min(device.room()) {
                let Some(mut frame) = pool.take() else { break };
                let syn = self.syn(mac, random.next_u64());
                frame.bytes_mut()[..syn.len()].copy_from_slice(&syn);
                device.put(Packet::new(frame, syn.len() as u32), now);
                sent += 1;
            }
            device.doorbell(now);
            device.reap(now, &mut done);
            for packet in done.drain(..) {
                let _no_owner = pool.settle(packet);
            }
        }
        println!("{sent}");
        Ok(())
    }
}

fn main() -> ExitCode {
    let args = parse::<Args>();
    exit_code("syn_flood", with_device(&args.stack.clone(), args))
}
