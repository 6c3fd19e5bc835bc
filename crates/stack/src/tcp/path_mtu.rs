//! How long a packet the path carries: what routers say (RFC 1191, RFC 8201), believed as far as
//! RFC 5927 §7 would have it, and what probes find where routers are silent (RFC 4821, in Linux's
//! form: `spec/tcp.md` §1.13, `tcp_mtu_probing`).

use std::time::Duration;

use tautline_base::{Bytes, Instant};

use super::connection::Connection;
use super::recovery::Phase;
use crate::config::MtuProbing;
use crate::wire::{IPV6_MIN_MTU, TCP_HEADER, ip_header_len};

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
const IPV4_FLOOR: usize = 576;

/// What is known of the path, in bytes of IP packets.
#[derive(Debug)]
pub(super) struct PathMtu {
    /// The link of this host.
    link: u32,
    /// What a router said last.
    told: u32,
    /// What probes have found. Boxed: few connections ever probe.
    probing: Option<Box<Probing>>,
}

#[derive(Debug, Default)]
struct Probing {
    /// The search, once it has begun: longer packets than the first are unproven, longer than the
    /// second do not arrive.
    search: Option<(usize, usize)>,
    /// The last search ended then.
    settled: Option<Instant>,
    /// The probe that is on its way: the offset of its first byte, of what follows it, and the
    /// packet's length.
    probe: Option<(u64, u64, usize)>,
}

impl PathMtu {
    /// Nothing is known but the link.
    pub(super) fn new(link: usize) -> Self {
        let link = u32::try_from(link).unwrap_or(u32::MAX);
        Self {
            link,
            told: link,
            probing: None,
        }
    }

    /// Longest packet of this host's link.
    pub(super) fn link(&self) -> usize {
        self.link as usize
    }

    /// Longest packet to be sent.
    pub(super) fn longest(&self) -> usize {
        let told = self.told as usize;
        self.search().map_or(told, |(proven, _)| told.min(proven))
    }

    fn search(&self) -> Option<(usize, usize)> {
        self.probing.as_ref()?.search
    }

    fn search_mut(&mut self) -> Option<&mut (usize, usize)> {
        self.probing.as_mut()?.search.as_mut()
    }

    fn probe(&self) -> Option<(u64, u64, usize)> {
        self.probing.as_ref()?.probe
    }

    fn take_probe(&mut self) -> Option<(u64, u64, usize)> {
        self.probing.as_mut()?.probe.take()
    }

    fn probing(&mut self) -> &mut Probing {
        self.probing.get_or_insert_default()
    }
}

impl Connection {
    /// A router says that a segment in flight, which began at offset `at`, was longer than the
    /// `claimed` bytes its link carries. Lies that gain something are too small, and what is not
    /// shorter than the packet cannot be true.
    pub(super) fn on_too_big(&mut self, at: u64, claimed: u32) -> bool {
        let floor = if self.tuple.local.is_ipv4() {
            IPV4_FLOOR
        } else {
            IPV6_MIN_MTU
        };
        let sent = self.segments.payload_at(at) as usize + self.headers_with_options();
        let bytes = claimed as usize;
        if bytes < floor || bytes >= sent {
            return false;
        }
        self.path_mtu.told = self.path_mtu.told.min(claimed);
        if let Some((proven, unfit)) = self.path_mtu.search_mut() {
            *unfit = (*unfit).min(bytes + 1);
            *proven = (*proven).min(bytes);
        }
        self.path_mtu.take_probe();
        self.use_path_mtu();
        true
    }

    /// Headers of a data segment.
    pub(super) fn headers_with_options(&self) -> usize {
        let negotiated = self.negotiated.as_ref();
        ip_header_len(self.tuple.local)
            + TCP_HEADER
            + negotiated.map_or(0, |negotiated| negotiated.options)
    }

    /// Segments are as long as the path now carries; what is on its way in longer ones is cut and
    /// sent again. That is no sign of congestion (RFC 1191 §6.5, RFC 4821 §7.5).
    fn use_path_mtu(&mut self) {
        let room = self
            .path_mtu
            .longest()
            .saturating_sub(self.headers_with_options())
            .max(1) as u64;
        let Some(negotiated) = &mut self.negotiated else {
            return;
        };
        negotiated.segment = negotiated.most.min(room);
        self.segments.cut(negotiated.segment);
    }

    /// The retransmission timer expired once more. Long packets may be what vanishes.
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        if let Some((.., length)) = self.path_mtu.take_probe() {
            self.probe_failed(length);
        }
        if self.config.mtu_probing == MtuProbing::Off
            || self.flight.timeouts < BLACK_HOLE
            || self.negotiated.is_none()
        {
            return;
        }
        let headers = self.headers_with_options();
        let link = self.path_mtu.link();
        self.path_mtu.probing().search = Some(match self.path_mtu.search() {
            None => ((BASE_MSS + headers).min(link), link + 1),
            Some((proven, unfit)) => {
                let halved =
                    (proven.saturating_sub(headers) / 2).clamp(FLOOR_MSS, BASE_MSS) + headers;
                (halved.min(link), unfit)
            }
        });
        self.path_mtu.probing().settled = Some(now);
        self.use_path_mtu();
    }

    /// The search for the path's MTU is configured and has not begun.
    pub(super) fn should_begin_mtu_search(&self) -> bool {
        self.config.mtu_probing == MtuProbing::Always && self.path_mtu.search().is_none()
    }

    /// Begins the search where almost every path carries the packets.
    pub(super) fn begin_mtu_search(&mut self) {
        if let Some(negotiated) = &self.negotiated
            && self.should_begin_mtu_search()
        {
            let headers = self.headers_with_options();
            let link = self.path_mtu.link().min(negotiated.most as usize + headers);
            self.path_mtu.probing().search = Some(((BASE_MSS + headers).min(link), link + 1));
            self.use_path_mtu();
        }
    }

    /// Begins a finished search again after some time: the path may carry more by now.
    pub(super) fn renew_mtu_search(&mut self, now: Instant) {
        let Some((proven, unfit)) = self.path_mtu.search() else {
            return;
        };
        if unfit.saturating_sub(proven) > THRESHOLD || self.path_mtu.probe().is_some() {
            return;
        }
        let settled = *self.path_mtu.probing().settled.get_or_insert(now);
        if now - settled >= AGAIN
            && let Some(negotiated) = &self.negotiated
        {
            let longest = negotiated.most as usize + self.headers_with_options();
            let longest = self.path_mtu.link().min(longest);
            self.path_mtu.told = self.path_mtu.link;
            let probing = self.path_mtu.probing();
            probing.settled = None;
            probing.search = Some((proven, longest + 1));
        }
    }

    /// The length of payload that a probe may have now, if one is due: data and window allow it and
    /// what follows it, and nothing else is wrong with the path.
    pub(super) fn probe_size(&self, available: u64) -> Option<u64> {
        if self.config.mtu_probing == MtuProbing::Off
            || self.path_mtu.probe().is_some()
            || self.nxt == 1
        {
            return None;
        }
        let negotiated = self.negotiated.as_ref()?;
        let (segment, most) = (negotiated.segment, negotiated.most);
        let calm = self.phase == Phase::Open
            && self.receiver.out_of_order() == 0
            && !self.segments.any_lost();
        let (proven, unfit) = self.path_mtu.search()?;
        if !calm || self.cwnd().get() < LEAST_WINDOW * segment {
            return None;
        }
        if unfit.saturating_sub(proven) <= THRESHOLD {
            return None;
        }
        let size = (proven + unfit) / 2;
        let payload = size
            .checked_sub(self.headers_with_options())
            .map(|size| size as u64)?;
        let needed = self.nxt + payload + (FOLLOWERS + 1) * segment;
        (payload > segment && payload <= most && needed <= available.min(self.peer.edge))
            .then_some(payload)
    }

    /// A probe of `payload` bytes leaves, the first of them at offset `at`.
    pub(super) fn probe_sent(&mut self, at: u64, payload: u64) {
        self.path_mtu.probing().probe = Some((
            at,
            at + payload,
            payload as usize + self.headers_with_options(),
        ));
    }

    /// Acknowledged up to SND.UNA: if the probe is, the path carries its length.
    pub(super) fn note_probe_delivered(&mut self, now: Instant) {
        let Some((.., length)) = self.path_mtu.probe().filter(|(_, end, _)| *end <= self.una)
        else {
            return;
        };
        self.path_mtu.take_probe();
        if let Some((proven, _)) = self.path_mtu.search_mut() {
            *proven = length.max(*proven);
        }
        self.path_mtu.probing().settled = Some(now);
        self.use_path_mtu();
    }

    /// Of what is found lost, a probe that was alone in it says nothing of congestion. Returns what
    /// is left of `lost`.
    pub(super) fn forgive_probe(&mut self, lost: Bytes) -> Bytes {
        let Some((start, end, length)) = self.path_mtu.probe() else {
            return lost;
        };
        if start != self.una || lost == Bytes::ZERO {
            return lost;
        }
        let alone = lost == Bytes::new(end - start) && self.phase == Phase::Open;
        self.path_mtu.take_probe();
        self.probe_failed(length);
        if alone { Bytes::ZERO } else { lost }
    }

    fn probe_failed(&mut self, length: usize) {
        if let Some((proven, unfit)) = self.path_mtu.search_mut() {
            *unfit = length.max(*proven + 1);
        }
        self.use_path_mtu();
    }
}
