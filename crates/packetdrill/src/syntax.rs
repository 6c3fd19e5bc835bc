//! The syntax tree of a script: the supported part of packetdrill's grammar (`parser.y`).

use std::time::Duration;

/// A parsed script.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Lines `--name=value` or `--name value` at the top.
    pub options: Vec<(String, String)>,
    /// Shell commands before the first event.
    pub setup: Vec<String>,
    /// Timed events in order.
    pub events: Vec<Event>,
}

/// One timed line.
#[derive(Clone, Debug)]
pub struct Event {
    /// Line number in the file, from 1.
    pub line: usize,
    /// When it happens, or may happen.
    pub when: When,
    /// The line's subject.
    pub action: Action,
}

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Since the script began.
    Absolute(Duration),
    /// Since the event before.
    Relative(Duration),
    /// Anywhere between two times since the event before.
    RelativeRange(Duration, Duration),
    /// Anywhere between two times since the script began.
    AbsoluteRange(Duration, Duration),
    /// At any time (`*`).
    Any,
}

/// Kinds of events.
#[derive(Clone, Debug)]
pub enum Action {
    /// The peer sends a packet.
    Inject(Packet),
    /// The stack must send a packet.
    Expect(Packet),
    /// The application makes a call.
    Call(Call),
    /// Assertions between `%{` and `}%`.
    Assert(String),
    /// A shell command between backquotes.
    Command(String),
}

/// A packet of either direction.
#[derive(Clone, Debug)]
pub enum Packet {
    /// A TCP segment.
    Tcp(Segment),
    /// An ICMP error about a segment of the stack.
    Icmp(IcmpError),
}

/// A TCP segment with the script's numbers, relative to its initial sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// ECN field of the IP header; `None`: not compared, and Not-ECT if injected.
    pub ecn: Option<u8>,
    /// Flag bits, the AE bit (formerly NS) as bit 8.
    pub flags: u16,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Bytes of payload.
    pub len: u32,
    /// Acknowledgment number, if the script gives one.
    pub ack: Option<u32>,
    /// Window field, unscaled, if the script gives one.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options in order; `None`: any.
    pub options: Option<Vec<TcpOption>>,
}

/// An option of a TCP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// Padding.
    Nop,
    /// End of the list.
    End,
    /// Maximum segment size.
    Mss(u16),
    /// Shift of the window.
    WindowScale(u8),
    /// SACK is permitted.
    SackPermitted,
    /// Selective acknowledgment: left and right edges.
    Sack(Vec<(u32, u32)>),
    /// Value and echo.
    Timestamp(u32, u32),
    /// The Fast Open cookie that the stack gave (`FO TFO_COOKIE`).
    FastOpenCookie,
    /// Any other kind with its bytes.
    Other(u8, Vec<u8>),
}

/// An ICMP error that quotes a segment.
#[derive(Clone, Debug)]
pub struct IcmpError {
    /// The reason.
    pub kind: IcmpKind,
    /// Sequence number of the quoted segment.
    pub seq: u32,
    /// Payload length of the quoted segment.
    pub len: u32,
}

/// Reasons of ICMP errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// Destination unreachable, with the code of ICMPv4.
    Unreachable(u8),
    /// Fragmentation needed, or packet too big.
    TooBig(u32),
    /// Time exceeded in transit.
    TimeExceeded,
}

/// A call of the application.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the function.
    pub name: String,
    /// Arguments.
    pub arguments: Vec<Value>,
    /// For a call that may block: how long after its start it returns.
    pub until: Option<Duration>,
    /// The value it returns; `None` for `...`.
    pub result: Option<i64>,
    /// Name of the error, for example `EAGAIN`.
    pub error: Option<String>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `...`
    Any,
    /// A number, or flags combined with `|`.
    Number(i64),
    /// A symbolic constant: `SOCK_STREAM`.
    Name(String),
    /// A quoted string.
    Text(String),
    /// `[a, b]`
    List(Vec<Self>),
    /// `{name = value, …}` or `{a, b}`
    Struct(Vec<(String, Self)>),
}
