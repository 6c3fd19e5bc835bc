//! Devices on a socket that refuses, merges or takes packets whole.

use super::*;
use std::os::unix::net::UnixDatagram;

/// A socket that takes packets of several segments, and gathers.
struct Offloading {
    socket: UnixDatagram,
    /// Packets of several segments are refused like by a full queue.
    refuses: bool,
}

/// The device, and the far end of its socket. Every packet that is read holds merged datagrams of 1000 bytes.
fn offloading(refuses: bool) -> (FrameDevice<Offloading>, UnixDatagram) {
    let (socket, far) = UnixDatagram::pair().expect("descriptors");
    socket.set_nonblocking(true).expect("a socket");
    let io = Offloading { socket, refuses };
    (FrameDevice::new(io, 1500), far)
}

impl AsFd for Offloading {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl FrameIo for Offloading {
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize> {
        self.socket.send(frame)
    }

    fn read_frame(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(frame)
    }

    fn tso(&self) -> Option<Tso> {
        Some(Tso::MOST)
    }

    fn gathers(&self) -> bool {
        true
    }

    fn refuses_segments(&self) -> bool {
        self.refuses
    }

    fn write_packet(&self, packet: &Packet<HeapFrame>) -> io::Result<usize> {
        if !self.refuses {
            return self.write_frame(packet.bytes());
        }
        assert_eq!(
            packet.slices().count(),
            2,
            "the payload is not in the frame"
        );
        Err(ErrorKind::WouldBlock.into())
    }

    fn read_packet(&self, frame: &mut [u8]) -> io::Result<Arrival> {
        self.read_frame(frame).map(|len| Arrival {
            len,
            unit: Unit::Datagrams(1000),
        })
    }
}

#[test]
fn a_payload_outside_the_frame_is_cut_too() {
    let (mut device, far) = offloading(true);
    let mut frame = HeapFrame::with_len(54 + 3000);
    let bytes = frame.bytes_mut();
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    (bytes[23], bytes[46]) = (6, 0x50);
    let payload = frame.fragments_mut().expect("a list");
    payload.push(vec![7; 3000].into());
    let packet = Packet::new(frame, 3054)
        .with_segments(3)
        .with_deferred(Deferred::Payload);
    device.put(packet, Instant::ZERO);
    device.doorbell(Instant::ZERO);
    let mut segment = [0; 2048];
    for _ in 0..3 {
        assert_eq!(far.recv(&mut segment).expect("a segment"), 1054);
        assert_eq!(segment[54..1054], [7; 1000]);
    }
    assert_eq!((device.counters().cut, device.in_flight()), (1, 1));
}

/// The kernel clears CWR in all segments it cuts but the first: AccECN's count would jump.
#[test]
fn a_packet_with_cwr_is_cut_here() {
    for (flags, lengths) in [(0x10, &[3054][..]), (0x90, &[1054; 3])] {
        let (mut device, far) = offloading(false);
        let mut frame = HeapFrame::with_len(54 + 3000);
        let bytes = frame.bytes_mut();
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        (bytes[23], bytes[46], bytes[47]) = (6, 0x50, flags);
        device.put(Packet::new(frame, 3054).with_segments(3), Instant::ZERO);
        device.doorbell(Instant::ZERO);
        for len in lengths {
            let mut segment = [0; 4096];
            assert_eq!(far.recv(&mut segment).expect("a segment"), *len);
            assert_eq!(segment[47], flags);
        }
        assert_eq!((device.counters().cut, device.in_flight()), (0, 1));
    }
}

#[test]
fn datagrams_that_came_as_one_arrive_one_by_one_and_malformed_ones_hide_none() {
    let (mut device, far) = offloading(true);
    let mut whole = vec![0; 42 + 2500];
    whole[12..15].copy_from_slice(&[8, 0, 0x45]);
    whole[23] = 17;
    for wrong in [&whole[..20], &whole] {
        far.send(wrong).expect("room");
    }
    // What cannot be cut is skipped, as if it had not come.
    for len in [1042, 1042, 542] {
        let received = device.receive(Instant::ZERO).expect("three");
        assert_eq!((received.len, received.offload), (len, Offload::default()));
        device.recycle(received.frame);
    }
    assert!(device.receive(Instant::ZERO).is_none());
    assert_eq!((device.counters().received, device.spare.len()), (3, 2));
}

/// Reads fail with each of `errors`, the last one for ever; 0 stands for a read of no bytes, -1 for a frame.
struct Failing {
    socket: UnixDatagram,
    errors: std::cell::RefCell<VecDeque<i32>>,
}

impl AsFd for Failing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl FrameIo for Failing {
    fn write_frame(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(frame.len())
    }

    fn read_frame(&self, _: &mut [u8]) -> io::Result<usize> {
        let mut errors = self.errors.borrow_mut();
        let error = match errors.len() {
            1 => errors[0],
            _ => errors.pop_front().expect("more"),
        };
        match error {
            0 => Ok(0),
            -1 => Ok(60),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn failing(errors: impl IntoIterator<Item = i32>) -> FrameDevice<Failing> {
    let (socket, _) = UnixDatagram::pair().expect("descriptors");
    let errors = errors.into_iter().collect::<VecDeque<_>>().into();
    FrameDevice::new(Failing { socket, errors }, 1500)
}

#[test]
fn a_device_whose_reads_fail_for_good_is_gone_and_says_why() {
    let input = Errno::INVAL.raw_os_error();
    for (error, reason) in [
        (0, Some(ReadError::EndOfFile)),
        (input, Some(ReadError::Os(input))),
        (Errno::BADFD.raw_os_error(), None),
    ] {
        let mut device = failing([error]);
        let why = device.read_error();
        assert!(device.receive(Instant::ZERO).is_none());
        assert!(device.is_gone());
        assert_eq!(why.get().copied(), reason);
        if let Some(why) = reason {
            let message = io::Error::from(why).to_string();
            assert!(message.contains("open"), "no remedy: {message}");
        }
    }
}

/// The kernel drops a packet whose header it cannot write (`tun_put_user`).
#[test]
fn a_read_that_fails_once_hides_no_packet() {
    let [input, again] = [Errno::INVAL, Errno::AGAIN].map(Errno::raw_os_error);
    let mut device = failing([input, 0, -1, again]);
    assert!(device.receive(Instant::ZERO).is_some());
    assert!(device.receive(Instant::ZERO).is_none());
    assert!(!device.is_gone());
}
