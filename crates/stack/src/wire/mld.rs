//! Multicast Listener Discovery, version 2: queries received and reports sent (RFC 3810 §5, §6.2).
//!
//! DIVERGES: a query without the Router Alert option is answered, too: extension headers are skipped
//! before. Its hop limit of 1 and its link-local source are checked, and it draws one report.

use std::net::Ipv6Addr;
use std::time::Duration;

use smoltcp::wire::IpProtocol;
use tautline_base::Ecn;

use super::icmp_checksum::fill_checksum;
use super::{Addresses, Ends, IPV6_HEADER, IPV6_MIN_MTU, Malformed, as_ipv6, write_ip};

/// Types of messages.
pub(super) const QUERY: u8 = 130;
const REPORT: u8 = 143;
/// Type to the number of sources; a query of version 1 has four bytes less.
const QUERY_LEN: usize = 28;
const REPORT_HEADER: usize = 8;
const RECORD: usize = 20;
/// Most records of a report: so many fit into a packet that every link carries (RFC 3810 §5.2.15 asks
/// for several reports if one does not hold them).
pub(crate) const MOST_RECORDS: usize =
    (IPV6_MIN_MTU - IPV6_HEADER - ROUTER_ALERT.len() - REPORT_HEADER) / RECORD;
/// Hop-by-hop options: ICMPv6 follows; Router Alert for MLD (RFC 2711 §2.1); padding.
const ROUTER_ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];
/// All routers that understand version 2 (RFC 3810 §5.2.14).
pub(crate) const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Hop limit of all messages.
pub(crate) const HOP_LIMIT: u8 = 1;

/// A valid query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// The queried group; unspecified for all groups.
    pub(crate) group: Ipv6Addr,
    /// Time within which members answer.
    pub(crate) within: Duration,
}

/// The content of a record about a group without sources (RFC 3810 §5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A member, in answer to a query (`MODE_IS_EXCLUDE`).
    Member,
    /// No member any more (`CHANGE_TO_INCLUDE_MODE`).
    Left,
    /// A new member (`CHANGE_TO_EXCLUDE_MODE`).
    Joined,
}

/// Parses a query whose checksum is valid; `None` if it is of version 1.
pub(super) fn parse(ends: &Ends, message: &[u8]) -> Result<Option<Query>, Malformed> {
    let Some(query) = message.first_chunk::<QUERY_LEN>() else {
        return Ok(None);
    };
    let is_link_local = as_ipv6(ends.source).is_unicast_link_local();
    if ends.hop_limit != HOP_LIMIT || !is_link_local {
        return Err(Malformed::Header);
    }
    let octets: [u8; 16] = query[8..24].try_into().map_err(|_| Malformed::Header)?;
    let code = u16::from_be_bytes([query[4], query[5]]);
    Ok(Some(Query {
        group: octets.into(),
        within: Duration::from_millis(delay(code)),
    }))
}

/// Milliseconds of a maximum response code (RFC 3810 §5.1.3).
fn delay(code: u16) -> u64 {
    let (mantissa, exponent) = (u64::from(code & 0x0fff), code >> 12 & 7);
    if code < 0x8000 {
        code.into()
    } else {
        (mantissa | 0x1000) << (exponent + 3)
    }
}

/// Writes a report of `records`. `None` if it would not fit the frame.
pub(crate) fn write_report(
    frame: &mut [u8],
    addresses: &Addresses,
    records: &[(Record, Ipv6Addr)],
) -> Option<usize> {
    let len = ROUTER_ALERT.len() + REPORT_HEADER + records.len() * RECORD;
    let total = addresses.headers_len() + len;
    if total > frame.len() {
        return None;
    }
    let payload = write_ip(frame, addresses, IpProtocol::HopByHop, Ecn::NotEct, len);
    payload.fill(0);
    let (options, message) = payload.split_at_mut(ROUTER_ALERT.len());
    options.copy_from_slice(&ROUTER_ALERT);
    message[0] = REPORT;
    message[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (place, (record, group)) in message[REPORT_HEADER..].chunks_mut(RECORD).zip(records) {
        place[0] = match record {
            Record::Member => 2,
            Record::Left => 3,
            Record::Joined => 4,
        };
        place[4..].copy_from_slice(&group.octets());
    }
    fill_checksum(message, addresses);
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3810 §5.1.3: from 0x8000 on, a mantissa of 12 bits and an exponent of 3.
    #[test]
    fn a_response_code_is_a_number_or_floating_point() {
        for (code, millis) in [
            (0, 0),
            (0x7fff, 0x7fff),
            (0x8000, 0x1000 << 3),
            (0x8123, 0x1123 << 3),
            (0x9001, 0x1001 << 4),
            (0xffff, 0x1fff << 10),
        ] {
            assert_eq!(delay(code), millis, "{code:#x}");
        }
    }
}
