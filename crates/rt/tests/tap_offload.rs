//! Packets of several segments over TAP, both ways, with the kernel's own TCP as the other end.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use tautline_base::{Device, Pool};
use tautline_bql::{Dql, Port, Ring};
use tautline_qdisc::{Pfifo, pfifo};
use tautline_rt::blocking::TcpStream;
use tautline_rt::handle::Config;
use tautline_rt::{HostThread, Idle, Tap, TapError};
use tautline_stack::{Cidr, Host, HostConfig, NoTrace};

const BYTES: usize = 4 << 20;
const SEGMENTS: u64 = BYTES as u64 / 1448;

fn ip(arguments: &str) -> bool {
    Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .is_ok_and(|status| status.success())
}

/// Packets that the kernel took from us and gave us.
fn packets(interface: &str) -> [u64; 2] {
    ["rx_packets", "tx_packets"].map(|counter| {
        let path = format!("/sys/class/net/{interface}/statistics/{counter}");
        fs::read_to_string(path)
            .expect("a counter")
            .trim()
            .parse()
            .expect("a number")
    })
}

/// Sends a stream to the kernel and back over a TAP interface of its own. Returns how many packets
/// went each way; `None`, and why, if there can be no such interface here.
fn there_and_back(
    name: &str,
    ends: [&str; 2],
    prefix: u8,
    offloading: bool,
) -> Result<[u64; 2], String> {
    let opened = if offloading {
        Tap::open_offloading(name)
    } else {
        Tap::open(name)
    };
    let device = match opened {
        Ok(device) => device,
        Err(
            error @ (TapError::NoDriver | TapError::DriverClosed | TapError::NoPermission { .. }),
        ) => {
            return Err(error.to_string());
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(device.tso().is_some(), offloading);
    assert_eq!(device.gathers(), offloading);
    let queue = fs::read_to_string(format!("/sys/class/net/{name}/tx_queue_len"));
    assert_eq!(queue.expect("a length").trim(), "1000");
    let nodad = if ends[0].contains(':') { " nodad" } else { "" };
    if !ip(&format!(
        "address add {}/{prefix} dev {name}{nodad}",
        ends[0]
    )) || !ip(&format!("link set {name} up"))
    {
        return Err(format!("`ip` cannot configure {name}"));
    }
    let [theirs, ours]: [IpAddr; 2] = ends.map(|end| end.parse().expect("an address"));
    let (thread, stack) = HostThread::spawn(Config::default(), Idle::Sleep, move || {
        let pool = Pool::heap(512, device.tso());
        let config = HostConfig::new([2, 0, 0, 0, 0, 2], 1).address(Cidr::new(ours, prefix));
        Ok(Host::new(
            config,
            Port::new(
                Pfifo::new(pfifo::Config::default()),
                Ring::new(device, Dql::default()),
            ),
            pool,
            NoTrace,
        ))
    })
    .expect("a thread");
    let listener = TcpListener::bind(SocketAddr::new(theirs, 0)).expect("free");
    let remote = listener.local_addr().expect("bound");
    let data: Vec<u8> = (0..BYTES as u32)
        .map(|at| (at ^ (at >> 9) ^ (at >> 17)) as u8)
        .collect();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepted");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("to the end");
        stream.write_all(&all).expect("written");
    });
    let mut stream = TcpStream::connect(&stack, remote).expect("connected");
    stream.write_all(&data).expect("written");
    stream.shutdown(Shutdown::Write).expect("open");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("to the end");
    assert!(back == data, "what came back is not what was sent");
    echo.join().expect("no panic");
    let packets = packets(name);
    drop(stream);
    thread.stop().expect("ran to its end");
    Ok(packets)
}

#[test]
fn the_kernel_takes_and_gives_packets_of_several_segments() {
    let network = std::process::id() % 255;
    let (ipv4, ipv6) = (
        format!("198.18.{network}."),
        format!("fd07:7a{network:02x}::"),
    );
    for (number, (ends, prefix)) in [(ipv4, 24), (ipv6, 64)].into_iter().enumerate() {
        for offloading in [false, true] {
            let name = format!(
                "tlo{}{number}{}",
                std::process::id() % 100_000,
                u8::from(offloading)
            );
            let ends = [1, 2].map(|host| format!("{ends}{host}"));
            match there_and_back(&name, [&ends[0], &ends[1]], prefix, offloading) {
                Err(why) => return println!("skipped: {why}"),
                Ok([taken, given]) if offloading => {
                    // Beside data, acknowledgments go each way.
                    println!("{SEGMENTS} segments each way in {taken} and {given} packets");
                    assert!(
                        taken < SEGMENTS && given < SEGMENTS,
                        "{taken} and {given} packets"
                    );
                }
                Ok([taken, given]) => assert!(
                    taken > SEGMENTS && given > SEGMENTS,
                    "{taken} and {given} packets"
                ),
            }
        }
    }
}
