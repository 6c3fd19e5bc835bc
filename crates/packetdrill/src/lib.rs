//! packetdrill's script language against tautline's TCP, in virtual time.
//!
//! packetdrill (Cardwell et al., USENIX ATC 2013) tests a stack by scripts of timed packets, socket
//! calls and assertions about `TCP_INFO`. This crate reads the commonly used subset of its language
//! and plays it against a [`Host`](tautline_stack::Host) whose clock the script drives: a script of
//! an hour takes milliseconds.
//!
//! ```
//! use tautline_packetdrill::{Rules, Script, run};
//!
//! let script = Script::parse(
//!     "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//!     +0 bind(3, ..., ...) = 0
//!     +0 listen(3, 1) = 0
//!     +0 < S 0:0(0) win 32792 <mss 1000,nop,wscale 7>
//!     +0 > S. 0:0(0) ack 1 <...>
//!     +.1 < . 1:1(0) ack 1 win 257
//!     +0 accept(3, ..., ...) = 4
//!     +0 write(4, ..., 1000) = 1000
//!     +0 > P. 1:1001(1000) ack 1
//!     +0 %{ assert tcpi_unacked == 1 and tcpi_snd_cwnd == 10 }%",
//! )?;
//! run(&script, &Rules::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod assertion;
mod calls;
mod facts;
mod options;
mod parse;
mod run;
pub mod syntax;
mod sysctl;
mod wire;
mod world;

pub use parse::ParseError;
pub use run::{Failure, Rules, run};
pub use syntax::Script;
