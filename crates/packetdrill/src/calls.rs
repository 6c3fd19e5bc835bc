//! [`Application`]: the calls of a script, made on the sockets of a [`World`].

use std::collections::BTreeMap;
use std::time::Duration;

use tautline_base::{Bytes, Rate, SocketId};
use tautline_stack::{CloseReason, Pacing, Recv, SocketError, SocketOption, TcpConfig};

use crate::syntax::{Call, Value};
use crate::sysctl;
use crate::world::{LOCAL_PORT, World};

/// Port that active opens go to.
pub(crate) const PEER_PORT: u16 = 8080;

/// `MSG_PEEK`.
const MSG_PEEK: i64 = 2;
/// `MSG_MORE`.
const MSG_MORE: i64 = 0x8000;
/// `MSG_EOR`.
const MSG_EOR: i64 = 0x80;
/// `MSG_FASTOPEN`.
const MSG_FASTOPEN: i64 = 0x2000_0000;
/// `MSG_DONTWAIT` and `MSG_NOSIGNAL`, which change nothing here.
const MSG_IGNORED: i64 = 0x4040;

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A value.
    Value(i64),
    /// Minus one and this error.
    Error(&'static str),
    /// A blocking call would still wait.
    Waits,
}

/// An unsupported call or argument, for which the script is skipped.
pub(crate) struct Unsupported(pub(crate) String);

/// The object behind a descriptor.
#[derive(Clone, Debug)]
enum Socket {
    Unbound(TcpConfig),
    /// Connected by name: its SYN waits for data (`TCP_FASTOPEN_CONNECT`).
    Deferred(TcpConfig),
    Listener(SocketId, TcpConfig),
    Connection(SocketId, TcpConfig),
}

/// The application of a script: its descriptors.
pub(crate) struct Application {
    defaults: TcpConfig,
    sockets: BTreeMap<i64, Socket>,
    /// Bytes that a blocking write has written so far.
    written: i64,
}

impl Application {
    /// An application whose sockets begin with `defaults`.
    pub(crate) fn new(defaults: TcpConfig) -> Self {
        Self {
            defaults,
            sockets: BTreeMap::new(),
            written: 0,
        }
    }

    /// The defaults of later sockets.
    pub(crate) fn defaults_mut(&mut self) -> &mut TcpConfig {
        &mut self.defaults
    }

    /// The connection that assertions inspect: the one with the highest descriptor.
    pub(crate) fn subject(&self) -> Option<SocketId> {
        self.sockets.values().rev().find_map(|socket| match socket {
            Socket::Connection(id, _) => Some(*id),
            _ => None,
        })
    }

    /// Makes `call`, or tries it again if it `is_retry`.
    ///
    /// # Errors
    /// A call or an argument outside the supported subset.
    pub(crate) fn call(
        &mut self,
        call: &Call,
        is_retry: bool,
        world: &mut World,
    ) -> Result<Outcome, Unsupported> {
        if !is_retry {
            self.written = 0;
        }
        let descriptor = number(call, 0);
        let outcome = match call.name.as_str() {
            "socket" => self.socket(call),
            "bind" | "fcntl" | "setsockopt" | "listen" | "connect" | "close"
                if descriptor.is_none() =>
            {
                return Err(unsupported(call));
            }
            "bind" => Outcome::Value(0),
            "fcntl" => Outcome::Value(call.result.unwrap_or(0)),
            "setsockopt" => self.set_option(call, world)?,
            "getsockopt" => self.option(call, world)?,
            "listen" => self.listen(call, world),
            "connect" => self.connect(call, is_retry, world)?,
            "accept" | "accept4" => self.accept(call, world),
            "read" | "recv" | "recvfrom" => self.read(call, world)?,
            "write" | "send" | "sendto" => self.write(call, world)?,
            "shutdown" => self.shutdown(call, world)?,
            "close" => self.close(call, world),
            _ => return Err(unsupported(call)),
        };
        Ok(outcome)
    }

    fn socket(&mut self, call: &Call) -> Outcome {
        let descriptor = call.result.unwrap_or(3);
        self.sockets
            .insert(descriptor, Socket::Unbound(self.defaults.clone()));
        Outcome::Value(descriptor)
    }

    fn listen(&mut self, call: &Call, world: &mut World) -> Outcome {
        let Some(descriptor) = number(call, 0) else {
            return Outcome::Error("EINVAL");
        };
        let Some(Socket::Unbound(config)) = self.sockets.get(&descriptor).cloned() else {
            return Outcome::Error("EBADF");
        };
        match world.host.listen(LOCAL_PORT, config.clone()) {
            Ok(id) => {
                self.sockets
                    .insert(descriptor, Socket::Listener(id, config));
                Outcome::Value(0)
            }
            Err(_) => Outcome::Error("EADDRINUSE"),
        }
    }

    fn connect(
        &mut self,
        call: &Call,
        is_retry: bool,
        world: &mut World,
    ) -> Result<Outcome, Unsupported> {
        let descriptor = number(call, 0).ok_or_else(|| unsupported(call))?;
        match self.sockets.get(&descriptor).cloned() {
            Some(Socket::Unbound(config)) => {
                let peer = world.peer(PEER_PORT);
                if config.fast_open && world.host.has_fast_open_cookie(peer.ip()) {
                    self.sockets.insert(descriptor, Socket::Deferred(config));
                    return Ok(Outcome::Value(0));
                }
                if !self.open(descriptor, config, world) {
                    return Ok(Outcome::Error("ENETUNREACH"));
                }
                Ok(if call.until.is_some() {
                    Outcome::Waits
                } else {
                    Outcome::Error("EINPROGRESS")
                })
            }
            Some(Socket::Connection(id, _)) => Ok(match world.closed.remove(&id) {
                Some(why) => Outcome::Error(error_of(why)),
                None if !world.connected.contains(&id) && call.until.is_some() => Outcome::Waits,
                None if !world.connected.contains(&id) => Outcome::Error("EALREADY"),
                None if is_retry => Outcome::Value(0),
                None => Outcome::Error("EISCONN"),
            }),
            _ => Err(unsupported(call)),
        }
    }

    /// Begins an active open of `descriptor`; false if there is no way to the peer.
    fn open(&mut self, descriptor: i64, config: TcpConfig, world: &mut World) -> bool {
        let peer = world.peer(PEER_PORT);
        let opened = world.host.connect(peer, config.clone(), world.now());
        if let Ok(id) = opened {
            let connection = Socket::Connection(id, config);
            self.sockets.insert(descriptor, connection);
        }
        opened.is_ok()
    }

    fn accept(&mut self, call: &Call, world: &mut World) -> Outcome {
        let descriptor = number(call, 0).unwrap_or(-1);
        let Some(Socket::Listener(listener, config)) = self.sockets.get(&descriptor).cloned()
        else {
            return Outcome::Error("EINVAL");
        };
        let position = world.accepted.iter().position(|(id, _)| *id == listener);
        let Some((_, socket)) = position.and_then(|position| world.accepted.remove(position))
        else {
            return would_block(call);
        };
        let accepted = call.result.unwrap_or(descriptor + 1);
        self.sockets
            .insert(accepted, Socket::Connection(socket, config));
        Outcome::Value(accepted)
    }

    fn connection(&self, call: &Call) -> Result<SocketId, Unsupported> {
        match number(call, 0).and_then(|descriptor| self.sockets.get(&descriptor)) {
            Some(Socket::Connection(id, _)) => Ok(*id),
            _ => Err(unsupported(call)),
        }
    }

    fn read(&mut self, call: &Call, world: &mut World) -> Result<Outcome, Unsupported> {
        let id = self.connection(call)?;
        let len = number(call, 2).unwrap_or(0).clamp(0, 1 << 24) as usize;
        let flags = flags(call, MSG_IGNORED | MSG_PEEK)?;
        let mut out = vec![0; len];
        let read = if flags & MSG_PEEK == 0 {
            world.host.recv(id, &mut out)
        } else {
            world
                .host
                .tcp(id)
                .and_then(|mut socket| socket.peek(&mut out))
        };
        Ok(match read {
            Ok(Recv::Data(count)) => Outcome::Value(count as i64),
            Ok(Recv::EndOfStream) => ended(id, world, 0),
            Ok(Recv::Empty) if world.closed.contains_key(&id) => ended(id, world, 0),
            Ok(Recv::Empty) => would_block(call),
            Err(_) => ended(id, world, 0),
        })
    }

    fn write(&mut self, call: &Call, world: &mut World) -> Result<Outcome, Unsupported> {
        if let Some(outcome) = self.open_by_writing(call, world)? {
            return Ok(outcome);
        }
        let id = self.connection(call)?;
        let len = number(call, 2).unwrap_or(0).clamp(0, 1 << 24);
        let known = MSG_IGNORED | MSG_MORE | MSG_EOR | MSG_FASTOPEN;
        let flags = flags(call, known)?;
        let rest = vec![0; (len - self.written) as usize];
        let socket = world.host.tcp(id);
        let sent = match flags & (MSG_MORE | MSG_EOR) {
            0 => world.host.send(id, &rest),
            MSG_EOR => socket.and_then(|mut socket| socket.send_record(&rest)),
            MSG_MORE => socket.and_then(|mut socket| socket.send_more(&rest)),
            _ => return Err(unsupported(call)),
        };
        Ok(match sent {
            Ok(count) => {
                self.written += count as i64;
                match call.until {
                    Some(_) if self.written < len => Outcome::Waits,
                    None if count == 0 && len > 0 => Outcome::Error("EAGAIN"),
                    _ => Outcome::Value(self.written),
                }
            }
            Err(SocketError::Shutdown) => Outcome::Error("EPIPE"),
            Err(_) => match ended(id, world, -1) {
                Outcome::Error(error) => Outcome::Error(error),
                _ => Outcome::Error("EPIPE"),
            },
        })
    }

    /// Opens a connection with the data of `call`, if the flag or the socket asks for that. An outcome
    /// if there is no cookie: then the call does what `connect` does.
    fn open_by_writing(
        &mut self,
        call: &Call,
        world: &mut World,
    ) -> Result<Option<Outcome>, Unsupported> {
        let descriptor = number(call, 0).ok_or_else(|| unsupported(call))?;
        let known = MSG_IGNORED | MSG_MORE | MSG_EOR | MSG_FASTOPEN;
        let asks = flags(call, known)? & MSG_FASTOPEN != 0;
        let config = match self.sockets.get(&descriptor).cloned() {
            Some(Socket::Deferred(config)) => config,
            Some(Socket::Unbound(config)) if asks => TcpConfig {
                fast_open: true,
                ..config
            },
            Some(Socket::Connection(id, _)) if asks && !world.connected.contains(&id) => {
                return Ok(Some(if world.closed.contains_key(&id) {
                    ended(id, world, -1)
                } else if call.until.is_some() {
                    Outcome::Waits
                } else {
                    Outcome::Error("EALREADY")
                }));
            }
            _ => return Ok(None),
        };
        let has_cookie = world.host.has_fast_open_cookie(world.peer(PEER_PORT).ip());
        Ok(if !self.open(descriptor, config, world) {
            Some(Outcome::Error("ENETUNREACH"))
        } else if has_cookie {
            None
        } else if call.until.is_some() {
            Some(Outcome::Waits)
        } else {
            Some(Outcome::Error("EINPROGRESS"))
        })
    }

    fn shutdown(&mut self, call: &Call, world: &mut World) -> Result<Outcome, Unsupported> {
        let id = self.connection(call)?;
        let Some(Value::Name(how)) = call.arguments.get(1) else {
            return Err(unsupported(call));
        };
        let receives = matches!(how.as_str(), "SHUT_RD" | "SHUT_RDWR");
        let sends = matches!(how.as_str(), "SHUT_WR" | "SHUT_RDWR");
        if !receives && !sends {
            return Err(unsupported(call));
        }
        let mut result = Ok(());
        if receives {
            result = world
                .host
                .tcp(id)
                .and_then(|mut socket| socket.shutdown_receive());
        }
        if sends {
            result = result.and_then(|()| world.host.shutdown(id));
        }
        Ok(match result {
            Ok(()) => Outcome::Value(0),
            Err(_) => Outcome::Error("ENOTCONN"),
        })
    }

    fn close(&mut self, call: &Call, world: &mut World) -> Outcome {
        let descriptor = number(call, 0).unwrap_or(-1);
        match self.sockets.remove(&descriptor) {
            None => Outcome::Error("EBADF"),
            Some(Socket::Unbound(_) | Socket::Deferred(_)) => Outcome::Value(0),
            Some(Socket::Listener(id, _) | Socket::Connection(id, _)) => {
                world.host.close(id, world.now());
                Outcome::Value(0)
            }
        }
    }

    fn set_option(&mut self, call: &Call, world: &mut World) -> Result<Outcome, Unsupported> {
        let (Some(descriptor), Some(Value::Name(name))) = (number(call, 0), call.arguments.get(2))
        else {
            return Err(unsupported(call));
        };
        let value = call.arguments.get(3).unwrap_or(&Value::Any);
        let socket = self
            .sockets
            .get_mut(&descriptor)
            .ok_or_else(|| unsupported(call))?;
        let is_set = match socket {
            Socket::Unbound(config) => set_before(name, value, config).map(|()| Outcome::Value(0)),
            Socket::Connection(id, config) => set_open(name, value, *id, config, world),
            Socket::Deferred(_) | Socket::Listener(..) => None,
        };
        is_set.ok_or_else(|| unsupported(call))
    }

    fn option(&mut self, call: &Call, world: &mut World) -> Result<Outcome, Unsupported> {
        let id = self.connection(call)?;
        let (Some(Value::Name(name)), Some(Value::List(expected))) =
            (call.arguments.get(2), call.arguments.get(3))
        else {
            return Err(unsupported(call));
        };
        let found = match name.as_str() {
            "SO_ERROR" => world.closed.remove(&id).map_or("0", error_of),
            _ => return Err(unsupported(call)),
        };
        let holds = match expected.first() {
            Some(Value::Name(name)) => name == found,
            Some(Value::Number(0)) => found == "0",
            _ => return Err(unsupported(call)),
        };
        Ok(if holds {
            Outcome::Value(0)
        } else {
            Outcome::Error(found)
        })
    }
}

/// Options that have no effect here.
fn is_without_effect(name: &str) -> bool {
    [
        "SO_REUSEADDR",
        "SO_REUSEPORT",
        "TCP_QUICKACK",
        "SO_RCVLOWAT",
    ]
    .contains(&name)
}

/// Sets an option of a socket that is neither listening nor connected.
fn set_before(name: &str, value: &Value, config: &mut TcpConfig) -> Option<()> {
    if is_without_effect(name) {
        return Some(());
    }
    let seconds = || Some(Duration::from_secs(first_number(value)?.try_into().ok()?));
    match name {
        // Linux doubles the requested size for its own overhead; half of it holds payload.
        "SO_SNDBUF" => config.send_buffer = Bytes::new(first_number(value)?.try_into().ok()?),
        "SO_RCVBUF" | "TCP_WINDOW_CLAMP" => {
            config.receive_buffer = Bytes::new(first_number(value)?.try_into().ok()?);
            config.receive_start = config.receive_buffer;
        }
        "TCP_NODELAY" => config.nagle = first_number(value)? == 0,
        "TCP_CONGESTION" => config.congestion = sysctl::algorithm(text(value)?)?,
        "TCP_NOTSENT_LOWAT" => {
            config.notsent_lowat = Some(Bytes::new(first_number(value)?.try_into().ok()?))
        }
        "SO_LINGER" => config.linger = linger(value)?,
        "SO_KEEPALIVE" if first_number(value)? == 0 => config.keepalive = None,
        "SO_KEEPALIVE" => drop(sysctl::keepalive(config)),
        "TCP_KEEPIDLE" => sysctl::keepalive(config).idle = seconds()?,
        "TCP_KEEPINTVL" => sysctl::keepalive(config).interval = seconds()?,
        "TCP_KEEPCNT" => sysctl::keepalive(config).probes = first_number(value)?.try_into().ok()?,
        "TCP_USER_TIMEOUT" => config.user_timeout = user_timeout(value)?,
        "TCP_SYNCNT" => config.syn_retries = first_number(value)?.try_into().ok()?,
        "SO_MAX_PACING_RATE" => {
            let rate = u64::try_from(first_number(value)?).ok()?;
            config.max_pacing_rate = Some(Rate::bytes_per_sec(rate));
            config.pacing = Pacing::Internal;
        }
        "TCP_MAXSEG" => config.max_segment = Some(first_number(value)?.try_into().ok()?),
        "TCP_FASTOPEN" => config.fast_open_queue = first_number(value)?.try_into().ok()?,
        "TCP_FASTOPEN_CONNECT" => config.fast_open = first_number(value)? != 0,
        "IP_TOS" | "IPV6_TCLASS" => config.tos = first_number(value)?.try_into().ok()?,
        _ => return None,
    }
    Some(())
}

/// Sets an option of an open connection.
fn set_open(
    name: &str,
    value: &Value,
    id: SocketId,
    config: &mut TcpConfig,
    world: &mut World,
) -> Option<Outcome> {
    if is_without_effect(name) {
        return Some(Outcome::Value(0));
    }
    if name == "TCP_CORK" {
        let is_on = first_number(value)? != 0;
        return Some(set_option(id, SocketOption::Cork(is_on), world));
    }
    let mut changed = config.clone();
    set_before(name, value, &mut changed)?;
    let option = option_of(name, &changed)?;
    let outcome = set_option(id, option, world);
    if matches!(outcome, Outcome::Value(_)) {
        *config = changed;
    }
    Some(outcome)
}

fn set_option(id: SocketId, option: SocketOption, world: &mut World) -> Outcome {
    match world.host.set_option(id, option) {
        Ok(()) => Outcome::Value(0),
        Err(_) => Outcome::Error("EINVAL"),
    }
}

/// The option `name` of an open connection, with its value in `config`.
fn option_of(name: &str, config: &TcpConfig) -> Option<SocketOption> {
    Some(match name {
        "TCP_NODELAY" => SocketOption::Nodelay(!config.nagle),
        "TCP_CONGESTION" => SocketOption::Congestion(config.congestion.clone()),
        "TCP_MAXSEG" => SocketOption::MaxSegment(config.max_segment?),
        "TCP_NOTSENT_LOWAT" => SocketOption::NotsentLowat(config.notsent_lowat),
        "TCP_USER_TIMEOUT" => SocketOption::UserTimeout(config.user_timeout),
        "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => {
            SocketOption::Keepalive(config.keepalive)
        }
        "SO_LINGER" => SocketOption::Linger(config.linger),
        "SO_MAX_PACING_RATE" => SocketOption::MaxPacingRate(config.max_pacing_rate),
        "SO_RCVBUF" | "TCP_WINDOW_CLAMP" => SocketOption::ReceiveBuffer(config.receive_buffer),
        "SO_SNDBUF" => SocketOption::SendBuffer(config.send_buffer),
        "IP_TOS" | "IPV6_TCLASS" => SocketOption::Tos(config.tos),
        _ => return None,
    })
}

/// The flags argument of `call`, 0 if it has none; flags outside `known` are not supported.
fn flags(call: &Call, known: i64) -> Result<i64, Unsupported> {
    if matches!(call.name.as_str(), "read" | "write") {
        return Ok(0);
    }
    let flags = number(call, 3).unwrap_or(0);
    if flags & !known != 0 {
        return Err(unsupported(call));
    }
    Ok(flags)
}

fn user_timeout(value: &Value) -> Option<Option<Duration>> {
    let millis = u64::try_from(first_number(value)?).ok()?;
    Some((millis > 0).then(|| Duration::from_millis(millis)))
}

fn linger(value: &Value) -> Option<Option<Duration>> {
    let Value::Struct(fields) = value else {
        return None;
    };
    let field = |name: &str, at: usize| {
        let named = fields.iter().find(|(field, _)| field == name);
        named
            .or_else(|| fields.get(at))
            .and_then(|(_, value)| first_number(value))
    };
    let is_on = field("onoff", 0)? != 0;
    let seconds = u64::try_from(field("linger", 1)?).ok()?;
    Some(is_on.then(|| Duration::from_secs(seconds)))
}

/// A number, alone or the first of a list.
fn first_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(value) => Some(*value),
        Value::List(values) => values.first().and_then(first_number),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::List(values) => values.first().and_then(text),
        _ => None,
    }
}

fn number(call: &Call, at: usize) -> Option<i64> {
    match call.arguments.get(at) {
        Some(Value::Number(value)) => Some(*value),
        _ => None,
    }
}

fn unsupported(call: &Call) -> Unsupported {
    let names = call.arguments.iter().filter_map(|argument| match argument {
        Value::Name(name) => Some(name.as_str()),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    Unsupported(format!("call {}({})", call.name, names.join(", ")))
}

fn would_block(call: &Call) -> Outcome {
    if call.until.is_some() {
        Outcome::Waits
    } else {
        Outcome::Error("EAGAIN")
    }
}

/// Result of a call on an ended connection: its error once, then `value`.
fn ended(id: SocketId, world: &mut World, value: i64) -> Outcome {
    match world.closed.remove(&id) {
        Some(why) if error_of(why) != "0" => Outcome::Error(error_of(why)),
        _ => Outcome::Value(value),
    }
}

/// Linux's error for the end of a connection.
fn error_of(why: CloseReason) -> &'static str {
    match why {
        CloseReason::Aborted => "ECONNABORTED",
        CloseReason::Refused => "ECONNREFUSED",
        CloseReason::Reset => "ECONNRESET",
        CloseReason::TimedOut => "ETIMEDOUT",
        CloseReason::OutOfMemory => "ENOMEM",
        CloseReason::AddressLost => "EADDRNOTAVAIL",
        CloseReason::Unreachable | CloseReason::Prohibited => "EHOSTUNREACH",
        // `Finished` and `Local`: no error.
        _ => "0",
    }
}
