//! Stacks and their sockets move between tasks: one that no longer does fails to compile here, not at
//! its users.

use crate::{Hold, Netstack, TcpIncoming, UdpIncoming};

const fn shared<T: Send + Sync>() {}

#[cfg(not(target_family = "wasm"))]
const fn sent<T: Send>() {}

const _: () = {
    shared::<Netstack>();
    shared::<Hold>();
    shared::<TcpIncoming>();
    shared::<UdpIncoming>();
};

#[cfg(not(target_family = "wasm"))]
const _: () = {
    shared::<crate::UdpSessions>();
    shared::<crate::UdpSession>();
    shared::<crate::gateway::Gateway>();
    shared::<crate::tun2socks::Tun2Socks>();
    shared::<crate::like::ipstack::IpStack>();
    shared::<crate::like::ipstack::IpStackStream>();
    sent::<crate::like::smoltcp::Stack>();
    shared::<crate::like::smoltcp::TcpListener>();
    sent::<crate::like::smoltcp::UdpSocket>();
};
