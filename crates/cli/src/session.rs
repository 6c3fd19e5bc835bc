//! [`Session`]: a host on its device and the loop that drives it, from opening to the end of a run.

use std::net::SocketAddr;
use std::time::Duration;

use tautline_base::{Frame, Instant, Packet, SocketId};
use tautline_bql::{Limit, Port, Ring};
use tautline_qdisc::Stats;
use tautline_rt::{Application, Clock, Ended, EventLoop, Idle, Next, stop_on_signals, system_seed};
use tautline_stack::{Event, Host, HostConfig, NoTrace, Route, TcpInfo};
use tautline_tc::DynQdisc;

use crate::args::StackArgs;
use crate::control::TransferControl;
use crate::device::BoxedDevice;
use crate::failure::Failure;
use crate::lease::Renewal;
use crate::open::Opened;
use crate::report::{Summary, gbit_per_s, limited, micros, rounded};

/// The qdisc of a session: any, counted.
pub type Queue<F> = Stats<Box<dyn DynQdisc<Packet<F>>>>;

/// The host of a session.
pub type SessionHost<F> = Host<Queue<F>, BoxedDevice<F>, NoTrace, Box<dyn Limit>>;

/// A host in real time.
pub struct Session<F: Frame> {
    /// The host.
    pub host: SessionHost<F>,
    /// The loop that polls the host and the device.
    pub event_loop: EventLoop,
    path: &'static str,
    mode: String,
    qdisc: &'static str,
    lease: Option<Renewal>,
    control: Option<TransferControl>,
}

/// An application, and the lines about its device.
struct Watched<'a, A> {
    application: &'a mut A,
    check_at: Instant,
    said: Option<String>,
    lease: Option<&'a mut Renewal>,
    control: Option<&'a TransferControl>,
    /// The connection that the control shows.
    socket: fn(&A) -> Option<SocketId>,
}

/// Interval between checks of the device's condition.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl<A> Watched<'_, A> {
    /// Prints the last event of the device, unless it was printed.
    fn check<F: Frame>(&mut self, device: &BoxedDevice<F>) {
        let notice = device.condition().notice;
        if let Some(line) = notice.as_ref().filter(|_| notice != self.said) {
            eprintln!("note: the device: {line}");
            self.said = notice;
        }
    }
}

impl<A, F> Application<SessionHost<F>> for Watched<'_, A>
where
    F: Frame,
    A: Application<SessionHost<F>>,
{
    fn on_event(&mut self, host: &mut SessionHost<F>, event: Event, now: Instant) {
        match &mut self.lease {
            Some(lease) if lease.is_for(&event) => lease.receive(host, now),
            _ => self.application.on_event(host, event, now),
        }
    }

    fn turn(&mut self, host: &mut SessionHost<F>, now: Instant) -> Next {
        if now >= self.check_at {
            self.check_at = now + CHECK_INTERVAL;
            self.check(host.port().ring().device());
        }
        if let Some(control) = self.control {
            control.serve(host, (self.socket)(self.application), now);
        }
        let next = self.application.turn(host, now);
        match &mut self.lease {
            Some(lease) => lease.turn(host, next, now),
            None => next,
        }
    }
}

/// One end's counters of a transfer.
#[derive(Debug)]
pub struct Outcome {
    /// `sender` or `receiver`.
    pub role: &'static str,
    /// Payload.
    pub bytes: u64,
    /// From the established connection to the end of the stream.
    pub time: Duration,
    /// The connection at its end.
    pub info: TcpInfo,
    /// Digest of the payload.
    pub sha256: Option<String>,
}

/// Time limit for a host to send its last packets.
const DRAIN_TIME: Duration = Duration::from_millis(200);

impl<F: Frame + Send + 'static> Session<F> {
    /// Puts a host on an open device. Signals end it in order from now on.
    ///
    /// # Errors
    /// If the host or its event loop cannot be set up.
    pub fn new(opened: Opened<F>, args: &StackArgs) -> Result<Self, Failure> {
        let Opened {
            device,
            pool,
            mac,
            path,
            mode,
        } = opened;
        let lease = args.held.as_ref().map(Renewal::new).transpose()?;
        let clock = args
            .held
            .as_ref()
            .map_or_else(Clock::start, |held| held.clock);
        let idle = if args.busy_poll {
            Idle::Spin
        } else {
            Idle::Sleep
        };
        let event_loop = EventLoop::new(clock, idle)?.gathering(args.gather.0);
        stop_on_signals(event_loop.stopper())?;
        let qdisc = args.qdisc.root().name();
        let port = Port::new(
            Stats::new(args.qdisc.build()?),
            Ring::new(device, args.limit.build()?),
        );
        let config = HostConfig {
            addresses: args.own().collect(),
            routes: args.routers().map(Route::default_via).collect(),
            ..HostConfig::new(mac, system_seed()?)
        };
        let host = Host::new(config, port, pool, NoTrace);
        Ok(Self {
            host,
            event_loop,
            path,
            mode,
            qdisc,
            lease,
            control: None,
        })
    }

    /// Serves HTTP at `address`, if given, about the host on `interface` and the connection of the
    /// runs from now on.
    ///
    /// # Errors
    /// If the system refuses the address.
    pub fn serve_http(
        &mut self,
        address: Option<SocketAddr>,
        interface: &str,
    ) -> Result<(), Failure> {
        self.control = address
            .map(|address| TransferControl::listen(address, interface, &self.event_loop))
            .transpose()?;
        Ok(())
    }

    /// Runs `application` to its end. `socket` returns its connection, which is reset if the run is
    /// ended from outside.
    ///
    /// # Errors
    /// If the device fails, or a signal ends the run.
    pub fn run<A>(
        &mut self,
        application: &mut A,
        socket: fn(&A) -> Option<SocketId>,
    ) -> Result<(), Failure>
    where
        A: Application<SessionHost<F>>,
    {
        let ended = self.drive(application, socket)?;
        self.check_lease()?;
        if ended != Ended::Application
            && let Some(socket) = socket(application)
        {
            // The connection may already be over.
            let _ = self.host.abort(socket);
        }
        match ended {
            Ended::DeviceFailed => {
                let why = self.host.device_mut().failure();
                Err(Failure::Device(
                    why.unwrap_or_else(|| "it receives no more".to_owned()),
                ))
            }
            Ended::Application | Ended::Stopped => {
                self.event_loop.drain(&mut self.host, DRAIN_TIME)?;
                if ended == Ended::Stopped {
                    Err(Failure::Interrupted)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Runs `application` until the loop ends, and prints what happens to the device meanwhile.
    /// `socket` returns the connection to show over HTTP.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn drive<A>(
        &mut self,
        application: &mut A,
        socket: fn(&A) -> Option<SocketId>,
    ) -> std::io::Result<Ended>
    where
        A: Application<SessionHost<F>>,
    {
        let mut watched = Watched {
            application,
            check_at: Instant::ZERO,
            said: None,
            lease: self.lease.as_mut(),
            control: self.control.as_ref(),
            socket,
        };
        let ended = self.event_loop.run(&mut self.host, &mut watched);
        watched.check(self.host.port().ring().device());
        ended
    }

    /// # Errors
    /// If the lease of our address has ended.
    pub fn check_lease(&self) -> Result<(), Failure> {
        let lost = self.lease.as_ref().and_then(Renewal::lost);
        lost.map_or(Ok(()), Err)
    }

    /// A connection that failed may have failed because the device did.
    pub fn explain(&mut self, failure: Failure) -> Failure {
        match self.host.device_mut().failure() {
            Some(why)
                if matches!(
                    failure,
                    Failure::Closed(_) | Failure::Silent(_) | Failure::NoAnswer(_)
                ) =>
            {
                Failure::Device(why)
            }
            _ => failure,
        }
    }

    /// One line about what was opened, on standard error.
    pub fn announce(&self, doing: &str) {
        eprintln!(
            "{} over {} ({}), {}; Ctrl-C ends",
            doing, self.path, self.mode, self.qdisc
        );
    }

    /// Summary of a transfer.
    pub fn summary(&self, outcome: Outcome) -> Summary {
        let Outcome {
            role,
            bytes,
            time,
            info,
            sha256,
        } = outcome;
        let (stats, queue) = (self.host.stats(), self.host.port().qdisc().stats());
        let condition = self.host.port().ring().device().condition();
        Summary {
            event: "summary",
            role,
            queue: None,
            path: self.path,
            mode: self.mode.clone(),
            cc: info.congestion,
            qdisc: self.qdisc,
            bytes,
            seconds: rounded(time.as_secs_f64()),
            gbit_per_s: gbit_per_s(bytes, time),
            sha256,
            retransmits: info.retransmits,
            timeouts: info.timeouts,
            tsq_throttles: info.tsq_throttles,
            path_mtu: info.path_mtu.get(),
            qdisc_sojourn_us: micros(queue.sojourn.percentile(99)),
            drops: queue.drops(),
            dql_limit_bytes: limited(self.host.port().ring().limit().limit()),
            ecn: info.ecn.name(),
            ce_delivered: info.delivered_ce,
            ce_received: info.received_ce,
            ce_reductions: info.ce_reductions,
            rebinds: condition.rebinds,
            receive_losses: condition.receive_losses,
            ring: condition.ring,
            frames_in: stats.frames_in,
            frames_out: stats.completed,
            bad_frames: stats.malformed,
            bad_checksums: stats.bad_checksum,
        }
    }
}
