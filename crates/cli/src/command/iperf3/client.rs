//! The client of a test.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::tun2socks::signaled;
use super::flow::{Carrier, Counters, Flow};
use super::protocol::{Params, Results, State, UDP_HELLO, cookie};
use super::test::Test;
use super::{Iperf3, failed, report};
use crate::net::{MESSAGE_TIMEOUT, Net, TcpOptions, TcpStream};

/// How often the first datagram of a stream is sent again.
const HELLOS: u32 = 10;

/// Runs a test with the server at `at`, called `host`.
pub(super) async fn run(net: Net, args: Iperf3, host: String, at: SocketAddr) -> io::Result<()> {
    let mut client = Client {
        net: &net,
        args: &args,
        at,
        cookie: [0; super::protocol::COOKIE],
    };
    let outcome = client.test(&host).await;
    if let (true, Err(error)) = (args.json, &outcome) {
        report::print_error(&error.to_string());
        std::process::exit(1);
    }
    outcome
}

struct Client<'a> {
    net: &'a Net,
    args: &'a Iperf3,
    at: SocketAddr,
    cookie: [u8; super::protocol::COOKIE],
}

impl Client<'_> {
    async fn test(&mut self, host: &str) -> io::Result<()> {
        let options = TcpOptions {
            bind: self.args.local,
            ..TcpOptions::default()
        };
        let control = self
            .net
            .connect(self.at, &options)
            .await
            .map_err(|error| failed(format!("unable to connect to server: {error}")))?;
        self.cookie = cookie()?;
        control.send_all(&self.cookie).await?;
        let mss = control.state().await.map_or(1448, |state| state.mss);
        let params = self.args.params(mss);
        let mut test = None;
        loop {
            let state = timeout(MESSAGE_TIMEOUT, State::recv(&control)).await?;
            match state? {
                State::ParamExchange => control.send_json(&params).await?,
                State::CreateStreams => {
                    let flows = self.open(&control, &params).await?;
                    let mut opened = Test::new(self.args, params.clone(), flows).await;
                    let head = report::Head {
                        host,
                        cookie: &self.cookie[..36],
                        mss,
                    };
                    opened.report.begin(&head, self.at);
                    test = Some(opened);
                }
                State::TestStart => {}
                State::TestRunning => {
                    let test = test.as_mut().ok_or_else(out_of_turn)?;
                    self.run(&control, test).await?;
                    State::TestEnd.send(&control).await?;
                }
                State::ExchangeResults => {
                    let test = test.as_mut().ok_or_else(out_of_turn)?;
                    let ours = test.results();
                    control.send_json(&ours).await?;
                    let theirs: Results = control.recv_json().await?;
                    test.report.end(&ours, &theirs);
                }
                State::DisplayResults => {
                    return State::IperfDone.send(&control).await;
                }
                State::AccessDenied => {
                    return Err(failed("the server is busy running a test. try again later"));
                }
                State::ServerError => return Err(failed("the server reports an error")),
                State::ServerTerminate => return Err(failed("the server has terminated")),
                _ => return Err(out_of_turn()),
            }
        }
    }

    async fn open(&self, control: &TcpStream, params: &Params) -> io::Result<Vec<Flow>> {
        let mut flows = Vec::new();
        for (index, sends) in params.directions().into_iter().enumerate() {
            let (carrier, local) = if params.udp {
                let ip = control.ends()?.0.ip();
                let socket = self.net.bind(SocketAddr::new(ip, 0)).await?;
                socket.set_tos(params.tos)?;
                let mut answer = [0; 64];
                let hello = async {
                    for _ in 0..HELLOS {
                        socket.send_to(UDP_HELLO[0], self.at).await?;
                        let answered = socket.recv_from(&mut answer);
                        if timeout(Duration::from_secs(1), answered).await.is_ok() {
                            return Ok(());
                        }
                    }
                    Err(failed("the server answers no datagram"))
                };
                hello.await?;
                let local = socket.local_addr()?;
                (Carrier::Udp(Arc::new(socket)), local)
            } else {
                let options = self.args.options(params);
                let stream = self.net.connect(self.at, &options).await?;
                stream.send_all(&self.cookie).await?;
                let local = stream.ends()?.0;
                (Carrier::Tcp(Arc::new(stream)), local)
            };
            flows.push(Flow {
                id: Flow::id(index),
                sends,
                local,
                peer: self.at,
                counters: Arc::new(Counters::default()),
                carrier,
            });
        }
        Ok(flows)
    }

    /// Runs until the time is over, or the amount has been moved. A signal ends the test at both ends.
    async fn run(&self, control: &TcpStream, test: &mut Test) -> io::Result<()> {
        let budget = Arc::clone(&test.budget);
        let time = Duration::from_secs(test.params.time + test.params.omit);
        let is_endless = test.params.amount().is_some();
        let interrupted = signaled()?;
        let ended = async {
            tokio::select! {
                () = interrupted => {
                    State::ClientTerminate.send(control).await?;
                    Err(failed("interrupt - the client has terminated"))
                }
                () = sleep(time), if !is_endless => Ok(()),
                () = budget.reached.notified() => Ok(()),
                state = State::recv(control) => match state {
                    Ok(State::ServerTerminate) => Err(failed("the server has terminated")),
                    Ok(_) => Err(out_of_turn()),
                    Err(error) => Err(failed(format!("control socket has closed unexpectedly: {error}"))),
                },
            }
        };
        test.run(self.args.interval, ended).await
    }
}

fn out_of_turn() -> io::Error {
    failed("the peer's message is out of turn")
}
