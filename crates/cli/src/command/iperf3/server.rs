//! The server: one test after the other.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::flow::{Carrier, Counters, Flow};
use super::protocol::{COOKIE, Params, Results, State, UDP_HELLO};
use super::report::Head;
use super::test::Test;
use super::{Iperf3, failed};
use crate::net::{MESSAGE_TIMEOUT, Net, TcpListener, TcpStream};
use crate::report::say;

/// Longest wait for data in flight once the client has sent its amount.
const LAST_DATA: Duration = Duration::from_secs(1);
const RULE: &str = "-----------------------------------------------------------";

/// Serves tests until the process ends; one with `-1`.
pub(super) async fn serve(net: Net, args: Iperf3) -> io::Result<()> {
    let server = Server {
        listener: net.listen(args.local, args.port).await?,
        net,
        args: &args,
    };
    if args.json {
        // Standard output has nothing but the tests.
        eprintln!("listening on port {}", args.port);
    }
    for number in 1.. {
        if !args.json {
            say!(
                "{RULE}\nServer listening on {} (test #{number})\n{RULE}",
                args.port
            );
        }
        if let Err(error) = server.test(server.listener.accept().await?).await {
            eprintln!("iperf3: {error}");
        }
        if args.one_off {
            break;
        }
    }
    Ok(())
}

struct Server<'a> {
    net: Net,
    args: &'a Iperf3,
    listener: TcpListener,
}

impl Server<'_> {
    async fn test(&self, control: TcpStream) -> io::Result<()> {
        control.watch_peer()?;
        let cookie = recv_cookie(&control).await?;
        State::ParamExchange.send(&control).await?;
        let params = control.recv_json::<Params>().await?.check();
        let params = match params {
            Ok(params) => params,
            Err(error) => {
                State::ServerError.send(&control).await?;
                // Their number of the error, and the system's: both unknown.
                control.send_all(&[0; 8]).await?;
                return Err(error);
            }
        };
        let (_, client) = control.ends()?;
        let opening = self.open(&control, &cookie, &params);
        let flows = timeout(MESSAGE_TIMEOUT, opening).await??;
        let mut test = Test::new(self.args, params, flows).await;
        let head = Head {
            host: "",
            cookie: &cookie[..COOKIE - 1],
            mss: 0,
        };
        test.report.begin(&head, client);
        State::TestStart.send(&control).await?;
        State::TestRunning.send(&control).await?;
        let (budget, amount) = (Arc::clone(&test.budget), test.params.amount());
        let params = test.params.clone();
        let ended = async {
            let state = recv_end(&control, &params).await?;
            // An amount that the client has sent may still be in flight.
            if state == State::TestEnd && amount.is_some() {
                let _incomplete = timeout(LAST_DATA, budget.reached.notified()).await;
            }
            Ok(state)
        };
        let state = tokio::select! {
            state = test.run(self.args.interval, ended) => state?,
            error = self.refuse() => return Err(error),
        };
        if state != State::TestEnd {
            return Err(failed("the client has terminated"));
        }
        let ours = test.results();
        // The client may wait for the end of the data connections.
        test.flows.clear();
        State::ExchangeResults.send(&control).await?;
        let theirs: Results = control.recv_json().await?;
        control.send_json(&ours).await?;
        State::DisplayResults.send(&control).await?;
        test.report.end(&ours, &theirs);
        // A client that hangs up now has its results.
        let _ = timeout(MESSAGE_TIMEOUT, State::recv(&control)).await;
        Ok(())
    }

    /// Opens the streams of a test: those that the client sends come first.
    async fn open(
        &self,
        control: &TcpStream,
        cookie: &[u8; COOKIE],
        params: &Params,
    ) -> io::Result<Vec<Flow>> {
        let (own, _) = control.ends()?;
        let udp = if params.udp {
            let socket = self.net.bind(own).await?;
            socket.set_tos(params.tos)?;
            Some(Arc::new(socket))
        } else {
            None
        };
        State::CreateStreams.send(control).await?;
        let mut flows: Vec<Flow> = Vec::new();
        for (index, sent_by_client) in params.directions().into_iter().enumerate() {
            let (carrier, local, peer) = match &udp {
                Some(socket) => {
                    let peer = loop {
                        let mut hello = [0; 64];
                        let (_, peer) = socket.recv_from(&mut hello).await?;
                        socket.send_to(UDP_HELLO[1], peer).await?;
                        // A hello that was answered may come again.
                        if flows.iter().all(|flow| flow.peer != peer) {
                            break peer;
                        }
                    };
                    (Carrier::Udp(Arc::clone(socket)), own, peer)
                }
                None => {
                    let stream = self.accept(cookie).await?;
                    stream.set(&params.options())?;
                    let (local, peer): (SocketAddr, SocketAddr) = stream.ends()?;
                    (Carrier::Tcp(Arc::new(stream)), local, peer)
                }
            };
            flows.push(Flow {
                id: Flow::id(index),
                sends: !sent_by_client,
                local,
                peer,
                counters: Arc::new(Counters::default()),
                carrier,
            });
        }
        Ok(flows)
    }

    /// The next connection of the test; others are refused.
    async fn accept(&self, cookie: &[u8; COOKIE]) -> io::Result<TcpStream> {
        loop {
            let stream = self.listener.accept().await?;
            if matches!(recv_cookie(&stream).await, Ok(found) if found == *cookie) {
                return Ok(stream);
            }
            let _gone = State::AccessDenied.send(&stream).await;
        }
    }

    /// Refuses every connection while a test runs.
    async fn refuse(&self) -> io::Error {
        loop {
            match self.listener.accept().await {
                Ok(stream) => {
                    let _gone = State::AccessDenied.send(&stream).await;
                }
                Err(error) => return error,
            }
        }
    }
}

/// The client's message at the end of a test. A client may be there, but stopped: that of a test for a time
/// is due then.
async fn recv_end(control: &TcpStream, params: &Params) -> io::Result<State> {
    let message = State::recv(control);
    if params.amount().is_some() || params.time == 0 {
        return message.await;
    }
    let length = Duration::from_secs(params.time + params.omit);
    let state = timeout(length + MESSAGE_TIMEOUT, message).await;
    state.map_err(|_| failed("the client does not end the test"))?
}

async fn recv_cookie(stream: &TcpStream) -> io::Result<[u8; COOKIE]> {
    let mut cookie = [0; COOKIE];
    timeout(MESSAGE_TIMEOUT, stream.recv_exact(&mut cookie)).await??;
    Ok(cookie)
}
