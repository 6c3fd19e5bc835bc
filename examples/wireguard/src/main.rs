//! A WireGuard client in userspace whose TCP is tautline's.
//!
//! ```text
//! tautline-wireguard-example genkey | pubkey
//! tautline-wireguard-example connect wg0.conf 10.8.0.1:80
//! tautline-wireguard-example listen wg0.conf 80
//! ```

mod config;
mod device;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{self, Read};
use std::process::ExitCode;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};
use tautline_netstack::{Netstack, TcpStream};

use crate::config::Config;
use crate::device::WireGuard;

const USAGE: &str = "usage: genkey | pubkey | connect CONFIG ADDRESS:PORT | listen CONFIG PORT";

/// A running stack at the end of the tunnel.
async fn open(config: &Config) -> io::Result<Netstack> {
    let device = WireGuard::open(config).await?;
    Netstack::builder(device).address(config.address).build()
}

/// Standard input to the stream, the stream to standard output, until both have ended.
async fn pipe(stream: TcpStream) -> io::Result<()> {
    let (mut read, mut write) = stream.into_split();
    let upload = async {
        tokio::io::copy(&mut tokio::io::stdin(), &mut write).await?;
        tokio::io::AsyncWriteExt::shutdown(&mut write).await
    };
    let download = async {
        tokio::io::copy(&mut read, &mut tokio::io::stdout()).await?;
        Ok(())
    };
    tokio::try_join!(upload, download).map(|((), ())| ())
}

async fn connect(config: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let to: std::net::SocketAddr = to.parse()?;
    let stack = open(&Config::read(config)?).await?;
    Ok(pipe(stack.connect(to).await?).await?)
}

async fn listen(config: &str, port: &str) -> Result<(), Box<dyn Error>> {
    let port = port.parse()?;
    let stack = open(&Config::read(config)?).await?;
    let incoming = stack.tcp_incoming().await?;
    loop {
        let request = incoming.next().await?;
        // Dropped, hence reset, if it is for another port.
        if request.local_addr().port() == port {
            return Ok(pipe(request.accept().await?).await?);
        }
    }
}

fn public_key() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let private = StaticSecret::from(config::key(text.trim())?);
    println!("{}", BASE64_STANDARD.encode(PublicKey::from(&private)));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["genkey"] => {
            println!("{}", BASE64_STANDARD.encode(StaticSecret::random()));
            Ok(())
        }
        ["pubkey"] => public_key(),
        ["connect", config, to] => connect(config, to).await,
        ["listen", config, port] => listen(config, port).await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
