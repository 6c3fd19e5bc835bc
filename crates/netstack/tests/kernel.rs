//! The kernel's own sockets on the far side of a TUN interface, in a network namespace of its own.
//! Skips with the reason where there can be none.
#![cfg(target_os = "linux")]

use std::env;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tautline_netstack::device::{Nic, Tun};
use tautline_netstack::{Cidr, Netstack, Rejection};

/// Set in the namespace: the interface is to offload or not.
const INSIDE: &str = "TAUTLINE_NETSTACK_OFFLOADS";
const BYTES: usize = 8 << 20;
/// Ports that the proxy refuses.
const REFUSED: u16 = 81;
const UNREACHABLE: u16 = 82;

fn at(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse().expect("an address"), port)
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "ip {arguments}"
    );
}

/// Runs this test again in a namespace, with and without offload, as a task and on a thread.
#[test]
fn the_kernels_sockets_reach_any_destination_through_a_tun_interface() {
    if let Ok(mode) = env::var(INSIDE) {
        return inside(mode.contains("offload"), mode.contains("thread"));
    }
    let name = "the_kernels_sockets_reach_any_destination_through_a_tun_interface";
    let can = Command::new("unshare").args(["-n", "true"]).status();
    if !can.is_ok_and(|status| status.success()) || !std::path::Path::new("/dev/net/tun").exists() {
        return println!("skipped: `unshare -n` and /dev/net/tun need root and the TUN driver");
    }
    for mode in ["task", "task, offload", "thread", "thread, offload"] {
        let inner = Command::new("unshare")
            .arg("-n")
            .arg(env::current_exe().expect("it runs"))
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, mode)
            .output()
            .expect("it started before");
        let output = String::from_utf8_lossy(&inner.stderr).into_owned();
        assert!(inner.status.success(), "{mode}: {output}");
    }
}

/// A host on a packet socket is at the MAC address of its interface, which need not become promiscuous:
/// switches, access points and clouds drop frames of other addresses. The test runs itself in a
/// namespace.
#[test]
fn a_host_on_a_packet_socket_has_the_address_of_its_interface() {
    if env::var(INSIDE).is_ok() {
        return on_a_packet_socket();
    }
    let name = "a_host_on_a_packet_socket_has_the_address_of_its_interface";
    let inner = Command::new("unshare")
        .arg("-n")
        .arg(env::current_exe().expect("it runs"))
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "packet")
        .output();
    match inner {
        Ok(inner) if String::from_utf8_lossy(&inner.stderr).starts_with("unshare: ") => {
            println!("skipped: `unshare -n` needs root");
        }
        Ok(inner) => {
            let output = String::from_utf8_lossy(&inner.stderr);
            assert!(inner.status.success(), "{output}");
        }
        Err(error) => println!("skipped: unshare: {error}"),
    }
}

fn on_a_packet_socket() {
    ip("link add near address 02:00:00:00:09:01 type veth peer name far");
    ip("address add 10.9.1.1/24 dev far");
    ip("link set far up");
    ip("link set near up");
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let stack = {
        let _runtime = runtime.enter();
        let device = Nic::packet_socket("near").expect("root in a namespace of its own");
        let address = Cidr::new([10, 9, 1, 2], 24);
        Netstack::builder(device).address(address).build()
    };
    let stack = stack.expect("a runtime");
    let listener = runtime.block_on(stack.listen(80)).expect("a free port");
    runtime.spawn(async move {
        let (stream, _) = listener.accept().await.expect("it runs");
        let (mut read, mut write) = stream.into_split();
        tokio::io::copy(&mut read, &mut write).await.expect("open");
    });
    echo(at("10.9.1.2", 80));
    let shown = |arguments: &[&str]| {
        let output = Command::new("ip").args(arguments).output().expect("ip");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let neighbor = shown(&["neighbor", "show", "dev", "far"]);
    assert!(
        neighbor.contains("10.9.1.2 lladdr 02:00:00:00:09:01"),
        "{neighbor}"
    );
    let link = shown(&["-d", "link", "show", "near"]);
    assert!(link.contains("promiscuity 0"), "{link}");
    ip("link del near");
    runtime.block_on(async {
        for _ in 0..200 {
            if stack.report().await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the stack outlives its interface");
    });
}

fn inside(offloads: bool, has_thread: bool) {
    let opened = if offloads {
        Tun::open("tun0")
    } else {
        Tun::open_without_offload("tun0")
    };
    let device = opened.expect("root in a namespace of its own");
    ip("link set lo up");
    ip("address add 10.9.0.1/24 dev tun0");
    ip("-6 address add fd09::1/64 dev tun0 nodad");
    ip("link set tun0 up");
    ip("route add default dev tun0");
    ip("-6 route add default dev tun0");
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let stack = if has_thread {
        Netstack::builder(device).build().expect("a thread")
    } else {
        let _runtime = runtime.enter();
        Netstack::builder(device).build().expect("a runtime")
    };
    runtime.block_on(proxy(&stack));
    for destination in ["192.0.2.77", "2001:db8::77"] {
        echo(at(destination, 8080));
        let refused = |port| TcpStream::connect(at(destination, port)).expect_err("refused");
        assert_eq!(refused(REFUSED).kind(), ErrorKind::ConnectionRefused);
        assert_eq!(refused(UNREACHABLE).kind(), ErrorKind::HostUnreachable);
        datagrams(at(destination, 5353));
        let ping = Command::new("ping")
            .args(["-c", "1", "-W", "5", destination])
            .output();
        match ping {
            Ok(ping) => assert!(ping.status.success(), "ping {destination}"),
            Err(error) => println!("skipped: ping: {error}"),
        }
    }
    let report = runtime.block_on(stack.report()).expect("it runs");
    println!("{report}");
    assert_eq!(report.counters.malformed + report.counters.bad_checksum, 0);
}

/// Echoes what arrives for any destination.
async fn proxy(stack: &Netstack) {
    let incoming = stack.tcp_incoming().await.expect("the first");
    let udp = stack.udp_incoming().await.expect("the first");
    tokio::spawn(async move {
        while let Ok(request) = incoming.next().await {
            match request.local_addr().port() {
                REFUSED => request.reject(Rejection::Reset),
                UNREACHABLE => request.reject(Rejection::HostUnreachable),
                _ => {
                    tokio::spawn(async move {
                        let stream = request.accept().await.expect("the client waits");
                        let (mut read, mut write) = stream.into_split();
                        tokio::io::copy(&mut read, &mut write).await.expect("open");
                    });
                }
            }
        }
    });
    tokio::spawn(async move {
        let mut buffer = [0; 2000];
        while let Ok((len, from, to)) = udp.recv(&mut buffer).await {
            udp.send(&buffer[..len], to, from).await.expect("room");
        }
    });
}

/// Sends a stream and reads it back, at once; then both ends have closed.
fn echo(to: SocketAddr) {
    let mut stream = TcpStream::connect(to).expect("accepted");
    let mut reader = stream.try_clone().expect("a descriptor");
    let data: Vec<u8> = (0..BYTES as u32)
        .map(|at| (at ^ (at >> 9) ^ (at >> 17)) as u8)
        .collect();
    let expected = Sha256::digest(&data);
    let reading = thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("to the end");
        (all.len(), Sha256::digest(&all))
    });
    stream.write_all(&data).expect("open");
    stream.shutdown(Shutdown::Write).expect("open");
    let (len, digest) = reading.join().expect("no panic");
    assert_eq!(len, BYTES);
    assert!(digest == expected, "other bytes came back from {to}");
}

fn datagrams(to: SocketAddr) {
    let any = if to.is_ipv4() { "0.0.0.0" } else { "::" };
    let socket = UdpSocket::bind(at(any, 0)).expect("a free port");
    let limit = Some(Duration::from_secs(5));
    socket.set_read_timeout(limit).expect("a time");
    let mut buffer = [0; 2000];
    for len in [1, 1400] {
        socket.send_to(&vec![7; len], to).expect("a route");
        let received = socket.recv_from(&mut buffer).expect("an answer");
        assert_eq!(received, (len, to));
    }
}
