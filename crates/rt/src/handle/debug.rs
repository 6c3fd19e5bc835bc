//! `Debug` of the sockets: their addresses, as tokio's sockets print them.

use std::fmt::{Debug, Formatter, Result};

use super::{
    OwnedReadHalf, OwnedWriteHalf, StackHandle, TcpListener, TcpRequest, TcpStream, UdpSocket,
};

impl Debug for StackHandle {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("StackHandle").finish_non_exhaustive()
    }
}

impl Debug for TcpListener {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("TcpListener")
            .field("local", &self.local_addr().ok())
            .finish_non_exhaustive()
    }
}

impl Debug for TcpRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("TcpRequest")
            .field("local", &self.local_addr())
            .field("peer", &self.peer_addr())
            .finish_non_exhaustive()
    }
}

/// Both addresses of a socket; an end that is not known yet is `None`.
macro_rules! addresses {
    ($($socket:ident)*) => {$(
        impl Debug for $socket {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                f.debug_struct(stringify!($socket))
                    .field("local", &self.local_addr().ok())
                    .field("peer", &self.peer_addr().ok())
                    .finish_non_exhaustive()
            }
        }
    )*};
}

addresses! { TcpStream OwnedReadHalf OwnedWriteHalf UdpSocket }
