//! Any bytes through the parsers that qdiscs and devices use: header offsets, flow hashes, and
//! segmentation of a large packet, whose pieces must add up to the whole.

use arbitrary::Arbitrary;
use tautline_base::Segmentation;
use tautline_base::headers::Headers;
use tautline_base::segmentation::leave_checksum;
use tautline_qdisc::FlowKey;
use tautline_testkit::Ip;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input<'a> {
    seed: u64,
    network: u8,
    segments: u16,
    size: u16,
    shape: Shape,
    bytes: &'a [u8],
}

/// Headers around the bytes.
#[derive(Arbitrary, Debug)]
enum Shape {
    Frame,
    Ipv4(u8),
    Ipv6(u8),
}

/// Runs one case.
pub fn run(input: Input<'_>) {
    let ip = |source: &str, destination: &str, protocol| {
        let address = |text: &str| text.parse::<std::net::IpAddr>().expect("an address");
        Ip::new(address(source), address(destination), protocol)
    };
    let mut frame = match input.shape {
        Shape::Frame => input.bytes.to_vec(),
        Shape::Ipv4(protocol) => {
            ip("10.7.0.1", "10.7.0.2", protocol).frame([2; 6], [4; 6], input.bytes)
        }
        Shape::Ipv6(protocol) => {
            ip("fd07::1", "fd07::2", protocol).frame([2; 6], [4; 6], input.bytes)
        }
    };
    let headers = Headers::parse(&frame, input.network.into());
    if let Some(ip) = headers.ip {
        assert!(ip.at < frame.len(), "an IP header beyond the frame");
    }
    let key = FlowKey::from_seed(input.seed);
    let info = key.parse(&frame);
    assert_eq!(info, key.parse(&frame), "a flow hash is a function");
    for cut in [
        Segmentation::new(&frame, input.network.into(), input.segments),
        Segmentation::of_size(&frame, input.network.into(), input.size.into()),
    ] {
        cut.iter().for_each(|cut| write_all(cut, &frame));
    }
    leave_checksum(&mut frame, input.network.into());
}

/// Every segment is written whole, and their payloads are the packet's.
fn write_all(cut: &Segmentation<'_>, frame: &[u8]) {
    let header = cut.header_len();
    let mut payload: Vec<u8> = Vec::new();
    let mut out = vec![0; frame.len()];
    for index in 0..cut.count() {
        let len = cut.write(index, &mut out).expect("a frame as long as all");
        assert_eq!(len, cut.len_of(index));
        payload.extend(&out[header..len]);
    }
    assert_eq!(cut.write(cut.count(), &mut out), None);
    if cut.size() > 0 {
        assert_eq!(payload, frame[header..], "the pieces are not the whole");
    }
}
