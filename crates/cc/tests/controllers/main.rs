//! The controllers as a transport meets them: worked numbers, average windows, and what must hold
//! under any events.

mod bbr;
mod bbr3;
mod bottleneck;
mod cubic;
mod cubic_linux;
mod dctcp;
mod path;
mod prague;
mod properties;
mod reference;
mod reno;
mod support;
