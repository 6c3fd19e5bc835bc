//! The path's MTU: router reports (RFC 1191, RFC 8201), accepted as far as RFC 5927 §7 advises, and
//! probes where routers do not report (RFC 4821, as in Linux: `tcp_mtu_probe`, `tcp_mtu_probing` in
//! `net/ipv4`).

use std::time::Duration;

use tautline_base::{Bytes, Instant};

use super::Flight;
use crate::config::MtuProbing;
use crate::tcp::Tuple;
use crate::wire::IPV6_MIN_MTU;

/// Payload of a segment that almost every path carries: where the search begins (Linux
/// `tcp_base_mss`).
const BASE_MSS: usize = 1024;
/// Least payload the search goes down to (Linux `tcp_mtu_probe_floor`).
const FLOOR_MSS: usize = 48;
/// The search ends when the remaining interval is smaller than this many bytes (Linux
/// `tcp_probe_threshold`).
const THRESHOLD: usize = 8;
/// Time for which the end of a search, or the report of a router, is believed: the path may have
/// changed (Linux `tcp_probe_interval`, RFC 4821 §7.7; `mtu_expires`, RFC 1191 §6.3, RFC 8201 §4).
const AGAIN: Duration = Duration::from_secs(600);
/// Timeouts in a row that mean that long packets vanish (Linux `tcp_retries1`).
const BLACK_HOLE: u32 = 3;
/// Least window, in segments, that can spare one for a probe (Linux).
const LEAST_WINDOW: u64 = 11;
/// Segments that must follow a probe, so that its loss is noticed without a timeout, besides one
/// more (Linux's reordering degree).
const FOLLOWERS: u64 = 3;
/// Least MTU of an IPv4 link (RFC 791; RFC 1191 §3): what claims less is no report.
const IPV4_LEAST: u32 = 68;
/// IPv4 reports of less count as this, the MTU of the slowest links (RFC 1191 §7.1): a forged one
/// makes packets no shorter. DIVERGES: Linux's floor is 552 (`min_pmtu`), and what does not fit
/// then leaves without DF, for routers to cut. Here every packet has DF, so the floor is lower.
const IPV4_FLOOR: u32 = 296;
/// MTUs of links (RFC 1191 §7.1): a report that names none means the next one below the packet's
/// length (§5).
const PLATEAUS: [u32; 9] = [
    32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, IPV4_FLOOR,
];

/// Knowledge about the path, in bytes of IP packets.
#[derive(Debug)]
pub(in crate::tcp) struct PathMtu {
    /// MTU of this host's link.
    link: u32,
    /// Smallest MTU that routers reported.
    reported: u32,
    is_ipv4: bool,
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
    /// End of the last search, or, before the first, the first segment after a router's report.
    settled: Option<Instant>,
    /// The probe in flight.
    probe: Option<Probe>,
}

/// Bounds of the search, in bytes of IP packets.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Longest packet proven to arrive.
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
            reported: link,
            is_ipv4: tuple.local.is_ipv4(),
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

    /// Segments carry `most` bytes at most, options included, from now on.
    fn clamp(&mut self, most: u16, tuple_headers: usize) {
        let options = self.headers.saturating_sub(tuple_headers as u32);
        let payload = u32::from(most).saturating_sub(options);
        self.most = self.most.map(|before| before.min(payload));
    }

    /// Network and TCP headers of a data segment.
    pub(in crate::tcp) fn headers(&self) -> usize {
        self.headers as usize
    }

    /// MTU of this host's link.
    pub(in crate::tcp) fn link(&self) -> usize {
        self.link as usize
    }

    /// Longest packet to send.
    pub(super) fn longest(&self) -> usize {
        let reported = self.reported as usize;
        self.search()
            .map_or(reported, |search| reported.min(search.proven))
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

    /// The link carries `mtu` bytes from now on.
    fn set_link(&mut self, mtu: u32) {
        // No router has reported less than the link carried.
        self.reported = if self.reported == self.link {
            mtu
        } else {
            self.reported.min(mtu)
        };
        self.link = mtu;
        let longest = mtu as usize;
        if let Some(probing) = &mut self.probing {
            probing.probe.take_if(|probe| probe.length > longest);
            if let Some(search) = &mut probing.search {
                search.proven = search.proven.min(longest);
                search.unfit = search.unfit.min(longest + 1);
            }
        }
    }

    /// Begins the search where almost every path carries the packets.
    pub(super) fn begin(&mut self) {
        let (Some(most), headers) = (self.most, self.headers()) else {
            return;
        };
        let link = self.link().min(most as usize + headers);
        self.probing().search = Some(Search {
            proven: (BASE_MSS + headers).min(link),
            unfit: link + 1,
        });
    }

    /// Begins a finished search again after some time, or discards what a router reported: the path may
    /// carry more by now. True if segments are longer from now on.
    pub(super) fn renew(&mut self, now: Instant) -> bool {
        match self.search() {
            Some(search) => {
                self.renew_search(search, now);
                false
            }
            None => self.reported < self.link && self.discard_report(now),
        }
    }

    /// Nothing is probed: only a segment that is too long shows what the path carries by now.
    fn discard_report(&mut self, now: Instant) -> bool {
        let since = *self.probing().settled.get_or_insert(now);
        let is_old = now - since >= AGAIN;
        if is_old {
            self.reported = self.link;
            self.probing = None;
        }
        is_old
    }

    fn renew_search(&mut self, search: Search, now: Instant) {
        let Some(most) = self.most else {
            return;
        };
        if search.unfit.saturating_sub(search.proven) > THRESHOLD || self.probe().is_some() {
            return;
        }
        let settled = *self.probing().settled.get_or_insert(now);
        if now - settled >= AGAIN {
            let longest = self.link().min(most as usize + self.headers());
            self.reported = self.link;
            let probing = self.probing();
            probing.settled = None;
            probing.search = Some(Search {
                unfit: longest + 1,
                ..search
            });
        }
    }

    /// Long packets vanish: the search begins, or continues below half of the proven size.
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

    /// The MTU that the report of `claimed` bytes for a packet of `sent` stands for. Lies that gain
    /// something are too small, and a report that is not below the packet's length cannot be true.
    fn reported_mtu(&self, claimed: u32, sent: usize) -> Option<u32> {
        let is_below = |mtu: &u32| (*mtu as usize) < sent;
        let mtu = match claimed {
            // RFC 8201 §4: a smaller one is discarded.
            _ if !self.is_ipv4 => Some(claimed).filter(|mtu| *mtu >= IPV6_MIN_MTU as u32),
            // Of a router from before RFC 1191.
            0 => PLATEAUS.into_iter().find(is_below),
            1..IPV4_LEAST => None,
            _ => Some(claimed.max(IPV4_FLOOR)),
        };
        mtu.filter(is_below)
    }

    /// A router reports an MTU of `claimed` bytes for a packet of `sent`. False if it is not believed.
    fn on_report(&mut self, claimed: u32, sent: usize) -> bool {
        let Some(mtu) = self.reported_mtu(claimed, sent) else {
            return false;
        };
        let bytes = mtu as usize;
        self.reported = self.reported.min(mtu);
        if let Some(search) = self.probing.as_mut().and_then(|p| p.search.as_mut()) {
            search.unfit = search.unfit.min(bytes + 1);
            search.proven = search.proven.min(bytes);
        }
        if let Some(probing) = &mut self.probing {
            // It is the latest news about the path.
            (probing.probe, probing.settled) = (None, None);
        }
        true
    }

    /// A probe of `payload` bytes leaves, the first of them at offset `start`.
    pub(super) fn probe_sent(&mut self, start: u64, payload: u64) {
        let length = payload as usize + self.headers();
        self.probing().probe = Some(Probe {
            start,
            end: start + payload,
            length,
        });
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

    /// The retransmission timer expired, `timeouts` times in a row: long packets may be what
    /// vanishes. True if segments are shorter from now on.
    pub(super) fn on_timeout(&mut self, probing: MtuProbing, timeouts: u32, now: Instant) -> bool {
        let probe = self.take_probe();
        if let Some(probe) = probe {
            self.on_probe_lost(probe.length);
        }
        let shrinks = probing != MtuProbing::Off && timeouts >= BLACK_HOLE && self.most.is_some();
        if shrinks {
            self.shrink(now);
        }
        shrinks || probe.is_some()
    }

    /// The length of payload that a probe of a calm path may have now, if one is due: data and
    /// window (`sendable`: both, from SND.NXT) allow it and its followers of `mss` bytes.
    pub(super) fn probe_size(&self, mss: u64, cwnd: Bytes, sendable: u64) -> Option<u64> {
        if self.probe().is_some() || cwnd.get() < LEAST_WINDOW * mss {
            return None;
        }
        let payload = self.next_probe()?;
        let needed = payload + (FOLLOWERS + 1) * mss;
        (payload > mss && needed <= sendable).then_some(payload)
    }

    /// SND.UNA moved to `una`: if it covers the probe, the path carries its length. True if so.
    pub(super) fn on_advance(&mut self, una: u64, now: Instant) -> bool {
        let Some(probe) = self.probe().filter(|probe| probe.end <= una) else {
            return false;
        };
        self.take_probe();
        self.on_probe_delivered(probe.length, now);
        true
    }

    /// `lost` bytes from `una` on are lost. The length of the probe among them, if there is one: it
    /// did not fit.
    pub(super) fn on_lost(&mut self, una: u64, lost: Bytes) -> Option<Bytes> {
        let probe = self.probe()?;
        if probe.start != una || lost == Bytes::ZERO {
            return None;
        }
        self.take_probe();
        self.on_probe_lost(probe.length);
        Some(Bytes::new(probe.end - probe.start))
    }
}

/// A router advertises `mtu` for this host's link (RFC 4861 §6.3.4).
pub(in crate::tcp) fn on_link_mtu(flight: &mut Flight, mtu: usize) {
    let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
    if flight.path.link != mtu {
        flight.path.set_link(mtu);
        flight.use_path_mtu();
    }
}

impl Flight {
    /// A router reports that the segment which began at offset `at` was longer than the `claimed`
    /// MTU of its link. False if the report is ignored.
    pub(in crate::tcp) fn on_too_big(&mut self, at: u64, claimed: u32) -> bool {
        let sent = self.segments.payload_at(at) as usize + self.path.headers();
        let believed = self.path.on_report(claimed, sent);
        if believed {
            self.use_path_mtu();
        }
        believed
    }

    /// Segments are as long as the path now carries; longer ones in flight are cut and sent again.
    /// This loss does not indicate congestion (RFC 1191 §6.5, RFC 4821 §7.5).
    pub(super) fn use_path_mtu(&mut self) {
        if let Some(mss) = self.path.segment() {
            self.mss = mss;
            self.segments.cut(mss);
        }
    }

    /// New segments carry `most` bytes at most, options included (`TCP_MAXSEG`); those in flight
    /// stay whole.
    pub(in crate::tcp) fn clamp_mss(&mut self, most: u16, tuple: &Tuple) {
        self.path.clamp(most, tuple.headers_len());
        self.mss = self.path.segment().unwrap_or(self.mss);
    }

    /// The search for the path's MTU is configured and has not begun.
    pub(in crate::tcp::send) fn should_begin_mtu_search(&self) -> bool {
        self.config.mtu_probing == MtuProbing::Always && self.path.search().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// IPv4 and timestamps over a link of 1500 bytes.
    const HEADERS: usize = 52;

    fn searching() -> PathMtu {
        let [local, remote] = [1, 2].map(|host| Ipv4Addr::new(10, 7, 0, host).into());
        let tuple = Tuple {
            local,
            remote,
            local_port: 80,
            remote_port: 5001,
        };
        let mut path = PathMtu::new(1500, &tuple);
        path.open(1448, HEADERS);
        path.begin();
        path
    }

    fn bounds(path: &PathMtu) -> (usize, usize) {
        let search = path.search().expect("it has begun");
        (search.proven, search.unfit)
    }

    /// RFC 4821 §7.3: from the base to the link's MTU, halving the distance.
    #[test]
    fn the_search_begins_between_base_and_link() {
        let path = searching();
        assert_eq!(bounds(&path), (1024 + HEADERS, 1501));
        assert_eq!(path.next_probe(), Some((1076 + 1501) / 2 - 52));
    }

    #[test]
    fn a_lost_probe_of_proven_size_leaves_room_for_one_byte() {
        let mut path = searching();
        path.on_probe_lost(1300);
        assert_eq!(bounds(&path), (1076, 1300));
        path.on_probe_lost(1000);
        assert_eq!(bounds(&path), (1076, 1077));
        assert_eq!(path.next_probe(), None);
    }

    #[test]
    fn a_settled_search_is_renewed_up_to_the_link() {
        let mut path = searching();
        path.on_probe_lost(1080);
        let settled = Instant::from_secs(1);
        path.renew(settled);
        path.renew(settled + AGAIN - Duration::from_nanos(1));
        assert_eq!(bounds(&path), (1076, 1080));
        path.renew(settled + AGAIN);
        assert_eq!(bounds(&path), (1076, 1501));
    }

    /// Linux `tcp_mtu_probe`: eleven segments of window, and data for the probe and four more.
    #[test]
    fn a_probe_needs_a_window_and_followers() {
        let path = searching();
        let payload = path.next_probe().expect("more to find out");
        let (window, needed) = (Bytes::new(11 * 1024), payload + 4 * 1024);
        for (cwnd, sendable, size) in [
            (window, needed, Some(payload)),
            (window, needed - 1, None),
            (window - Bytes::new(1), needed, None),
        ] {
            assert_eq!(path.probe_size(1024, cwnd, sendable), size);
        }
    }
}
