//! [`DatagramsConfig`] and [`DatagramSinkConfig`]: UDP at a constant rate, always or on and off,
//! and its receiver, which measures one-way delays.

use std::net::SocketAddr;

use tautline_base::{Instant, SocketId};
use tautline_stack::udp::Datagram;
use tautline_stack::{SendError, UdpConfig};

use super::service::{DatagramService, anywhere};
use super::traffic::{Departures, read_stamp, stamp};
use super::{AppError, Application, Applications, Context, Flow, Sample, Traffic, When};
use crate::config_error::ConfigError;

/// Maximum number of datagrams in one call, for the sake of other applications.
const BUDGET: usize = 64;

/// Datagrams to a [sink](DatagramSinkConfig). The application does not queue datagrams that the
/// socket refuses.
#[derive(Clone, Debug)]
pub struct DatagramsConfig {
    /// Name of the flow, at both ends.
    pub flow: Flow,
    /// The sink.
    pub remote: SocketAddr,
    /// When it sends. Default from the beginning, forever.
    pub when: When,
    /// Rate and size. A datagram that is more than a second late, because the machine was
    /// suspended, is not sent.
    pub traffic: Traffic,
    /// Configuration of the socket. Default: the stack's.
    pub udp: UdpConfig,
}

impl DatagramsConfig {
    /// `traffic` to `remote`.
    pub fn new(flow: impl Into<Flow>, remote: SocketAddr, traffic: Traffic) -> Self {
        Self {
            flow: flow.into(),
            remote,
            when: When::default(),
            traffic,
            udp: UdpConfig::default(),
        }
    }
}

/// Receives datagrams. Delays of senders on other machines are meaningful only with a synchronized
/// clock.
#[derive(Clone, Debug)]
pub struct DatagramSinkConfig {
    /// Name of the flow.
    pub flow: Flow,
    /// The UDP port.
    pub port: u16,
    /// When the port is open. Default always.
    pub when: When,
    /// Configuration of the socket. Default: the stack's.
    pub udp: UdpConfig,
}

impl DatagramSinkConfig {
    /// A sink on `port`.
    pub fn new(flow: impl Into<Flow>, port: u16) -> Self {
        Self {
            flow: flow.into(),
            port,
            when: When::default(),
            udp: UdpConfig::default(),
        }
    }
}

impl Applications<'_> {
    /// Adds a sender of datagrams.
    ///
    /// # Errors
    /// If the traffic is out of range.
    pub fn datagrams(&mut self, config: DatagramsConfig) -> Result<&mut Self, ConfigError> {
        config.traffic.check()?;
        let (flow, when) = (config.flow.clone(), config.when);
        let payload = vec![0; config.traffic.size.as_usize()].into();
        self.add(
            flow,
            when,
            Source {
                config,
                payload,
                stage: Stage::Waiting,
            },
        )
    }

    /// Adds a receiver of datagrams.
    ///
    /// # Errors
    /// If there are too many applications.
    pub fn datagram_sink(&mut self, config: DatagramSinkConfig) -> Result<&mut Self, ConfigError> {
        let DatagramSinkConfig {
            flow,
            port,
            when,
            udp,
        } = config;
        let take = |cx: &mut Context<'_>, _, Datagram { len, .. }| {
            cx.measured.note_received(len, cx.now);
            let due = read_stamp(&cx.buffer[..len]).map(|(due, _)| due);
            cx.measured.one_way.extend(due.map(|at| Sample {
                at,
                took: cx.now - at,
            }));
        };
        self.add(flow, when, DatagramService::new(port, udp, take))
    }
}

struct Source {
    config: DatagramsConfig,
    payload: Box<[u8]>,
    stage: Stage,
}

enum Stage {
    Waiting,
    Sending {
        socket: SocketId,
        departures: Departures,
    },
    Done,
}

/// Counts a datagram by the outcome of sending it. Only a permanent failure is an error.
pub(super) fn note(
    cx: &mut Context<'_>,
    outcome: Result<(), SendError>,
    bytes: usize,
) -> Result<(), AppError> {
    match outcome {
        Ok(()) => cx.measured.note_sent(bytes),
        Err(SendError::Full) => cx.measured.refused += 1,
        Err(SendError::Path(why)) => cx.fail(why),
        Err(why) => return Err(why.into()),
    }
    Ok(())
}

impl Application for Source {
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let socket = cx.bind(anywhere(0), self.config.udp, 0)?;
        self.stage = Stage::Sending {
            socket,
            departures: Departures::new(self.config.traffic.clone(), cx.now),
        };
        Ok(())
    }

    /// Closes the socket, which still sends what it has queued.
    fn stop(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        if let Stage::Sending { socket, .. } = std::mem::replace(&mut self.stage, Stage::Done) {
            cx.close(socket);
        }
        Ok(())
    }

    fn on_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), AppError> {
        let Stage::Sending { socket, departures } = &mut self.stage else {
            return Ok(());
        };
        for _ in 0..BUDGET {
            let Some((due, number)) = departures.take(cx.now) else {
                break;
            };
            stamp(&mut self.payload, due, number);
            let outcome = cx
                .host
                .send_to(*socket, &self.payload, Some(self.config.remote));
            note(cx, outcome, self.payload.len())?;
        }
        if departures.is_over() {
            self.stop(cx)
        } else {
            Ok(())
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if let Stage::Sending { departures, .. } = &self.stage {
            departures.deadline()
        } else {
            None
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }
}
