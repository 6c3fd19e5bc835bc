//! [`HostStats`]: counters of a host.
//!
//! Every received frame is either refused, for one reason that is counted, or accepted: given to a
//! socket or a protocol.

/// Counters of one host since its birth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostStats {
    /// Frames delivered to the host.
    pub frames_in: u64,
    /// Frames whose headers are cut short or contradict themselves.
    pub malformed: u64,
    /// Frames with a wrong checksum. A Linux peer on the other end of a veth leaves checksums to
    /// "hardware" that does not exist: `ethtool -K <its interface> tx off`.
    pub bad_checksum: u64,
    /// Well-formed frames that are not for us or of an unsupported protocol.
    pub not_for_us: u64,
    /// Fragments. They are not reassembled: no supported protocol needs them, and reassembly
    /// invites exhaustion of buffers (CVE-2018-5391).
    pub fragments: u64,
    /// ICMP errors about packets that no connection has in flight: forged, or late.
    pub icmp_unbelieved: u64,
    /// ICMP errors that this host did not send because it had sent too many.
    pub icmp_limited: u64,
    /// Segments without a connection that drew no reset because of the limit on resets.
    pub resets_limited: u64,
    /// Segments for which there is no connection or listener.
    pub no_socket: u64,
    /// SYNs that found their listener's backlog full.
    pub backlog_full: u64,
    /// SYNs ignored for that reason, or because too many wait for the application's decision.
    pub backlog_refused: u64,
    /// SYNs answered with a SYN cookie.
    pub cookies_sent: u64,
    /// SYNs ignored because they came faster than cookies could leave; peers that have completed a
    /// handshake before are exempt, within limits.
    pub syns_shed: u64,
    /// Connections opened by a SYN cookie that came back.
    pub cookies_redeemed: u64,
    /// Connections accepted at their SYN, for its Fast Open cookie.
    pub fast_opened: u64,
    /// SYNs with the option of Fast Open, treated as without it because too many connections rest on
    /// a cookie alone.
    pub fast_open_full: u64,
    /// SYNs, and last acknowledgments of handshakes, ignored because the application leaves too
    /// many connections waiting.
    pub accept_queue_full: u64,
    /// SYNs ignored because the peer has as many connections as one may have.
    pub too_many_of_peer: u64,
    /// Connections that skipped TIME-WAIT because too many are in it.
    pub time_wait_full: u64,
    /// Connections reset when they were closed because too many closed ones still deliver.
    pub too_many_orphans: u64,
    /// Connections reset, and segments dropped, for want of buffer memory.
    pub out_of_memory: u64,
    /// Addresses of this host that another host has: found by their test, and not used.
    pub duplicate_addresses: u64,
    /// ARP packets of another host that uses an address of this host (RFC 5227 §2.4), which are also
    /// counted as not for us. The host announces its address in answer, every ten seconds at most, and keeps it.
    pub address_conflicts: u64,
    /// Routers, prefixes and addresses of router advertisements that were not taken, since the host
    /// has enough of them: at most 8 routers, 16 prefixes and 16 addresses.
    pub advertisements_limited: u64,
    /// Packets written.
    pub births: u64,
    /// Those of them that left as one more of a train: full segments of one connection and one
    /// instant, planned together with the one before.
    pub births_in_trains: u64,
    /// Packets given back by the device after transmission.
    pub completed: u64,
    /// Packets dropped inside this host.
    pub dropped: u64,
    /// Answers (ARP, neighbor discovery, echo, errors, resets) not given because no frame was
    /// free.
    pub no_frame: u64,
}

impl HostStats {
    /// Received frames that went no further. Each is counted once, in one of: malformed, bad checksum,
    /// not for us, fragment, disbelieved ICMP error, no socket, backlog refused, shed, accept queue full,
    /// too many of the peer.
    pub const fn refused(&self) -> u64 {
        self.malformed
            + self.bad_checksum
            + self.not_for_us
            + self.fragments
            + self.icmp_unbelieved
            + self.no_socket
            + self.backlog_refused
            + self.syns_shed
            + self.accept_queue_full
            + self.too_many_of_peer
    }

    /// Received frames given to a socket or a protocol, which may still ignore them. A SYN that waited
    /// for the application's decision and is refused then counts as refused from then on.
    pub const fn accepted(&self) -> u64 {
        self.frames_in.saturating_sub(self.refused())
    }

    /// All counters with their names, in the order of the fields: for a report or a metrics endpoint, which
    /// so has those that later versions add.
    ///
    /// ```
    /// use tautline_stack::HostStats;
    ///
    /// let mut page = String::new(); // in Prometheus' text format
    /// for (name, value) in HostStats::default().iter() {
    ///     page += &format!("# TYPE vpn_{name}_total counter\nvpn_{name}_total {value}\n");
    /// }
    /// assert!(page.starts_with("# TYPE vpn_frames_in_total counter\nvpn_frames_in_total 0\n"));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        /// The fields of these names, all of them: the pattern has no `..`.
        macro_rules! named {
            ($($name:ident)+) => {{
                let Self { $($name),+ } = *self;
                [$((stringify!($name), $name)),+]
            }};
        }
        named! {
            frames_in malformed bad_checksum not_for_us fragments icmp_unbelieved icmp_limited
            resets_limited no_socket backlog_full backlog_refused cookies_sent syns_shed
            cookies_redeemed fast_opened fast_open_full accept_queue_full too_many_of_peer
            time_wait_full too_many_orphans out_of_memory duplicate_addresses address_conflicts
            advertisements_limited births births_in_trains completed dropped no_frame
        }
        .into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_frame_counts_once_whatever_the_reason() {
        let stats = HostStats {
            frames_in: 1024,
            malformed: 1,
            bad_checksum: 2,
            not_for_us: 4,
            fragments: 8,
            icmp_unbelieved: 16,
            no_socket: 32,
            backlog_refused: 64,
            syns_shed: 128,
            accept_queue_full: 256,
            too_many_of_peer: 512,
            ..HostStats::default()
        };
        assert_eq!((stats.refused(), stats.accepted()), (1023, 1));
        let named: Vec<_> = stats.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(named[..2], [("frames_in", 1024), ("malformed", 1)]);
        assert_eq!(named.len(), 11);
    }
}
