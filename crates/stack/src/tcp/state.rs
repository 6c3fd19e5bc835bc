//! [`State`]: states of RFC 9293 §3.3.2.

use tautline_base::SocketId;

/// States that a connection object can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    SynSent,
    /// `listener` is who gets the connection; `None` after a simultaneous open.
    SynReceived {
        listener: Option<SocketId>,
    },
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

impl State {
    /// The peer has yet to acknowledge our FIN, or the data before it.
    pub(crate) fn may_deliver(self) -> bool {
        !matches!(self, Self::FinWait2 | Self::TimeWait | Self::Closed)
    }

    /// Our FIN is sent.
    pub(crate) fn has_sent_fin(self) -> bool {
        !self.is_opening() && !matches!(self, Self::Established | Self::CloseWait | Self::Closed)
    }

    /// The handshake is not complete.
    pub(crate) fn is_opening(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived { .. })
    }

    /// Both ends have finished, or the connection was cut: nothing waits for the peer any more.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::TimeWait | Self::Closed)
    }

    /// The state after this end has sent its FIN (RFC 9293 §3.10.4).
    pub(super) fn after_own_fin(self) -> Self {
        match self {
            Self::CloseWait => Self::LastAck,
            _ => Self::FinWait1,
        }
    }

    /// Its name in RFC 9293.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived { .. } => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        }
    }
}
