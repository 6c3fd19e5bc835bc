//! A boxed device is the one in the box: a method that the box did not pass on would be the trait's default.

use tautline_base::{Device, Frame, HeapFrame, Instant, KeptPacket, Medium, Packet, Received, Tso};

const NOW: Instant = Instant::ZERO;

/// Unlike the defaults in every method.
#[derive(Default)]
struct Unusual(Vec<Packet<HeapFrame>>);

impl Device for Unusual {
    type Frame = HeapFrame;

    fn mtu(&self) -> usize {
        1280
    }

    fn medium(&self) -> Medium {
        Medium::Ip
    }

    fn tso(&self) -> Option<Tso> {
        Some(Tso::MOST)
    }

    fn completes(&self) -> bool {
        true
    }

    fn gathers(&self) -> bool {
        true
    }

    fn accepts(&self, frame: &HeapFrame) -> bool {
        !frame.is_portable()
    }

    fn room(&self) -> usize {
        7
    }

    fn put(&mut self, packet: Packet<HeapFrame>, _now: Instant) {
        self.0.push(packet);
    }

    fn doorbell(&mut self, _now: Instant) {}

    fn reap(&mut self, _now: Instant, done: &mut Vec<Packet<HeapFrame>>) {
        done.append(&mut self.0);
    }

    fn announces_completions(&self) -> bool {
        true
    }

    fn has_completed(&self) -> bool {
        true
    }

    fn in_flight(&self) -> usize {
        self.0.len()
    }

    fn receive(&mut self, _now: Instant) -> Option<Received<HeapFrame>> {
        Some(Received::new(HeapFrame::new(), 0, 60))
    }

    fn recycle(&mut self, _frame: HeapFrame) {}

    fn keep(&mut self, received: Received<HeapFrame>) -> Result<KeptPacket, Received<HeapFrame>> {
        Ok(KeptPacket {
            bytes: Box::new(received.bytes().to_vec()),
            memory: 60,
        })
    }

    fn is_gone(&mut self) -> bool {
        true
    }

    fn needs_reset(&mut self, _now: Instant) -> bool {
        true
    }

    fn reset(&mut self, lost: &mut Vec<Packet<HeapFrame>>) {
        lost.append(&mut self.0);
    }
}

#[test]
fn a_box_passes_every_question_on() {
    let mut device: Box<dyn Device<Frame = HeapFrame>> = Box::new(Unusual::default());
    assert_eq!(
        (device.mtu(), device.medium(), device.tso(), device.room()),
        (1280, Medium::Ip, Some(Tso::MOST), 7)
    );
    assert!(device.completes() && device.gathers() && !device.accepts(&HeapFrame::new()));
    assert!(device.announces_completions() && device.has_completed());
    assert!(device.is_gone() && device.needs_reset(NOW));
    let received = device.receive(NOW).expect("a frame");
    assert!(device.keep(received).is_ok());
    let mut ended = Vec::new();
    for reaps in [true, false] {
        device.put(Packet::new(HeapFrame::new(), 60), NOW);
        assert_eq!(device.in_flight(), 1);
        if reaps {
            device.reap(NOW, &mut ended);
        } else {
            device.reset(&mut ended);
        }
    }
    assert_eq!(ended.len(), 2);
}
