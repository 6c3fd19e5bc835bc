//! [`FastOpen`]: a connection's part in TCP Fast Open (RFC 7413), until it is open.

use tautline_base::{Instant, SocketId};

use super::send::{Kind, Plan};
use super::tuple::Tuple;
use crate::config::TcpConfig;
use crate::wire::{FastOpenCookie, OPTION_SPACE};

/// Most connections have no part in it.
#[derive(Debug, Default)]
pub(crate) struct FastOpen(Option<Box<Part>>);

#[derive(Debug)]
enum Part {
    Client(Client),
    Server(Server),
}

/// The end that sends the SYN.
#[derive(Debug)]
struct Client {
    /// For the first SYN: the server's cookie, or a request.
    cookie: FastOpenCookie,
    /// Most payload of the first SYN, and what it had.
    room: u64,
    sent: u64,
    lesson: Lesson,
}

/// The end that the SYN reaches.
#[derive(Debug)]
pub(crate) struct Server {
    /// The client's new cookie, for the SYN-ACK.
    pub(crate) cookie: Option<FastOpenCookie>,
    /// The listener that gets the connection at once: the SYN brought a valid cookie.
    pub(crate) trusted_by: Option<SocketId>,
    /// Arrival of the SYN.
    pub(crate) since: Instant,
}

/// The experience of a client with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lesson {
    /// The server's cookie, and its MSS.
    pub(crate) cookie: Option<(FastOpenCookie, u16)>,
    /// The SYN was lost, or its data refused, at that time.
    pub(crate) failed: Option<Instant>,
}

impl FastOpen {
    /// The part of an active open. `cookie` and `mss` are the server's, as it gave them to an
    /// earlier connection.
    pub(crate) fn client(
        (cookie, mss): (FastOpenCookie, u16),
        (tuple, mtu, config): (&Tuple, usize, &TcpConfig),
    ) -> Self {
        let mss = u64::from(mss.min(tuple.own_mss(mtu, config)));
        Self(Some(Box::new(Part::Client(Client {
            cookie,
            // Whatever options there are, the SYN fits into a packet (Linux `tcp_send_syn_data`).
            room: mss.saturating_sub(OPTION_SPACE as u64),
            sent: 0,
            lesson: Lesson::default(),
        }))))
    }

    /// The part of a passive open.
    pub(crate) fn server(server: Server) -> Self {
        Self(Some(Box::new(Part::Server(server))))
    }

    /// Whether the opening of the connection uses it.
    pub(crate) fn is_used(&self) -> bool {
        self.0.is_some()
    }

    fn as_client(&mut self) -> Option<&mut Client> {
        match self.0.as_deref_mut()? {
            Part::Client(client) => Some(client),
            Part::Server(_) => None,
        }
    }

    fn as_server(&self) -> Option<&Server> {
        match self.0.as_deref()? {
            Part::Server(server) => Some(server),
            Part::Client(_) => None,
        }
    }

    /// The listener whose application has the connection since its SYN, for the sake of its cookie.
    pub(crate) fn trusted_by(&self) -> Option<SocketId> {
        self.as_server()?.trusted_by
    }

    /// The peer has acknowledged nothing yet, and all the same the connection sends and receives
    /// (RFC 7413 §4.2.2).
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted_by().is_some()
    }

    /// Arrival of the SYN that the server answered.
    pub(crate) fn since(&self) -> Option<Instant> {
        Some(self.as_server()?.since)
    }

    /// Adds to the first SYN the beginning of the `written` bytes, as far as the server takes it.
    pub(super) fn fill(&self, mut syn: Plan, written: u64) -> Plan {
        if syn.kind == Kind::New
            && let Some(Part::Client(client)) = self.0.as_deref()
        {
            syn.range.end += written.min(client.room);
        }
        syn
    }

    /// The first SYN leaves. Returns it without its payload, which takes no sequence space before the
    /// SYN-ACK acknowledges it: otherwise it is sent as if for the first time.
    pub(super) fn sent(&mut self, syn: &Plan) -> Plan {
        if let Some(client) = self.as_client() {
            client.sent = syn.range.end - 1;
        }
        Plan {
            range: 0..1,
            ..syn.clone()
        }
    }

    /// The option of the first SYN or SYN-ACK.
    pub(super) fn option(&self) -> Option<FastOpenCookie> {
        match self.0.as_deref()? {
            Part::Client(client) => Some(client.cookie),
            Part::Server(server) => server.cookie,
        }
    }

    /// The highest offset that a SYN-ACK may acknowledge.
    pub(super) fn syn_end(&self) -> u64 {
        match self.0.as_deref() {
            Some(Part::Client(client)) => 1 + client.sent,
            _ => 1,
        }
    }

    /// The SYN-ACK acknowledges everything below `ack`, and brings the `cookie` and MSS of the server.
    pub(super) fn on_syn_ack(
        &mut self,
        ack: u64,
        (cookie, mss): (Option<FastOpenCookie>, u16),
        now: Instant,
    ) {
        if let Some(client) = self.as_client() {
            let cookie = cookie.filter(|cookie| !cookie.is_request());
            client.lesson.cookie = cookie.map(|cookie| (cookie, mss));
            // Neither the data nor a better cookie.
            if client.sent > 0 && ack == 1 && cookie.is_none() {
                client.lesson.failed = Some(now);
            }
        }
    }

    /// The SYN was lost, perhaps because of its option or its data.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if let Some(client) = self.as_client() {
            client.lesson.failed = Some(now);
        }
    }

    /// The experience of a client whose connection is open, or has failed.
    pub(crate) fn take_lesson(&mut self) -> Option<Lesson> {
        let lesson = self.as_client()?.lesson;
        self.0 = None;
        Some(lesson)
    }
}
