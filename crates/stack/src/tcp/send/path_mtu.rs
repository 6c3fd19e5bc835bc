//! The path's MTU: router reports (RFC 1191, RFC 8201), believed as far as RFC 5927 §7 advises, and
//! probes where routers are silent (RFC 4821, in Linux's form: `tcp_mtu_probe`,
//! `tcp_mtu_probing` in `net/ipv4`).

use std::time::Duration;

use tautline_base::{Bytes, Instant};

use super::SendHalf;
use super::recovery::Phase;
use crate::config::MtuProbing;
use crate::tcp::Tuple;
use crate::wire::IPV6_MIN_MTU;

/// Payload of a segment that almost every path carries: where the search begins (Linux
/// `tcp_base_mss`).
const BASE_MSS: usize = 1024;
/// Least payload the search goes down to (Linux `tcp_mtu_probe_floor`).
const FLOOR_MSS: usize = 48;
/// The search is over when what is unknown is less than so many bytes (Linux
/// `tcp_probe_threshold`).
const THRESHOLD: usize = 8;
/// How long after the search is over it begins again: the path may have changed (Linux
/// `tcp_probe_interval`, RFC 4821 §7.7).
const AGAIN: Duration = Duration::from_secs(600);
/// Timeouts in a row that mean that long packets vanish (Linux `tcp_retries1`).
const BLACK_HOLE: u32 = 3;
/// Least window, in segments, that can spare one for a probe (Linux).
const LEAST_WINDOW: u64 = 11;
/// Segments that must follow a probe, so that its loss is noticed without a timeout, besides one
/// more (Linux's reordering degree).
const FOLLOWERS: u64 = 3;
/// Routers of IPv4 that ask for less are not believed (`TRUST.md` row 18; Linux `min_pmtu` is 552).
const IPV4_FLOOR: u32 = 576;

/// Knowledge about the path, in bytes of IP packets.
#[derive(Debug)]
pub(super) struct PathMtu {
    /// MTU of this host's link.
    link: u32,
    /// Smallest MTU that routers reported.
    told: u32,
    /// Smaller reports are not believed.
    floor: u32,
    /// Network and TCP headers of a data segment, options included.
    headers: u32,
    /// Most payload bytes that both ends' links carry in a segment; `None` before the handshake.
    most: Option<u32>,
    /// Boxed: few connections ever probe.
    probing: Option<Box<Probing>>,
}

#[derive(Debug, Default)]
struct Probing {
    /// The search, once it has begun.
    search: Option<Search>,
    /// When the last search ended.
    settled: Option<Instant>,
    /// The probe in flight.
    probe: Option<Probe>,
}

/// Bounds of the search, in bytes of IP packets.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Longest packet known to arrive.
    proven: usize,
    /// Shortest packet known not to arrive.
    unfit: usize,
}

/// A probe: stream offsets of its payload and length of its packet.
#[derive(Clone, Copy, Debug)]
struct Probe {
    start: u64,
    end: u64,
    length: usize,
}

impl PathMtu {
    /// Only the `link` is known.
    pub(super) fn new(link: usize, tuple: &Tuple) -> Self {
        let link = u32::try_from(link).unwrap_or(u32::MAX);
        Self {
            link,
            told: link,
            floor: if tuple.local.is_ipv4() {
                IPV4_FLOOR
            } else {
                IPV6_MIN_MTU as u32
            },
            headers: tuple.headers_len() as u32,
            most: None,
            probing: None,
        }
    }

    /// The handshake is done: segments carry `most` bytes at most, after `headers`.
    pub(super) fn open(&mut self, most: u64, headers: usize) {
        self.most = Some(most as u32);
        self.headers = headers as u32;
    }

    /// Network and TCP headers of a data segment.
    pub(super) fn headers(&self) -> usize {
        self.headers as usize
    }

    /// MTU of this host's link.
    pub(super) fn link(&self) -> usize {
        self.link as usize
    }

    /// Longest packet to send.
    pub(super) fn longest(&self) -> usize {
        let told = self.told as usize;
        self.search().map_or(told, |search| told.min(search.proven))
    }

    /// Most payload of a segment; `None` before the handshake.
    fn segment(&self) -> Option<u64> {
        let room = self.longest().saturating_sub(self.headers()).max(1) as u64;
        self.most.map(|most| u64::from(most).min(room))
    }

    fn search(&self) -> Option<Search> {
        self.probing.as_ref()?.search
    }

    fn probe(&self) -> Option<Probe> {
        self.probing.as_ref()?.probe
    }

    fn take_probe(&mut self) -> Option<Probe> {
        self.probing.as_mut()?.probe.take()
    }

    fn probing(&mut self) -> &mut Probing {
        self.probing.get_or_insert_default()
    }

    /// Begins the search where almost every path carries the packets.
    fn begin(&mut self) {
        let (Some(most), headers) = (self.most, self.headers()) else {
            return;
        };
        let link = self.link().min(most as usize + headers);
        self.probing().search = Some(Search {
            proven: (BASE_MSS + headers).min(link),
            unfit: link + 1,
        });
    }

    /// Begins a finished search again after some time: the path may carry more by now.
    pub(super) fn renew(&mut self, now: Instant) {
        let (Some(most), Some(search)) = (self.most, self.search()) else {
            return;
        };
        if search.unfit.saturating_sub(search.proven) > THRESHOLD || self.probe().is_some() {
            return;
        }
        let settled = *self.probing().settled.get_or_insert(now);
        if now - settled >= AGAIN {
            let longest = self.link().min(most as usize + self.headers());
            self.told = self.link;
            let probing = self.probing();
            probing.settled = None;
            probing.search = Some(Search {
                unfit: longest + 1,
                ..search
            });
        }
    }

    /// Long packets vanish: the search begins, or goes on below half of what was proven.
    fn shrink(&mut self, now: Instant) {
        let (headers, link) = (self.headers(), self.link());
        let search = match self.search() {
            None => Search {
                proven: (BASE_MSS + headers).min(link),
                unfit: link + 1,
            },
            Some(Search { proven, unfit }) => {
                let halved =
                    (proven.saturating_sub(headers) / 2).clamp(FLOOR_MSS, BASE_MSS) + headers;
                Search {
                    proven: halved.min(link),
                    unfit,
                }
            }
        };
        let probing = self.probing();
        probing.search = Some(search);
        probing.settled = Some(now);
    }

    /// A router reports an MTU of `claimed` bytes for a packet of `sent`. Lies that gain something
    /// are too small, and a report that is not below the packet's length cannot be true.
    fn on_report(&mut self, claimed: u32, sent: usize) -> bool {
        let bytes = claimed as usize;
        if claimed < self.floor || bytes >= sent {
            return false;
        }
        self.told = self.told.min(claimed);
        if let Some(search) = self.probing.as_mut().and_then(|p| p.search.as_mut()) {
            search.unfit = search.unfit.min(bytes + 1);
            search.proven = search.proven.min(bytes);
        }
        self.take_probe();
        true
    }

    /// A probe of `length` bytes did not arrive.
    fn on_probe_lost(&mut self, length: usize) {
        if let Some(search) = self.probing.as_mut().and_then(|p| p.search.as_mut()) {
            search.unfit = length.max(search.proven + 1);
        }
    }

    /// A probe of `length` bytes arrived.
    fn on_probe_delivered(&mut self, length: usize, now: Instant) {
        let probing = self.probing();
        if let Some(search) = &mut probing.search {
            search.proven = length.max(search.proven);
        }
        probing.settled = Some(now);
    }

    /// Payload of the next probe; `None` unless there is more to find out.
    fn next_probe(&self) -> Option<u64> {
        let Search { proven, unfit } = self.search()?;
        if unfit.saturating_sub(proven) <= THRESHOLD {
            return None;
        }
        let payload = ((proven + unfit) / 2).checked_sub(self.headers())? as u64;
        (u64::from(self.most?) >= payload).then_some(payload)
    }
}

impl SendHalf {
    /// A router reports that the segment which began at offset `at` was longer than the `claimed`
    /// MTU of its link. False if the report is not believed.
    pub(in crate::tcp) fn on_too_big(&mut self, at: u64, claimed: u32) -> bool {
        let sent = self.segments.payload_at(at) as usize + self.path.headers();
        let believed = self.path.on_report(claimed, sent);
        if believed {
            self.use_path_mtu();
        }
        believed
    }

    /// Segments are as long as the path now carries; longer ones in flight are cut and sent again.
    /// That is no sign of congestion (RFC 1191 §6.5, RFC 4821 §7.5).
    fn use_path_mtu(&mut self) {
        if let Some(mss) = self.path.segment() {
            self.mss = mss;
            self.segments.cut(mss);
        }
    }

    /// The search for the path's MTU is configured and has not begun.
    pub(super) fn should_begin_mtu_search(&self) -> bool {
        self.config.mtu_probing == MtuProbing::Always && self.path.search().is_none()
    }

    /// Begins the configured search for the path's MTU.
    pub(super) fn begin_mtu_search(&mut self) {
        if self.should_begin_mtu_search() {
            self.path.begin();
            self.use_path_mtu();
        }
    }

    /// The retransmission timer expired once more. Long packets may be what vanishes.
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        if let Some(probe) = self.path.take_probe() {
            self.path.on_probe_lost(probe.length);
            self.use_path_mtu();
        }
        if self.config.mtu_probing != MtuProbing::Off
            && self.flight.timeouts >= BLACK_HOLE
            && self.path.most.is_some()
        {
            self.path.shrink(now);
            self.use_path_mtu();
        }
    }

    /// The length of payload that a probe may have now, if one is due: data and window allow it and
    /// its followers, and nothing else is wrong with the path, `in_order` for received data.
    pub(super) fn probe_size(&self, in_order: bool) -> Option<u64> {
        if self.config.mtu_probing == MtuProbing::Off
            || self.path.probe().is_some()
            || self.nxt == 1
        {
            return None;
        }
        let calm = self.phase == Phase::Open && in_order && !self.segments.any_lost();
        if !calm || self.cwnd().get() < LEAST_WINDOW * self.mss {
            return None;
        }
        let payload = self.path.next_probe()?;
        let needed = self.nxt + payload + (FOLLOWERS + 1) * self.mss;
        (payload > self.mss && needed <= self.buffer.end().min(self.peer.edge)).then_some(payload)
    }

    /// A probe of `payload` bytes leaves, the first of them at offset `start`.
    pub(super) fn probe_sent(&mut self, start: u64, payload: u64) {
        let length = payload as usize + self.path.headers();
        self.path.probing().probe = Some(Probe {
            start,
            end: start + payload,
            length,
        });
    }

    /// SND.UNA moved: if it covers the probe, the path carries its length.
    pub(super) fn note_probe_delivered(&mut self, now: Instant) {
        if let Some(probe) = self.path.probe().filter(|probe| probe.end <= self.una) {
            self.path.take_probe();
            self.path.on_probe_delivered(probe.length, now);
            self.use_path_mtu();
        }
    }

    /// A probe that alone is lost is no sign of congestion. Returns the rest of `lost`.
    pub(super) fn forgive_probe(&mut self, lost: Bytes) -> Bytes {
        let Some(probe) = self.path.probe() else {
            return lost;
        };
        if probe.start != self.una || lost == Bytes::ZERO {
            return lost;
        }
        let alone = lost == Bytes::new(probe.end - probe.start) && self.phase == Phase::Open;
        self.path.take_probe();
        self.path.on_probe_lost(probe.length);
        self.use_path_mtu();
        if alone { Bytes::ZERO } else { lost }
    }
}
