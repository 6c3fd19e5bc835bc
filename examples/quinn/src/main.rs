//! The congestion control of tautline drives QUIC connections of quinn: uploads on loopback,
//! through a bottleneck.
//!
//! ```text
//! cargo run --release -- --cc cubic,bbr,bbr3 --mib 32 --rate 50 --delay 10 --buffer 500
//! ```
//!
//! Each algorithm uploads `--mib` MiB in turn, through `--rate` Mbit/s with `--delay` ms each way
//! and a FIFO of `--buffer` kB; `--rate 0` goes without a bottleneck. The server checks every byte.

mod relay;
mod upload;

use std::process::ExitCode;
use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_quinn::Algorithm;

use crate::relay::Link;
use crate::upload::AnyError;

struct Options {
    algorithms: Vec<Algorithm>,
    size: Bytes,
    link: Option<Link>,
}

const USAGE: &str =
    "options: --cc NAME[,NAME...] --mib N --rate MBIT (0: no bottleneck) --delay MS --buffer KB";

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, AnyError> {
        let mut algorithms = vec![Algorithm::Cubic, Algorithm::Bbr, Algorithm::Bbr3];
        let (mut mib, mut mbit, mut delay, mut buffer) = (16, 50, 10, 500_u32);
        while let Some(option) = words.next() {
            let value = words.next().ok_or(USAGE)?;
            match option.as_str() {
                "--cc" => {
                    algorithms = value.split(',').map(str::parse).collect::<Result<_, _>>()?
                }
                "--mib" => mib = value.parse::<u32>()?,
                "--rate" => mbit = value.parse::<u32>()?,
                "--delay" => delay = value.parse::<u32>()?,
                "--buffer" => buffer = value.parse()?,
                _ => return Err(USAGE.into()),
            }
        }
        let link = Link {
            rate: Rate::mbit(mbit.into()),
            delay: Duration::from_millis(delay.into()),
            buffer: Bytes::new(1000) * buffer.into(),
        };
        Ok(Self {
            algorithms,
            size: Bytes::mib(mib.into()),
            link: (mbit > 0).then_some(link),
        })
    }
}

async fn run(options: &Options) -> Result<(), AnyError> {
    println!(
        "{:12} {:>14} {:>10} {:>10} {:>10} {:>6} {:>8}",
        "", "goodput", "mean rtt", "min rtt", "mean cwnd", "lost", "dropped"
    );
    for &algorithm in &options.algorithms {
        let outcome = upload::run(algorithm, options.size, options.link).await?;
        let mbit = outcome.goodput.as_bits_per_sec() as f64 / 1e6;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{:12} {mbit:>7.1} Mbit/s {:>7.1} ms {:>7.1} ms {:>7.0} kB {:>6} {:>8}",
            algorithm.name(),
            ms(outcome.rtt),
            ms(outcome.min_rtt),
            outcome.cwnd as f64 / 1e3,
            outcome.lost,
            outcome.dropped
        );
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => run(&options).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
