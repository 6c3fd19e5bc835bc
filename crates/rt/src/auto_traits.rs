//! Handles move between threads: one that no longer does fails to compile here, not at its users.

use crate::handle::{OwnedReadHalf, OwnedWriteHalf};
use crate::{
    Clock, ListenerGroup, Sockets, StackHandle, TcpListener, TcpRequest, TcpStream, UdpSocket,
    blocking,
};

const fn sent<T: Send>() {}

const fn shared<T: Send + Sync>() {}

const _: () = {
    shared::<StackHandle>();
    shared::<TcpListener>();
    shared::<ListenerGroup>();
    shared::<TcpRequest>();
    shared::<TcpStream>();
    shared::<OwnedReadHalf>();
    shared::<OwnedWriteHalf>();
    shared::<UdpSocket>();
    shared::<blocking::TcpListener>();
    shared::<blocking::TcpStream>();
    shared::<blocking::UdpSocket>();
    shared::<Clock>();
    // One thread serves the sockets of a host.
    sent::<Sockets>();
};

#[cfg(any(target_os = "linux", target_os = "android"))]
const _: () = {
    shared::<crate::HostThread>();
    shared::<crate::Stopper>();
    shared::<crate::EventFd>();
};
