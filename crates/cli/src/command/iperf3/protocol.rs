//! iperf3's control protocol, as iperf 3.12 speaks it.
//!
//! Every TCP connection, of control and of data, begins with the test's cookie: 36 characters and a
//! zero byte. On the control connection follow states of one byte; parameters and results are JSON
//! behind a length of four bytes. Data connections have nothing but payload after the cookie. A UDP
//! stream begins with a datagram of four bytes each way; its data begin with a time (seconds,
//! microseconds) and the number of the datagram, from 1, all big endian.
//!
//! | from | sends |
//! |---|---|
//! | client | cookie |
//! | server | `ParamExchange`; then the client its parameters |
//! | server | `CreateStreams`; then the client opens the data connections |
//! | server | `TestStart`, `TestRunning`; then data flow |
//! | client | `TestEnd` |
//! | server | `ExchangeResults`; then the client's results, then the server's |
//! | server | `DisplayResults` |
//! | client | `IperfDone` |

use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tautline_base::SplitMix64;
use tautline_rt::system_seed;

use super::failed;
use crate::net::{TcpOptions, TcpStream};

/// Length of a cookie.
pub(super) const COOKIE: usize = 37;
/// First datagrams of a UDP stream: the client's, the server's.
pub(super) const UDP_HELLO: [&[u8; 4]; 2] = [b"9876", b"6789"];

/// Steps of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParamExchange = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    IperfDone = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl State {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];

    /// The peer's next state, however long it takes. Cancel safe: it is one byte.
    pub(super) async fn recv(control: &TcpStream) -> io::Result<Self> {
        let mut byte = [0];
        control.recv_exact(&mut byte).await?;
        let number = i8::from_be_bytes(byte);
        let known = Self::ALL.into_iter().find(|state| *state as i8 == number);
        known.ok_or_else(|| failed(format!("the peer sent the unknown state {number}")))
    }

    pub(super) async fn send(self, control: &TcpStream) -> io::Result<()> {
        control.send_all(&(self as i8).to_be_bytes()).await
    }
}

/// Parameters of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    #[serde(deserialize_with = "truth", skip_serializing_if = "is_false")]
    pub(super) tcp: bool,
    #[serde(deserialize_with = "truth", skip_serializing_if = "is_false")]
    pub(super) udp: bool,
    /// Seconds at the start that do not count.
    pub(super) omit: u64,
    /// Seconds; 0: until `num` bytes or `blockcount` blocks are sent.
    pub(super) time: u64,
    pub(super) num: u64,
    pub(super) blockcount: u64,
    pub(super) parallel: u16,
    #[serde(deserialize_with = "truth", skip_serializing_if = "is_false")]
    pub(super) reverse: bool,
    #[serde(deserialize_with = "truth", skip_serializing_if = "is_false")]
    pub(super) bidirectional: bool,
    /// Bytes of a block or datagram.
    pub(super) len: u64,
    /// Of each stream, in bit/s; 0: none.
    pub(super) bandwidth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<u64>,
    #[serde(rename = "MSS", skip_serializing_if = "Option::is_none")]
    pub(super) mss: Option<u16>,
    #[serde(deserialize_with = "truth", skip_serializing_if = "is_false")]
    pub(super) nodelay: bool,
    #[serde(rename = "TOS")]
    pub(super) tos: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) congestion: Option<String>,
    #[serde(deserialize_with = "truth", skip_serializing_if = "is_false")]
    pub(super) udp_counters_64bit: bool,
}

/// A flag: iperf3 writes some as `true` and some as 1.
fn truth<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(value
        .as_bool()
        .unwrap_or_else(|| value.as_f64() != Some(0.0)))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Params {
    /// Bytes after which the test ends, if it is not for a time.
    pub(super) fn amount(&self) -> Option<u64> {
        match (self.num, self.blockcount) {
            (0, 0) => None,
            (0, blocks) => Some(blocks.saturating_mul(self.len)),
            (bytes, _) => Some(bytes),
        }
    }

    /// Whether each stream is sent by the client, in the order in which they are opened.
    pub(super) fn directions(&self) -> Vec<bool> {
        let streams = usize::from(self.parallel);
        let mut sent_by_client = vec![!self.reverse; streams];
        if self.bidirectional {
            sent_by_client.resize(2 * streams, false);
        }
        sent_by_client
    }

    /// Options of the data connections.
    pub(super) fn options(&self) -> TcpOptions {
        TcpOptions {
            bind: None,
            congestion: self.congestion.clone(),
            mss: self.mss,
            window: self.window.and_then(|window| window.try_into().ok()),
            tos: self.tos,
            nodelay: self.nodelay,
        }
    }

    /// Lengths of a block or a datagram, as iperf3 bounds them.
    pub(super) fn lengths(udp: bool) -> RangeInclusive<u64> {
        if udp { 16..=65_507 } else { 1..=1 << 20 }
    }

    /// Parameters of a client, if this server can do what they say.
    ///
    /// # Errors
    /// What it cannot do.
    pub(super) fn check(mut self) -> io::Result<Self> {
        self.parallel = self.parallel.max(1);
        let lengths = Self::lengths(self.udp);
        if self.len == 0 {
            self.len = *lengths.end().min(&(128 << 10));
        }
        if self.tcp == self.udp {
            return Err(failed("neither TCP nor UDP is asked for"));
        }
        // iperf3's bounds.
        let is_too_long = self.time > 86_400 || self.omit > 600;
        if !lengths.contains(&self.len) || self.parallel > 128 || is_too_long {
            return Err(failed(
                "a length, a number of streams or a time is out of range",
            ));
        }
        Ok(self)
    }
}

/// One end's results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Results {
    pub(super) cpu_util_total: f64,
    pub(super) cpu_util_user: f64,
    pub(super) cpu_util_system: f64,
    /// -1: this end sends nothing; 1: its streams count retransmissions.
    pub(super) sender_has_retransmits: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) congestion_used: Option<String>,
    pub(super) streams: Vec<StreamResult>,
}

/// One end's results of a stream. Numbers are `f64`, for iperf 3.12 writes -1 as 18446744073709551615.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StreamResult {
    pub(super) id: u32,
    pub(super) bytes: u64,
    pub(super) retransmits: f64,
    /// Seconds (RFC 3550 §6.4.1).
    pub(super) jitter: f64,
    /// Datagrams lost.
    pub(super) errors: f64,
    /// Datagrams sent, or the highest number received.
    pub(super) packets: u64,
    pub(super) start_time: f64,
    pub(super) end_time: f64,
}

/// A cookie nobody can guess.
pub(super) fn cookie() -> io::Result<[u8; COOKIE]> {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut random = SplitMix64::new(system_seed()?);
    let mut cookie = [0; COOKIE];
    for byte in &mut cookie[..COOKIE - 1] {
        *byte = ALPHABET[(random.next_u64() % 32) as usize];
    }
    Ok(cookie)
}

/// Head of a datagram: when it was sent, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramHead {
    pub(super) sent: Duration,
    pub(super) number: u64,
}

impl DatagramHead {
    /// Writes the head; `wide` numbers have 64 bits.
    pub(super) fn write(self, out: &mut [u8], wide: bool) {
        out[..4].copy_from_slice(&(self.sent.as_secs() as u32).to_be_bytes());
        out[4..8].copy_from_slice(&self.sent.subsec_micros().to_be_bytes());
        if wide {
            out[8..16].copy_from_slice(&self.number.to_be_bytes());
        } else {
            out[8..12].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }

    pub(super) fn parse(datagram: &[u8], wide: bool) -> Option<Self> {
        let word = |at: usize| {
            let bytes = datagram.get(at..at + 4)?;
            Some(u64::from(u32::from_be_bytes(bytes.try_into().ok()?)))
        };
        let number = if wide {
            word(8)? << 32 | word(12)?
        } else {
            word(8)?
        };
        Some(Self {
            sent: Duration::from_secs(word(0)?) + Duration::from_micros(word(4)?),
            number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_iperf3_are_understood() {
        let text = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"MSS":1000,"nodelay":true,"parallel":2,"bidirectional":true,
            "window":102400,"len":131072,"bandwidth":5000000,"pacing_timer":1000,"TOS":16,"congestion":"reno","get_server_output":1,
            "client_version":"3.12"}"#;
        let params: Params = serde_json::from_str(text).expect("JSON");
        assert_eq!(params.mss, Some(1000));
        assert_eq!(params.directions(), [true, true, false, false]);
        assert!(params.clone().check().is_ok());
        let text = r#"{"udp":true,"parallel":1,"reverse":true,"len":100,"udp_counters_64bit":1}"#;
        let params: Params = serde_json::from_str(text).expect("JSON");
        assert!(params.udp_counters_64bit && params.directions() == [false]);
        for bad in [
            r#"{"udp":true,"len":15}"#,
            r#"{"tcp":true,"parallel":129}"#,
            r#"{"tcp":true,"omit":18446744073709551615,"time":1}"#,
            r#"{"tcp":true,"udp":true}"#,
            r#"{"sctp":true}"#,
        ] {
            let params: Params = serde_json::from_str(bad).expect("JSON");
            assert!(params.check().is_err(), "{bad}");
        }
    }

    #[test]
    fn results_of_iperf3_are_understood() {
        let text = r#"{"cpu_util_total":31.6,"cpu_util_user":5.3,"cpu_util_system":26.3,"sender_has_retransmits":18446744073709551615,
            "congestion_used":"bbr","streams":[{"id":1,"bytes":1416691712,"retransmits":18446744073709551615,"jitter":0,"errors":0,
            "packets":0,"start_time":0,"end_time":1.000023}]}"#;
        let results: Results = serde_json::from_str(text).expect("JSON");
        assert_eq!(results.streams[0].bytes, 1_416_691_712);
    }

    #[test]
    fn heads_of_datagrams_are_read_as_written() {
        for (wide, number) in [(false, 7), (true, 5_000_000_000)] {
            let head = DatagramHead {
                sent: Duration::from_micros(52_402_744_090),
                number,
            };
            let mut datagram = [0; 16];
            head.write(&mut datagram, wide);
            assert_eq!(DatagramHead::parse(&datagram, wide), Some(head));
        }
        assert_eq!(DatagramHead::parse(&[0; 11], false), None);
    }
}
