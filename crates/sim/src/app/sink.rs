//! [`SinkConfig`]: reads whatever comes on a TCP port, and counts it.

use std::sync::Arc;

use tautline_base::SocketId;
use tautline_stack::{CloseReason, Event, Recv, TcpConfig};

use super::{AppError, Application, Flow, Programs, Scene, When};
use crate::config_error::ConfigError;

/// The end of streams.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// The name of what arrives. Streams that are told apart have ports of their own.
    pub flow: Flow,
    /// Where it listens.
    pub port: u16,
    /// When it listens; what it has accepted goes on. Default always.
    pub when: When,
    /// Its TCP. Default: the stack's.
    pub tcp: Arc<TcpConfig>,
}

impl SinkConfig {
    /// A sink on `port`.
    pub fn new(flow: impl Into<Flow>, port: u16) -> Self {
        Self { flow: flow.into(), port, when: When::default(), tcp: Arc::default() }
    }
}

impl Programs {
    /// Also reads what comes on a port.
    ///
    /// # Errors
    /// If there are too many applications.
    pub fn sink(&mut self, config: SinkConfig) -> Result<&mut Self, ConfigError> {
        let (flow, when) = (config.flow.clone(), config.when);
        self.add(flow, when, Sink { config, listener: None })
    }
}

struct Sink {
    config: SinkConfig,
    listener: Option<SocketId>,
}

fn read(scene: &mut Scene<'_>, socket: SocketId) -> Result<(), AppError> {
    if scene.recv_all(socket)? == Recv::EndOfStream {
        scene.close(socket);
    }
    Ok(())
}

impl Application for Sink {
    fn start(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        self.listener = Some(scene.listen(self.config.port, Arc::clone(&self.config.tcp), 0)?);
        Ok(())
    }

    fn stop(&mut self, scene: &mut Scene<'_>) -> Result<(), AppError> {
        if let Some(listener) = self.listener.take() {
            scene.close(listener);
        }
        Ok(())
    }

    /// One stream that breaks is not the end of the others.
    fn on_event(&mut self, scene: &mut Scene<'_>, event: Event, _token: u32) -> Result<(), AppError> {
        match event {
            Event::Accepted { socket, .. } => {
                scene.measured.connections += 1;
                scene.own(socket, 0);
                read(scene, socket)?;
            }
            Event::Readable(socket) => read(scene, socket)?,
            Event::Closed { socket, why } => {
                // What arrived before the end can still be read.
                read(scene, socket)?;
                if why != CloseReason::Finished {
                    scene.fail(AppError::Closed(why));
                }
                scene.close(socket);
            }
            Event::Connected(_) | Event::Writable(_) | Event::Pong { .. } | Event::PingFailed { .. } => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}
