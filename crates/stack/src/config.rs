//! Configuration of hosts and connections.

mod ack_compression;
mod autoconfiguration;
mod loss_recovery;

use std::net::IpAddr;
use std::time::Duration;

use tautline_base::{Bytes, Rate};
use tautline_cc::{Algorithm, Factory, PacerConfig};

pub use self::ack_compression::AckCompression;
pub use self::autoconfiguration::{Autoconfiguration, Identifiers};
pub use self::loss_recovery::{LossRecovery, Prr, RackRtt, Reordering, Successive};
use crate::address::{Cidr, Route};
use crate::tsq::TsqLimit;
use crate::wire::MAX_WINDOW_SCALE;

/// Identity of a host: one per device queue.
///
/// ```
/// use tautline_stack::{Cidr, HostConfig, Route};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gateway: std::net::IpAddr = "10.0.0.254".parse()?;
/// let config = HostConfig::new([2, 0, 0, 0, 0, 1], 7)
///     .address("10.0.0.1/24".parse::<Cidr>()?)
///     .address("2001:db8::1/64".parse::<Cidr>()?)
///     .gateway(gateway);
/// assert_eq!(config.routes, [Route::default_via(gateway)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Our hardware address; without meaning over [`Medium::Ip`](tautline_base::Medium::Ip).
    pub mac: [u8; 6],
    /// Our addresses, of either family, each with the network it is in: the hosts of that network
    /// are on the link. One that is not the address of a single host (unspecified, multicast,
    /// loopback) is left out, and so is IPv6 on a device whose MTU is less than the 1280 bytes IPv6
    /// needs (RFC 8200 §5).
    pub addresses: Vec<Cidr>,
    /// Prefixes all of whose unicast addresses are this host's too: it accepts what is sent to them
    /// and may send from them, as an end for everything behind a tunnel. Neither ARP nor neighbor
    /// discovery answers for them. Default none.
    pub owned: Vec<Cidr>,
    /// The way to networks that are not on the link; the longest prefix wins. Destinations without
    /// a route are refused at `connect`. Over IP everything is at the far end, and routes are not
    /// used.
    pub routes: Vec<Route>,
    /// Generation of the link-local IPv6 address. Default: [`LinkLocal::FromMac`].
    pub link_local: LinkLocal,
    /// Parameters that the host learns from its link. Default none.
    pub autoconfiguration: Autoconfiguration,
    /// The VLAN this host is in: frames carry its tag both ways (IEEE 802.1Q). Default none: frames
    /// without a tag, or with one that only names a priority. Frames of other VLANs are not for us.
    pub vlan: Option<u16>,
    /// ICMP errors this host sends at most in a second, on average. Default 1000, in bursts of 50
    /// (Linux `icmp_msgs_per_sec`, `icmp_msgs_burst`).
    pub icmp_errors_per_second: u32,
    /// Resets this host sends at most in a second, on average, in answer to segments without a
    /// connection. Default 1000, in bursts of 50.
    pub resets_per_second: u32,
    /// Echo requests that are remembered, those of every identifier together; a reply to an older one
    /// is not reported. A request takes some hundred bytes beside its data, and a reply is compared
    /// with them in turn. Default 64.
    pub echo_requests: usize,
    /// Packets of 8 KiB and more stay in the memory they arrived in, if the device [has some to
    /// keep](tautline_base::Device::keep), for [`recv_owned`](crate::TcpSocket::recv_owned) or a single
    /// copy to the reader. Each takes a few small allocations. Default false: they are copied to pages,
    /// which allocates nothing in steady state.
    pub keeps_packets: bool,
    /// Seeds everything random: initial sequence numbers, ports, hash keys. Take it from the
    /// system's generator in production.
    pub seed: u64,
}

/// Origin of a host's link-local IPv6 address (RFC 4291 §2.5.6). It is tested for duplicates if
/// [`Autoconfiguration::dad_transmits`] says so; a neighbor that tests one of ours gets the answer that
/// it is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkLocal {
    /// No link-local address: the host speaks IPv6 only from [`HostConfig::addresses`].
    None,
    /// From the hardware address (RFC 4291 appendix A); none over IP.
    #[default]
    FromMac,
    /// From the host's secret, the same every time for one seed: it reveals nothing about the
    /// hardware (in the spirit of RFC 7217).
    Private,
}

impl HostConfig {
    /// A host on a device whose frames are IP packets, without addresses.
    pub fn over_ip(seed: u64) -> Self {
        Self::new([0; 6], seed)
    }

    /// A host without addresses but for the link-local one.
    pub fn new(mac: [u8; 6], seed: u64) -> Self {
        Self {
            mac,
            addresses: Vec::new(),
            owned: Vec::new(),
            routes: Vec::new(),
            link_local: LinkLocal::default(),
            autoconfiguration: Autoconfiguration::default(),
            vlan: None,
            icmp_errors_per_second: 1000,
            echo_requests: 64,
            resets_per_second: 1000,
            keeps_packets: false,
            seed,
        }
    }

    /// Adds `address`.
    #[must_use]
    pub fn address(mut self, address: impl Into<Cidr>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Adds a prefix, every address of which the host owns; see [`owned`](Self::owned).
    #[must_use]
    pub fn owns(mut self, prefix: impl Into<Cidr>) -> Self {
        self.owned.push(prefix.into());
        self
    }

    /// Packets of the family of `via` for other networks go to `via`.
    #[must_use]
    pub fn gateway(self, via: impl Into<IpAddr>) -> Self {
        self.route(Route::default_via(via))
    }

    /// Adds `route`.
    #[must_use]
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }
}

/// Parameters of a connection, or of every connection of a listener.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The congestion controller. Default: CUBIC (RFC 9438).
    pub congestion: Factory,
    /// Place where departures are spaced. Default: [`Pacing::Internal`].
    pub pacing: Pacing,
    /// Handling of late departures. Default: [`PacerConfig::default`]; Linux's is
    /// [`PacerConfig::linux`].
    pub pacer: PacerConfig,
    /// TCP Small Queues: limit on the bytes below the socket. Default: paper 001, algorithm 2.
    pub tsq: TsqLimit,
    /// On short paths packets for the device to cut (TSO) may be larger than the pacing rate makes
    /// them: by the most a packet may have, halved for every 2^this µs of the path's round trip.
    /// Default 9 (Linux `tcp_tso_rtt_log`); 0 is as before Linux 5.18, without.
    pub tso_rtt_log: u32,
    /// Most bytes the application may have written that are not yet acknowledged. Default 4 MiB
    /// (Linux `tcp_wmem[2]`).
    pub send_buffer: Bytes,
    /// Initial size of the send buffer, before it follows the congestion window as in Linux: twice
    /// the memory that a window takes in segments of their own. `None`, the default: all of it from
    /// the beginning. Linux starts with [`LINUX_SEND_START`](Self::LINUX_SEND_START).
    pub send_start: Option<Bytes>,
    /// Memory beside a segment's payload in that sum: headers, and the record that lists its pages.
    /// Default 640 bytes (Linux on x86-64); a kernel without tunnels, User-Mode Linux for one, has
    /// shorter headers and takes 576.
    pub send_headroom: Bytes,
    /// With less than that unsent, or less than a segment, the application may write more; it is
    /// notified with less than half of it unsent (Linux `TCP_NOTSENT_LOWAT`, with the hysteresis of
    /// `tcp_stream_memory_free`). Default none (Linux `UINT_MAX`).
    pub notsent_lowat: Option<Bytes>,
    /// Charge of each segment in that buffer, beside its bytes, until it is acknowledged,
    /// selectively or not. Default 0; Linux charges the memory of its descriptors, 1280 bytes for a
    /// full Ethernet segment sent alone (`truesize` 2728), and joins adjacent segments that are
    /// selectively acknowledged (`tcp_shift_skb_data`).
    pub send_overhead: Bytes,
    /// A write that finds any of that buffer free may exceed it by what completes its last segment,
    /// as in Linux (`sk_stream_memory_free`, asked once for each segment), so that a full buffer ends
    /// with a full segment. Default false: the buffer is never exceeded.
    pub send_whole_segments: bool,
    /// The last segment of every write is pushed, even if more was written before it leaves, and
    /// within a write one for each half of the largest window, as in Linux (`tcp_push`,
    /// `forced_push`). A Linux receiver acknowledges a pushed segment when it has been read. Default
    /// false: the last segment of what is queued (RFC 9293 §3.9.1.2).
    pub push_writes: bool,
    /// The receive window is sized when the application reads, as in Linux (`tcp_rcv_space_adjust`),
    /// so that no round trip ends while a hole keeps data from it. What is measured ends with the
    /// first of the buffers that Linux would read, which joins at most seventeen segments: of the
    /// data behind a long hole, it is the segment that fills it. The first round trip begins with the
    /// first data. Default false: sized when data arrives, behind a hole too; the first sample of the
    /// round trip ends one.
    pub size_on_read: bool,
    /// Most received bytes the application may leave unread; bounds the window. Default 6 MiB
    /// (Linux `tcp_rmem[2]`).
    pub receive_buffer: Bytes,
    /// Initial size of the receive buffer. It follows the bytes that the application reads in a
    /// round trip; at or above `receive_buffer`, it is that from the beginning. Default 64 KiB
    /// (half of Linux's `tcp_rmem[1]`, as with `tcp_adv_win_scale` 1).
    pub receive_start: Bytes,
    /// Percent of the bytes unread and received out of order that are taken off the window, which
    /// then lies above the next byte expected. Default 0: the window lies above the bytes read, and
    /// keeps a place for each. Linux takes off half the memory of their buffers (`tcp_space` in
    /// `__tcp_select_window`), as with `tcp_adv_win_scale` 1: a receiver with holes stops its peer
    /// early. The window then is Linux's in other ways, too: it keeps one segment of the first buffer
    /// (`tcp_init_buffer_space`), is scaled for all the memory, rounded up and moved by any step, and
    /// with less than half of the buffer free nothing is acknowledged quickly.
    pub receive_charge: u8,
    /// Memory of a buffer that joins up to seventeen segments, beside its payload, of which as many
    /// percent are taken off, too. Default 0; Linux has
    /// [`LINUX_RECEIVE_OVERHEAD`](Self::LINUX_RECEIVE_OVERHEAD).
    pub receive_overhead: u16,
    /// Most payload of a segment, in both directions (Linux `TCP_MAXSEG`); also what our SYN
    /// announces. Less than 88 bytes count as 88 (Linux `TCP_MIN_MSS`). Default none: what the MTU
    /// leaves.
    pub max_segment: Option<u16>,
    /// Upper bound of the pacing rate, whatever the controller requests (Linux
    /// `SO_MAX_PACING_RATE`). Has no effect where `pacing` is off. Default none, which 0 means,
    /// too.
    pub max_pacing_rate: Option<Rate>,
    /// Options of RFC 7323 and RFC 2018 that SYNs offer and agree to. Default all.
    pub negotiation: Negotiation,
    /// Nagle's algorithm in Minshall's form. Default on; `TCP_NODELAY` is `false`.
    pub nagle: bool,
    /// Longest delay of an acknowledgment; at least, if `delayed_ack_max` is longer. Default 40 ms
    /// (Linux `TCP_DELACK_MIN`).
    pub delayed_ack: Duration,
    /// On paths whose round trip is longer than `delayed_ack`, the delay follows the time between
    /// arrivals, within a round trip and this. Default 40 ms: it is the same everywhere, for on
    /// lossy paths of 200 ms longer ones cost up to 8 % of the goodput. Linux has
    /// [`LINUX_DELAYED_ACK_MAX`](Self::LINUX_DELAYED_ACK_MAX).
    pub delayed_ack_max: Duration,
    /// Granularity of the timers of delayed acknowledgments, of the reordering window and of the
    /// tail's probe: each expires with the first tick after its time, for all connections at once.
    /// Default 0: when the time is over. In Linux a tick is a jiffy (`calc_index`,
    /// `kernel/time/timer.c`), 1 to 10 ms, so that on paths shorter than a tick acknowledgments
    /// decide before these timers do. Silences (`quick_acks_from_data`) and gaps between arrivals
    /// (`delayed_ack_max`) are counted in ticks, too.
    pub timer_tick: Duration,
    /// The segments that are acknowledged at once at the start of a connection are counted from the
    /// first data, and again after a silence longer than the retransmission timeout, as in Linux
    /// (`tcp_event_data_recv`). Default false: from the SYN, once.
    pub quick_acks_from_data: bool,
    /// Data that the application has not read yet delays acknowledgments where it narrows the window:
    /// then the second segment is not acknowledged at once, and reading acknowledges more than one
    /// (Linux `__tcp_ack_snd_check`, `tcp_cleanup_rbuf`). Without `receive_charge` it narrows none, and
    /// more than one segment is acknowledged at once. A pushed segment is acknowledged when all is
    /// read. A connection that answers data within the delay of its acknowledgment lets the next answers
    /// carry it (`inet_csk_in_pingpong_mode`), if `delayed_ack_max` lets the delay adapt. Default false:
    /// every second segment is acknowledged when it arrives.
    pub acks_follow_reads: bool,
    /// Joins acknowledgments of a flood of segments out of order. Default off, as RFC 5681 §4.2 asks;
    /// Linux's is [`AckCompression::LINUX`].
    pub ack_compression: Option<AckCompression>,
    /// Timeouts of one segment before the connection is given up. Default 15 (Linux
    /// `tcp_retries2`).
    pub retries: u32,
    /// Timeouts of a SYN before giving up. Default 6 (Linux `tcp_syn_retries`).
    pub syn_retries: u32,
    /// Timeouts of a SYN-ACK before giving up; one more if it accepts data (Fast Open). Default 5 (Linux
    /// `tcp_synack_retries`).
    pub syn_ack_retries: u32,
    /// Duration of TIME-WAIT. Default 60 s (Linux; RFC 9293 §3.4.2 has 2·MSL = 4 min).
    pub time_wait: Duration,
    /// Timeout of a closed connection in FIN-WAIT-2. Default 60 s (Linux `tcp_fin_timeout`).
    pub fin_wait: Duration,
    /// Longest that what was sent may stay unacknowledged, or a closed window be probed, without
    /// any progress; then the connection is aborted, regardless of `retries` (RFC 5482's local
    /// timeout; Linux `TCP_USER_TIMEOUT`). Default none, which 0 means, too.
    pub user_timeout: Option<Duration>,
    /// Probes of a quiet peer. Default none (RFC 9293 §3.8.4).
    pub keepalive: Option<Keepalive>,
    /// Fate of undelivered data at close. `None`, the default: it is delivered in the background,
    /// with as many retries as an orphan has. Zero: the peer gets a reset at once. Else it has so
    /// long to arrive, then the peer gets a reset.
    pub linger: Option<Duration>,
    /// Half-open connections a listener holds. Default 128.
    pub backlog: usize,
    /// Opened connections a listener holds for an application that has not yet taken their
    /// [`Accepted`](crate::Event::Accepted) event. When it is full, SYNs and the last
    /// acknowledgments of handshakes are ignored. Default 4096 (Linux `somaxconn`).
    pub accept_queue: usize,
    /// Whether a listener with a full backlog remembers SYNs in its answers. Default
    /// [`SynCookies::WhenFull`] (Linux `tcp_syncookies` = 1).
    pub syn_cookies: SynCookies,
    /// Whether a listener answers no SYN before the application decides: each is reported as
    /// [`Requested`](crate::Event::Requested), and [`Host::accept`](crate::Host::accept) or
    /// [`Host::reject`](crate::Host::reject) answers it. A SYN that is not answered in time, or that
    /// finds too many others waiting, is dropped ([`Limits`](crate::Limits)); its peer sends it again.
    /// Then `backlog` and `syn_cookies` have no meaning. Default off.
    pub deferred_accept: bool,
    /// Whether a connection asks its server for a Fast Open cookie and, once it has one, sends what
    /// the application wrote before the first poll in the SYN (RFC 7413; Linux `TCP_FASTOPEN_CONNECT`).
    /// The server may get that data twice: it must not mind. Default off.
    pub fast_open: bool,
    /// Connections of a listener that may rest on a Fast Open cookie alone: they are accepted at
    /// their SYN, with its data, before the client's address is proven (Linux `TCP_FASTOPEN`).
    /// Default 0: no cookies are given.
    pub fast_open_queue: usize,
    /// Connections, half-open ones included, that a listener serves for one address at a time.
    /// Default no limit.
    pub per_peer: Option<usize>,
    /// TOS byte, or traffic class, of every segment, but for its two bits of ECN; the local
    /// priority follows it (Linux `IP_TOS`). Default 0.
    pub tos: u8,
    /// Explicit congestion notification. Default [`EcnMode::Accept`] (Linux `tcp_ecn` = 2).
    pub ecn: EcnMode,
    /// Whether to probe for the path MTU where routers do not report it. Default
    /// [`MtuProbing::Off`] (Linux `tcp_mtu_probing` = 0). ICMP "too big" messages are honored in
    /// any case, each for ten minutes (RFC 1191, RFC 8201; Linux `mtu_expires`): over IPv4 down to
    /// 296 bytes, over IPv6 down to 1280. Only probes find a path that carries less.
    pub mtu_probing: MtuProbing,
    /// Drops inside this host that the connection is notified of. Default: Linux's.
    pub local_drop_reporting: LocalDropReporting,
    /// How losses are found and repaired. Default: Linux's, with RFC 9937.
    pub loss_recovery: LossRecovery,
    /// Keeps account of what the bytes waited for
    /// ([`Attribution`](crate::attribution::Attribution)). Default off.
    pub attribution: bool,
}

impl TcpConfig {
    /// The longest that Linux holds an acknowledgment back (`TCP_DELACK_MAX`).
    pub const LINUX_DELAYED_ACK_MAX: Duration = Duration::from_millis(200);
    /// Initial size of a send buffer in Linux (`tcp_wmem[1]`).
    pub const LINUX_SEND_START: Bytes = Bytes::kib(16);
    /// Linux's [`receive_overhead`](Self::receive_overhead) for segments that a router has passed on:
    /// 1024 bytes of headers and a descriptor (`truesize` 2728 with 1448 bytes of payload).
    pub const LINUX_RECEIVE_OVERHEAD: u16 = 1280;

    /// The user timeout, if there is one.
    #[inline]
    pub(crate) fn user_timeout(&self) -> Option<Duration> {
        self.user_timeout.filter(|limit| !limit.is_zero())
    }

    /// Probes of a quiet peer, if there are any.
    #[inline]
    pub(crate) fn keepalive(&self) -> Option<Keepalive> {
        self.keepalive.map(Keepalive::bounded)
    }

    /// The shift that lets the 16 bits of a window express the whole receive buffer; with
    /// `receive_charge`, the memory of which only that part is offered (Linux `tcp_select_initial_window`).
    pub(crate) fn window_scale(&self) -> u8 {
        if !self.negotiation.window_scaling {
            return 0;
        }
        let buffer = match self.receive_charge {
            0 => self.receive_buffer.get(),
            charge => self.receive_buffer.get().saturating_mul(100) / u64::from(charge),
        };
        (0..MAX_WINDOW_SCALE)
            .find(|scale| buffer >> scale <= u64::from(u16::MAX))
            .unwrap_or(MAX_WINDOW_SCALE)
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            congestion: Algorithm::Cubic.factory(),
            pacing: Pacing::Internal,
            pacer: PacerConfig::default(),
            tsq: TsqLimit::default(),
            tso_rtt_log: 9,
            send_buffer: Bytes::mib(4),
            send_start: None,
            send_headroom: Bytes::new(640),
            notsent_lowat: None,
            send_overhead: Bytes::ZERO,
            send_whole_segments: false,
            receive_buffer: Bytes::mib(6),
            push_writes: false,
            size_on_read: false,
            receive_start: Bytes::kib(64),
            receive_charge: 0,
            receive_overhead: 0,
            max_segment: None,
            max_pacing_rate: None,
            negotiation: Negotiation::default(),
            nagle: true,
            delayed_ack: Duration::from_millis(40),
            delayed_ack_max: Duration::from_millis(40),
            timer_tick: Duration::ZERO,
            quick_acks_from_data: false,
            acks_follow_reads: false,
            ack_compression: None,
            retries: 15,
            syn_retries: 6,
            syn_ack_retries: 5,
            time_wait: Duration::from_secs(60),
            fin_wait: Duration::from_secs(60),
            user_timeout: None,
            keepalive: None,
            linger: None,
            backlog: 128,
            accept_queue: 4096,
            syn_cookies: SynCookies::WhenFull,
            deferred_accept: false,
            fast_open: false,
            fast_open_queue: 0,
            per_peer: None,
            tos: 0,
            ecn: EcnMode::Accept,
            mtu_probing: MtuProbing::Off,
            local_drop_reporting: LocalDropReporting::Enqueue,
            loss_recovery: LossRecovery::default(),
            attribution: false,
        }
    }
}

/// TCP options that are used if both SYNs have them. An option that is off is neither offered nor
/// agreed to, and ignored where a peer sends it nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiation {
    /// Timestamps, and with them PAWS (RFC 7323 §3; Linux `tcp_timestamps`).
    pub timestamps: bool,
    /// Selective acknowledgments (RFC 2018; Linux `tcp_sack`). Without them losses are found by
    /// duplicate acknowledgments (RFC 6582).
    pub sack: bool,
    /// Window scaling (RFC 7323 §2; Linux `tcp_window_scaling`). Without it no window exceeds 64 KiB.
    pub window_scaling: bool,
}

impl Default for Negotiation {
    fn default() -> Self {
        Self {
            timestamps: true,
            sack: true,
            window_scaling: true,
        }
    }
}

/// Keepalive probes (RFC 9293 §3.8.4, RFC 1122 §4.2.3.6). A peer whose host restarted answers with
/// a reset; one that is gone answers nothing. In a [`TcpConfig`] times of less than a millisecond count as
/// one, and no probes as one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe. Default 2 h (Linux `tcp_keepalive_time`; RFC 1122's least).
    pub idle: Duration,
    /// Time between probes. Default 75 s (Linux `tcp_keepalive_intvl`).
    pub interval: Duration,
    /// Probes without an answer before the connection is given up. Default 9 (Linux
    /// `tcp_keepalive_probes`).
    pub probes: u32,
}

impl Keepalive {
    /// Least time between two probes, so that they do not leave all at once.
    const LEAST: Duration = Duration::from_millis(1);

    pub(crate) fn is_valid(&self) -> bool {
        !(self.idle.is_zero() || self.interval.is_zero()) && self.probes > 0
    }

    /// The same without zeros.
    pub(crate) fn bounded(self) -> Self {
        Self {
            idle: self.idle.max(Self::LEAST),
            interval: self.interval.max(Self::LEAST),
            probes: self.probes.max(1),
        }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(7_200),
            interval: Duration::from_secs(75),
            probes: 9,
        }
    }
}

/// SYN cookies: the state of a half-open connection travels in the sequence number (and timestamp)
/// of the SYN-ACK and comes back with the peer's acknowledgment, so that a flood of SYNs takes no
/// memory (RFC 4987 §3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SynCookies {
    /// A SYN that finds the backlog full is ignored.
    Never,
    /// A SYN that finds the backlog full is answered with a cookie. Only peers with timestamps keep
    /// window scaling, SACK and ECN.
    #[default]
    WhenFull,
    /// Every SYN is. For tests.
    Always,
}

/// Place where a connection's departures are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Nobody: segments leave as the window allows (Linux's CUBIC without `fq`).
    Off,
    /// The connection's own pacer: a segment is not born before its departure.
    Internal,
    /// The qdisc: segments are born with a departure stamp that FQ honors. Once a qdisc lets one
    /// go before its departure, the connection paces itself as with [`Internal`](Self::Internal).
    Qdisc,
}

/// The congestion feedback that connections accept and request: the values of Linux's
/// `net.ipv4.tcp_ecn` (RFC 3168, RFC 9768).
///
/// A controller that cannot do without marks raises it: DCTCP requests classic ECN at least, and
/// Prague accepts and requests AccECN, unless the mode is [`Off`](Self::Off).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnMode {
    /// 0: none.
    Off,
    /// 1: classic ECN, both ways.
    Request,
    /// 2: classic ECN if the peer asks.
    #[default]
    Accept,
    /// 3: AccECN, both ways; classic ECN with peers that know nothing better.
    AccEcn,
    /// 4: accepts AccECN; requests classic ECN itself.
    AccEcnRequestClassic,
    /// 5: AccECN if the peer asks.
    AccEcnAccept,
}

/// Packetization-layer path MTU discovery (RFC 4821): the values of Linux's
/// `net.ipv4.tcp_mtu_probing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MtuProbing {
    /// 0: none.
    #[default]
    Off,
    /// 1: once three timeouts in a row suggest that long packets vanish, segments become shorter;
    /// then longer ones are tried.
    BlackHole,
    /// 2: from the beginning: segments start at 1024 bytes of payload, and longer ones are tried.
    Always,
}

/// Local drops that the sending connection is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDropReporting {
    /// None: every loss is found by acknowledgments.
    Nothing,
    /// Refusals at enqueue, as Linux's return codes do.
    Enqueue,
    /// Those, and drops an AQM makes at dequeue.
    Everything,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux scales by its memory: 6 097 152 bytes, of which half is offered, need units of 128 bytes.
    #[test]
    fn windows_are_scaled_for_the_memory_of_the_buffer() {
        for (receive_charge, scale) in [(0, 6), (50, 7), (100, 6)] {
            let config = TcpConfig {
                receive_buffer: Bytes::new(3_048_576),
                receive_charge,
                ..TcpConfig::default()
            };
            assert_eq!(config.window_scale(), scale, "{receive_charge} %");
        }
    }
}
