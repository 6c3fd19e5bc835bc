//! Many conversations at once, each checked byte for byte both ways, over our stack or over the
//! kernel's: one end answers, the other calls. The protocol is in `conversation.rs`.
#![forbid(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::task::Waker;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde::Serialize;
use tautline_base::{Frame, Instant};
use tautline_cli::args::{Over, Size, StackArgs, parse, seconds};
use tautline_cli::failure::{Failure, exit_code};
use tautline_cli::open::{Job, Opened, with_device};
use tautline_cli::report::{print_json, rounded};
use tautline_cli::session::{Session, SessionHost};
use tautline_cli::sockets::many_sockets;
use tautline_examples::conversation::{Plan, answer, call};
use tautline_rt::{Application, Clock, Ended, Next, Sockets, StackHandle};
use tautline_stack::Event;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

const EXAMPLES: &str = "\
Examples:
  talk kernel answer --listen 5001 --conversations 1020
  talk ours --iface va --ip 10.7.0.1/24 call --to 10.7.0.12:5001 --short 1000 --long 20";

/// Many conversations at once, each checked byte for byte both ways. The last line is JSON.
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    over: Over<Role>,
}

#[derive(Subcommand, Clone, Debug)]
enum Role {
    /// Answers calls
    Answer {
        /// Port to listen on, on every address
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        listen: u16,
        /// End after so many conversations, good and bad
        #[arg(long)]
        conversations: u64,
    },
    /// Calls
    Call {
        /// The answering end
        #[arg(long)]
        to: SocketAddr,
        #[command(flatten)]
        calls: Calls,
    },
}

#[derive(clap::Args, Clone, Debug)]
struct Calls {
    /// Short conversations
    #[arg(long, default_value_t = 1000)]
    short: u64,
    /// Bytes each way of a short one
    #[arg(long, default_value = "8K")]
    short_bytes: Size,
    /// Long conversations, which go on meanwhile
    #[arg(long, default_value_t = 20)]
    long: u64,
    /// Bytes each way of a long one
    #[arg(long, default_value = "1M")]
    long_bytes: Size,
    /// Short conversations at a time
    #[arg(long, default_value_t = 50)]
    at_once: usize,
    /// How long each long one leaves its answer unread, so that its window closes
    #[arg(long, default_value = "0", value_parser = seconds)]
    pause: Duration,
    /// Time before each caller sends
    #[arg(long, default_value = "0", value_parser = seconds)]
    think: Duration,
    /// Calls that are broken off by a reset, beside
    #[arg(long, default_value_t = 0)]
    resets: u64,
}

#[derive(Default, Serialize)]
struct Summary {
    role: &'static str,
    conversations: u64,
    failed: u64,
    resets: u64,
    bytes_up: u64,
    bytes_down: u64,
    seconds: f64,
}

/// Ends of the streams.
#[derive(Clone)]
enum Net {
    Kernel,
    Ours(StackHandle),
}

/// A stream of either stack.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {
    /// Breaks it off.
    fn reset(self: Box<Self>) -> io::Result<()>;
}

impl Stream for tokio::net::TcpStream {
    fn reset(self: Box<Self>) -> io::Result<()> {
        self.set_zero_linger()
    }
}

impl Stream for tautline_rt::TcpStream {
    fn reset(self: Box<Self>) -> io::Result<()> {
        self.abort();
        Ok(())
    }
}

enum Listener {
    Kernel(tokio::net::TcpListener),
    Ours(tautline_rt::TcpListener),
}

impl Net {
    /// Connects, and sends `head`.
    async fn connect(&self, to: SocketAddr, head: &[u8]) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Kernel => {
                let mut stream = tokio::net::TcpStream::connect(to).await?;
                stream.write_all(head).await?;
                Box::new(stream)
            }
            Self::Ours(stack) => {
                let tcp = stack.config().tcp.clone();
                Box::new(tautline_rt::TcpStream::connect_with_data(stack, to, tcp, head).await?)
            }
        })
    }

    async fn listen(&self, port: u16) -> io::Result<Listener> {
        Ok(match self {
            // Both families, as `listen` of our stack.
            Self::Kernel => Listener::Kernel(tokio::net::TcpListener::bind(("::", port)).await?),
            Self::Ours(stack) => Listener::Ours(tautline_rt::TcpListener::bind(stack, port).await?),
        })
    }
}

impl Listener {
    async fn accept(&mut self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Kernel(listener) => Box::new(listener.accept().await?.0),
            Self::Ours(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

impl Role {
    async fn serve(self, net: Net) -> io::Result<Summary> {
        match self {
            Self::Answer {
                listen,
                conversations,
            } => answer_all(net, listen, conversations).await,
            Self::Call { to, calls } => call_all(net, to, calls).await,
        }
    }
}

async fn answer_all(net: Net, port: u16, conversations: u64) -> io::Result<Summary> {
    let mut listener = net.listen(port).await?;
    eprintln!("listening on port {port}");
    let mut tasks = JoinSet::new();
    let mut summary = Summary {
        role: "answer",
        ..Summary::default()
    };
    for accepted in 0..conversations {
        let stream = listener.accept().await?;
        tasks.spawn(async move { (accepted, answer(stream).await) });
    }
    while let Some(task) = tasks.join_next().await {
        match task? {
            (_, Ok((up, down))) => {
                summary.conversations += 1;
                summary.bytes_up += up;
                summary.bytes_down += down;
            }
            (_, Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                summary.resets += 1
            }
            (number, Err(error)) => summary.fail(number, &error),
        }
    }
    Ok(summary)
}

async fn call_all(net: Net, to: SocketAddr, calls: Calls) -> io::Result<Summary> {
    let clock = Clock::start();
    let begun = clock.now();
    let mut tasks = JoinSet::new();
    let turns = Arc::new(Semaphore::new(calls.at_once.max(1)));
    let total = calls.long + calls.short;
    for number in 0..total + calls.resets {
        let (net, turns) = (net.clone(), Arc::clone(&turns));
        let bytes = if number < calls.long {
            calls.long_bytes.0
        } else {
            calls.short_bytes.0
        };
        let pause = if number < calls.long {
            calls.pause
        } else {
            Duration::ZERO
        };
        // No two conversations are of one length.
        let plan = Plan {
            up: bytes + number,
            down: bytes + 2 * number,
            seed: number << 32,
            pause,
            think: calls.think,
        };
        tasks.spawn(async move {
            let _turn = if number < calls.long {
                None
            } else {
                turns.acquire().await.ok()
            };
            let stream = match net.connect(to, &plan.head()).await {
                Ok(stream) => stream,
                Err(error) => return (number, Err(error)),
            };
            if number >= total {
                return (number, break_off(stream).await.map(|()| None));
            }
            (number, call(stream, plan).await.map(|()| Some(plan)))
        });
    }
    let mut summary = Summary {
        role: "call",
        ..Summary::default()
    };
    while let Some(task) = tasks.join_next().await {
        match task? {
            (_, Ok(Some(plan))) => {
                summary.conversations += 1;
                summary.bytes_up += plan.up;
                summary.bytes_down += plan.down;
            }
            (_, Ok(None)) => summary.resets += 1,
            (number, Err(error)) => summary.fail(number, &error),
        }
    }
    summary.seconds = rounded((clock.now() - begun).as_secs_f64());
    Ok(summary)
}

/// Begins a conversation and resets it once the other end may have begun to answer.
async fn break_off(mut stream: Box<dyn Stream>) -> io::Result<()> {
    stream.write_all(&[0; 12]).await?;
    sleep(Duration::from_millis(100)).await;
    stream.reset()
}

impl Summary {
    fn fail(&mut self, number: u64, error: &io::Error) {
        eprintln!("conversation {number}: {error}");
        self.failed += 1;
    }
}

/// Runs the conversations to their end on a runtime of this thread.
fn converse(role: Role, net: Net) -> io::Result<Summary> {
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(role.serve(net))
}

/// Sockets whose conversations may be over while their last bytes are still on the way.
struct Talking {
    sockets: Sockets,
    /// The conversations are over.
    through: Arc<AtomicBool>,
}

impl<F: Frame + Send + 'static> Application<SessionHost<F>> for Talking {
    fn on_event(&mut self, host: &mut SessionHost<F>, event: Event, now: Instant) {
        self.sockets.on_event(host, event, now);
    }

    fn turn(&mut self, host: &mut SessionHost<F>, now: Instant) -> Next {
        // Asked before the turn, which then closes what the last conversations have dropped.
        let through = self.through.load(Ordering::Acquire);
        let next = self.sockets.turn(host, now);
        if through { Next::Done } else { next }
    }
}

/// Work for our stack.
struct Work {
    stack: StackArgs,
    role: Role,
}

impl Job for Work {
    /// The host has this thread, the conversations another.
    fn run<F: Frame + Send + 'static>(self, opened: Opened<F>) -> Result<(), Failure> {
        let Self { stack: args, role } = self;
        let mut session = Session::new(opened, &args)?;
        session.announce("talking");
        let config = many_sockets(args.tcp.config());
        let bell = Waker::from(session.event_loop.event_fd());
        let (stack, sockets) = StackHandle::new(config, bell.clone());
        let through = Arc::new(AtomicBool::new(false));
        let mut talking = Talking {
            sockets,
            through: Arc::clone(&through),
        };
        let (tell, told) = sync_channel(1);
        std::thread::spawn(move || {
            // Nobody listens only if a signal has ended the session.
            let _ = tell.send(converse(role, Net::Ours(stack)));
            through.store(true, Ordering::Release);
            bell.wake();
        });
        let ended = session.event_loop.run(&mut session.host, &mut talking)?;
        session
            .event_loop
            .drain(&mut session.host, Duration::from_secs(3))?;
        match told.try_recv() {
            Ok(summary) => finish(&summary?),
            Err(_) if ended == Ended::DeviceFailed => {
                Err(Failure::Device("it receives no more".to_owned()))
            }
            Err(_) => Err(Failure::Interrupted),
        }
    }
}

fn finish(summary: &Summary) -> Result<(), Failure> {
    print_json(summary);
    if summary.failed == 0 {
        Ok(())
    } else {
        Err(Failure::Os(io::Error::other(
            "not every conversation went well",
        )))
    }
}

fn main() -> ExitCode {
    let result = match parse::<Args>().over {
        Over::Kernel { role } => converse(role, Net::Kernel)
            .map_err(Failure::from)
            .and_then(|summary| finish(&summary)),
        Over::Ours { stack, role } => {
            let checked = match &role {
                Role::Answer { .. } => Ok(()),
                Role::Call { to, .. } => stack.check_peer(*to).map_err(Failure::from),
            };
            let work = Work {
                stack: (*stack).clone(),
                role,
            };
            checked.and_then(|()| with_device(&stack, work))
        }
    };
    exit_code("talk", result)
}
