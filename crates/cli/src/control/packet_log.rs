//! [`PacketLog`]: the packets of one direction in the text format of mahimahi's `mm-link`
//! (`src/frontend/link_queue.cc` there), which `mm-throughput-graph` and `mm-delay-graph` draw.
//!
//! | line | event |
//! |---|---|
//! | `MS + BYTES` | a packet arrives |
//! | `MS # 1500` | the trace lets 1500 bytes leave |
//! | `MS - BYTES DELAY` | a packet leaves, `DELAY` ms after it arrived |
//! | `MS d 1 BYTES` | a packet is dropped |
//!
//! Times are milliseconds since the base timestamp, which is 0. Bytes are those of the IP packet.

use std::io::{self, BufWriter, Write};
use std::iter::Peekable;

use tautline_base::{Instant, headers};
use tautline_sim::Trace;
use tautline_stack::{PacketEvent, What};

/// Delivery opportunities in order.
type Opportunities = Box<dyn Iterator<Item = Instant> + Send>;

/// A log that is written.
pub struct PacketLog<W: Write> {
    out: BufWriter<W>,
    opportunities: Option<Peekable<Opportunities>>,
}

impl<W: Write> PacketLog<W> {
    /// Begins a log of the direction that `title` describes. `epoch_ms`: Unix time of its clock's zero.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, title: &str, epoch_ms: u128, trace: Option<Trace>) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        writeln!(out, "# tautline link ({title})")?;
        writeln!(out, "# init timestamp: {epoch_ms}\n# base timestamp: 0")?;
        let opportunities = trace.map(|trace| {
            let times: Opportunities = Box::new(trace.into_opportunities());
            times.peekable()
        });
        Ok(Self { out, opportunities })
    }

    /// Logs an event of a packet of `len` bytes.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn record(&mut self, event: &PacketEvent, len: u32) -> io::Result<()> {
        self.log_opportunities(event.at)?;
        let bytes = u64::from(len).saturating_sub(headers::ETHERNET_HEADER as u64);
        let now = millis(event.at);
        match event.what {
            What::Queued => writeln!(self.out, "{now} + {bytes}"),
            What::Ringed => {
                let arrived =
                    Instant::ZERO + (event.at - Instant::ZERO).saturating_sub(event.sojourn);
                let delay = now - millis(arrived);
                writeln!(self.out, "{now} - {bytes} {delay}")
            }
            What::Dropped(_) => writeln!(self.out, "{now} d 1 {bytes}"),
            What::Born | What::Marked | What::Completed | What::Received => Ok(()),
        }
    }

    /// Notes that `count` events are missing here.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn lost(&mut self, count: u64) -> io::Result<()> {
        match count {
            0 => Ok(()),
            _ => writeln!(
                self.out,
                "# {count} events of both directions are missing here"
            ),
        }
    }

    /// Ends the log `now`.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn finish(mut self, now: Instant) -> io::Result<()> {
        self.log_opportunities(now)?;
        self.out.flush()
    }

    /// Logs the opportunities until `now`.
    fn log_opportunities(&mut self, now: Instant) -> io::Result<()> {
        let Some(times) = &mut self.opportunities else {
            return Ok(());
        };
        while let Some(at) = times.next_if(|at| *at <= now) {
            writeln!(self.out, "{} # 1500", millis(at))?;
        }
        Ok(())
    }
}

fn millis(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tautline_base::DropReason;

    use super::*;

    #[test]
    fn a_log_has_mahimahis_lines_in_order_of_time() {
        let trace: Trace = "5\n5\n10\n".parse().expect("a trace");
        let mut text = Vec::new();
        let mut log = PacketLog::new(&mut text, "uplink", 7, Some(trace)).expect("memory");
        let event = |micros, what, sojourn| PacketEvent {
            at: Instant::ZERO + Duration::from_micros(micros),
            what,
            socket: None,
            seq: 0,
            len: 1514,
            sojourn: Duration::from_micros(sojourn),
        };
        for (micros, what, sojourn) in [
            (900, What::Received, 0),
            (1_000, What::Born, 0),
            (1_000, What::Queued, 0),
            (6_100, What::Marked, 0),
            (6_100, What::Ringed, 5_100),
            (7_000, What::Dropped(DropReason::Overlimit), 0),
        ] {
            log.record(&event(micros, what, sojourn), 1514)
                .expect("memory");
        }
        log.lost(0).expect("memory");
        log.lost(2).expect("memory");
        log.finish(Instant::ZERO + Duration::from_millis(15))
            .expect("memory");
        let expected = "# tautline link (uplink)\n# init timestamp: 7\n# base timestamp: 0\n\
            1 + 1500\n5 # 1500\n5 # 1500\n6 - 1500 5\n7 d 1 1500\n\
            # 2 events of both directions are missing here\n\
            10 # 1500\n15 # 1500\n15 # 1500\n";
        assert_eq!(String::from_utf8(text).expect("text"), expected);
    }
}
