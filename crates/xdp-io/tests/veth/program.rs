//! Redirection by the XDP program, and transfers whose peer is the kernel.

use super::*;

#[test]
fn only_our_address_is_redirected() {
    let pair = pair_or_skip!();
    let Pair { left, right, .. } = &pair;
    let mut port = Port::new(right);
    // The kernel's own address answers through the attached program, both ARP and ICMP.
    left.exec(&[
        "ping",
        "-c",
        "3",
        "-i",
        "0.1",
        "-W",
        "2",
        &right.kernel_address.to_string(),
    ]);
    assert_eq!(
        port.device.statistics().device.received,
        0,
        "the kernel's traffic stays with the kernel"
    );
    // For our address the kernel asks by ARP, which reaches us and not the kernel.
    let ours = right.address.to_string();
    let _ = std::process::Command::new("ip")
        .args([
            "netns",
            "exec",
            &left.namespace,
            "ping",
            "-c",
            "1",
            "-W",
            "1",
            &ours,
        ])
        .output();
    let received = port.device.receive(NOW).expect("an ARP request");
    assert_eq!(received.bytes()[12..14], [8, 6]);
    assert_eq!(received.bytes()[38..42], right.address.octets());
    port.device.recycle(received.frame);
}

#[test]
fn everything_includes_frames_to_other_mac_addresses() {
    let pair = pair_or_skip!();
    let Pair { left, right, .. } = &pair;
    let is_promiscuous = || {
        let link = right.ip(&["-d", "link", "show", &right.interface]);
        !link.contains("promiscuity 0")
    };
    let config = Config {
        take: Take::Everything,
        ..right.config()
    };
    let (mut sender, mut receiver) = (Port::new(left), Port::open(right, config).unwrap());
    assert!(is_promiscuous());
    let mut frame = sender.pool.take().unwrap();
    write_frame(frame.bytes_mut(), 60, right.address, 7);
    frame.bytes_mut()[..6].copy_from_slice(&[2, 0, 0, 0, 0, 99]);
    sender.device.put(Packet::new(frame, 60), NOW);
    sender.device.doorbell(NOW);
    sender.settle();
    assert_eq!(receiver.marks(1), [7]);
    drop(receiver);
    assert!(!is_promiscuous());
}

/// The verifier has to like the program, and the kernel to send what it looks for.
#[test]
fn only_solicitations_for_our_ipv6_address_are_redirected() {
    let pair = pair_or_skip!();
    let Pair { left, right, .. } = &pair;
    for (end, address) in [(left, "fd00:77::a"), (right, "fd00:77::b")] {
        end.exec(&[
            "sh",
            "-c",
            &format!(
                "echo 0 > /proc/sys/net/ipv6/conf/{}/disable_ipv6",
                end.interface
            ),
        ]);
        end.ip(&[
            "address",
            "add",
            &format!("{address}/64"),
            "dev",
            &end.interface,
            "nodad",
        ]);
    }
    // Shares its group with the kernel's address, whose last 24 bits are the same.
    let ours: std::net::Ipv6Addr = "fd00:77::1:0:0:b".parse().unwrap();
    let config = Config {
        take: Take::Addresses(vec![ours.into()]),
        ..right.config()
    };
    let (mut device, _frames) = right.inside(|| XdpDevice::open(config)).unwrap();
    left.exec(&[
        "ping",
        "-6",
        "-c",
        "2",
        "-i",
        "0.1",
        "-W",
        "2",
        "fd00:77::b",
    ]);
    assert_eq!(
        device.statistics().device.received,
        0,
        "the kernel's traffic stays with the kernel"
    );
    let asks = [
        "netns",
        "exec",
        &left.namespace,
        "ping",
        "-6",
        "-c",
        "1",
        "-W",
        "1",
        &ours.to_string(),
    ];
    let _ = std::process::Command::new("ip").args(asks).output();
    let received = device.receive(NOW).expect("a solicitation");
    assert_eq!(received.bytes()[12..14], [0x86, 0xdd]);
    assert_eq!(received.bytes()[62..78], ours.octets());
    device.recycle(received.frame);
}

/// An ICMP echo request from `from`'s address to the kernel's at the other end, as an Ethernet
/// frame of `len` bytes, an even number.
fn write_echo_request(bytes: &mut [u8], len: usize, from: &End, to: &End) {
    write_frame(bytes, len, to.kernel_address, 0);
    bytes[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    bytes[23] = 1;
    bytes[26..30].copy_from_slice(&from.address.octets());
    bytes[34..42].copy_from_slice(&[8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    bytes[42..len].fill(0x5a);
    for (start, end, at) in [(14, 34, 24), (34, len, 36)] {
        let words = bytes[start..end]
            .chunks(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[at..at + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
    }
}

#[test]
fn a_kernel_without_xdp_answers_us() {
    let pair = pair_or_skip!();
    kernel_echoes(&pair, 60);
}

#[test]
fn a_kernel_answers_packets_that_span_chunks() {
    let pair = veth_or_skip!();
    jumbo(&pair);
    kernel_echoes(&pair, 9014);
}

/// The kernel at the right answers an echo request of `len` bytes from the left.
fn kernel_echoes(pair: &Pair, len: usize) {
    let Pair { left, right, .. } = pair;
    let mut port = Port::new(left);
    let mac = left
        .inside(|| interface_mac(&left.interface))
        .expect("it exists");
    let mac_text = mac.map(|byte| format!("{byte:02x}")).join(":");
    right.ip(&[
        "neighbour",
        "add",
        &left.address.to_string(),
        "lladdr",
        &mac_text,
        "dev",
        &right.interface,
    ]);
    let mut frame = port.pool.take().expect("one is free");
    write_echo_request(frame.bytes_mut(), len, left, right);
    let peer = right
        .inside(|| interface_mac(&right.interface))
        .expect("it exists");
    frame.bytes_mut()[..6].copy_from_slice(&peer);
    port.device.put(Packet::new(frame, len as u32), NOW);
    port.device.doorbell(NOW);
    port.settle();
    sleep(Duration::from_millis(50));
    let reply = port.device.receive(NOW).expect("an echo reply");
    assert_eq!(reply.bytes().len(), len);
    assert_eq!(reply.bytes()[..6], mac);
    assert_eq!(
        (reply.bytes()[23], reply.bytes()[34], &reply.bytes()[38..42]),
        (1, 0, &[0x12, 0x34, 0, 1][..])
    );
    assert!(reply.bytes()[42..].iter().all(|byte| *byte == 0x5a));
    port.device.recycle(reply.frame);
}
