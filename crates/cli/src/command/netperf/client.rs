//! The client of a test, and netperf's output.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tautline_base::Instant;
use tautline_rt::Clock;
use tokio::task::coop::consume_budget;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::session::{Done, Ready, Remote, Test};
use super::{Plan, Results, Unit};
use crate::net::{Net, TcpOptions, TcpState, TcpStream, UdpSocket, payload};
use crate::report::say;
use crate::report::wall_clock;

/// Runs the test and prints its results.
pub(super) async fn run(net: Net, plan: Plan) -> io::Result<()> {
    let options = TcpOptions {
        bind: plan.control_local,
        ..TcpOptions::default()
    };
    let refused = |error: io::Error| {
        let why = format!("no netserver at {}: {error}", plan.control);
        io::Error::new(error.kind(), why)
    };
    let control = net.connect(plan.control, &options).await.map_err(refused)?;
    control.send_json(&plan.request).await?;
    let port = match control.recv_json().await? {
        Ready::Port(port) => port,
        Ready::Refused(why) => return Err(io::Error::other(why)),
    };
    let data = Data::open(&net, &plan, SocketAddr::new(plan.data, port)).await?;
    let counts = Counts::default();
    let clock = Clock::start();
    let begun = clock.now();
    measure(&plan, &data, &counts, &clock).await?;
    let time = clock.now() - begun;
    let (state, congestion) = data.finish().await;
    control.send_json(&Done).await?;
    let remote: Remote = control.recv_json().await?;
    let outcome = Outcome {
        time,
        counts: &counts,
        state,
        congestion,
        remote,
    };
    print(&plan, &outcome.results(&plan));
    Ok(())
}

/// The connection or socket for data.
enum Data {
    Tcp(TcpStream),
    Udp(UdpSocket, SocketAddr),
}

/// Counters of the client, in bytes, transactions and nanoseconds.
#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
    transactions: AtomicU64,
    waited: AtomicU64,
    longest: AtomicU64,
}

impl Counts {
    /// The number that the test measures: bytes or transactions.
    fn progress(&self, test: Test) -> u64 {
        match test {
            Test::Stream => self.sent.load(Relaxed),
            Test::Maerts => self.received.load(Relaxed),
            Test::TcpRr | Test::UdpRr => self.transactions.load(Relaxed),
        }
    }

    fn transaction(&self, plan: &Plan, took: Duration) {
        let nanos = took.as_nanos() as u64;
        self.transactions.fetch_add(1, Relaxed);
        self.sent.fetch_add(plan.request.request.into(), Relaxed);
        self.received
            .fetch_add(plan.request.response.into(), Relaxed);
        self.waited.fetch_add(nanos, Relaxed);
        self.longest.fetch_max(nanos, Relaxed);
    }
}

impl Data {
    async fn open(net: &Net, plan: &Plan, to: SocketAddr) -> io::Result<Self> {
        if plan.request.test.is_udp() {
            let any: std::net::IpAddr = if to.is_ipv4() {
                std::net::Ipv4Addr::UNSPECIFIED.into()
            } else {
                std::net::Ipv6Addr::UNSPECIFIED.into()
            };
            let local = SocketAddr::new(plan.local.unwrap_or(any), 0);
            let socket = net.bind(local).await?;
            socket.set_tos(plan.tos)?;
            return Ok(Self::Udp(socket, to));
        }
        let options = TcpOptions {
            bind: plan.local,
            congestion: plan.request.congestion.clone(),
            tos: plan.tos,
            nodelay: plan.request.nodelay || plan.request.test == Test::TcpRr,
            ..TcpOptions::default()
        };
        Ok(Self::Tcp(net.connect(to, &options).await?))
    }

    /// Moves data until the amount is reached.
    async fn transfer(&self, plan: &Plan, counts: &Counts, clock: &Clock) -> io::Result<()> {
        let is_done = || {
            let progress = counts.progress(plan.request.test);
            plan.amount.is_some_and(|amount| progress >= amount)
        };
        let mut number = 0u8;
        let mut question = payload(plan.request.request as usize)?;
        let mut answer = vec![0; plan.request.response.max(1) as usize];
        let mut block = payload(plan.request.send_size as usize)?;
        while !is_done() {
            consume_budget().await;
            match (self, plan.request.test) {
                (Self::Tcp(stream), Test::Stream) => {
                    let sent = stream.send(&block).await?;
                    counts.sent.fetch_add(sent as u64, Relaxed);
                }
                (Self::Tcp(stream), Test::Maerts) => {
                    block.resize(128 << 10, 0);
                    let count = stream.recv(&mut block).await?;
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    counts.received.fetch_add(count as u64, Relaxed);
                }
                (Self::Tcp(stream), _) => {
                    let begun = clock.now();
                    stream.send_all(&question).await?;
                    stream.recv_exact(&mut answer).await?;
                    counts.transaction(plan, clock.now() - begun);
                }
                (Self::Udp(socket, to), _) => {
                    number = number.wrapping_add(1);
                    question[0] = number;
                    let begun = clock.now();
                    socket.send_to(&question, *to).await?;
                    let answered = async {
                        loop {
                            let (count, from) = socket.recv_from(&mut answer).await?;
                            if count > 0 && answer[0] == number && from == *to {
                                return io::Result::Ok(());
                            }
                        }
                    };
                    if timeout(plan.timeout, answered).await.is_ok() {
                        counts.transaction(plan, clock.now() - begun);
                    }
                }
            }
        }
        Ok(())
    }

    /// State of the connection at the end, and its controller.
    async fn finish(&self) -> (TcpState, String) {
        match self {
            Self::Tcp(stream) => (
                stream.state().await.unwrap_or_default(),
                stream.congestion().await.unwrap_or_default(),
            ),
            Self::Udp(..) => Default::default(),
        }
    }
}

/// Moves data for the time or the amount, and prints interim results.
async fn measure(plan: &Plan, data: &Data, counts: &Counts, clock: &Clock) -> io::Result<()> {
    let mut transfer = pin!(data.transfer(plan, counts, clock));
    let mut end = pin!(sleep(plan.time.unwrap_or(Duration::MAX)));
    let mut tick = interval(plan.demo.unwrap_or(Duration::from_secs(3600)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tick.tick().await;
    let mut interim = Interim {
        number: 0,
        since: clock.now(),
        before: 0,
    };
    loop {
        tokio::select! {
            biased;
            () = &mut end => return Ok(()),
            outcome = &mut transfer => return outcome,
            _ = tick.tick() => interim.print(plan, counts, clock.now()),
        }
    }
}

/// The present interval.
struct Interim {
    number: u32,
    since: Instant,
    before: u64,
}

impl Interim {
    fn print(&mut self, plan: &Plan, counts: &Counts, now: Instant) {
        let test = plan.request.test;
        let progress = counts.progress(test);
        // Without a transaction there is no rate: the interval goes on.
        if progress == self.before && !test.is_stream() {
            return;
        }
        let (moved, time) = (progress - self.before, (now - self.since).as_secs_f64());
        let (rate, unit) = plan.unit.of(test, moved as f64 / time);
        let (number, ending) = (self.number, wall_clock().as_secs_f64());
        say!(
            "NETPERF_INTERIM_RESULT[{number}]={rate:.2}\nNETPERF_UNITS[{number}]={unit}\n\
             NETPERF_INTERVAL[{number}]={time:.3}\nNETPERF_ENDING[{number}]={ending:.3}"
        );
        *self = Self {
            number: number + 1,
            since: now,
            before: progress,
        };
    }
}

impl Unit {
    /// A rate in bytes or transactions a second, in this unit.
    fn of(self, test: Test, rate: f64) -> (f64, &'static str) {
        match self {
            _ if !test.is_stream() => (rate, "Trans/s"),
            Self::K => (rate * 8.0 / 1e3, "10^3bits/s"),
            Self::G => (rate * 8.0 / 1e9, "10^9bits/s"),
            Self::M | Self::X => (rate * 8.0 / 1e6, "10^6bits/s"),
        }
    }
}

/// Both ends of a test.
struct Outcome<'a> {
    time: Duration,
    counts: &'a Counts,
    state: TcpState,
    congestion: String,
    remote: Remote,
}

impl Outcome<'_> {
    fn results(&self, plan: &Plan) -> Results {
        let (test, counts, remote) = (plan.request.test, self.counts, &self.remote);
        let progress = match test {
            // The bytes that have arrived, which netperf's sender does not know.
            Test::Stream => remote.received,
            test => counts.progress(test),
        };
        let rate = progress as f64 / self.time.as_secs_f64().max(1e-9);
        let (throughput, units) = plan.unit.of(test, rate);
        let direction = match test {
            Test::Stream => "Send",
            Test::Maerts => "Receive",
            Test::TcpRr | Test::UdpRr => "Send|Receive",
        };
        let count = |count: &AtomicU64| count.load(Relaxed).to_string();
        let mut results = Results::from([
            ("THROUGHPUT", format!("{throughput:.2}")),
            ("THROUGHPUT_UNITS", units.to_owned()),
            ("ELAPSED_TIME", format!("{:.2}", self.time.as_secs_f64())),
            (
                "PROTOCOL",
                if test.is_udp() { "UDP" } else { "TCP" }.to_owned(),
            ),
            ("DIRECTION", direction.to_owned()),
            ("LOCAL_CONG_CONTROL", self.congestion.clone()),
            ("REMOTE_CONG_CONTROL", remote.congestion.clone()),
            ("TRANSPORT_MSS", self.state.mss.to_string()),
            (
                "LOCAL_TRANSPORT_RETRANS",
                self.state.retransmits.to_string(),
            ),
            ("REMOTE_TRANSPORT_RETRANS", remote.retransmits.to_string()),
            ("LOCAL_SOCKET_TOS", format!("{:#04x}", plan.tos)),
            ("REMOTE_SOCKET_TOS", format!("{:#04x}", plan.request.tos)),
            ("LOCAL_SEND_SIZE", plan.request.send_size.to_string()),
            ("LOCAL_RECV_SIZE", (128 << 10).to_string()),
            ("REMOTE_SEND_SIZE", plan.request.remote_size.to_string()),
            ("REMOTE_RECV_SIZE", (128 << 10).to_string()),
            ("LOCAL_BYTES_SENT", count(&counts.sent)),
            ("LOCAL_BYTES_RECVD", count(&counts.received)),
            ("REMOTE_BYTES_SENT", remote.sent.to_string()),
            ("REMOTE_BYTES_RECVD", remote.received.to_string()),
        ]);
        if !test.is_stream() {
            let micros = |nanos: u64| format!("{:.2}", nanos as f64 / 1e3);
            let transactions = counts.transactions.load(Relaxed);
            let mean = counts.waited.load(Relaxed) / transactions.max(1);
            results.insert("TRANSACTION_RATE", format!("{rate:.3}"));
            results.insert("MEAN_LATENCY", micros(mean));
            results.insert("MAX_LATENCY", micros(counts.longest.load(Relaxed)));
        }
        results
    }
}

fn print(plan: &Plan, results: &Results) {
    if plan.keys.is_empty() {
        if plan.print_heading {
            say!("{}", results["THROUGHPUT_UNITS"]);
        }
        say!("{}", results["THROUGHPUT"]);
        return;
    }
    for key in &plan.keys {
        let key = key.to_ascii_uppercase();
        match results.get(key.as_str()) {
            Some(value) => say!("{key}={value}"),
            None => eprintln!("netperf: no result has the name {key}"),
        }
    }
}
